//! Deletes sessions that have not changed for long: which ones they are, and doing it once a day while a server runs.
//! Sessions that a process has open are never deleted, archived ones only on request, and those that are only known from an
//! agent's list are not Rethread's to delete.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rethread::clock;
use rethread::store::{
    ArchivedFilter, ListQuery, ProgressCallback, PruneTurn, SessionRow, Store, StoreError,
};
use rethread::wire::with_causes;
use rethread_core::{Millis, SessionId};

const DAY: Millis = 24 * 60 * 60 * 1000;

/// The number of rows that are read at once.
const PAGE: usize = 500;

/// The number of sessions that are deleted by one call, so that a server need not wait long when it ends.
const BATCH: usize = 50;

/// How long after its start a server prunes, and how often it asks whether a day has passed.
const FIRST: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// A session that is old enough.
#[derive(Debug)]
pub(crate) struct OldSession {
    pub(crate) row: SessionRow,
    /// What deleting it frees.
    pub(crate) bytes: u64,
}

/// The sessions that have not changed since a time and that nobody has open, oldest first.
pub(crate) async fn old_sessions(
    store: &dyn Store,
    before: Millis,
    archived: ArchivedFilter,
) -> Result<Vec<OldSession>, StoreError> {
    let mut query = ListQuery { archived, limit: PAGE, ..ListQuery::default() };
    let mut old = Vec::new();
    loop {
        let page = store.list(&query).await?;
        for row in page.rows.into_iter().filter(|row| row.updated_at < before) {
            old.extend(prunable(store, &row.id).await?);
        }
        query.after = page.next;
        if query.after.is_none() {
            old.reverse();
            return Ok(old);
        }
    }
}

/// The session, if it may be deleted.
async fn prunable(store: &dyn Store, id: &SessionId) -> Result<Option<OldSession>, StoreError> {
    let Some(row) = store.find(id).await?.filter(|row| row.owner.is_none() && row.head.0 > 0) else {
        return Ok(None);
    };
    match store.size(id).await {
        Ok(bytes) => Ok(Some(OldSession { row, bytes })),
        // Somebody has deleted it meanwhile.
        Err(StoreError::Unknown(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes sessions. Returns the ids of those that nobody has opened meanwhile.
pub(crate) async fn prune(
    store: &dyn Store,
    old: &[OldSession],
    progress: ProgressCallback,
) -> Result<Vec<SessionId>, StoreError> {
    let ids: Vec<SessionId> = old.iter().map(|old| old.row.id.clone()).collect();
    store.delete_unowned(&ids, clock::now(), progress).await
}

/// Prunes once a day, as long as it is polled. Of several processes, one does it.
pub(crate) async fn prune_daily(store: Arc<dyn Store>, keep_days: NonZeroU32) {
    tokio::time::sleep(FIRST).await;
    loop {
        if let Err(error) = prune_if_due(store.as_ref(), keep_days).await {
            tracing::warn!("pruning old sessions failed: {}", with_causes(&error));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn prune_if_due(store: &dyn Store, keep_days: NonZeroU32) -> Result<(), StoreError> {
    let now = clock::now();
    if store.begin_pruning(now, now.saturating_sub(DAY)).await? == PruneTurn::Done {
        return Ok(());
    }
    let before = now.saturating_sub(Millis::from(keep_days.get()).saturating_mul(DAY));
    let old = old_sessions(store, before, ArchivedFilter::Exclude).await?;
    let mut deleted = 0;
    for batch in old.chunks(BATCH) {
        deleted += prune(store, batch, Box::new(|_| {})).await?.len();
    }
    if deleted > 0 {
        tracing::info!("deleted {deleted} sessions that have not changed for {keep_days} days");
    }
    Ok(())
}

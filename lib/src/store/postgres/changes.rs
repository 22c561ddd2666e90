//! Which rows have changed. A row has the number of the transaction that changed it last; transactions end in another order
//! than they begin, so that a reader looks again from the oldest one that was still running. What was told is remembered as
//! long as that, and each change is told once. Revisions are numbers of this process.

use std::collections::HashMap;
use std::rc::Rc;

use rethread_core::SessionId;
use tokio_postgres::Row;

use super::open_database::OpenDatabase;
use super::text_column::from_column;
use crate::store::integers::from_sql;
use crate::store::{Archived, ChangedSession, Changes, Deleted, Revision, StoreError};

/// The changes that are remembered for callers. One that is further behind is told more than it needs.
const MAX_REMEMBERED: usize = 20_000;

const COLUMNS: &str =
    "SELECT s.key, s.id, l.epoch, s.archived, s.deleted_at IS NOT NULL, s.release_asked_at, s.changed_in,
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest
    FROM (SELECT) AS one LEFT JOIN (rethread.session AS s JOIN rethread.lease AS l ON l.session = s.key)
        ON s.changed_in >= $1 ORDER BY s.changed_in";

/// What is known of changes.
#[derive(Default)]
pub(super) struct ChangeLog {
    /// The oldest transaction that ran when the store was opened.
    opened: i64,
    /// The oldest transaction that may still change something.
    oldest: i64,
    revision: u64,
    /// Each session with its last change, the revision of that, and the transaction.
    last: HashMap<i64, (u64, i64, ChangedSession)>,
    /// Changes up to this revision are not remembered any more.
    forgotten: u64,
}

impl ChangeLog {
    /// Begins with the oldest transaction that runs.
    pub(super) fn since(oldest: i64) -> Self {
        Self { opened: oldest, oldest, ..Self::default() }
    }

    fn learn(&mut self, rows: &[Row]) {
        for row in rows {
            let Some(key) = row.get::<_, Option<i64>>(0) else { continue };
            let transaction: i64 = row.get(6);
            if self.last.get(&key).is_some_and(|(_, known, _)| *known == transaction) {
                continue;
            }
            self.revision += 1;
            self.last.insert(key, (self.revision, transaction, changed_session(row)));
        }
        if let Some(oldest) = rows.first().map(|row| row.get::<_, i64>("oldest")) {
            self.oldest = self.oldest.max(oldest);
        }
        if self.last.len() > MAX_REMEMBERED {
            // Those that may come again are kept.
            let oldest = self.oldest;
            self.last.retain(|_, (_, transaction, _)| *transaction >= oldest);
            self.forgotten = self.revision;
        }
    }

    fn after(&self, since: Revision) -> Vec<ChangedSession> {
        let mut found: Vec<_> = self.last.values().filter(|(revision, ..)| *revision > since.0).collect();
        found.sort_by_key(|(revision, ..)| *revision);
        found.into_iter().map(|(_, _, changed)| changed.clone()).collect()
    }
}

impl OpenDatabase {
    /// The rows that have changed since an earlier call.
    pub(super) async fn changes(self: Rc<Self>, since: Option<Revision>) -> Result<Changes, StoreError> {
        // One at a time: the answers of two would be learned in any order.
        let _asking = self.asking_changes.lock().await;
        let (oldest, opened, forgotten) = {
            let log = self.changes.borrow();
            (log.oldest, log.opened, log.forgotten)
        };
        let rows = self.database.query("reading changes", COLUMNS, &[&oldest]).await?;
        self.changes.borrow_mut().learn(&rows);
        let revision = Revision(self.changes.borrow().revision);
        let sessions = match since {
            None => Vec::new(),
            // Too far behind: everything since the store was opened.
            Some(since) if since.0 < forgotten => {
                let all = self.database.query("reading changes", COLUMNS, &[&opened]).await?;
                all.iter().filter(|row| row.get::<_, Option<i64>>(0).is_some()).map(changed_session).collect()
            }
            Some(since) => self.changes.borrow().after(since),
        };
        Ok(Changes { sessions, revision })
    }
}

fn changed_session(row: &Row) -> ChangedSession {
    ChangedSession {
        id: SessionId(from_column(row.get(1))),
        epoch: from_sql(row.get(2)),
        archived: if row.get(3) { Archived::Yes } else { Archived::No },
        deleted: if row.get(4) { Deleted::Yes } else { Deleted::No },
        release_asked_at: row.get::<_, Option<i64>>(5).map(from_sql),
    }
}

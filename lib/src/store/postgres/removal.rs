//! Titles, archiving, deleting and pruning. A deleted session keeps its row without a title; its text is freed as far as no
//! fork needs it, at once or when its owner releases it.

use std::rc::Rc;

use deadpool_postgres::Transaction;
use rethread_core::{Millis, Seq, SessionId, TitleSource};

use super::database::{execute, row};
use super::fault::PgFault;
use super::host::{HOST_COLUMNS, NamedHost};
use super::open_database::OpenDatabase;
use super::ownership::add_segment;
use super::read::damaged;
use super::row::{CHANGED, existing_locked_head, locked_head, title_number};
use super::text_column::to_column;
use crate::store::integers::{from_sql, seq_from_sql, seq_to_sql, to_sql};
use crate::store::segment::{NewSegment, items_upto, pack_items, unpack};
use crate::store::{Archived, Deleted, IndexProgress, ProgressCallback, PruneTurn, StoreError};

/// The forks of session $1 that are not deleted, each with the last entry that it needs.
const LIVING_FORKS: &str = "WITH RECURSIVE fork (key, cut, deleted) AS (
        SELECT key, fork_seq, deleted_at IS NOT NULL FROM rethread.session WHERE parent = $1
        UNION ALL
        SELECT s.key, least(s.fork_seq, fork.cut), s.deleted_at IS NOT NULL
        FROM rethread.session AS s JOIN fork ON s.parent = fork.key
    )";

impl OpenDatabase {
    /// Sets the title as the user's choice.
    pub(super) async fn set_title(
        self: Rc<Self>,
        session: SessionId,
        title: String,
    ) -> Result<(), StoreError> {
        let (title, by) = (to_column(&title), title_number(TitleSource::User));
        self.database
            .write("setting a title", async |tx| {
                let key = existing_locked_head(tx, &session).await?.key;
                let sql = format!(
                    "UPDATE rethread.session SET title = $2, title_by = $3, {CHANGED} WHERE key = $1"
                );
                execute(tx, &sql, &[&key, &title, &by]).await?;
                Ok(())
            })
            .await
    }

    /// Archives or restores a session. Archiving ends the epoch.
    pub(super) async fn set_archived(
        self: Rc<Self>,
        session: SessionId,
        archived: Archived,
        at: Millis,
    ) -> Result<(), StoreError> {
        let archived_at = (archived == Archived::Yes).then(|| to_sql(at));
        self.database
            .write("archiving a session", async |tx| {
                let key = existing_locked_head(tx, &session).await?.key;
                let sql = format!("UPDATE rethread.session SET archived_at = $2, {CHANGED} WHERE key = $1");
                execute(tx, &sql, &[&key, &archived_at]).await?;
                if archived_at.is_some() {
                    end_epoch(tx, key).await?;
                }
                Ok(())
            })
            .await
    }

    /// Deletes a session. Its text is freed at once, or when its owner releases it.
    pub(super) async fn delete(self: Rc<Self>, session: SessionId, at: Millis) -> Result<(), StoreError> {
        match self.mark_deleted(&session, at, WhenOwned::Delete).await? {
            Some((key, HasOwner::No)) => self.free(key).await,
            Some((_, HasOwner::Yes)) | None => Ok(()),
        }
    }

    /// Deletes those of these sessions that nobody owns, and returns them.
    pub(super) async fn delete_unowned(
        self: Rc<Self>,
        sessions: Vec<SessionId>,
        at: Millis,
        mut progress: ProgressCallback,
    ) -> Result<Vec<SessionId>, StoreError> {
        let mut gone = Vec::new();
        for (done, session) in (1..).zip(&sessions) {
            if let Some((key, HasOwner::No)) = self.mark_deleted(session, at, WhenOwned::Keep).await? {
                self.free(key).await?;
                gone.push(session.clone());
            }
            progress(IndexProgress { done, total: sessions.len() });
        }
        Ok(gone)
    }

    /// Marks a session as deleted. Nothing if it was, or if it is owned and to be kept then.
    async fn mark_deleted(
        &self,
        session: &SessionId,
        at: Millis,
        when_owned: WhenOwned,
    ) -> Result<Option<(i64, HasOwner)>, StoreError> {
        self.database
            .write("deleting a session", async |tx| {
                let head = locked_head(tx, session).await?;
                let owner = self.has_owner(tx, head.key).await?;
                if head.deleted == Deleted::Yes || (owner == HasOwner::Yes && when_owned == WhenOwned::Keep) {
                    return Ok(None);
                }
                let sql = format!(
                    "UPDATE rethread.session SET deleted_at = $2, title = NULL, title_by = NULL, {CHANGED} WHERE key = $1"
                );
                execute(tx, &sql, &[&head.key, &to_sql(at)]).await?;
                end_epoch(tx, head.key).await?;
                if owner == HasOwner::No {
                    let sql = "UPDATE rethread.lease SET host = NULL, owned_epoch = NULL WHERE session = $1";
                    execute(tx, sql, &[&head.key]).await?;
                }
                Ok(Some((head.key, owner)))
            })
            .await
    }

    async fn has_owner(&self, tx: &Transaction<'_>, key: i64) -> Result<HasOwner, PgFault> {
        let sql = format!(
            "SELECT {HOST_COLUMNS} FROM rethread.lease AS l LEFT JOIN rethread.host AS h ON h.key = l.host
             WHERE l.session = $1"
        );
        let named = row(tx, &sql, &[&key]).await?.as_ref().and_then(NamedHost::read);
        Ok(if self.host.owner(named).is_some() { HasOwner::Yes } else { HasOwner::No })
    }

    /// Frees a deleted session that nobody owns, and its deleted ancestors that only it needed.
    pub(super) async fn free(&self, key: i64) -> Result<(), StoreError> {
        self.database
            .write("freeing a session", async |tx| {
                let mut here = Some(key);
                while let Some(key) = here {
                    here = free_one(tx, key).await?;
                }
                Ok(())
            })
            .await
    }

    /// The bytes that are freed if a session is deleted: what forks need of it does not count.
    pub(super) async fn size(self: Rc<Self>, session: SessionId) -> Result<u64, StoreError> {
        self.database
            .read("reading a size", async |tx| {
                let head = super::row::session_head(tx, &session).await?;
                if head.deleted == Deleted::Yes {
                    return Err(StoreError::Unknown(session.clone()).into());
                }
                let needed = seq_to_sql(needed_by_forks(tx, head.key).await?);
                let sql = "SELECT (coalesce((SELECT sum(octet_length(items)) FROM rethread.segment
                                             WHERE session = $1 AND last_seq > $2), 0)
                                 + coalesce((SELECT sum(octet_length(entry)) FROM rethread.tail
                                             WHERE session = $1 AND seq > $2), 0)
                                 + coalesce((SELECT octet_length(state) FROM rethread.snapshot WHERE session = $1), 0))::bigint";
                let found = row(tx, sql, &[&head.key, &needed]).await?;
                Ok(found.map_or(0, |row| from_sql(row.get(0))))
            })
            .await
    }

    /// Notes that old sessions are pruned, unless that was done at `since` or later.
    pub(super) async fn begin_pruning(
        self: Rc<Self>,
        at: Millis,
        since: Millis,
    ) -> Result<PruneTurn, StoreError> {
        let sql = "UPDATE rethread.store SET pruned_at = $1 WHERE pruned_at < $2 RETURNING version";
        let noted = self.database.query("noting the pruning", sql, &[&to_sql(at), &to_sql(since)]).await?;
        Ok(if noted.is_empty() { PruneTurn::Done } else { PruneTurn::Ours })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenOwned {
    Delete,
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HasOwner {
    Yes,
    No,
}

async fn end_epoch(tx: &Transaction<'_>, key: i64) -> Result<(), PgFault> {
    execute(tx, "UPDATE rethread.lease SET epoch = epoch + 1 WHERE session = $1", &[&key]).await?;
    Ok(())
}

/// Frees one session, if it is deleted and nobody owns it. Returns its parent then.
async fn free_one(tx: &Transaction<'_>, key: i64) -> Result<Option<i64>, PgFault> {
    let sql = "SELECT s.deleted_at IS NOT NULL AND l.host IS NULL, s.parent
               FROM rethread.session AS s JOIN rethread.lease AS l ON l.session = s.key WHERE s.key = $1 FOR UPDATE OF l";
    let found = row(tx, sql, &[&key]).await?;
    let Some(found) = found.filter(|row| row.get(0)) else { return Ok(None) };
    let needed = needed_by_forks(tx, key).await?;
    cut_segments(tx, key, needed).await?;
    let upto = seq_to_sql(needed);
    execute(tx, "DELETE FROM rethread.tail WHERE session = $1 AND seq > $2", &[&key, &upto]).await?;
    execute(tx, "DELETE FROM rethread.snapshot WHERE session = $1", &[&key]).await?;
    execute(tx, "DELETE FROM rethread.message WHERE session = $1 AND seq > $2", &[&key, &upto]).await?;
    if let Some(fork) = shown_by(tx, key).await? {
        execute(tx, "UPDATE rethread.message SET shown = $2 WHERE session = $1", &[&key, &fork]).await?;
    }
    Ok(found.get(1))
}

/// The last entry of a session that a fork of it needs which is not deleted; zero if none does.
pub(super) async fn needed_by_forks(tx: &Transaction<'_>, key: i64) -> Result<Seq, PgFault> {
    let sql = format!("{LIVING_FORKS} SELECT max(cut) FROM fork WHERE NOT deleted");
    let found = row(tx, &sql, &[&key]).await?;
    Ok(found.and_then(|row| row.get::<_, Option<i64>>(0)).map_or(Seq(0), seq_from_sql))
}

/// The fork that the text of a deleted session is shown for: the one that has most of it.
pub(super) async fn shown_by(tx: &Transaction<'_>, key: i64) -> Result<Option<i64>, PgFault> {
    let sql = format!(
        "{LIVING_FORKS} SELECT fork.key FROM fork JOIN rethread.session AS s ON s.key = fork.key
         WHERE NOT fork.deleted ORDER BY fork.cut DESC, s.id LIMIT 1"
    );
    Ok(row(tx, &sql, &[&key]).await?.map(|row| row.get(0)))
}

/// Deletes the segments after `needed`. One that has entries on both sides is written anew without the later ones.
async fn cut_segments(tx: &Transaction<'_>, key: i64, needed: Seq) -> Result<(), PgFault> {
    let upto = seq_to_sql(needed);
    let sql = "SELECT first_seq, length, checksum, items FROM rethread.segment
               WHERE session = $1 AND first_seq <= $2 AND last_seq > $2";
    let across = row(tx, sql, &[&key, &upto]).await?;
    execute(tx, "DELETE FROM rethread.segment WHERE session = $1 AND last_seq > $2", &[&key, &upto]).await?;
    let Some(across) = across else { return Ok(()) };
    let first = seq_from_sql(across.get(0));
    let plain = match unpack(across.get(1), across.get(2), across.get(3)) {
        Ok(plain) => plain,
        Err(cause) => return Err(damaged(tx, key, first, cause).await),
    };
    let items = match items_upto(&plain, needed) {
        Ok(items) => items,
        Err(cause) => return Err(damaged(tx, key, first, cause).await),
    };
    let packed = pack_items(&items).map_err(|cause| StoreError::Io {
        context: "compressing a journal".to_owned(),
        source: cause.into(),
    })?;
    add_segment(tx, key, &NewSegment { first, last: needed, packed }).await
}

//! Deletes and archives sessions, and cleans up after owners that have ended: folds their journal files, frees what was
//! deleted while they owned it, and removes files that are not in use.

use std::fs;
use std::time::{Duration, SystemTime};

use rethread_core::{Millis, SessionId};

use super::chain::{FileName, JournalFolder, files_of};
use super::fault::io_failed;
use super::integers::{from_sql, seq_to_sql, to_sql};
use super::journals::lock;
use super::open_store::OpenStore;
use super::row::{existing_head, live_owner, session_head};
use super::search::ErasureLimit;
use super::session::LastOwner;
use super::{
    Archived, ChangedSession, Changes, Deleted, Durability, ProgressCallback, ReleaseAnswer, Revision,
    StoreError,
};
use super::{free, rows, session};
use crate::store::IndexProgress;

/// A file that is not in use is removed when it is so old that nobody can be about to use it.
const UNUSED_FOR: Duration = Duration::from_secs(60);

impl OpenStore {
    pub(super) fn set_archived(
        &self,
        session: &SessionId,
        archived: Archived,
        at: Millis,
    ) -> Result<(), StoreError> {
        self.write("archiving in", Durability::Process, |tx| {
            session::set_archived(tx, session, archived, at)
        })?;
        self.note_epoch(session)
    }

    /// Deletes a session. Its text is freed at once, or when its owner releases it.
    pub(super) fn delete(&self, session: &SessionId, at: Millis) -> Result<(), StoreError> {
        let deleted = self.write("deleting in", Durability::Power, |tx| {
            let Some(key) = session::delete(tx, session, at)? else { return Ok(None) };
            let owned = live_owner(tx, &self.this_process, key)?.is_some();
            if !owned {
                session::forget_owner(tx, key)?;
            }
            Ok(Some((key, owned)))
        })?;
        match deleted {
            Some((key, false)) => {
                let unused = self.free(session, key)?;
                self.folder().remove(&unused);
            }
            Some((_, true)) => self.note_epoch(session)?,
            None => return Ok(()),
        }
        // It is not found any more; erasing its words may take a while.
        self.search.note_deletion();
        self.requests.text_deleted();
        Ok(())
    }

    /// Deletes those of these sessions that nobody owns, and returns them. Their words are erased before it returns.
    pub(super) fn delete_unowned(
        &self,
        sessions: &[SessionId],
        at: Millis,
        mut progress: ProgressCallback,
    ) -> Result<Vec<SessionId>, StoreError> {
        let mut gone = Vec::new();
        for (done, session) in (1..).zip(sessions) {
            let deleted = self.write("deleting in", Durability::Power, |tx| {
                let key = session_head(tx, session)?.key;
                if live_owner(tx, &self.this_process, key)?.is_some() {
                    return Ok(None);
                }
                session::forget_owner(tx, key)?;
                session::delete(tx, session, at)
            })?;
            if let Some(key) = deleted {
                let unused = self.free(session, key)?;
                self.folder().remove(&unused);
                gone.push(session.clone());
            }
            progress(IndexProgress { done, total: sessions.len() });
        }
        self.erase_deleted(ErasureLimit::None)?;
        Ok(gone)
    }

    /// The bytes that are freed if a session is deleted: what forks need of it does not count.
    pub(super) fn size(&self, session: &SessionId) -> Result<u64, StoreError> {
        let (bytes, files) = self.readers.read("reading", |tx| {
            let key = existing_head(tx, session)?.key;
            let needed = seq_to_sql(free::needed_by_forks(tx, key)?);
            let sql = "SELECT coalesce((SELECT sum(length(items)) FROM segment
                                        WHERE session = ?1 AND last_seq > ?2), 0)
                            + coalesce((SELECT length(state) FROM snapshot WHERE session = ?1), 0)";
            let bytes: i64 = tx.prepare_cached(sql)?.query_row([key, needed], |row| row.get(0))?;
            Ok((from_sql(bytes), files_of(tx, key)?))
        })?;
        Ok(bytes + files.iter().map(|name| self.folder().used_bytes(name)).sum::<u64>())
    }

    /// Asks the owner of a session to release it; settles what one that has ended has left.
    pub(super) fn ask_release(&self, session: &SessionId, at: Millis) -> Result<ReleaseAnswer, StoreError> {
        let (key, owner, last_owner) = self.write("releasing a session in", Durability::Process, |tx| {
            let key = existing_head(tx, session)?.key;
            let owner = live_owner(tx, &self.this_process, key)?;
            if owner.is_some() {
                session::set_release_asked(tx, key, Some(at))?;
            }
            Ok((key, owner, session::last_owner(tx, key)?))
        })?;
        match (owner, last_owner) {
            (Some(owner), _) => Ok(ReleaseAnswer::Asked(owner)),
            (None, LastOwner::Released) => Ok(ReleaseAnswer::NotOwned),
            (None, LastOwner::Crashed) => {
                self.settle_unowned(session, key)?;
                Ok(ReleaseAnswer::OwnerGone)
            }
        }
    }

    /// Removes the request to release a session.
    pub(super) fn decline_release(&self, session: &SessionId) -> Result<(), StoreError> {
        self.write("declining a release in", Durability::Process, |tx| {
            let key = existing_head(tx, session)?.key;
            session::set_release_asked(tx, key, None)
        })
    }

    /// The rows that have changed. Leases whose epoch is over are noted.
    pub(super) fn changes(&self, since: Option<Revision>) -> Result<Changes, StoreError> {
        let changes = self.read_rows("reading", |tx| {
            let Some(since) = since else {
                let last =
                    tx.query_row("SELECT coalesce(max(revision), 0) FROM session", [], |row| row.get(0));
                return Ok(Changes { sessions: Vec::new(), revision: Revision(from_sql(last?)) });
            };
            let sql =
                "SELECT uid, epoch, archived, deleted_at IS NOT NULL, revision, release_asked_at FROM session
                       WHERE revision > ?1 ORDER BY revision";
            let mut statement = tx.prepare_cached(sql)?;
            let mut rows = statement.query([to_sql(since.0)])?;
            let mut changes = Changes { sessions: Vec::new(), revision: since };
            while let Some(row) = rows.next()? {
                changes.sessions.push(ChangedSession {
                    id: SessionId(row.get(0)?),
                    epoch: from_sql(row.get(1)?),
                    archived: if row.get(2)? { Archived::Yes } else { Archived::No },
                    deleted: if row.get(3)? { Deleted::Yes } else { Deleted::No },
                    release_asked_at: row.get::<_, Option<i64>>(5)?.map(from_sql),
                });
                changes.revision = Revision(from_sql(row.get(4)?));
            }
            Ok(changes)
        })?;
        for changed in &changes.sessions {
            self.note(&changed.id, changed.epoch);
        }
        Ok(changes)
    }

    /// Notes the epoch of a session that this store may own.
    fn note_epoch(&self, session: &SessionId) -> Result<(), StoreError> {
        let epoch = self.readers.read("reading", |tx| Ok(session_head(tx, session)?.epoch))?;
        self.note(session, epoch);
        Ok(())
    }

    fn note(&self, session: &SessionId, epoch: u64) {
        if let Some(journal) = self.journals.get(session) {
            let mut journal = lock(&journal);
            if epoch > journal.epoch {
                journal.replaced_by = Some(epoch);
            }
        }
    }

    /// Folds the files of owners that have ended, one session at a time, and removes files that are not in use.
    pub(super) fn clean(&self) -> Result<(), StoreError> {
        for (session, key, deleted) in self.unowned_with_files()? {
            let done = match deleted {
                Deleted::Yes => self.free(&session, key).map(|unused| self.folder().remove(&unused)),
                Deleted::No => self.settle_unowned(&session, key),
            };
            match done {
                // Somebody has opened it meanwhile.
                Ok(()) | Err(StoreError::StaleEpoch { .. }) => {}
                // It stays as it is for whoever reads it.
                Err(error) => tracing::warn!(%session, "{}", crate::wire::with_causes(&error)),
            }
        }
        // A process may have ended before it had done that.
        self.requests.text_deleted();
        self.remove_unused_files()
    }

    /// Completes the row of a session that its owner has left, and folds its files. Refused if somebody claims it meanwhile.
    fn settle_unowned(&self, session: &SessionId, key: i64) -> Result<(), StoreError> {
        let (epoch, leftovers) = self.read_with_files("reading", session, |tx| {
            let last_owner = session::last_owner(tx, key)?;
            let epoch = session_head(tx, session)?.epoch;
            Ok((epoch, self.leftovers(tx, session, key, last_owner)?))
        })?;
        self.write("updating a row in", Durability::Process, |tx| {
            session_head(tx, session)?.check_epoch(session, epoch)?;
            Ok(rows::write_one(tx, key, &leftovers.change)?)
        })?;
        // The fold is synced. Until then the session counts as one whose owner has crashed.
        self.fold_unowned(session, key, None)?;
        self.write("updating a row in", Durability::Process, |tx| {
            session_head(tx, session)?.check_epoch(session, epoch)?;
            session::forget_owner(tx, key)
        })
    }

    /// The sessions with files that nobody owns.
    fn unowned_with_files(&self) -> Result<Vec<(SessionId, i64, Deleted)>, StoreError> {
        let all = self.readers.read("reading", |tx| {
            let sql = "SELECT uid, key, deleted_at IS NOT NULL FROM session
                       WHERE key IN (SELECT session FROM journal_file)";
            let mut statement = tx.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| {
                let deleted = if row.get(2)? { Deleted::Yes } else { Deleted::No };
                Ok((SessionId(row.get(0)?), row.get(1)?, deleted))
            })?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?)
        })?;
        let mut unowned = Vec::new();
        for (session, key, deleted) in all {
            let owner = self.readers.read("reading", |tx| live_owner(tx, &self.this_process, key))?;
            if owner.is_none() {
                unowned.push((session, key, deleted));
            }
        }
        Ok(unowned)
    }

    /// Removes files that a crash has left: no row names them.
    fn remove_unused_files(&self) -> Result<(), StoreError> {
        let folder = self.folder().path();
        let failed = || io_failed("listing", folder);
        for entry in fs::read_dir(folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let Some(name) = entry.file_name().to_str().and_then(JournalFolder::parse_name) else { continue };
            let changed = entry.metadata().and_then(|metadata| metadata.modified()).map_err(failed())?;
            let old = SystemTime::now().duration_since(changed).is_ok_and(|age| age > UNUSED_FOR);
            if old && !self.is_registered(&name)? {
                self.folder().remove(&[name]);
            }
        }
        Ok(())
    }

    fn is_registered(&self, name: &FileName) -> Result<bool, StoreError> {
        self.readers.read("reading", |tx| {
            let sql = "SELECT 1 FROM journal_file JOIN session ON session.key = journal_file.session
                       WHERE session.journal = ?1 AND journal_file.epoch = ?2 AND number = ?3";
            let named =
                rusqlite::params![super::chain::hex(&name.journal), to_sql(name.epoch), to_sql(name.number)];
            Ok(tx.prepare_cached(sql)?.exists(named)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::{Entry, TitleSource};

    use super::super::{EmbeddedPaths, EmbeddedStore};
    use super::*;
    use crate::store::{Append, NewSession, RowFacts, Store as _};

    /// A session whose journal has a title that its row does not have, as after a crash.
    async fn crashed(paths: &EmbeddedPaths) {
        let store = EmbeddedStore::open(paths).unwrap();
        let new = NewSession {
            id: "s".into(),
            cwd: "/w".to_owned(),
            agent: "agent".to_owned(),
            parent: None,
            entries: Vec::new(),
            facts: RowFacts::default(),
            snapshot: None,
            at: 1,
        };
        let lease = store.create(new).await.unwrap();
        let title = Entry::TitleSet { title: "found".to_owned(), by: TitleSource::Agent };
        let append = Append {
            session: lease.session.clone(),
            epoch: lease.epoch,
            expected: lease.head,
            entries: vec![Arc::new(title)],
            facts: RowFacts::default(),
            durability: Durability::Process,
            at: None,
        };
        store.append(append).await.unwrap();
    }

    #[tokio::test]
    async fn cleaning_completes_the_row_and_folds_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let paths =
            EmbeddedPaths { database: dir.path().join("rethread.db"), locks: dir.path().join("locks") };
        crashed(&paths).await;
        let store = EmbeddedStore::open(&paths).unwrap();
        let row = store.find(&"s".into()).await.unwrap().unwrap();
        assert_eq!(row.title, None);
        store.opening.wait().unwrap().clean().unwrap();
        let row = store.find(&"s".into()).await.unwrap().unwrap();
        assert_eq!(row.title.map(|(title, _)| title).as_deref(), Some("found"));
        assert_eq!(fs::read_dir(paths.journals()).unwrap().count(), 0);
        // A title from outside is not replaced by an older one of the journal.
        store.set_title(&"s".into(), "chosen").await.unwrap();
        store.claim(&"s".into()).await.unwrap();
        let row = store.find(&"s".into()).await.unwrap().unwrap();
        assert_eq!(row.title.map(|(title, _)| title).as_deref(), Some("chosen"));
    }
}

//! The parts of an open embedded store, and how they are used together: read transactions with journal files, and write
//! transactions that also write what is pending. All of it blocks; `mod.rs` calls it from async code.

use std::sync::{Arc, Mutex};

use rethread_core::{Seq, SessionId};
use rusqlite::Transaction;

use super::chain::{Chain, ChainEnd, ChainFault, JournalFolder, files_of};
use super::fault::SqliteFault;
use super::journals::OwnedJournals;
use super::owner::ThisProcess;
use super::read::{self, ReadFault};
use super::readers::Readers;
use super::row;
use super::rows::{self, ListTimes, PendingRows};
use super::search::SearchIndex;
use super::seek;
use super::upkeep::UpkeepRequests;
use super::writer::SqliteWriter;
use super::{Durability, Page, SessionRow, StoreError};
use crate::lock::locked;

/// How often a read is repeated because files were folded while it ran.
const READ_ATTEMPTS: usize = 5;

/// An open store.
pub(super) struct OpenStore {
    // In drop order: the lock must be released last.
    pub(super) readers: Readers,
    pub(super) writer: SqliteWriter,
    pub(super) journals: OwnedJournals,
    pub(super) rows: PendingRows,
    pub(super) times: ListTimes,
    pub(super) search: SearchIndex,
    /// Held while pending changes are written, so that a reader can wait for them.
    pub(super) writing: Mutex<()>,
    /// Held while the file that a journal is written to is made, and while a journal is released.
    pub(super) making: Mutex<()>,
    pub(super) requests: Arc<UpkeepRequests>,
    pub(super) this_process: ThisProcess,
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        self.try_write_pending();
        self.erase_last();
        // If this fails, the lock file still shows that this process has ended.
        let _ = self.this_process.unregister(&self.writer);
    }
}

impl OpenStore {
    pub(super) fn folder(&self) -> &JournalFolder {
        self.journals.folder()
    }

    /// Runs `work` in a transaction, together with the pending changes of rows, and commits it if it succeeds.
    pub(super) fn write<R>(
        &self,
        what: &str,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, SqliteFault>,
    ) -> Result<R, StoreError> {
        self.this_process.register(&self.writer)?;
        let _writing = locked(&self.writing);
        let pending = self.rows.take();
        let outcome = self.writer.write_as(durability, |tx| {
            rows::write(tx, &pending)?;
            work(tx)
        });
        if outcome.is_err() && !pending.is_empty() {
            self.rows.put_back(pending);
        }
        outcome.map_err(|fault| fault.at(what, self.writer.database()))
    }

    /// Writes the pending changes of rows, if there are any.
    pub(super) fn write_pending(&self) -> Result<(), StoreError> {
        // What another thread has taken to write it is waited for.
        let nothing = {
            let _written = locked(&self.writing);
            self.rows.is_empty()
        };
        if nothing {
            return Ok(());
        }
        self.write("updating rows in", Durability::Process, |_| Ok(()))
    }

    /// Writes the pending changes of rows, if that is possible now. Otherwise they stay pending.
    pub(super) fn try_write_pending(&self) {
        if let Err(error) = self.write_pending() {
            tracing::warn!("{}", crate::wire::with_causes(&error));
        }
    }

    /// Runs `work` in a read transaction that includes what is pending. Without room on the disk the rows are read as they
    /// are.
    pub(super) fn read_rows<R>(
        &self,
        what: &str,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, SqliteFault>,
    ) -> Result<R, StoreError> {
        self.try_write_pending();
        self.readers.read(what, work)
    }

    /// Runs `work` in read transactions until no file has vanished while it ran: then it was folded meanwhile, and the next
    /// transaction sees its segments.
    pub(super) fn read_with_files<R>(
        &self,
        what: &str,
        session: &SessionId,
        mut work: impl FnMut(&Transaction<'_>) -> Result<R, ReadFault>,
    ) -> Result<R, StoreError> {
        let mut attempts = READ_ATTEMPTS;
        loop {
            attempts -= 1;
            let mut files = None;
            let read = self.readers.read(what, |tx| match work(tx) {
                Ok(result) => Ok(Some(result)),
                Err(ReadFault::Database(fault)) => Err(fault),
                Err(ReadFault::Files(fault)) => {
                    files = Some(fault);
                    Ok(None)
                }
            })?;
            match (read, files) {
                (Some(result), _) => return Ok(result),
                (None, Some(ChainFault::Vanished(_))) if attempts > 0 => {}
                (None, Some(fault)) => return Err(fault.into_error(session)),
                (None, None) => return Err(StoreError::Unknown(session.clone())),
            }
        }
    }

    pub(super) fn read(&self, session: &SessionId, from: Seq, budget: usize) -> Result<Page, StoreError> {
        self.read_with_files("reading", session, |tx| {
            // Before the transaction begins to read: entries that come later are not in it.
            let head = self.journals.head(session);
            read::read(tx, self.folder(), session, from, budget, head)
        })
    }

    pub(super) fn seek_back(
        &self,
        session: &SessionId,
        before: Seq,
        budget: usize,
    ) -> Result<Seq, StoreError> {
        let what = "reading";
        self.read_with_files(what, session, |tx| seek::back(tx, self.folder(), session, before, budget))
    }

    pub(super) fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.try_write_pending();
        self.read_with_files("reading", session, |tx| {
            let Some((mut row, key)) = row::find(tx, &self.this_process, session)? else { return Ok(None) };
            row.head = match self.journals.head(session) {
                Some(head) => head,
                None => self.chain_end(tx, key)?.last.map_or(row.head, |last| last.max(row.head)),
            };
            Ok(Some(row))
        })
    }

    /// The end of the journal files of a session.
    pub(super) fn chain_end(&self, tx: &Transaction<'_>, key: i64) -> Result<ChainEnd, ReadFault> {
        let end = Chain::open(self.folder(), &files_of(tx, key)?)?.end();
        match end {
            // Up to there it can be read.
            Err(ChainFault::Damaged { at, .. }) => {
                Ok(ChainEnd { last: Some(Seq(at.0.saturating_sub(1))), skipped: 0 })
            }
            end => Ok(end?),
        }
    }

    /// The last entry of a session.
    pub(super) fn head_of(&self, session: &SessionId) -> Result<Seq, StoreError> {
        if let Some(head) = self.journals.head(session) {
            return Ok(head);
        }
        self.read_with_files("reading", session, |tx| {
            let session_head = row::existing_head(tx, session)?;
            let end = self.chain_end(tx, session_head.key)?;
            Ok(end.last.map_or(session_head.head, |last| last.max(session_head.head)))
        })
    }
}

//! The search index of an embedded store. It is a database of its own beside the store's: whatever happens to it, sessions
//! are not affected, and it can be dropped and made anew from the journals. Several processes share it.
//!
//! `index_file` opens it. `journal_facts` says what the store has of a journal, `fill` adds what is missing, `erase` removes
//! what was deleted, `find` searches, `newest_scan` does so for the beginnings of words. A turn is indexed some time after it has ended, and at the latest by the next search
//! of any process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

use self::index_file::{IfMissing, IndexFile};
use super::fault::{SqliteFault, failed};
use super::open_store::OpenStore;
use super::{Durability, ProgressCallback, SearchPage, SearchQuery, StoreError};
use crate::lock::locked;
use crate::store::IndexProgress;

mod erase;
mod fill;
mod find;
mod index_file;
mod journal_facts;
mod message_row;
mod newest_scan;
mod separators;

pub(super) use erase::{ErasureLimit, note_deleted};

/// How long erasing may keep the upkeep thread from other work, and a process from ending. What is left is erased by the
/// next process.
const ERASING_STEP: Duration = Duration::from_millis(300);
const LAST_ERASING: Duration = Duration::from_secs(2);

/// The index as an open store has it.
pub(super) struct SearchIndex {
    database: PathBuf,
    open: Mutex<Option<IndexFile>>,
    /// Held while sessions are indexed, so that two searches do not do the same work.
    filling: Mutex<()>,
    /// The keys of sessions in which a turn has ended and that are to be indexed.
    ended: Mutex<BTreeSet<i64>>,
    /// Whether this process has deleted something that may not be erased yet.
    deleted: AtomicBool,
}

/// Why the index cannot be used.
#[derive(Debug)]
pub(super) enum IndexFault {
    /// It is damaged or has another format: it has to be made anew.
    Damaged(rusqlite::Error),
    /// It cannot be read or written now.
    Failed(rusqlite::Error),
    /// The store or its files returned an error.
    Store(StoreError),
}

impl From<rusqlite::Error> for IndexFault {
    fn from(error: rusqlite::Error) -> Self {
        match (&error, error.sqlite_error_code()) {
            (_, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
            | (rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..), _) => {
                Self::Damaged(error)
            }
            _ => Self::Failed(error),
        }
    }
}

impl From<StoreError> for IndexFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl SearchIndex {
    pub(super) fn new(database: &Path) -> Self {
        let (open, filling, ended) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { database: database.to_owned(), open, filling, ended, deleted: AtomicBool::new(false) }
    }

    /// A copy in memory.
    fn copy(database: &Path, generation: i64) -> Result<Self, IndexFault> {
        let index = Self::new(database);
        *locked(&index.open) = Some(IndexFile::copy(database, generation)?);
        Ok(index)
    }

    /// Notes that a turn has ended.
    pub(super) fn note_turn_end(&self, key: i64) {
        locked(&self.ended).insert(key);
    }

    /// Notes that something was deleted that is to be erased.
    pub(super) fn note_deletion(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    /// Closes the connection, which takes memory.
    fn close(&self) {
        *locked(&self.open) = None;
    }

    /// Runs `work` with the index of this generation. Nothing if it is missing and not to be created.
    fn with<R>(
        &self,
        generation: i64,
        if_missing: IfMissing,
        work: impl FnOnce(&IndexFile) -> Result<R, IndexFault>,
    ) -> Result<Option<R>, IndexFault> {
        let mut open = locked(&self.open);
        if open.as_ref().is_none_or(|index| index.generation != generation) {
            *open = IndexFile::open(&self.database, generation, if_missing)?;
        }
        let Some(index) = open.as_ref() else { return Ok(None) };
        let done = work(index);
        if matches!(done, Err(IndexFault::Damaged(_) | IndexFault::Failed(_))) {
            *open = None;
        }
        done.map(Some)
    }
}

impl OpenStore {
    /// Searches, after everything that is missing in the index was added. A damaged index is made anew.
    ///
    /// Where nothing can be written, a copy of the index in memory is searched.
    pub(super) fn search(&self, query: &SearchQuery) -> Result<SearchPage, StoreError> {
        let found = self.with_sound_index(|| {
            self.update(&mut |_| {})?;
            self.find_messages(&self.search, query)
        });
        match found {
            Err(StoreError::Unwritable { .. }) => {
                self.search_copy(query).map_err(|fault| self.index_error(fault))
            }
            found => found,
        }
    }

    fn search_copy(&self, query: &SearchQuery) -> Result<SearchPage, IndexFault> {
        let copy = SearchIndex::copy(&self.search.database, self.index_generation()?)?;
        self.fill_index(&copy, &mut |_| {})?;
        self.find_messages(&copy, query)
    }

    fn update(&self, progress: ProgressSink<'_>) -> Result<(), IndexFault> {
        let indexed = self.fill_index(&self.search, progress)?;
        Ok(self.forget_pending(&indexed)?)
    }

    pub(super) fn update_index(&self, mut progress: ProgressCallback) -> Result<(), StoreError> {
        self.with_sound_index(|| self.update(&mut progress))
    }

    pub(super) fn rebuild_index(&self, progress: ProgressCallback) -> Result<(), StoreError> {
        self.drop_index()?;
        self.update_index(progress)
    }

    /// Indexes the sessions in which a turn has ended, a bounded part. Returns whether there is more to do.
    pub(super) fn index_ended_turns(&self) -> Result<bool, StoreError> {
        let next = locked(&self.search.ended).pop_first();
        let Some(key) = next else {
            self.search.close();
            return Ok(false);
        };
        // It is found by the next search in any case.
        let more = self.fill_some(key).map_err(|fault| self.index_error(fault))?;
        if more {
            locked(&self.search.ended).insert(key);
        }
        Ok(true)
    }

    /// Erases some of what was deleted. Returns whether there is more.
    pub(super) fn erase_some(&self) -> Result<bool, StoreError> {
        let more = self.erase_deleted(ErasureLimit::Until(Instant::now() + ERASING_STEP))?;
        if !more {
            self.search.deleted.store(false, Ordering::Release);
        }
        Ok(more)
    }

    /// Erases what was deleted and is not erased yet, before the process ends.
    pub(super) fn erase_last(&self) {
        if self.search.deleted.load(Ordering::Acquire)
            && let Err(error) = self.erase_deleted(ErasureLimit::Until(Instant::now() + LAST_ERASING))
        {
            tracing::warn!("{}", crate::wire::with_causes(&error));
        }
    }

    /// Runs `work`, and once more with a new index if the index turns out to be damaged.
    fn with_sound_index<R>(&self, mut work: impl FnMut() -> Result<R, IndexFault>) -> Result<R, StoreError> {
        let mut done = work();
        if let Err(IndexFault::Damaged(error)) = &done {
            tracing::warn!("the search index is made anew: {error}");
            self.drop_index()?;
            done = work();
        }
        done.map_err(|fault| self.index_error(fault))
    }

    /// Removes the index. The next search makes a new one, in a file with another name: other processes may have this one
    /// open.
    pub(super) fn drop_index(&self) -> Result<(), StoreError> {
        let generation = self.write("dropping the search index of", Durability::Process, |tx| {
            tx.execute("UPDATE store SET search_generation = search_generation + 1", [])?;
            Ok(index_file::generation(tx)?)
        })?;
        self.search.close();
        index_file::remove_older(&self.search.database, generation)
    }

    fn index_generation(&self) -> Result<i64, StoreError> {
        self.readers.read("reading", |tx| index_file::generation(tx).map_err(SqliteFault::from))
    }

    fn index_error(&self, fault: IndexFault) -> StoreError {
        match fault {
            IndexFault::Store(error) => error,
            IndexFault::Damaged(error) | IndexFault::Failed(error) => {
                failed("using the search index of", &self.search.database, error)
            }
        }
    }
}

/// A place for progress reports.
type ProgressSink<'a> = &'a mut dyn FnMut(IndexProgress);

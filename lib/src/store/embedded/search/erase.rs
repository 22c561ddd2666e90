//! Removes the text of journals from the index, in short transactions, so that no word of it stays in the file. What has to
//! be erased is in the store's table `search_pending`, so that a crash forgets nothing.

use std::time::{Duration, Instant};

use rusqlite::Transaction;

use super::IndexFault;
use super::index_file::{IfMissing, IndexFile};
use super::message_row;
use super::separators::Separators;
use crate::store::embedded::fault::SqliteFault;
use crate::store::embedded::open_store::OpenStore;
use crate::store::{Durability, StoreError};

/// How long a transaction may take.
const AT_MOST: Duration = Duration::from_millis(30);

/// The text of the first transaction in bytes, and the least: a transaction has at least one row.
const FIRST_BATCH: usize = 4 * 1024;
const LEAST_BATCH: usize = 256;

/// Up to this many rows are always erased one by one.
const FEW_ROWS: i64 = 1000;

/// Erasing a row takes about as long as adding this many.
const ERASING_COST: i64 = 20;

/// How long erasing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::embedded) enum ErasureLimit {
    /// Until all is erased.
    None,
    /// Until this time, and then a little.
    Until(Instant),
}

/// How far erasing got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::embedded) enum Erasure {
    /// All is erased.
    Done,
    /// There is more.
    Part,
    /// Making a new index is faster.
    DropInstead,
}

impl ErasureLimit {
    fn is_reached(self) -> bool {
        match self {
            Self::None => false,
            Self::Until(time) => Instant::now() >= time,
        }
    }
}

impl OpenStore {
    /// Erases what was deleted. An index from which that is not possible is dropped. Returns whether there is more to erase.
    pub(in crate::store::embedded) fn erase_deleted(&self, limit: ErasureLimit) -> Result<bool, StoreError> {
        let pending = self.readers.read("reading", pending)?;
        if pending.is_empty() {
            return Ok(false);
        }
        let erased = self.index_generation().map_err(IndexFault::from).and_then(|generation| {
            self.search.with(generation, IfMissing::Skip, |index| self.erase_unshown(index, &pending, limit))
        });
        match erased {
            // Without an index there is nothing to look at again.
            Ok(None) => self.forget_pending(&pending)?,
            Ok(Some(Erasure::Part)) => return Ok(true),
            Ok(Some(Erasure::Done)) => self.finish_erasing(&pending)?,
            Ok(Some(Erasure::DropInstead)) => {
                self.drop_index()?;
                self.forget_pending(&pending)?;
            }
            Err(fault) => {
                let error = self.index_error(fault);
                tracing::warn!("the search index is dropped: {}", crate::wire::with_causes(&error));
                self.drop_index()?;
                self.forget_pending(&pending)?;
            }
        }
        Ok(false)
    }

    /// What is shown for another session now stays pending until it is indexed again.
    fn finish_erasing(&self, pending: &[i64]) -> Result<(), StoreError> {
        // At once, since the process may end soon; later if somebody reads just now.
        if !self.truncate_index_log() {
            self.requests.truncate_log();
        }
        let mut gone = Vec::new();
        for key in pending {
            if self.facts_of(*key)?.is_none() {
                gone.push(*key);
            }
        }
        self.forget_pending(&gone)
    }

    fn erase_unshown(
        &self,
        index: &IndexFile,
        keys: &[i64],
        limit: ErasureLimit,
    ) -> Result<Erasure, IndexFault> {
        let mut unshown = Vec::new();
        for key in keys {
            let facts = self.facts_of(*key)?;
            if facts.is_none() || !index.indexed(*key)?.fits(facts.as_ref()) {
                unshown.push(*key);
            }
        }
        if index.is_cheaper_to_drop(&unshown)? {
            return Ok(Erasure::DropInstead);
        }
        index.erase(&unshown, limit)
    }

    /// Empties the log of the index, if there is one. Returns whether that was possible.
    pub(in crate::store::embedded) fn truncate_index_log(&self) -> bool {
        let done = self
            .index_generation()
            .map_err(IndexFault::from)
            .and_then(|generation| self.search.with(generation, IfMissing::Skip, IndexFile::truncate_log));
        matches!(done, Ok(None | Some(true)))
    }

    pub(super) fn forget_pending(&self, keys: &[i64]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.write("updating the search index of", Durability::Process, |tx| {
            let mut statement = tx.prepare_cached("DELETE FROM search_pending WHERE session = ?1")?;
            for key in keys {
                statement.execute([key])?;
            }
            Ok(())
        })
    }
}

/// Notes that a session and its ancestors have to be looked at again.
pub(in crate::store::embedded) fn note_deleted(tx: &Transaction<'_>, key: i64) -> Result<(), SqliteFault> {
    let sql = "WITH RECURSIVE line (key) AS (
                   SELECT ?1
                   UNION ALL
                   SELECT session.parent FROM session JOIN line ON session.key = line.key
                   WHERE session.parent IS NOT NULL
               )
               INSERT OR IGNORE INTO search_pending (session) SELECT key FROM line";
    tx.prepare_cached(sql)?.execute([key])?;
    Ok(())
}

fn pending(tx: &Transaction<'_>) -> Result<Vec<i64>, SqliteFault> {
    let mut statement = tx.prepare_cached("SELECT session FROM search_pending")?;
    let keys = statement.query_map([], |row| row.get(0))?;
    Ok(keys.collect::<Result<_, _>>()?)
}

impl IndexFile {
    /// Erases journals.
    pub(super) fn erase(&self, keys: &[i64], limit: ErasureLimit) -> Result<Erasure, IndexFault> {
        let mut separators = Separators::default();
        let mut erasure = Erasure::Done;
        for key in keys {
            erasure = self.erase_journal(*key, limit, &mut separators)?;
            if erasure != Erasure::Done {
                break;
            }
        }
        self.write(|tx| Ok(separators.replace(tx)?))?;
        Ok(erasure)
    }

    fn erase_journal(
        &self,
        key: i64,
        limit: ErasureLimit,
        separators: &mut Separators,
    ) -> Result<Erasure, IndexFault> {
        // From now on nobody adds what was read before.
        self.write(|tx| Ok(mark_erased(tx, key)?))?;
        let mut bytes = FIRST_BATCH;
        loop {
            let began = Instant::now();
            if !self.write(|tx| Ok(erase_rows(tx, key, bytes, separators)?))? {
                break;
            }
            if limit.is_reached() {
                return Ok(Erasure::Part);
            }
            bytes = match began.elapsed() {
                took if took < AT_MOST / 3 => bytes * 2,
                took if took > AT_MOST => (bytes / 2).max(LEAST_BATCH),
                _ => bytes,
            };
        }
        self.write(|tx| {
            let sql = "UPDATE indexed SET tokens = '' WHERE journal = ?1";
            Ok(tx.prepare_cached(sql)?.execute([key]).map(drop)?)
        })?;
        Ok(Erasure::Done)
    }

    fn is_cheaper_to_drop(&self, keys: &[i64]) -> Result<bool, IndexFault> {
        let mut erased: i64 = 0;
        for key in keys {
            let sql = "SELECT count(*) FROM message WHERE journal = ?1";
            erased += self.connection.prepare_cached(sql)?.query_row([key], |row| row.get::<_, i64>(0))?;
        }
        if erased <= FEW_ROWS {
            return Ok(false);
        }
        let all: i64 = self.connection.query_row("SELECT count(*) FROM message", [], |row| row.get(0))?;
        Ok(erased.saturating_mul(ERASING_COST) > all)
    }
}

fn mark_erased(tx: &Transaction<'_>, key: i64) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO indexed (journal, version, shown, cut, scope, tokens, upto, turn, at, state)
         VALUES (?1, 1, 0, 0, '', '', 0, 0, 0, '')
         ON CONFLICT (journal) DO UPDATE SET
             version = version + 1, shown = 0, cut = 0, scope = '', upto = 0, turn = 0, at = 0, state = ''",
    )?
    .execute([key])?;
    Ok(())
}

/// Erases rows of a journal with about this much text, at least one. Returns whether there may be more.
fn erase_rows(
    tx: &Transaction<'_>,
    key: i64,
    bytes: usize,
    separators: &mut Separators,
) -> rusqlite::Result<bool> {
    let sql = "SELECT tokens FROM indexed WHERE journal = ?1";
    let tokens: String = tx.prepare_cached(sql)?.query_row([key], |row| row.get(0))?;
    let mut statement = tx.prepare_cached("SELECT id, length, text FROM message WHERE journal = ?1")?;
    let mut rows = statement.query([key])?;
    let (mut some, mut size) = (Vec::new(), 0);
    while size < bytes
        && let Some(row) = rows.next()?
    {
        let text = message_row::text(row, 1)?;
        size += text.len();
        some.push((row.get::<_, i64>(0)?, text));
    }
    for (id, text) in &some {
        message_row::remove(tx, *id, &tokens, text)?;
        separators.note(text);
    }
    Ok(size >= bytes)
}

//! Reads journals: the layers of the ancestors first, of each its segments, then its journal files.

use rethread_core::{Seq, SessionId};
use rusqlite::{OptionalExtension as _, Row, Transaction};

use super::chain::{Chain, ChainFault, JournalFolder, Visit, files_of};
use super::fault::SqliteFault;
use super::integers::{seq_from_sql, seq_to_sql};
use super::row::existing_head;
use super::segment::unpack;
use super::{Page, StoreError};
use crate::store::lineage::{Layer, lineage};
use crate::store::page::PageBuilder;

/// Later than any entry.
pub(super) const NO_LIMIT: Seq = Seq(u64::MAX - 1);

/// Reads one page of a journal. `head` is the last entry, if this process knows it.
pub(super) fn read(
    tx: &Transaction<'_>,
    folder: &JournalFolder,
    session: &SessionId,
    from: Seq,
    budget: usize,
    head: Option<Seq>,
) -> Result<Page, ReadFault> {
    let session_head = existing_head(tx, session)?;
    let upto = head.unwrap_or(NO_LIMIT);
    let layers = lineage(session_head.key, upto, |key| parent_of(tx, *key)).map_err(SqliteFault::from)?;
    let mut page = PageBuilder::new(session, budget);
    let mut next = from;
    for layer in layers.into_iter().filter(|layer| layer.upto >= from) {
        let mut reader = LayerReader { tx, folder, position: from.max(layer.after.next()), layer };
        if reader.fill(&mut page)? == Filled::Page {
            return Ok(page.cut(reader.position));
        }
        next = next.max(reader.position);
    }
    let known = head.unwrap_or(session_head.head);
    Ok(page.end(next.max(known.next())))
}

/// Why a read failed.
pub(super) enum ReadFault {
    /// The database.
    Database(SqliteFault),
    /// The journal files.
    Files(ChainFault),
}

impl From<SqliteFault> for ReadFault {
    fn from(fault: SqliteFault) -> Self {
        Self::Database(fault)
    }
}

impl From<rusqlite::Error> for ReadFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<StoreError> for ReadFault {
    fn from(error: StoreError) -> Self {
        Self::Database(error.into())
    }
}

impl From<ChainFault> for ReadFault {
    fn from(fault: ChainFault) -> Self {
        Self::Files(fault)
    }
}

/// What has been filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    /// The page.
    Page,
    /// All of the layer is on the page.
    Layer,
}

/// Reads one layer.
struct LayerReader<'a> {
    tx: &'a Transaction<'a>,
    folder: &'a JournalFolder,
    layer: Layer<i64>,
    /// The entries before this one have been read.
    position: Seq,
}

impl LayerReader<'_> {
    fn fill(&mut self, page: &mut PageBuilder) -> Result<Filled, ReadFault> {
        if self.fill_from_segments(page)? == Filled::Page || self.fill_from_files(page)? == Filled::Page {
            return Ok(Filled::Page);
        }
        if self.position <= self.layer.upto && self.layer.upto != NO_LIMIT {
            return Err(self.damaged(self.position, "entries are missing").into());
        }
        Ok(Filled::Layer)
    }

    fn fill_from_segments(&mut self, page: &mut PageBuilder) -> Result<Filled, ReadFault> {
        let sql = "SELECT first_seq, last_seq, length, checksum, items FROM segment
                   WHERE session = ?1 AND last_seq >= ?2 ORDER BY last_seq";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([self.layer.key, seq_to_sql(self.position)])?;
        while let Some(row) = rows.next()? {
            let first = seq_from_sql(row.get(0)?);
            if first > self.layer.upto {
                break;
            }
            if first > self.position {
                return Err(self.damaged(self.position, "entries are missing").into());
            }
            // A segment that does not fit is not decompressed.
            if !page.has_room(usize::try_from(row.get::<_, i64>(2)?).unwrap_or(usize::MAX)) {
                return Ok(Filled::Page);
            }
            page.add_segment(self.segment(row, first)?, self.position..self.layer.upto.next());
            self.position = seq_from_sql(row.get(1)?).min(self.layer.upto).next();
        }
        Ok(Filled::Layer)
    }

    fn segment(&self, row: &Row<'_>, first: Seq) -> Result<Vec<u8>, SqliteFault> {
        let bytes = row.get_ref(4)?.as_blob().map_err(|cause| self.damaged(first, cause))?;
        unpack(row.get(2)?, row.get(3)?, bytes).map_err(|cause| self.damaged(first, cause))
    }

    fn fill_from_files(&mut self, page: &mut PageBuilder) -> Result<Filled, ReadFault> {
        if self.position > self.layer.upto {
            return Ok(Filled::Layer);
        }
        let chain = Chain::open(self.folder, &files_of(self.tx, self.layer.key)?)?;
        let mut filled = Filled::Layer;
        let mut missing = None;
        let visited = chain.visit(self.position, self.layer.upto, |record| {
            if record.seq != self.position {
                missing = Some(self.position);
                return Visit::Stop;
            }
            if !page.has_room(record.entry.len()) {
                filled = Filled::Page;
                return Visit::Stop;
            }
            page.add_entry(record.seq, record.entry);
            self.position = record.seq.next();
            Visit::Next
        });
        match (visited, missing) {
            // What comes before the damage can be read; the next page begins with the error.
            (Err(ChainFault::Damaged { at, .. }), None) if !page.is_empty() && at >= self.position => {
                Ok(Filled::Page)
            }
            (Err(fault), None) => Err(fault.into()),
            (_, Some(at)) => Err(self.damaged(at, "entries are missing").into()),
            (Ok(_), None) => Ok(filled),
        }
    }

    fn damaged(&self, at: Seq, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SqliteFault {
        damaged(self.tx, self.layer.key, at, cause)
    }
}

/// Makes the error for a damaged journal.
pub(super) fn damaged(
    tx: &Transaction<'_>,
    key: i64,
    at: Seq,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SqliteFault {
    let uid = tx.query_row("SELECT uid FROM session WHERE key = ?1", [key], |row| row.get(0));
    match uid {
        Ok(uid) => StoreError::Damaged { session: SessionId(uid), at, source: cause.into() }.into(),
        Err(failure) => failure.into(),
    }
}

/// The parent of a session, and the entry at which it was forked.
pub(super) fn parent_of(tx: &Transaction<'_>, key: i64) -> Result<Option<(i64, Seq)>, rusqlite::Error> {
    let sql = "SELECT parent, fork_seq FROM session WHERE key = ?1 AND parent IS NOT NULL";
    tx.prepare_cached(sql)?.query_row([key], |row| Ok((row.get(0)?, seq_from_sql(row.get(1)?)))).optional()
}

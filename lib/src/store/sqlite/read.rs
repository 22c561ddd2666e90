//! Reads journals: the layers of the ancestors first, of each its segments, then its tail.

use std::ops::ControlFlow;

use rethread_core::stored::{SegmentItems, Stored, StoredError};
use rethread_core::{Seq, SessionId};
use rusqlite::{OptionalExtension as _, Row, Transaction};

use super::fault::SqliteFault;
use super::integers::{seq_from_sql, seq_to_sql};
use super::row::existing_head;
use super::segment::{SegmentError, recycle, unpack};
use super::{ItemVisitor, ReadProgress, StoreError};
use crate::store::lineage::{Layer, lineage};
use crate::store::page::{self, PageBuilder};

/// Reads one page of a journal.
pub(super) fn walk(
    tx: &Transaction<'_>,
    session: &SessionId,
    from: Seq,
    budget: usize,
    visit: ItemVisitor<'_>,
) -> Result<ReadProgress, SqliteFault> {
    let session_head = existing_head(tx, session)?;
    let layers = lineage(session_head.key, session_head.head, |key| parent_of(tx, *key))?;
    let mut page = PageBuilder::new(budget, visit);
    for layer in layers.into_iter().filter(|layer| layer.upto >= from) {
        let mut walk = LayerReader { tx, position: from.max(layer.after.next()), layer };
        if let ControlFlow::Break(next) = walk.fill(&mut page)? {
            return Ok(page::cut(next));
        }
    }
    Ok(page::end(from.max(session_head.head.next())))
}

/// Reads one layer.
struct LayerReader<'a> {
    tx: &'a Transaction<'a>,
    layer: Layer<i64>,
    /// The entries before this one have been read.
    position: Seq,
}

impl LayerReader<'_> {
    fn fill(&mut self, page: &mut PageBuilder<'_>) -> Result<ControlFlow<Seq>, SqliteFault> {
        if let ControlFlow::Break(next) = self.fill_from_segments(page)? {
            return Ok(ControlFlow::Break(next));
        }
        if let ControlFlow::Break(next) = self.fill_from_tail(page)? {
            return Ok(ControlFlow::Break(next));
        }
        if self.position <= self.layer.upto {
            return Err(self.damaged(self.position, "entries are missing"));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn fill_from_segments(&mut self, page: &mut PageBuilder<'_>) -> Result<ControlFlow<Seq>, SqliteFault> {
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
                return Err(self.damaged(self.position, "entries are missing"));
            }
            // A segment that does not fit is not decompressed for a few items.
            if !page.has_room(usize::try_from(row.get::<_, i64>(2)?).unwrap_or(usize::MAX)) {
                return Ok(ControlFlow::Break(self.position));
            }
            if let ControlFlow::Break(next) = self.fill_from_segment(row, first, page)? {
                return Ok(ControlFlow::Break(next));
            }
            self.position = seq_from_sql(row.get(1)?).next();
        }
        Ok(ControlFlow::Continue(()))
    }

    fn fill_from_segment(
        &self,
        row: &Row<'_>,
        first: Seq,
        page: &mut PageBuilder<'_>,
    ) -> Result<ControlFlow<Seq>, SqliteFault> {
        let bytes = row.get_ref(4)?.as_blob().map_err(|cause| self.damaged(first, cause))?;
        let plain = unpack(row.get(2)?, row.get(3)?, bytes).map_err(|cause| self.damaged(first, cause))?;
        let filled = self.fill_from_items(&plain, page);
        recycle(plain);
        filled.map_err(|cause| self.damaged(first, SegmentError::Items(cause)))
    }

    fn fill_from_items(
        &self,
        plain: &[u8],
        page: &mut PageBuilder<'_>,
    ) -> Result<ControlFlow<Seq>, StoredError> {
        for read in SegmentItems::of(plain)? {
            let item = read?;
            if !(self.position..=self.layer.upto).contains(&item.first) {
                continue;
            }
            let size = item.size();
            if let ControlFlow::Break(next) = page.take(item, size)? {
                return Ok(ControlFlow::Break(next));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn fill_from_tail(&mut self, page: &mut PageBuilder<'_>) -> Result<ControlFlow<Seq>, SqliteFault> {
        let sql = "SELECT seq, entry FROM tail WHERE session = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq";
        let mut statement = self.tx.prepare_cached(sql)?;
        let range = [self.layer.key, seq_to_sql(self.position), seq_to_sql(self.layer.upto)];
        let mut rows = statement.query(range)?;
        while let Some(row) = rows.next()? {
            let seq = seq_from_sql(row.get(0)?);
            if seq != self.position {
                return Err(self.damaged(self.position, "entries are missing"));
            }
            let bytes = row.get_ref(1)?.as_blob().map_err(|cause| self.damaged(seq, cause))?;
            let taken = page.take(Stored::single(seq, bytes), bytes.len());
            if let ControlFlow::Break(next) = taken.map_err(|cause| self.damaged(seq, cause))? {
                return Ok(ControlFlow::Break(next));
            }
            self.position = seq.next();
        }
        Ok(ControlFlow::Continue(()))
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

fn parent_of(tx: &Transaction<'_>, key: i64) -> Result<Option<(i64, Seq)>, rusqlite::Error> {
    let sql = "SELECT parent, fork_seq FROM session WHERE key = ?1 AND parent IS NOT NULL";
    tx.prepare_cached(sql)?.query_row([key], |row| Ok((row.get(0)?, seq_from_sql(row.get(1)?)))).optional()
}

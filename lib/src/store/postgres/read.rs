//! Reads journals: the layers of the ancestors first, of each its segments, then its tail. One page is one consistent state.

use std::rc::Rc;

use deadpool_postgres::Transaction;
use rethread_core::{Seq, SessionId};
use tokio_postgres::Row;

use super::database::rows;
use super::fault::PgFault;
use super::open_database::OpenDatabase;
use super::row::id_of;
use super::text_column::to_column;
use crate::store::integers::{seq_from_sql, seq_to_sql, to_sql};
use crate::store::lineage::Layer;
use crate::store::page::PageBuilder;
use crate::store::segment::unpack;
use crate::store::{Page, StoreError};

/// How many rows are fetched at once.
const SEGMENTS: i64 = 8;
const ENTRIES: i64 = 1000;

/// The sessions that a session consists of, itself first, each with its own end and the entry that it begins after.
const LAYERS: &str = "WITH RECURSIVE layer (key, parent, after, upto, depth) AS (
        SELECT s.key, s.parent, coalesce(s.fork_seq, 0), l.head, 0
        FROM rethread.session AS s JOIN rethread.lease AS l ON l.session = s.key
        WHERE s.id = $1 AND s.deleted_at IS NULL
        UNION ALL
        SELECT s.key, s.parent, coalesce(s.fork_seq, 0), least(layer.upto, layer.after), depth + 1
        FROM layer JOIN rethread.session AS s ON s.key = layer.parent
    ) SELECT key, after, upto FROM layer ORDER BY depth";

const SEGMENT_ROWS: &str = "SELECT first_seq, last_seq, length, checksum, items FROM rethread.segment
    WHERE session = $1 AND last_seq >= $2 AND first_seq <= $3 ORDER BY last_seq LIMIT $4";

/// Entries up to about this many bytes, and at least one.
const TAIL_ROWS: &str = "SELECT seq, entry FROM (
        SELECT seq, entry, sum(octet_length(entry)) OVER (ORDER BY seq) - octet_length(entry) AS before
        FROM (SELECT seq, entry FROM rethread.tail WHERE session = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq LIMIT $4) AS t
    ) AS sized WHERE before <= $5 ORDER BY seq";

/// What has been filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageProgress {
    /// The page.
    Page,
    /// All of the layer is on the page.
    Layer,
}

impl OpenDatabase {
    /// Reads one page of a journal.
    pub(super) async fn read(
        self: Rc<Self>,
        session: SessionId,
        from: Seq,
        budget: usize,
    ) -> Result<Page, StoreError> {
        self.database.read("reading a journal", async |tx| page(tx, &session, from, budget).await).await
    }
}

async fn page(tx: &Transaction<'_>, session: &SessionId, from: Seq, budget: usize) -> Result<Page, PgFault> {
    let layers = layers(tx, session).await?;
    let head = layers.first().map_or(Seq(0), |layer| layer.upto);
    let mut page = PageBuilder::new(session, budget);
    for layer in layers.into_iter().rev() {
        if layer.upto > layer.after && layer.upto >= from {
            let mut reader = RowLayerReader { tx, position: from.max(layer.after.next()), layer, budget };
            if reader.fill(&mut page).await? == PageProgress::Page {
                return Ok(page.cut(reader.position));
            }
        }
    }
    Ok(page.end(from.max(head.next())))
}

/// Reads a page of one journal alone, without its ancestors, up to an entry.
pub(super) async fn own_page(
    tx: &Transaction<'_>,
    key: i64,
    from: Seq,
    upto: Seq,
    budget: usize,
) -> Result<Page, PgFault> {
    let mut page = PageBuilder::new(&id_of(tx, key).await?, budget);
    let layer = Layer { key, after: Seq(from.0.saturating_sub(1)), upto };
    let mut reader = RowLayerReader { tx, position: from, layer, budget };
    if from <= upto && reader.fill(&mut page).await? == PageProgress::Page {
        return Ok(page.cut(reader.position));
    }
    Ok(page.end(upto.next().max(from)))
}

/// Returns the layers of a session, itself first. Each ends where the next newer one begins.
pub(super) async fn layers(tx: &Transaction<'_>, session: &SessionId) -> Result<Vec<Layer<i64>>, PgFault> {
    let found = rows(tx, LAYERS, &[&to_column(session.as_str())]).await?;
    match found.is_empty() {
        true => Err(StoreError::Unknown(session.clone()).into()),
        false => Ok(found.iter().map(layer).collect()),
    }
}

fn layer(row: &Row) -> Layer<i64> {
    Layer { key: row.get(0), after: seq_from_sql(row.get(1)), upto: seq_from_sql(row.get(2)) }
}

/// Reads one layer.
struct RowLayerReader<'a> {
    tx: &'a Transaction<'a>,
    layer: Layer<i64>,
    /// The entries before this one have been read.
    position: Seq,
    budget: usize,
}

impl RowLayerReader<'_> {
    async fn fill(&mut self, page: &mut PageBuilder) -> Result<PageProgress, PgFault> {
        if self.fill_from_segments(page).await? == PageProgress::Page
            || self.fill_from_tail(page).await? == PageProgress::Page
        {
            return Ok(PageProgress::Page);
        }
        if self.position <= self.layer.upto {
            return Err(self.damaged(self.position, "entries are missing").await);
        }
        Ok(PageProgress::Layer)
    }

    async fn fill_from_segments(&mut self, page: &mut PageBuilder) -> Result<PageProgress, PgFault> {
        while self.position <= self.layer.upto {
            let (from, upto) = (seq_to_sql(self.position), seq_to_sql(self.layer.upto));
            let found = rows(self.tx, SEGMENT_ROWS, &[&self.layer.key, &from, &upto, &SEGMENTS]).await?;
            for row in &found {
                let first = seq_from_sql(row.get(0));
                if first > self.position {
                    return Err(self.damaged(self.position, "entries are missing").await);
                }
                // A segment that does not fit is not decompressed.
                let length: i64 = row.get(2);
                if !page.has_room(usize::try_from(length).unwrap_or(usize::MAX)) {
                    return Ok(PageProgress::Page);
                }
                let plain = match unpack(length, row.get(3), row.get(4)) {
                    Ok(plain) => plain,
                    Err(cause) => return Err(self.damaged(first, cause).await),
                };
                page.add_segment(plain, self.position..self.layer.upto.next());
                self.position = seq_from_sql(row.get(1)).min(self.layer.upto).next();
            }
            if found.len() < usize::try_from(SEGMENTS).unwrap_or(usize::MAX) {
                break;
            }
        }
        Ok(PageProgress::Layer)
    }

    async fn fill_from_tail(&mut self, page: &mut PageBuilder) -> Result<PageProgress, PgFault> {
        while self.position <= self.layer.upto {
            let (from, upto) = (seq_to_sql(self.position), seq_to_sql(self.layer.upto));
            let budget = to_sql(self.budget as u64);
            let found = rows(self.tx, TAIL_ROWS, &[&self.layer.key, &from, &upto, &ENTRIES, &budget]).await?;
            if found.is_empty() {
                break;
            }
            for row in &found {
                let (seq, entry): (_, &[u8]) = (seq_from_sql(row.get(0)), row.get(1));
                if seq != self.position {
                    return Err(self.damaged(self.position, "entries are missing").await);
                }
                if !page.has_room(entry.len()) {
                    return Ok(PageProgress::Page);
                }
                page.add_entry(seq, entry);
                self.position = seq.next();
            }
        }
        Ok(PageProgress::Layer)
    }

    async fn damaged(&self, at: Seq, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> PgFault {
        damaged(self.tx, self.layer.key, at, cause).await
    }
}

/// Makes the error for a damaged journal.
pub(super) async fn damaged(
    tx: &Transaction<'_>,
    key: i64,
    at: Seq,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> PgFault {
    let source = cause.into();
    match id_of(tx, key).await {
        Ok(session) => StoreError::Damaged { session, at, source }.into(),
        Err(fault) => fault,
    }
}

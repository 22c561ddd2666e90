//! Folds the finished part of a tail into segments, one window at a time. Reading, folding and compressing happen
//! outside the write transaction, so that appends wait only while rows are replaced.
//!
//! Small neighbouring segments of similar size are joined, so that a long session of short turns has few segments and
//! no byte is compressed more than a few times. Joining does not change the items.

use rethread_core::{Folded, Seq, stored};
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::fault::{SqliteFault, failed};
use super::integers::{seq_from_sql, seq_to_sql};
use super::read::damaged;
use super::readers::Readers;
use super::row::session_head;
use super::segment::{Packed, pack, unpack};
use super::writer::SqliteWriter;
use super::{Lease, StoreError};

/// The approximate size of the entries that one segment is made of, since readers decompress a whole segment.
const WINDOW_BYTES: usize = 2 * 1024 * 1024;

/// The approximate size of joined segments, since a replay waits for one at a time.
const JOINED_BYTES: usize = 128 * 1024;

const WHAT: &str = "folding in";

/// Folds all unfolded entries up to `upto`.
pub(super) fn fold(
    writer: &SqliteWriter,
    readers: &Readers,
    lease: &Lease,
    upto: Seq,
) -> Result<(), StoreError> {
    while let Some(window) = readers.read(WHAT, |tx| next_window(tx, lease, upto))? {
        let folded = rethread_core::fold(&window.items);
        debug_assert!(folded.is_sorted_by_key(|item| item.first), "a fold keeps the order");
        let mut segment = Segment { plain: stored::encode_segment(&folded), first: window.first, joined: 0 };
        readers.read(WHAT, |tx| segment.join_preceding(tx, window.key))?;
        let packed = pack(&segment.plain).map_err(|cause| failed(WHAT, writer.database(), cause))?;
        // If a fork was made meanwhile inside the window, the window is chosen again.
        writer.write(WHAT, |tx| replace_rows(tx, lease, &window, &segment, &packed))?;
    }
    Ok(())
}

/// Consecutive entries of a tail.
struct FoldWindow {
    key: i64,
    first: Seq,
    last: Seq,
    items: Vec<Folded>,
}

/// A segment being built: a folded window, and the segments before it that are joined with it.
struct Segment {
    plain: Vec<u8>,
    first: Seq,
    /// The number of existing segment rows that it replaces.
    joined: usize,
}

impl Segment {
    fn join_preceding(&mut self, tx: &Transaction<'_>, key: i64) -> Result<(), SqliteFault> {
        let sql = "SELECT first_seq, last_seq, length, checksum, items FROM segment
                   WHERE session = ?1 AND last_seq < ?2 ORDER BY last_seq DESC";
        let mut statement = tx.prepare_cached(sql)?;
        let mut rows = statement.query([key, seq_to_sql(self.first)])?;
        while let Some(row) = rows.next()? {
            let (first, last) = (seq_from_sql(row.get(0)?), seq_from_sql(row.get(1)?));
            let length: i64 = row.get(2)?;
            if last.next() != self.first || !self.accepts(length) {
                break;
            }
            // A damaged segment is not joined: a reader must find it where it is.
            let bytes = row.get_ref(4)?.as_blob().unwrap_or_default();
            let Ok(before) = unpack(length, row.get(3)?, bytes) else { break };
            let Some(plain) = stored::join_segments(&before, &self.plain) else { break };
            *self = Self { plain, first, joined: self.joined + 1 };
        }
        Ok(())
    }

    /// Much larger segments are not compressed again.
    fn accepts(&self, length: i64) -> bool {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        length / 2 <= self.plain.len() && length.saturating_add(self.plain.len()) <= JOINED_BYTES
    }
}

fn next_window(tx: &Transaction<'_>, lease: &Lease, upto: Seq) -> Result<Option<FoldWindow>, SqliteFault> {
    let session_head = session_head(tx, &lease.session)?;
    session_head.check_epoch(&lease.session, lease.epoch)?;
    let Some(first) = first_of_tail(tx, session_head.key)?.filter(|first| *first <= upto) else {
        return Ok(None);
    };
    let upto = upto.min(first_fork_point(tx, session_head.key, first)?.unwrap_or(upto));
    let items = tail_items(tx, session_head.key, upto)?;
    let last = items.last().map_or(first, |item| item.last);
    Ok(Some(FoldWindow { key: session_head.key, first, last, items }))
}

/// Replaces the tail rows and joined segments by the new segment.
fn replace_rows(
    tx: &Transaction<'_>,
    lease: &Lease,
    window: &FoldWindow,
    segment: &Segment,
    packed: &Packed,
) -> Result<(), SqliteFault> {
    session_head(tx, &lease.session)?.check_epoch(&lease.session, lease.epoch)?;
    let &FoldWindow { key, first, last, .. } = window;
    if first_fork_point(tx, key, first)?.is_some_and(|cut| cut < last) {
        return Ok(());
    }
    let range = [key, seq_to_sql(first), seq_to_sql(last)];
    let gone =
        tx.prepare_cached("DELETE FROM tail WHERE session = ?1 AND seq BETWEEN ?2 AND ?3")?.execute(range)?;
    if gone != window.items.len() {
        return Err(damaged(tx, key, first, "the tail changed under a fold"));
    }
    let joined = [key, seq_to_sql(segment.first), seq_to_sql(first)];
    let sql = "DELETE FROM segment WHERE session = ?1 AND last_seq >= ?2 AND last_seq < ?3";
    if tx.prepare_cached(sql)?.execute(joined)? != segment.joined {
        return Err(damaged(tx, key, first, "the segments changed under a fold"));
    }
    tx.prepare_cached(
        "INSERT INTO segment (session, first_seq, last_seq, length, checksum, items) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![key, seq_to_sql(segment.first), seq_to_sql(last), packed.length, packed.checksum, packed.bytes])?;
    Ok(())
}

fn first_of_tail(tx: &Transaction<'_>, key: i64) -> Result<Option<Seq>, SqliteFault> {
    let sql = "SELECT seq FROM tail WHERE session = ?1 ORDER BY seq LIMIT 1";
    Ok(tx.prepare_cached(sql)?.query_row([key], |row| row.get(0).map(seq_from_sql)).optional()?)
}

/// The first fork point at or after `first`. Nothing is merged across it, since a fork sees its parent's entries
/// exactly up to it.
fn first_fork_point(tx: &Transaction<'_>, key: i64, first: Seq) -> Result<Option<Seq>, SqliteFault> {
    let sql = "WITH RECURSIVE fork (key, cut) AS (
                   SELECT key, fork_seq FROM session WHERE parent = ?1
                   UNION ALL
                   SELECT session.key, min(session.fork_seq, fork.cut) FROM session JOIN fork ON session.parent = fork.key
               )
               SELECT min(cut) FROM fork WHERE cut >= ?2";
    let cut: Option<i64> = tx.prepare_cached(sql)?.query_row([key, seq_to_sql(first)], |row| row.get(0))?;
    Ok(cut.map(seq_from_sql))
}

/// Reads the tail from its beginning up to `upto`, at most about one window.
fn tail_items(tx: &Transaction<'_>, key: i64, upto: Seq) -> Result<Vec<Folded>, SqliteFault> {
    let sql = "SELECT seq, entry FROM tail WHERE session = ?1 AND seq <= ?2 ORDER BY seq";
    let mut statement = tx.prepare_cached(sql)?;
    let mut rows = statement.query([key, seq_to_sql(upto)])?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let seq = seq_from_sql(row.get(0)?);
        let stored = row.get_ref(1)?.as_blob().map_err(|cause| damaged(tx, key, seq, cause))?;
        if !items.is_empty() && bytes + stored.len() > WINDOW_BYTES {
            break;
        }
        bytes += stored.len();
        let entry = stored::decode_entry(stored).map_err(|cause| damaged(tx, key, seq, cause))?;
        items.push(Folded { first: seq, last: seq, entry });
    }
    Ok(items)
}

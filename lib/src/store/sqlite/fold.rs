//! Folds the finished part of a tail into segments, a window at a time. Reading, folding and packing happen
//! outside the write transaction, so that appends wait only for the exchange of rows.
//!
//! Small segments are joined as they come, neighbours of about one size first, so that a long session of short
//! turns is a few segments and no byte is packed more than a few times. The items in them stay as they were: a
//! reader cannot tell.

use rethread_core::{Folded, Seq, stored};
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::fault::{Fault, failed};
use super::number::{got_seq, put_seq};
use super::read::damaged;
use super::readers::Readers;
use super::row::standing;
use super::segment::{Packed, pack, unpack};
use super::writer::Writer;
use super::{Lease, StoreError};

/// About how many stored bytes one segment stands for: what a reader must unpack at once.
const WINDOW: usize = 2 * 1024 * 1024;

/// About how many stored bytes segments have that were joined: what the next piece of a replay waits for.
const JOINED: usize = 128 * 1024;

const WHAT: &str = "folding in";

/// Folds everything up to `upto` that is not folded.
pub(super) fn fold(writer: &Writer, readers: &Readers, lease: &Lease, upto: Seq) -> Result<(), StoreError> {
    while let Some(window) = readers.read(WHAT, |tx| next_window(tx, lease, upto))? {
        let folded = rethread_core::fold(&window.items);
        debug_assert!(folded.is_sorted_by_key(|item| item.first), "a fold keeps the order");
        let mut segment = Segment { plain: stored::encode_segment(&folded), first: window.first, joined: 0 };
        readers.read(WHAT, |tx| segment.join_those_before(tx, window.key))?;
        let packed = pack(&segment.plain).map_err(|cause| failed(WHAT, writer.database(), cause))?;
        // A fork that was made meanwhile ends its view inside: then the window is chosen again.
        writer.write(WHAT, |tx| exchange(tx, lease, &window, &segment, &packed))?;
    }
    Ok(())
}

/// Some entries of a tail, in order and without a gap.
struct Window {
    key: i64,
    first: Seq,
    last: Seq,
    items: Vec<Folded>,
}

/// A segment in the making: what a window was folded to, and before it what was in segments already.
struct Segment {
    plain: Vec<u8>,
    first: Seq,
    /// How many rows it takes the place of.
    joined: usize,
}

impl Segment {
    fn join_those_before(&mut self, tx: &Transaction<'_>, key: i64) -> Result<(), Fault> {
        let sql = "SELECT first_seq, last_seq, length, checksum, items FROM segment
                   WHERE session = ?1 AND last_seq < ?2 ORDER BY last_seq DESC";
        let mut statement = tx.prepare_cached(sql)?;
        let mut rows = statement.query([key, put_seq(self.first)])?;
        while let Some(row) = rows.next()? {
            let (first, last) = (got_seq(row.get(0)?), got_seq(row.get(1)?));
            let length: i64 = row.get(2)?;
            if last.next() != self.first || !self.takes(length) {
                break;
            }
            // Damage is for a reader to find: it stays what it is and where it is.
            let bytes = row.get_ref(4)?.as_blob().unwrap_or_default();
            let Ok(before) = unpack(length, row.get(3)?, bytes) else { break };
            let Some(plain) = stored::join_segments(&before, &self.plain) else { break };
            *self = Self { plain, first, joined: self.joined + 1 };
        }
        Ok(())
    }

    /// Much larger ones are not packed again for a little more.
    fn takes(&self, length: i64) -> bool {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        length / 2 <= self.plain.len() && length.saturating_add(self.plain.len()) <= JOINED
    }
}

fn next_window(tx: &Transaction<'_>, lease: &Lease, upto: Seq) -> Result<Option<Window>, Fault> {
    let standing = standing(tx, &lease.session)?;
    standing.check_epoch(&lease.session, lease.epoch)?;
    let Some(first) = first_of_tail(tx, standing.key)?.filter(|first| *first <= upto) else {
        return Ok(None);
    };
    let upto = upto.min(first_cut(tx, standing.key, first)?.unwrap_or(upto));
    let items = tail_items(tx, standing.key, upto)?;
    let last = items.last().map_or(first, |item| item.last);
    Ok(Some(Window { key: standing.key, first, last, items }))
}

/// Puts a segment in the place of the tail rows it was made from, and of the segments that it was joined with.
fn exchange(
    tx: &Transaction<'_>,
    lease: &Lease,
    window: &Window,
    segment: &Segment,
    packed: &Packed,
) -> Result<(), Fault> {
    standing(tx, &lease.session)?.check_epoch(&lease.session, lease.epoch)?;
    let &Window { key, first, last, .. } = window;
    if first_cut(tx, key, first)?.is_some_and(|cut| cut < last) {
        return Ok(());
    }
    let range = [key, put_seq(first), put_seq(last)];
    let gone =
        tx.prepare_cached("DELETE FROM tail WHERE session = ?1 AND seq BETWEEN ?2 AND ?3")?.execute(range)?;
    if gone != window.items.len() {
        return Err(damaged(tx, key, first, "the tail changed under a fold"));
    }
    let joined = [key, put_seq(segment.first), put_seq(first)];
    let sql = "DELETE FROM segment WHERE session = ?1 AND last_seq >= ?2 AND last_seq < ?3";
    if tx.prepare_cached(sql)?.execute(joined)? != segment.joined {
        return Err(damaged(tx, key, first, "the segments changed under a fold"));
    }
    tx.prepare_cached(
        "INSERT INTO segment (session, first_seq, last_seq, length, checksum, items) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![key, put_seq(segment.first), put_seq(last), packed.length, packed.checksum, packed.bytes])?;
    Ok(())
}

fn first_of_tail(tx: &Transaction<'_>, key: i64) -> Result<Option<Seq>, Fault> {
    let sql = "SELECT seq FROM tail WHERE session = ?1 ORDER BY seq LIMIT 1";
    Ok(tx.prepare_cached(sql)?.query_row([key], |row| row.get(0).map(got_seq)).optional()?)
}

/// The first place, at or after `first`, where the view of a fork ends. Nothing is merged across it: a fork sees
/// its parent's entries up to that place and not one more.
fn first_cut(tx: &Transaction<'_>, key: i64, first: Seq) -> Result<Option<Seq>, Fault> {
    let sql = "WITH RECURSIVE fork (key, cut) AS (
                   SELECT key, fork_seq FROM session WHERE parent = ?1
                   UNION ALL
                   SELECT session.key, min(session.fork_seq, fork.cut) FROM session JOIN fork ON session.parent = fork.key
               )
               SELECT min(cut) FROM fork WHERE cut >= ?2";
    let cut: Option<i64> = tx.prepare_cached(sql)?.query_row([key, put_seq(first)], |row| row.get(0))?;
    Ok(cut.map(got_seq))
}

/// The tail from its beginning up to `upto`, but not much more than a window of it.
fn tail_items(tx: &Transaction<'_>, key: i64, upto: Seq) -> Result<Vec<Folded>, Fault> {
    let sql = "SELECT seq, entry FROM tail WHERE session = ?1 AND seq <= ?2 ORDER BY seq";
    let mut statement = tx.prepare_cached(sql)?;
    let mut rows = statement.query([key, put_seq(upto)])?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let seq = got_seq(row.get(0)?);
        let stored = row.get_ref(1)?.as_blob().map_err(|cause| damaged(tx, key, seq, cause))?;
        if !items.is_empty() && bytes + stored.len() > WINDOW {
            break;
        }
        bytes += stored.len();
        let entry = stored::decode_entry(stored).map_err(|cause| damaged(tx, key, seq, cause))?;
        items.push(Folded { first: seq, last: seq, entry });
    }
    Ok(items)
}

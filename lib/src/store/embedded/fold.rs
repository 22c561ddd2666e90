//! Folds the finished part of the journal files into segments, one window at a time. Reading, folding and compressing
//! happen outside the write transaction, so that other writers wait only while rows are replaced.
//!
//! Small neighbouring segments of similar size are joined, so that a long session of short turns has few segments and
//! no byte is compressed more than a few times. Joining does not change the items.

use rethread_core::stored::Stored;
use rethread_core::{Folded, Seq, stored};
use rusqlite::Transaction;

use super::append::{add_segment, keep_snapshot};
use super::chain::{Chain, ChainFault, FileName, Visit, deregister, files_of};
use super::fault::{SqliteFault, failed};
use super::integers::{seq_from_sql, seq_to_sql};
use super::open_store::OpenStore;
use super::read::{ReadFault, damaged};
use super::row::session_head;
use super::segment::{Packed, WINDOW_BYTES, joins, pack, unpack};
use super::{Durability, FoldUpTo, Lease, StoreError};

const WHAT: &str = "folding in";

/// Folds all unfolded entries up to `fold.upto`, and stops using the files in `covered`, which have no later entries.
pub(super) fn fold(
    store: &OpenStore,
    lease: &Lease,
    fold: &FoldUpTo,
    covered: &[FileName],
) -> Result<(), StoreError> {
    while let Some(window) =
        store.read_with_files(WHAT, &lease.session, |tx| next_window(tx, store, lease, fold.upto))?
    {
        let folded = rethread_core::fold(&window.items);
        debug_assert!(folded.is_sorted_by_key(|item| item.first), "a fold keeps the order");
        let mut segment = Segment { plain: stored::encode_segment(&folded), first: window.first, joined: 0 };
        store.readers.read(WHAT, |tx| segment.join_preceding(tx, window.key))?;
        let packed = pack(&segment.plain).map_err(|cause| failed(WHAT, store.writer.database(), cause))?;
        // If a fork was made meanwhile inside the window, the window is chosen again. The files must not go before the
        // segments are safe.
        store.write(WHAT, Durability::Power, |tx| replace_rows(tx, lease, &window, &segment, &packed))?;
    }
    store.write(WHAT, Durability::Power, |tx| {
        let session_head = session_head(tx, &lease.session)?;
        session_head.check_epoch(&lease.session, lease.epoch)?;
        let state = fold.snapshot.as_ref().map(|snapshot| snapshot.state.as_slice());
        keep_snapshot(tx, session_head.key, state)?;
        Ok(deregister(tx, session_head.key, covered)?)
    })?;
    store.folder().remove(covered);
    Ok(())
}

/// Consecutive entries of the journal files.
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
            if last.next() != self.first || !joins(self.plain.len(), length) {
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
}

fn next_window(
    tx: &Transaction<'_>,
    store: &OpenStore,
    lease: &Lease,
    upto: Seq,
) -> Result<Option<FoldWindow>, ReadFault> {
    let session_head = session_head(tx, &lease.session)?;
    session_head.check_epoch(&lease.session, lease.epoch)?;
    let (key, first) = (session_head.key, session_head.head.next());
    if first > upto {
        return Ok(None);
    }
    let upto = upto.min(first_fork_point(tx, key, first)?.unwrap_or(upto));
    let chain = Chain::open(store.folder(), &files_of(tx, key)?)?;
    let (mut items, mut bytes, mut bad) = (Vec::new(), 0, None);
    let visited = chain.visit(first, upto, |record| {
        if !items.is_empty() && bytes + record.entry.len() > WINDOW_BYTES {
            return Visit::Stop;
        }
        bytes += record.entry.len();
        match Stored::compact(record.seq, record.entry).folded() {
            Ok(item) => items.push(item),
            Err(cause) => bad = Some((record.seq, cause)),
        }
        if bad.is_some() { Visit::Stop } else { Visit::Next }
    });
    if let Some((seq, cause)) = bad {
        return Err(damaged(tx, key, seq, cause).into());
    }
    match visited {
        // What comes before the damage stays where it is.
        Err(ChainFault::Damaged { at, cause }) => Err(damaged(tx, key, at, cause).into()),
        Err(fault) => Err(fault.into()),
        Ok(_) => match items.last() {
            Some(last) => Ok(Some(FoldWindow { key, first, last: last.last, items })),
            None => Err(damaged(tx, key, first, "entries are missing").into()),
        },
    }
}

/// Adds the new segment, and replaces the joined ones.
fn replace_rows(
    tx: &Transaction<'_>,
    lease: &Lease,
    window: &FoldWindow,
    segment: &Segment,
    packed: &Packed,
) -> Result<(), SqliteFault> {
    let session_head = session_head(tx, &lease.session)?;
    session_head.check_epoch(&lease.session, lease.epoch)?;
    let &FoldWindow { key, first, last, .. } = window;
    if first_fork_point(tx, key, first)?.is_some_and(|cut| cut < last) {
        return Ok(());
    }
    if session_head.head.next() != first {
        return Err(damaged(tx, key, first, "the segments changed under a fold"));
    }
    let joined = [key, seq_to_sql(segment.first), seq_to_sql(first)];
    let sql = "DELETE FROM segment WHERE session = ?1 AND last_seq >= ?2 AND last_seq < ?3";
    if tx.prepare_cached(sql)?.execute(joined)? != segment.joined {
        return Err(damaged(tx, key, first, "the segments changed under a fold"));
    }
    add_segment(tx, key, segment.first, last, packed)?;
    tx.prepare_cached("UPDATE session SET head_seq = ?2 WHERE key = ?1")?.execute([key, seq_to_sql(last)])?;
    Ok(())
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

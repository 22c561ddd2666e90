//! Folds the finished part of a tail into segments, one window at a time. Folding and compressing happen outside the
//! transaction, so that an append waits only while rows are replaced. Small neighbouring segments are joined.

use std::rc::Rc;

use deadpool_postgres::Transaction;
use rethread_core::stored::Stored;
use rethread_core::{Folded, Seq, stored};

use super::database::{execute, row, rows};
use super::fault::PgFault;
use super::open_database::OpenDatabase;
use super::ownership::{add_segment, blocking, keep_snapshot};
use super::read::damaged;
use super::row::{locked_head, session_head};
use crate::store::integers::{seq_from_sql, seq_to_sql};
use crate::store::segment::{NewSegment, WINDOW_BYTES, joins, pack, unpack};
use crate::store::{FoldUpTo, Lease, StoreError};

const WHAT: &str = "folding a journal";

/// How many rows of a tail are fetched at once.
const FETCH: i64 = 2000;

/// Consecutive entries of a tail, and the segments before them that are joined with them, nearest first.
struct TailWindow {
    key: i64,
    first: Seq,
    last: Seq,
    items: Vec<Folded>,
    before: Vec<SegmentBefore>,
}

struct SegmentBefore {
    first: Seq,
    length: i64,
    checksum: i64,
    items: Vec<u8>,
}

/// A folded window, compressed.
struct FoldedWindow {
    segment: NewSegment,
    /// The number of segments that it replaces.
    joined: u64,
}

impl OpenDatabase {
    /// Folds all unfolded entries up to `fold.upto`.
    pub(super) async fn fold(self: Rc<Self>, lease: Lease, fold: FoldUpTo) -> Result<(), StoreError> {
        let _one_at_a_time = self.folds.lock().await;
        while let Some(window) =
            self.database.read(WHAT, async |tx| next_window(tx, &lease, fold.upto).await).await?
        {
            let (key, first, last) = (window.key, window.first, window.last);
            let folded = blocking(move || window.folded()).await?;
            // If a fork was made meanwhile inside the window, the window is chosen again.
            self.database
                .write(WHAT, async |tx| replace_rows(tx, &lease, (key, first, last), &folded).await)
                .await?;
        }
        self.database
            .write(WHAT, async |tx| {
                let head = locked_head(tx, &lease.session).await?;
                head.check_epoch(&lease.session, lease.epoch)?;
                keep_snapshot(tx, head.key, fold.snapshot.as_ref().map(|snapshot| snapshot.state.as_slice()))
                    .await
            })
            .await
    }
}

impl TailWindow {
    fn folded(self) -> std::io::Result<FoldedWindow> {
        let folded = rethread_core::fold(&self.items);
        debug_assert!(folded.is_sorted_by_key(|item| item.first), "a fold keeps the order");
        let (mut plain, mut first, mut joined) = (stored::encode_segment(&folded), self.first, 0);
        for before in &self.before {
            if !joins(plain.len(), before.length) {
                break;
            }
            // A damaged segment is not joined: a reader must find it where it is.
            let Ok(earlier) = unpack(before.length, before.checksum, &before.items) else { break };
            let Some(both) = stored::join_segments(&earlier, &plain) else { break };
            (plain, first, joined) = (both, before.first, joined + 1);
        }
        let segment = NewSegment { first, last: self.last, packed: pack(&plain)? };
        Ok(FoldedWindow { segment, joined })
    }
}

async fn next_window(tx: &Transaction<'_>, lease: &Lease, upto: Seq) -> Result<Option<TailWindow>, PgFault> {
    let head = session_head(tx, &lease.session).await?;
    head.check_epoch(&lease.session, lease.epoch)?;
    let (key, first) = (head.key, head.folded.next());
    let upto = upto.min(head.head);
    if first > upto {
        return Ok(None);
    }
    let upto = upto.min(first_fork_point(tx, key, first).await?.unwrap_or(upto));
    let items = window_items(tx, key, first, upto).await?;
    let Some(last) = items.last().map(|item| item.last) else {
        return Err(damaged(tx, key, first, "entries are missing").await);
    };
    let before = segments_before(tx, key, first).await?;
    Ok(Some(TailWindow { key, first, last, items, before }))
}

async fn window_items(tx: &Transaction<'_>, key: i64, first: Seq, upto: Seq) -> Result<Vec<Folded>, PgFault> {
    let sql = "SELECT seq, entry FROM rethread.tail WHERE session = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq LIMIT $4";
    let (mut items, mut bytes, mut position): (Vec<Folded>, _, _) = (Vec::new(), 0, first);
    while position <= upto {
        let found = rows(tx, sql, &[&key, &seq_to_sql(position), &seq_to_sql(upto), &FETCH]).await?;
        for row in &found {
            let (seq, entry): (_, &[u8]) = (seq_from_sql(row.get(0)), row.get(1));
            if seq != position {
                return Err(damaged(tx, key, position, "entries are missing").await);
            }
            if !items.is_empty() && bytes + entry.len() > WINDOW_BYTES {
                return Ok(items);
            }
            bytes += entry.len();
            match Stored::compact(seq, entry).folded() {
                Ok(item) => items.push(item),
                Err(cause) => return Err(damaged(tx, key, seq, cause).await),
            }
            position = seq.next();
        }
        if found.is_empty() {
            return Err(damaged(tx, key, position, "entries are missing").await);
        }
    }
    Ok(items)
}

async fn segments_before(tx: &Transaction<'_>, key: i64, first: Seq) -> Result<Vec<SegmentBefore>, PgFault> {
    let sql = "SELECT first_seq, last_seq, length, checksum, items FROM rethread.segment
               WHERE session = $1 AND last_seq < $2 AND length <= 131072 ORDER BY last_seq DESC LIMIT 4";
    let (mut before, mut next) = (Vec::new(), first);
    for row in rows(tx, sql, &[&key, &seq_to_sql(first)]).await? {
        if seq_from_sql(row.get(1)).next() != next {
            break;
        }
        next = seq_from_sql(row.get(0));
        before.push(SegmentBefore {
            first: next,
            length: row.get(2),
            checksum: row.get(3),
            items: row.get(4),
        });
    }
    Ok(before)
}

/// Adds the new segment, and replaces the joined ones and the entries of the tail.
async fn replace_rows(
    tx: &Transaction<'_>,
    lease: &Lease,
    (key, first, last): (i64, Seq, Seq),
    folded: &FoldedWindow,
) -> Result<(), PgFault> {
    let head = locked_head(tx, &lease.session).await?;
    head.check_epoch(&lease.session, lease.epoch)?;
    let changed = "the segments changed under a fold";
    if head.folded >= last {
        // An attempt whose commit was not answered has done it.
        return Ok(());
    }
    if first_fork_point(tx, key, first).await?.is_some_and(|cut| cut < last) {
        return Ok(());
    }
    if head.folded.next() != first {
        return Err(damaged(tx, key, first, changed).await);
    }
    let sql = "DELETE FROM rethread.segment WHERE session = $1 AND last_seq >= $2 AND last_seq < $3";
    let (from, upto) = (seq_to_sql(folded.segment.first), seq_to_sql(first));
    if execute(tx, sql, &[&key, &from, &upto]).await? != folded.joined {
        return Err(damaged(tx, key, first, changed).await);
    }
    add_segment(tx, key, &folded.segment).await?;
    let last = seq_to_sql(last);
    execute(tx, "DELETE FROM rethread.tail WHERE session = $1 AND seq <= $2", &[&key, &last]).await?;
    execute(tx, "UPDATE rethread.lease SET folded = $2 WHERE session = $1", &[&key, &last]).await?;
    Ok(())
}

/// The first fork point at or after `first`. Nothing is merged across it, since a fork sees its parent's entries exactly up
/// to it.
async fn first_fork_point(tx: &Transaction<'_>, key: i64, first: Seq) -> Result<Option<Seq>, PgFault> {
    let sql = "WITH RECURSIVE fork (key, cut) AS (
                   SELECT key, fork_seq FROM rethread.session WHERE parent = $1
                   UNION ALL
                   SELECT s.key, least(s.fork_seq, fork.cut) FROM rethread.session AS s JOIN fork ON s.parent = fork.key
               )
               SELECT min(cut) FROM fork WHERE cut >= $2";
    let found = row(tx, sql, &[&key, &seq_to_sql(first)]).await?;
    Ok(found.and_then(|row| row.get::<_, Option<i64>>(0)).map(seq_from_sql))
}

//! Finds where to begin reading so that what comes before an entry is read. Looks only at the sizes of what is stored.

use std::rc::Rc;

use deadpool_postgres::Transaction;
use rethread_core::{Seq, SessionId};
use tokio_postgres::Row;

use super::database::{row, rows};
use super::fault::PgFault;
use super::open_database::OpenDatabase;
use super::read::layers;
use crate::store::StoreError;
use crate::store::integers::{from_sql, seq_from_sql, seq_to_sql, to_sql};
use crate::store::lineage::Layer;

/// The last entry of a tail that has more than `$4` bytes from it up to `$3`.
const FAR_ENTRY: &str = "SELECT seq FROM (
        SELECT seq, sum(octet_length(entry)) OVER (ORDER BY seq DESC) AS size
        FROM rethread.tail WHERE session = $1 AND seq > $2 AND seq < $3
    ) AS sized WHERE size > $4 ORDER BY seq DESC LIMIT 1";

const TAIL_SIZE: &str = "SELECT coalesce(sum(octet_length(entry)), 0)::bigint FROM rethread.tail
    WHERE session = $1 AND seq > $2 AND seq < $3";

/// The segment that an entry is in.
const SEGMENT_AROUND: &str = "SELECT first_seq, length FROM rethread.segment
    WHERE session = $1 AND last_seq >= $2 AND first_seq < $2 ORDER BY last_seq LIMIT 1";

/// The last segments before an entry.
const SEGMENTS_BEFORE: &str = "SELECT first_seq, length FROM rethread.segment
    WHERE session = $1 AND last_seq < $2 ORDER BY last_seq DESC LIMIT $3";

/// How many segments are looked at with one statement.
const SEGMENTS: i64 = 64;

/// What a layer has before an entry.
enum LayerSeek {
    /// An entry that is far enough before it.
    Found(Seq),
    /// Less than the wanted bytes: so many are still wanted.
    Wanted(u64),
}

impl OpenDatabase {
    /// Finds an entry about `budget` bytes before another one.
    pub(super) async fn seek_back(
        self: Rc<Self>,
        session: SessionId,
        before: Seq,
        budget: usize,
    ) -> Result<Seq, StoreError> {
        self.database.read("reading a journal", async |tx| back(tx, &session, before, budget).await).await
    }
}

async fn back(tx: &Transaction<'_>, session: &SessionId, before: Seq, budget: usize) -> Result<Seq, PgFault> {
    let mut wanted = budget as u64;
    for layer in layers(tx, session).await? {
        if layer.after.next() >= before {
            continue;
        }
        match back_in_layer(tx, &layer, before.min(layer.upto.next()), wanted).await? {
            LayerSeek::Found(found) => return Ok(found.max(layer.after.next())),
            LayerSeek::Wanted(left) => wanted = left,
        }
    }
    Ok(Seq(0))
}

async fn back_in_layer(
    tx: &Transaction<'_>,
    layer: &Layer<i64>,
    before: Seq,
    wanted: u64,
) -> Result<LayerSeek, PgFault> {
    let (after, upto) = (seq_to_sql(layer.after), seq_to_sql(before));
    if let Some(far) = row(tx, FAR_ENTRY, &[&layer.key, &after, &upto, &to_sql(wanted)]).await? {
        return Ok(LayerSeek::Found(seq_from_sql(far.get(0))));
    }
    let size = row(tx, TAIL_SIZE, &[&layer.key, &after, &upto]).await?;
    let size = size.map_or(0, |row| from_sql(row.get(0)));
    back_in_segments(tx, layer, before, wanted.saturating_sub(size)).await
}

async fn back_in_segments(
    tx: &Transaction<'_>,
    layer: &Layer<i64>,
    before: Seq,
    mut wanted: u64,
) -> Result<LayerSeek, PgFault> {
    let mut found = rows(tx, SEGMENT_AROUND, &[&layer.key, &seq_to_sql(before)]).await?;
    let mut next = before;
    loop {
        for row in &found {
            let first: Seq = seq_from_sql(row.get(0));
            match wanted.checked_sub(length(row)) {
                Some(left) => wanted = left,
                None => return Ok(LayerSeek::Found(first)),
            }
            if first <= layer.after.next() {
                return Ok(LayerSeek::Wanted(wanted));
            }
            next = first;
        }
        found = rows(tx, SEGMENTS_BEFORE, &[&layer.key, &seq_to_sql(next), &SEGMENTS]).await?;
        if found.is_empty() {
            return Ok(LayerSeek::Wanted(wanted));
        }
    }
}

fn length(segment: &Row) -> u64 {
    from_sql(segment.get(1))
}

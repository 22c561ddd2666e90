//! Finds where to begin reading so that what comes before an entry is read, without reading all that comes before that.

use rethread_core::{Seq, SessionId};
use rusqlite::{OptionalExtension as _, Transaction};

use super::chain::{Chain, JournalFolder, files_of};
use super::fault::SqliteFault;
use super::integers::{from_sql, seq_from_sql, seq_to_sql};
use super::read::{NO_LIMIT, ReadFault, parent_of};
use super::row::existing_head;
use crate::store::lineage::{Layer, lineage};

/// Finds an entry about `budget` bytes before another one.
pub(super) fn back(
    tx: &Transaction<'_>,
    folder: &JournalFolder,
    session: &SessionId,
    before: Seq,
    budget: usize,
) -> Result<Seq, ReadFault> {
    let key = existing_head(tx, session)?.key;
    let layers = lineage(key, NO_LIMIT, |key| parent_of(tx, *key)).map_err(SqliteFault::from)?;
    let mut room = budget as u64;
    for layer in layers.into_iter().rev().filter(|layer| layer.after.next() < before) {
        let before = before.min(layer.upto.next());
        let chain = Chain::open(folder, &files_of(tx, layer.key)?)?;
        let found = match chain.seek_back(before, room)? {
            Ok(found) => Ok(found),
            Err(left) => back_in_segments(tx, &layer, before, left)?,
        };
        match found {
            Ok(found) => return Ok(found.max(layer.after.next())),
            Err(left) => room = left,
        }
    }
    Ok(Seq(0))
}

/// The same in the segments of a layer; if they have less before the entry, the room that is left.
fn back_in_segments(
    tx: &Transaction<'_>,
    layer: &Layer<i64>,
    before: Seq,
    mut room: u64,
) -> Result<Result<Seq, u64>, SqliteFault> {
    let sql = "SELECT first_seq, length FROM segment WHERE session = ?1 AND last_seq >= ?2 ORDER BY last_seq LIMIT 1";
    let around = tx
        .prepare_cached(sql)?
        .query_row([layer.key, seq_to_sql(before)], |row| Ok((seq_from_sql(row.get(0)?), row.get(1)?)))
        .optional()?
        .filter(|(first, _)| *first < before);
    let sql =
        "SELECT first_seq, length FROM segment WHERE session = ?1 AND last_seq < ?2 ORDER BY last_seq DESC";
    let mut statement = tx.prepare_cached(sql)?;
    let earlier = statement.query_map([layer.key, seq_to_sql(before)], |row| {
        Ok((seq_from_sql(row.get(0)?), row.get::<_, i64>(1)?))
    })?;
    for segment in around.into_iter().map(Ok).chain(earlier) {
        let (first, length) = segment?;
        match room.checked_sub(from_sql(length)) {
            Some(left) if first > layer.after.next() => room = left,
            Some(left) => return Ok(Err(left)),
            None => return Ok(Ok(first)),
        }
    }
    Ok(Err(room))
}

//! The parts of a row that appends change, and the segments that a session is created with.

use std::sync::Arc;

use rethread_core::{Entry, Folded, Millis, Seq, fold, stored};
use rusqlite::{Transaction, params};

use super::RowFacts;
use super::fault::SqliteFault;
use super::integers::{seq_to_sql, to_sql};
use super::row::title_number;
use super::segment::{Packed, pack};
use super::{imports, stubs};

/// The approximate size of the entries that one segment is made of, since readers decompress a whole segment.
pub(super) const WINDOW_BYTES: usize = 2 * 1024 * 1024;

/// Stores the first entries of a session as segments after `head`, and returns the new head. Finished turns are folded.
pub(super) fn add_entries(
    tx: &Transaction<'_>,
    key: i64,
    head: Seq,
    entries: &[Arc<Entry>],
) -> Result<Seq, SqliteFault> {
    let items: Vec<_> = (head.0 + 1..).map(Seq).zip(entries).map(|(seq, entry)| single(seq, entry)).collect();
    let ended = items.iter().rposition(|item| matches!(item.entry, Entry::TurnEnded { .. }));
    let (finished, open) = items.split_at(ended.map_or(0, |at| at + 1));
    let mut folded = fold(finished);
    folded.extend_from_slice(open);
    let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(head) };
    let (mut start, mut from, mut bytes) = (0, first.first, 0);
    // A segment ends where the next item begins.
    for end in 1..=folded.len() {
        bytes += size(&folded[end - 1]);
        let upto = folded.get(end).map_or(last.last, |next| Seq(next.first.0 - 1));
        if end == folded.len() || (bytes >= WINDOW_BYTES && upto >= from) {
            add_segment(tx, key, from, upto, &packed(&folded[start..end])?)?;
            (start, from, bytes) = (end, upto.next(), 0);
        }
    }
    if folded.is_empty() {
        add_segment(tx, key, from, last.last, &packed(&[])?)?;
    }
    Ok(last.last)
}

fn single(seq: Seq, entry: &Arc<Entry>) -> Folded {
    Folded { first: seq, last: seq, entry: entry.as_ref().clone() }
}

fn size(item: &Folded) -> usize {
    let mut bytes = Vec::new();
    stored::write_compact(&item.entry, &mut bytes);
    bytes.len()
}

/// Compresses items for a segment.
pub(super) fn packed(items: &[Folded]) -> Result<Packed, SqliteFault> {
    debug_assert!(items.is_sorted_by_key(|item| item.first), "a fold keeps the order");
    let failed = |cause: std::io::Error| rusqlite::Error::ToSqlConversionFailure(cause.into());
    Ok(pack(&stored::encode_segment(items)).map_err(failed)?)
}

/// Inserts a segment.
pub(super) fn add_segment(
    tx: &Transaction<'_>,
    key: i64,
    first: Seq,
    last: Seq,
    packed: &Packed,
) -> Result<(), rusqlite::Error> {
    tx.prepare_cached(
        "INSERT INTO segment (session, first_seq, last_seq, length, checksum, items) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![key, seq_to_sql(first), seq_to_sql(last), packed.length, packed.checksum, packed.bytes])?;
    Ok(())
}

/// Applies changes to the row. A title does not replace one from a stronger source.
pub(super) fn apply_facts(tx: &Transaction<'_>, key: i64, facts: &RowFacts) -> Result<(), rusqlite::Error> {
    if *facts == RowFacts::default() {
        return Ok(());
    }
    let RowFacts { title, roots, native, listed, cwd, agent_name, import } = facts;
    let (title, by) = title.as_ref().map(|(title, by)| (title, title_number(*by))).unzip();
    let roots = roots.as_ref().map(|roots| serde_json::json!(roots).to_string());
    tx.prepare_cached(
        "UPDATE session SET
             title = iif(?3 <= coalesce(title_by, 9), ?2, title),
             title_by = iif(?3 <= coalesce(title_by, 9), ?3, title_by),
             roots = coalesce(?4, roots),
             natives = iif(?5 IS NULL OR natives ->> '$[#-1]' IS ?5, natives, json_insert(natives, '$[#]', ?5)),
             listed = max(listed, ?6),
             cwd = coalesce(?7, cwd),
             agent_name = iif(?8, ?9, agent_name)
         WHERE key = ?1 AND deleted_at IS NULL",
    )?
    .execute(params![
        key,
        title,
        by,
        roots,
        native.as_ref().map(|native| &native.id),
        listed.is_some(),
        cwd,
        agent_name.is_some(),
        agent_name.as_ref().and_then(|name| name.0.as_ref()),
    ])?;
    if let Some(record) = import {
        imports::remember(tx, record)?;
    }
    match native {
        Some(native) => stubs::remember(tx, key, native),
        None => Ok(()),
    }
}

/// Makes a session the newest in lists, even if the clock was set back.
pub(super) fn touch(tx: &Transaction<'_>, key: i64, at: Millis) -> Result<(), rusqlite::Error> {
    tx.prepare_cached(TOUCH)?.execute([key, to_sql(at)])?;
    Ok(())
}

/// Reads only the first row of the list index.
const TOUCH: &str = "UPDATE session SET updated_at = max(updated_at, ?2, 1 + max(
        coalesce((SELECT updated_at FROM session AS other
            WHERE archived = 0 AND listed = 1 AND deleted_at IS NULL AND other.key <> ?1
            ORDER BY updated_at DESC LIMIT 1), -1),
        coalesce((SELECT updated_at FROM session AS other
            WHERE archived = 1 AND listed = 1 AND deleted_at IS NULL AND other.key <> ?1
            ORDER BY updated_at DESC LIMIT 1), -1)))
    WHERE key = ?1";

/// Stores the snapshot, if there is one.
pub(super) fn keep_snapshot(
    tx: &Transaction<'_>,
    key: i64,
    state: Option<&[u8]>,
) -> Result<(), rusqlite::Error> {
    if let Some(state) = state {
        tx.prepare_cached(
            "INSERT INTO snapshot (session, state) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET state = excluded.state",
        )?
        .execute(params![key, state])?;
    }
    Ok(())
}

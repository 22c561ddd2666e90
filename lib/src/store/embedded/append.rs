//! The parts of a row that appends change, and the segments that a session is created with.

use std::sync::Arc;

use rethread_core::{Entry, Millis, Seq};
use rusqlite::{Transaction, params};

use super::RowFacts;
use super::fault::SqliteFault;
use super::integers::{seq_to_sql, to_sql};
use super::row::title_number;
use super::segment::{Packed, first_segments};
use super::{imports, stubs};

/// Stores the first entries of a session as segments after `head`, and returns the new head. Finished turns are folded.
pub(super) fn add_entries(
    tx: &Transaction<'_>,
    key: i64,
    head: Seq,
    entries: &[Arc<Entry>],
) -> Result<Seq, SqliteFault> {
    for segment in first_segments(head, entries).map_err(pack_failed)? {
        add_segment(tx, key, segment.first, segment.last, &segment.packed)?;
    }
    Ok(Seq(head.0 + entries.len() as u64))
}

/// The error for items that cannot be compressed.
pub(super) fn pack_failed(cause: std::io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(cause.into())
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

//! Appends entries to journals. All appends of a call share one transaction and one commit.

use std::sync::Arc;

use rethread_core::{Entry, Millis, Seq, stored};
use rusqlite::{Transaction, params};

use super::fault::{SharedError, SqliteFault, failed};
use super::integers::{seq_to_sql, to_sql};
use super::row::{session_head, title_number};
use super::stubs;
use super::writer::SqliteWriter;
use super::{Append, Durability, RowFacts, StoreError};

/// Appends with one result each. If the transaction fails, all of them fail.
pub(super) fn append(writer: &SqliteWriter, appends: &[Append]) -> Vec<Result<(), StoreError>> {
    let durability = appends.iter().map(|append| append.durability).max().unwrap_or(Durability::Process);
    let mut outcomes = Vec::with_capacity(appends.len());
    let committed = writer.write_as(durability, |tx| {
        for append in appends {
            outcomes.push(outcome_of(append_one(tx, append))?);
        }
        Ok(())
    });
    match committed {
        Ok(()) => outcomes,
        Err(SqliteFault::Failed(cause)) => {
            fail_all(writer, outcomes, appends.len(), &SharedError::new(cause))
        }
        Err(SqliteFault::Refused(cause)) => {
            fail_all(writer, outcomes, appends.len(), &SharedError::new(cause))
        }
    }
}

/// Inserts entries after `head` and returns the new head.
pub(super) fn add_entries(
    tx: &Transaction<'_>,
    key: i64,
    head: Seq,
    entries: &[Arc<Entry>],
) -> Result<Seq, rusqlite::Error> {
    let mut statement = tx.prepare_cached("INSERT INTO tail (session, seq, entry) VALUES (?1, ?2, ?3)")?;
    let mut head = head;
    for entry in entries {
        head = head.next();
        statement.execute(params![key, seq_to_sql(head), stored::encode_entry(entry)])?;
    }
    Ok(head)
}

/// Applies changes to the row. A title does not replace one from a stronger source.
pub(super) fn apply_facts(tx: &Transaction<'_>, key: i64, facts: &RowFacts) -> Result<(), rusqlite::Error> {
    if *facts == RowFacts::default() {
        return Ok(());
    }
    let RowFacts { title, roots, native, listed } = facts;
    let (title, by) = title.as_ref().map(|(title, by)| (title, title_number(*by))).unzip();
    let roots = roots.as_ref().map(|roots| serde_json::json!(roots).to_string());
    tx.prepare_cached(
        "UPDATE session SET
             title = iif(?3 <= coalesce(title_by, 9), ?2, title),
             title_by = iif(?3 <= coalesce(title_by, 9), ?3, title_by),
             roots = coalesce(?4, roots),
             natives = iif(?5 IS NULL OR natives ->> '$[#-1]' IS ?5, natives, json_insert(natives, '$[#]', ?5)),
             listed = max(listed, ?6)
         WHERE key = ?1",
    )?
    .execute(params![key, title, by, roots, native.as_ref().map(|native| &native.id), listed.is_some()])?;
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

/// Checks everything before the first change, so that a refused append has nothing to undo.
fn append_one(tx: &Transaction<'_>, append: &Append) -> Result<(), SqliteFault> {
    let Append { session, epoch, expected, .. } = append;
    let session_head = session_head(tx, session)?;
    session_head.check_epoch(session, *epoch)?;
    if session_head.head != *expected {
        let moved =
            StoreError::MovedOn { session: session.clone(), expected: *expected, found: session_head.head };
        return Err(moved.into());
    }
    let head = add_entries(tx, session_head.key, session_head.head, &append.entries)?;
    tx.prepare_cached("UPDATE session SET head_seq = ?2 WHERE key = ?1")?
        .execute([session_head.key, seq_to_sql(head)])?;
    if let Some(at) = append.at {
        touch(tx, session_head.key, at)?;
    }
    apply_facts(tx, session_head.key, &append.facts)?;
    keep_snapshot(tx, session_head.key, append.snapshot.as_deref())?;
    Ok(())
}

/// Separates refusals, which concern one append, from failures, which concern the transaction.
fn outcome_of(done: Result<(), SqliteFault>) -> Result<Result<(), StoreError>, SqliteFault> {
    match done {
        Ok(()) => Ok(Ok(())),
        Err(SqliteFault::Refused(error)) => Ok(Err(error)),
        Err(SqliteFault::Failed(cause)) => Err(SqliteFault::Failed(cause)),
    }
}

fn fail_all(
    writer: &SqliteWriter,
    outcomes: Vec<Result<(), StoreError>>,
    count: usize,
    cause: &SharedError,
) -> Vec<Result<(), StoreError>> {
    let failure = || Err(failed("appending to", writer.database(), cause.clone()));
    let refused = outcomes.into_iter().map(|outcome| outcome.and_then(|()| failure()));
    refused.chain(std::iter::repeat_with(failure)).take(count).collect()
}

//! Appends to journals: the hot path. All appends of a call share one transaction and one commit.

use std::sync::Arc;

use rethread_core::{Entry, Millis, Seq, stored};
use rusqlite::{Transaction, params};

use super::fault::{Fault, Shared, failed};
use super::number::{put, put_seq};
use super::row::{standing, title_number};
use super::stubs;
use super::writer::Writer;
use super::{Append, Durability, RowFacts, StoreError};

/// Appends, each with its own outcome. If the transaction fails, everything in it does.
pub(super) fn append(writer: &Writer, appends: &[Append]) -> Vec<Result<(), StoreError>> {
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
        Err(Fault::Failed(cause)) => fail_all(writer, outcomes, appends.len(), &Shared::new(cause)),
        Err(Fault::Refused(cause)) => fail_all(writer, outcomes, appends.len(), &Shared::new(cause)),
    }
}

/// Adds entries after `head` and returns the new head.
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
        statement.execute(params![key, put_seq(head), stored::encode_entry(entry)])?;
    }
    Ok(head)
}

/// Writes what is new in the row. A title yields to a stronger one that is there.
pub(super) fn learn(tx: &Transaction<'_>, key: i64, facts: &RowFacts) -> Result<(), rusqlite::Error> {
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

/// Makes a session the newest, also where the clock has gone back since another one was changed.
pub(super) fn touch(tx: &Transaction<'_>, key: i64, at: Millis) -> Result<(), rusqlite::Error> {
    tx.prepare_cached(TOUCH)?.execute([key, put(at)])?;
    Ok(())
}

/// Looks at the top of the index of lists, and no further.
const TOUCH: &str = "UPDATE session SET updated_at = max(updated_at, ?2, 1 + max(
        coalesce((SELECT updated_at FROM session AS other
            WHERE archived = 0 AND listed = 1 AND deleted_at IS NULL AND other.key <> ?1
            ORDER BY updated_at DESC LIMIT 1), -1),
        coalesce((SELECT updated_at FROM session AS other
            WHERE archived = 1 AND listed = 1 AND deleted_at IS NULL AND other.key <> ?1
            ORDER BY updated_at DESC LIMIT 1), -1)))
    WHERE key = ?1";

/// Keeps the state, if there is one to keep.
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

/// Everything that can be refused is refused before the first change, so a refusal needs nothing undone.
fn append_one(tx: &Transaction<'_>, append: &Append) -> Result<(), Fault> {
    let Append { session, epoch, expected, .. } = append;
    let standing = standing(tx, session)?;
    standing.check_epoch(session, *epoch)?;
    if standing.head != *expected {
        let moved =
            StoreError::MovedOn { session: session.clone(), expected: *expected, found: standing.head };
        return Err(moved.into());
    }
    let head = add_entries(tx, standing.key, standing.head, &append.entries)?;
    tx.prepare_cached("UPDATE session SET head_seq = ?2 WHERE key = ?1")?
        .execute([standing.key, put_seq(head)])?;
    if let Some(at) = append.at {
        touch(tx, standing.key, at)?;
    }
    learn(tx, standing.key, &append.facts)?;
    keep_snapshot(tx, standing.key, append.snapshot.as_deref())?;
    Ok(())
}

/// A refusal concerns one append, a failure the transaction.
fn outcome_of(done: Result<(), Fault>) -> Result<Result<(), StoreError>, Fault> {
    match done {
        Ok(()) => Ok(Ok(())),
        Err(Fault::Refused(error)) => Ok(Err(error)),
        Err(Fault::Failed(cause)) => Err(Fault::Failed(cause)),
    }
}

fn fail_all(
    writer: &Writer,
    outcomes: Vec<Result<(), StoreError>>,
    count: usize,
    cause: &Shared,
) -> Vec<Result<(), StoreError>> {
    let failure = || Err(failed("appending to", writer.database(), cause.clone()));
    let refused = outcomes.into_iter().map(|outcome| outcome.and_then(|()| failure()));
    refused.chain(std::iter::repeat_with(failure)).take(count).collect()
}

//! The rows of the index: texts and the tokens of a scope.

use rethread_core::search::index_text;
use rusqlite::types::Type;
use rusqlite::{Row, Transaction, params};

use super::journal_facts::SearchScope;
use crate::store::embedded::append::pack_failed;
use crate::store::search::MessagePlace;
use crate::store::text_form::{pack_text, speaker_number, unpack_text};
use crate::store::texts::TextRow;

/// The kinds of names in a scope.
pub(super) const DIRECTORY: i64 = 0;
pub(super) const AGENT: i64 = 1;

/// Adds a row, unless it is there.
pub(super) fn add(
    tx: &Transaction<'_>,
    journal: i64,
    tokens: &str,
    row: &TextRow,
) -> Result<(), rusqlite::Error> {
    let seq = i64::try_from(row.seq.0).unwrap_or(i64::MAX);
    let known = "SELECT 1 FROM message WHERE journal = ?1 AND seq = ?2 AND part = ?3";
    if tx.prepare_cached(known)?.exists(params![journal, seq, row.part])? {
        return Ok(());
    }
    let id = free_place(tx, MessagePlace::first_at(row.at))?.0;
    let (length, text) = pack_text(&row.text).map_err(pack_failed)?;
    let turn = i64::try_from(row.turn.0).unwrap_or(i64::MAX);
    let speaker = speaker_number(row.speaker);
    tx.prepare_cached(
        "INSERT INTO message (id, journal, seq, part, turn, speaker, message, length, text)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![id, journal, seq, row.part, turn, speaker, row.message, length, text])?;
    tx.prepare_cached("INSERT INTO word (rowid, text, scope) VALUES (?1, ?2, ?3)")?.execute(params![
        id,
        index_text(&row.text),
        tokens
    ])?;
    Ok(())
}

/// Removes a row. Its words are removed from the index by naming them again.
pub(super) fn remove(tx: &Transaction<'_>, id: i64, tokens: &str, text: &str) -> Result<(), rusqlite::Error> {
    tx.prepare_cached("INSERT INTO word (word, rowid, text, scope) VALUES ('delete', ?1, ?2, ?3)")?
        .execute(params![id, index_text(text), tokens])?;
    tx.prepare_cached("DELETE FROM message WHERE id = ?1")?.execute([id])?;
    Ok(())
}

/// Reads the columns `length` and `text`.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes = row.get_ref(column + 1)?.as_bytes()?;
    let bad = |cause: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(column + 1, Type::Blob, cause)
    };
    unpack_text(row.get(column)?, bytes).map_err(|error| bad(error.into()))
}

/// The tokens of a scope, as they are in the index.
pub(super) fn tokens(tx: &Transaction<'_>, scope: &SearchScope) -> Result<String, rusqlite::Error> {
    let mut tokens = token(DIRECTORY, name_id(tx, DIRECTORY, &scope.cwd)?);
    for agent in &scope.agents {
        tokens += " ";
        tokens += &token(AGENT, name_id(tx, AGENT, agent)?);
    }
    Ok(tokens)
}

/// The token of a name in a scope.
pub(super) fn token(kind: i64, id: i64) -> String {
    let letter = if kind == DIRECTORY { 'd' } else { 'a' };
    format!("{letter}{id}")
}

fn name_id(tx: &Transaction<'_>, kind: i64, name: &str) -> Result<i64, rusqlite::Error> {
    tx.prepare_cached("INSERT OR IGNORE INTO scope_name (kind, name) VALUES (?1, ?2)")?
        .execute(params![kind, name])?;
    let sql = "SELECT id FROM scope_name WHERE kind = ?1 AND name = ?2";
    tx.prepare_cached(sql)?.query_row(params![kind, name], |row| row.get(0))
}

/// The first free place at or behind this one.
fn free_place(tx: &Transaction<'_>, first: MessagePlace) -> Result<MessagePlace, rusqlite::Error> {
    let last = MessagePlace::last_at(first.at());
    let sql = "SELECT max(id) FROM message WHERE id BETWEEN ?1 AND ?2";
    let used: Option<i64> = tx.prepare_cached(sql)?.query_row([first.0, last.0], |row| row.get(0))?;
    match used {
        None => Ok(first),
        Some(used) if used < last.0 => Ok(MessagePlace(used + 1)),
        // A million messages of one millisecond.
        Some(_) => free_place(tx, MessagePlace::first_at(first.at() + 1)),
    }
}

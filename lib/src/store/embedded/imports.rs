//! The ledger of imports: which sources were imported how far, and what in them was not known.

use rethread_core::{Millis, SessionId};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::fault::SqliteFault;
use super::integers::{from_sql, to_sql};
use super::{Durability, EmbeddedStore, StoreFuture};
use crate::store::{DriftCount, ImportLedger, ImportProgress, ImportRecord};

impl ImportLedger for EmbeddedStore {
    fn imports(&self, tool: &str) -> StoreFuture<'_, Vec<ImportRecord>> {
        let tool = tool.to_owned();
        self.call(move |store| store.readers.read("reading", |tx| list(tx, &tool)))
    }

    fn remember_import(&self, record: &ImportRecord) -> StoreFuture<'_, ()> {
        let record = record.clone();
        self.call(move |store| {
            let remember = |tx: &Transaction<'_>| Ok(remember(tx, &record)?);
            store.write("noting an import in", Durability::Process, remember)
        })
    }

    fn find_native(&self, agents: &[&str], native: &str) -> StoreFuture<'_, Option<SessionId>> {
        let (agents, native) = (serde_json::json!(agents).to_string(), native.to_owned());
        self.call(move |store| store.readers.read("reading", |tx| find_native(tx, &agents, &native)))
    }

    fn add_drift(&self, drift: &[DriftCount], at: Millis) -> StoreFuture<'_, ()> {
        let drift = drift.to_vec();
        self.call(move |store| {
            store.write("noting an import in", Durability::Process, |tx| add_drift(tx, &drift, at))
        })
    }

    fn drift(&self) -> StoreFuture<'_, Vec<DriftCount>> {
        self.call(move |store| store.readers.read("reading", drift))
    }
}

/// Stores how far a source was imported.
pub(super) fn remember(tx: &Transaction<'_>, record: &ImportRecord) -> Result<(), rusqlite::Error> {
    let is_done = match record.progress {
        ImportProgress::Done => true,
        ImportProgress::Begun => false,
    };
    tx.prepare_cached(
        "INSERT OR REPLACE INTO import (tool, path, item, size, modified, session, turns, events, hash, done)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        record.tool,
        record.path,
        record.key,
        to_sql(record.size),
        to_sql(record.modified),
        record.session.as_ref().map(SessionId::as_str),
        to_sql(record.turns),
        to_sql(record.events),
        record.hash,
        is_done,
    ])?;
    Ok(())
}

fn list(tx: &Transaction<'_>, tool: &str) -> Result<Vec<ImportRecord>, SqliteFault> {
    let mut statement = tx.prepare_cached(
        "SELECT tool, path, item, size, modified, session, turns, events, hash, done FROM import WHERE tool = ?1",
    )?;
    let records = statement.query_map([tool], read)?.collect::<Result<_, _>>()?;
    Ok(records)
}

fn read(row: &Row<'_>) -> Result<ImportRecord, rusqlite::Error> {
    let is_done: bool = row.get(9)?;
    Ok(ImportRecord {
        tool: row.get(0)?,
        path: row.get(1)?,
        key: row.get(2)?,
        size: from_sql(row.get(3)?),
        modified: from_sql(row.get(4)?),
        session: row.get::<_, Option<String>>(5)?.map(SessionId),
        turns: from_sql(row.get(6)?),
        events: from_sql(row.get(7)?),
        hash: row.get(8)?,
        progress: if is_done { ImportProgress::Done } else { ImportProgress::Begun },
    })
}

fn find_native(tx: &Transaction<'_>, agents: &str, native: &str) -> Result<Option<SessionId>, SqliteFault> {
    let mut statement = tx.prepare_cached(
        "SELECT session.uid FROM native JOIN session ON session.key = native.session
         WHERE native.id = ?2 AND native.agent IN (SELECT value FROM json_each(?1)) LIMIT 1",
    )?;
    Ok(statement.query_row([agents, native], |row| row.get(0)).optional()?.map(SessionId))
}

fn add_drift(tx: &Transaction<'_>, drift: &[DriftCount], at: Millis) -> Result<(), SqliteFault> {
    let mut statement = tx.prepare_cached(
        "INSERT INTO import_drift (tool, version, what, count, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET count = count + excluded.count, seen_at = excluded.seen_at",
    )?;
    for DriftCount { tool, version, what, count } in drift {
        statement.execute(params![tool, version, what, to_sql(*count), to_sql(at)])?;
    }
    Ok(())
}

/// What was not known in sources.
pub(super) fn drift(tx: &Transaction<'_>) -> Result<Vec<DriftCount>, SqliteFault> {
    let mut statement = tx
        .prepare_cached("SELECT tool, version, what, count FROM import_drift ORDER BY tool, version, what")?;
    let read = |row: &Row<'_>| {
        let (tool, version, what) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(DriftCount { tool, version, what, count: from_sql(row.get(3)?) })
    };
    let counts = statement.query_map([], read)?.collect::<Result<_, _>>()?;
    Ok(counts)
}

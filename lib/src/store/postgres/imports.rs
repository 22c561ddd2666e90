//! The ledger of imports, and the profiles of agents.

use std::rc::Rc;

use deadpool_postgres::Transaction;
use rethread_core::{Millis, SessionId};
use tokio_postgres::Row;

use super::PostgresStore;
use super::database::execute;
use super::fault::PgFault;
use super::open_database::OpenDatabase;
use super::text_column::{from_column, to_column};
use crate::store::integers::{from_sql, to_sql};
use crate::store::{DriftCount, ImportLedger, ImportProgress, ImportRecord, StoreError, StoreFuture};

impl ImportLedger for PostgresStore {
    fn imports(&self, tool: &str) -> StoreFuture<'_, Vec<ImportRecord>> {
        let tool = to_column(tool);
        self.call(async move |store| {
            let sql = "SELECT tool, path, item, size, modified, session, turns, events, hash, done FROM rethread.import
                       WHERE tool = $1 ORDER BY path, item";
            let found = store.database.query("reading the ledger of imports", sql, &[&tool]).await?;
            Ok(found.iter().map(read).collect())
        })
    }

    fn remember_import(&self, record: &ImportRecord) -> StoreFuture<'_, ()> {
        let record = record.clone();
        self.call(async move |store| {
            store.database.write("noting an import", async |tx| remember(tx, &record).await).await
        })
    }

    fn find_native(&self, agents: &[&str], native: &str) -> StoreFuture<'_, Option<SessionId>> {
        let agents: Vec<String> = agents.iter().map(|agent| to_column(agent)).collect();
        let native = to_column(native);
        self.call(async move |store| {
            let sql = "SELECT s.id FROM rethread.native AS n JOIN rethread.session AS s ON s.key = n.session
                       WHERE n.id = $2 AND n.agent = ANY ($1) LIMIT 1";
            let found = store.database.query("finding a session", sql, &[&agents, &native]).await?;
            Ok(found.first().map(|row| SessionId(from_column(row.get(0)))))
        })
    }

    fn add_drift(&self, drift: &[DriftCount], at: Millis) -> StoreFuture<'_, ()> {
        let drift = drift.to_vec();
        self.call(async move |store| {
            store.database.write("noting an import", async |tx| add_drift(tx, &drift, at).await).await
        })
    }

    fn drift(&self) -> StoreFuture<'_, Vec<DriftCount>> {
        self.call(async move |store| {
            let sql =
                "SELECT tool, version, what, count FROM rethread.import_drift ORDER BY tool, version, what";
            let found = store.database.query("reading the ledger of imports", sql, &[]).await?;
            let count = |row: &Row| DriftCount {
                tool: from_column(row.get(0)),
                version: from_column(row.get(1)),
                what: from_column(row.get(2)),
                count: from_sql(row.get(3)),
            };
            Ok(found.iter().map(count).collect())
        })
    }
}

/// Stores how far a source was imported.
pub(super) async fn remember(tx: &Transaction<'_>, record: &ImportRecord) -> Result<(), PgFault> {
    let is_done = match record.progress {
        ImportProgress::Done => true,
        ImportProgress::Begun => false,
    };
    let sql = "INSERT INTO rethread.import (tool, path, item, size, modified, session, turns, events, hash, done)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
               ON CONFLICT (tool, path, item) DO UPDATE SET size = excluded.size, modified = excluded.modified,
                   session = excluded.session, turns = excluded.turns, events = excluded.events, hash = excluded.hash,
                   done = excluded.done";
    execute(
        tx,
        sql,
        &[
            &to_column(&record.tool),
            &to_column(&record.path),
            &to_column(&record.key),
            &to_sql(record.size),
            &to_sql(record.modified),
            &record.session.as_ref().map(|session| to_column(session.as_str())),
            &to_sql(record.turns),
            &to_sql(record.events),
            &record.hash,
            &is_done,
        ],
    )
    .await?;
    Ok(())
}

fn read(row: &Row) -> ImportRecord {
    ImportRecord {
        tool: from_column(row.get(0)),
        path: from_column(row.get(1)),
        key: from_column(row.get(2)),
        size: from_sql(row.get(3)),
        modified: from_sql(row.get(4)),
        session: row.get::<_, Option<String>>(5).map(|id| SessionId(from_column(id))),
        turns: from_sql(row.get(6)),
        events: from_sql(row.get(7)),
        hash: row.get(8),
        progress: if row.get(9) { ImportProgress::Done } else { ImportProgress::Begun },
    }
}

async fn add_drift(tx: &Transaction<'_>, drift: &[DriftCount], at: Millis) -> Result<(), PgFault> {
    let sql = "INSERT INTO rethread.import_drift AS d (tool, version, what, count, seen_at) VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT (tool, version, what) DO UPDATE SET count = d.count + excluded.count, seen_at = excluded.seen_at";
    for DriftCount { tool, version, what, count } in drift {
        let (tool, version, what) = (to_column(tool), to_column(version), to_column(what));
        execute(tx, sql, &[&tool, &version, &what, &to_sql(*count), &to_sql(at)]).await?;
    }
    Ok(())
}

impl OpenDatabase {
    /// The data stored under an agent key.
    pub(super) async fn profile(self: Rc<Self>, key: String) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT profile FROM rethread.profile WHERE key = $1";
        let found = self.database.query("reading a profile", sql, &[&to_column(&key)]).await?;
        Ok(found.first().map(|row| row.get(0)))
    }

    /// Stores data under an agent key.
    pub(super) async fn remember_profile(
        self: Rc<Self>,
        key: String,
        profile: Vec<u8>,
        at: Millis,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO rethread.profile (key, profile, seen_at) VALUES ($1, $2, $3)
                   ON CONFLICT (key) DO UPDATE SET profile = excluded.profile, seen_at = excluded.seen_at";
        let key = to_column(&key);
        self.database.query("storing a profile", sql, &[&key, &profile, &to_sql(at)]).await?;
        Ok(())
    }
}

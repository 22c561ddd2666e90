//! Migrates the schema to the latest version, one host at a time. Each step is an SQL file that is never edited once released.

use deadpool_postgres::{Object, Transaction};

use super::database::{Database, row};
use super::fault::PgFault;
use crate::store::{DatabaseProblem, StoreError};

/// The steps, each with the version that it results in.
const STEPS: [(i64, &str); 2] =
    [(1, include_str!("migrations/0001_store.sql")), (2, include_str!("migrations/0002_tokens.sql"))];

/// The latest version of the schema.
pub(super) const LATEST_VERSION: i64 = STEPS[STEPS.len() - 1].0;

/// The first version of PostgreSQL that is supported, as its settings have it.
const OLDEST_SERVER: i64 = 150_000;

/// The key of the lock under which one host at a time migrates.
const LOCK: i64 = 0x7265_7468_7265_6164;

/// What was found when the database was opened.
pub(super) struct ServerFacts {
    /// Whether commits wait for the disk.
    pub(super) commits_are_synced: bool,
}

/// Checks the server, and migrates the schema if that is necessary.
pub(super) async fn prepare(database: &Database) -> Result<ServerFacts, PgFault> {
    database
        .once(async |client| {
            let facts = check_server(client, database).await?;
            if version(client).await? < LATEST_VERSION {
                migrate(client).await?;
            }
            Ok(facts)
        })
        .await
}

async fn check_server(client: &Object, database: &Database) -> Result<ServerFacts, PgFault> {
    let sql = "SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding'),
                      current_setting('synchronous_commit')";
    let found = client.query_one(sql, &[]).await?;
    let (number, encoding): (i64, String) = (found.get(0), found.get(1));
    if number < OLDEST_SERVER || encoding != "UTF8" {
        let source = format!("it is PostgreSQL {} with a database in {encoding}", number / 10_000).into();
        return Err(StoreError::Database {
            context: "opening the store".to_owned(),
            address: database.address.to_string(),
            problem: DatabaseProblem::Unsuitable,
            source,
        }
        .into());
    }
    Ok(ServerFacts { commits_are_synced: found.get::<_, String>(2) != "off" })
}

/// The version of the schema; 0 if there is none. A newer one is refused.
async fn version(client: &Object) -> Result<i64, PgFault> {
    let there: bool = client.query_one("SELECT to_regclass('rethread.store') IS NOT NULL", &[]).await?.get(0);
    if !there {
        return Ok(0);
    }
    let found: i64 = client.query_one("SELECT version FROM rethread.store", &[]).await?.get(0);
    known(found)
}

fn known(found: i64) -> Result<i64, PgFault> {
    match found > LATEST_VERSION {
        true => Err(StoreError::Newer { found, known: LATEST_VERSION }.into()),
        false => Ok(found),
    }
}

async fn migrate(client: &mut Object) -> Result<(), PgFault> {
    let tx = client.transaction().await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    // Another host may have migrated meanwhile.
    let found = locked_version(&tx).await?;
    for (leads_to, sql) in STEPS {
        if leads_to > found {
            tx.batch_execute(sql).await?;
        }
    }
    tx.execute("UPDATE rethread.store SET version = $1", &[&LATEST_VERSION]).await?;
    Ok(tx.commit().await?)
}

async fn locked_version(tx: &Transaction<'_>) -> Result<i64, PgFault> {
    let sql = "SELECT to_regnamespace('rethread') IS NOT NULL, to_regclass('rethread.store') IS NOT NULL";
    let found = row(tx, sql, &[]).await?;
    let (schema, store) = found.map_or((false, false), |row| (row.get(0), row.get(1)));
    if !schema {
        tx.batch_execute("CREATE SCHEMA rethread").await?;
    }
    if !store {
        return Ok(0);
    }
    let found = row(tx, "SELECT version FROM rethread.store", &[]).await?;
    known(found.map_or(0, |row| row.get(0)))
}

//! Migrates a database to the latest version. Each step is an SQL file that is never edited once released. A database of
//! version 3 or earlier has unfolded entries in the table `tail`: they become segments.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::chain::from_hex;
use super::connection;
use super::fault::{SqliteFault, failed, io_failed};
use super::files::{create, with_suffix};
use super::journal_file::FileId;
use super::{EmbeddedPaths, StoreError, owner};

mod tail;

/// The steps, each with the version that it results in.
const STEPS: [(i64, &str); 7] = [
    (1, include_str!("migrations/0001_sessions.sql")),
    (2, include_str!("migrations/0002_profiles.sql")),
    (3, include_str!("migrations/0003_natives.sql")),
    (4, include_str!("migrations/0004_journal_files.sql")),
    (5, include_str!("migrations/0005_search.sql")),
    (6, include_str!("migrations/0006_release.sql")),
    (7, include_str!("migrations/0007_imports.sql")),
];

/// The latest version of a database.
pub(super) const LATEST_VERSION: i64 = STEPS[STEPS.len() - 1].0;

/// Identifies the file as a Rethread database.
const APPLICATION_ID: i64 = 0x5274_6864;

/// The first version without the table `tail`.
const WITHOUT_TAIL: i64 = 4;

/// Runs the missing steps. An existing database is backed up first, and must not be in use by another process, which
/// would be an earlier version of the program.
pub(super) fn migrate(connection: &Connection, paths: &EmbeddedPaths) -> Result<(), StoreError> {
    let database = &paths.database;
    if version(connection).map_err(|fault| fault.at("opening", database))? == LATEST_VERSION {
        return Ok(());
    }
    let what = "migrating";
    let full = connection.execute_batch("PRAGMA synchronous = FULL");
    full.map_err(|cause| failed(what, database, cause))?;
    let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let tx = begun.map_err(|cause| failed(what, database, cause))?;
    // Checked again: another process may have migrated while this one waited for the lock.
    let found = version(&tx).map_err(|fault| fault.at(what, database))?;
    if found > 0 && found < LATEST_VERSION {
        if let Some(owner) = owner::any_alive(&tx, &paths.locks).map_err(|fault| fault.at(what, database))? {
            return Err(StoreError::InUse { owner });
        }
        back_up(database, found)?;
    }
    let done = run(&tx, found).and_then(|()| Ok(tx.commit()?));
    done.map_err(|fault| fault.at(what, database))?;
    let normal = connection.execute_batch("PRAGMA synchronous = NORMAL");
    normal.map_err(|cause| failed(what, database, cause))
}

/// The id of the store, which its journal files name.
pub(super) fn store_id(connection: &Connection) -> Result<FileId, SqliteFault> {
    let id: String = connection.query_row("SELECT id FROM store", [], |row| row.get(0))?;
    let bad = || StoreError::Io { context: path_of(connection), source: "the store has no valid id".into() };
    Ok(from_hex(&id).ok_or_else(bad)?)
}

/// Reads the version of the database: 0 for a new one. Refuses a file of another program or of a newer version.
pub(super) fn version(connection: &Connection) -> Result<i64, SqliteFault> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let application: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION_ID && (found, tables) != (0, 0) {
        let source = "the database belongs to another program".into();
        return Err(StoreError::Io { context: path_of(connection), source }.into());
    }
    if found > LATEST_VERSION {
        return Err(StoreError::Newer { found, known: LATEST_VERSION }.into());
    }
    Ok(found)
}

/// Runs the steps after version `found`.
pub(super) fn run(tx: &Transaction<'_>, found: i64) -> Result<(), SqliteFault> {
    for (leads_to, sql) in STEPS {
        if leads_to > found {
            if leads_to == WITHOUT_TAIL {
                tail::to_segments(tx)?;
            }
            tx.execute_batch(sql)?;
        }
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    Ok(tx.pragma_update(None, "user_version", LATEST_VERSION)?)
}

/// Copies the database while the write lock is held, so that the copy is consistent.
fn back_up(database: &Path, version: i64) -> Result<(), StoreError> {
    let copy = with_suffix(database, &format!(".v{version}.backup"));
    let part = with_suffix(&copy, ".part");
    let copying = "copying the database to";
    // An earlier attempt did not finish.
    if part.exists() {
        fs::remove_file(&part).map_err(io_failed(copying, &part))?;
    }
    let file = create(&part).map_err(io_failed(copying, &part))?;
    let target = part.to_str().ok_or_else(|| failed(copying, &part, "the path is not valid UTF-8"))?;
    let source = connection::writer(database).map_err(|cause| failed(copying, &part, cause))?;
    source.execute("VACUUM INTO ?1", [target]).map_err(|cause| failed(copying, &part, cause))?;
    file.sync_all().map_err(io_failed(copying, &part))?;
    fs::rename(&part, &copy).map_err(io_failed(copying, &copy))
}

fn path_of(connection: &Connection) -> String {
    format!("opening {}", connection.path().unwrap_or_default())
}

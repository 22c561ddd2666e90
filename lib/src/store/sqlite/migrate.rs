//! Brings a database to the version this program knows. Each step is a file that is never edited once released.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;
use super::connection;
use super::fault::{Fault, failed, io_failed};
use super::files::{beside, create};

/// The steps, each with the version it leads to.
const STEPS: [(i64, &str); 3] = [
    (1, include_str!("migrations/0001_sessions.sql")),
    (2, include_str!("migrations/0002_profiles.sql")),
    (3, include_str!("migrations/0003_natives.sql")),
];

/// The newest version this program knows.
const KNOWN: i64 = STEPS[STEPS.len() - 1].0;

/// Marks the file as ours, beside its version.
const APPLICATION: i64 = 0x5274_6864;

/// Migrates if there is anything to do. A database that has a version already is copied before it is changed.
pub(super) fn migrate(connection: &Connection, database: &Path) -> Result<(), StoreError> {
    if version(connection).map_err(|fault| fault.at("opening", database))? == KNOWN {
        return Ok(());
    }
    let what = "migrating";
    let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let tx = begun.map_err(|cause| failed(what, database, cause))?;
    // Asked again: another process may have migrated while this one waited for the lock.
    let found = version(&tx).map_err(|fault| fault.at(what, database))?;
    if found > 0 && found < KNOWN {
        back_up(database, found)?;
    }
    let done = run(&tx, found).and_then(|()| tx.commit());
    done.map_err(|cause| failed(what, database, cause))
}

/// The version of the database: 0 for a new one, refused if it is not ours or newer than this program.
fn version(connection: &Connection) -> Result<i64, Fault> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let application: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION && (found, tables) != (0, 0) {
        let source = "the database belongs to another program".into();
        return Err(StoreError::Io { context: path_of(connection), source }.into());
    }
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN }.into());
    }
    Ok(found)
}

fn run(tx: &Transaction<'_>, found: i64) -> rusqlite::Result<()> {
    for (leads_to, sql) in STEPS {
        if leads_to > found {
            tx.execute_batch(sql)?;
        }
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", KNOWN)
}

/// Copies the database while the write lock is held, so that the copy is what the migration starts from.
fn back_up(database: &Path, version: i64) -> Result<(), StoreError> {
    let copy = beside(database, &format!(".v{version}.backup"));
    let part = beside(&copy, ".part");
    let copying = "copying the database to";
    // A part is left behind when an earlier attempt died.
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

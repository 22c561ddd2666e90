//! The copies of the database that migrations make. A deleted session is deleted there, too.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::StoreError;
use super::fault::{failed, io_failed};

/// What a backup of any version may have of a session.
const TABLES: [&str; 3] = ["tail", "segment", "snapshot"];

/// Deletes the text of a session from all backups.
pub(super) fn erase(database: &Path, session: &str) -> Result<(), StoreError> {
    for backup in backups(database)? {
        erase_from(&backup, session).map_err(|cause| failed("deleting in", &backup, cause))?;
    }
    Ok(())
}

fn backups(database: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let (Some(folder), Some(name)) = (database.parent(), database.file_name().and_then(|name| name.to_str()))
    else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_failed("listing", folder))? {
        let path = entry.map_err(io_failed("listing", folder))?.path();
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        if file.starts_with(&format!("{name}.v")) && file.ends_with(".backup") {
            found.push(path);
        }
    }
    Ok(found)
}

fn erase_from(backup: &Path, session: &str) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(backup, flags)?;
    // Without a log, so that nothing is left in one.
    connection.execute_batch("PRAGMA secure_delete = ON; PRAGMA journal_mode = DELETE;")?;
    let tx = connection.transaction()?;
    let key: Option<i64> =
        tx.query_row("SELECT key FROM session WHERE uid = ?1", [session], |row| row.get(0)).optional()?;
    if let Some(key) = key {
        for table in TABLES {
            tx.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [key])?;
        }
        tx.execute("UPDATE session SET title = NULL, title_by = NULL WHERE key = ?1", [key])?;
    }
    tx.commit()
}

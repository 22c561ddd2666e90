//! The file of the search index: its name, opening and creating it, removing old ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::IndexFault;
use crate::store::StoreError;
use crate::store::embedded::connection;
use crate::store::embedded::fault::{failed, io_failed};
use crate::store::embedded::files::{make_file, with_suffix};
use crate::store::embedded::reading::{self, ReadConnection};

const SCHEMA: &str = include_str!("schema.sql");

/// The version of the schema; an index of another version is dropped.
const FORMAT: i64 = 1;

/// The page cache in KiB: a search reads more pages than other statements.
const CACHE_KIB: i64 = 4096;

/// The size of a copy in memory in pages: 256 MiB.
const MAX_COPIED_PAGES: i32 = 64 * 1024;

/// How long a statement waits for another process. Others hold the lock for a few milliseconds at a time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What to do if there is no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfMissing {
    Create,
    Skip,
}

/// An open index.
pub(super) struct IndexFile {
    pub(super) generation: i64,
    pub(super) connection: Connection,
}

impl IndexFile {
    /// Opens the index of a generation.
    pub(super) fn open(
        database: &Path,
        generation: i64,
        if_missing: IfMissing,
    ) -> Result<Option<Self>, IndexFault> {
        let path = path_of(database, generation);
        match if_missing {
            IfMissing::Skip if !path.exists() => return Ok(None),
            IfMissing::Skip => {}
            IfMissing::Create => make_file(&path).map_err(io_failed("creating", &path))?,
        }
        let connection = connection::writer(&path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        // Nobody waits for an append here.
        connection.execute_batch("PRAGMA wal_autocheckpoint = 1000")?;
        connection::check_file(&connection, &path)?;
        let index = Self { generation, connection };
        index.prepare()?;
        Ok(Some(index))
    }

    /// Copies the index of a generation into memory, or makes a new one there.
    pub(super) fn copy(database: &Path, generation: i64) -> Result<Self, IndexFault> {
        let path = path_of(database, generation);
        let mut connection = Connection::open_in_memory()?;
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
            let source = match reading::open(&path)? {
                ReadConnection::Shared(connection) => connection,
                ReadConnection::Alone(alone) => alone.connection,
            };
            if Backup::new(&source, &mut connection)?.step(MAX_COPIED_PAGES)? != StepResult::Done {
                return Err(too_large(&path));
            }
        }
        connection.pragma_update(None, "max_page_count", MAX_COPIED_PAGES)?;
        let index = Self { generation, connection };
        index.prepare()?;
        Ok(index)
    }

    /// Runs `work` in a transaction that may write.
    pub(super) fn write<R>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, IndexFault>,
    ) -> Result<R, IndexFault> {
        let tx = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let result = work(&tx)?;
        tx.commit()?;
        Ok(result)
    }

    /// Empties the write-ahead log. Returns whether that was possible: a reader in another process may use it.
    pub(super) fn truncate_log(&self) -> Result<bool, IndexFault> {
        let busy: bool =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        Ok(!busy)
    }

    fn prepare(&self) -> Result<(), IndexFault> {
        if self.format()? == FORMAT {
            return Ok(());
        }
        self.write(|tx| {
            // Another process may have made the tables meanwhile.
            let tables: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables == 0 {
                tx.execute_batch(SCHEMA)?;
            }
            Ok(())
        })?;
        match self.format()? {
            FORMAT => Ok(()),
            _ => Err(IndexFault::Damaged(rusqlite::Error::InvalidQuery)),
        }
    }

    fn format(&self) -> rusqlite::Result<i64> {
        self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))
    }
}

/// Without room on its disk, an index of this size cannot be brought up to date.
fn too_large(path: &Path) -> IndexFault {
    failed("copying to memory", path, io::Error::from(io::ErrorKind::StorageFull)).into()
}

/// The generation that is in use.
pub(super) fn generation(tx: &Transaction<'_>) -> rusqlite::Result<i64> {
    tx.prepare_cached("SELECT search_generation FROM store")?.query_row([], |row| row.get(0))
}

/// Removes the files of earlier generations.
pub(super) fn remove_older(database: &Path, generation: i64) -> Result<(), StoreError> {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).map_err(io_failed("listing", folder))? {
        let path = entry.map_err(io_failed("listing", folder))?.path();
        if generation_of(&path).is_none_or(|found| found >= generation) {
            continue;
        }
        for file in [path.clone(), with_suffix(&path, "-wal"), with_suffix(&path, "-shm")] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_failed("removing", &file)(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

fn path_of(database: &Path, generation: i64) -> PathBuf {
    database.with_file_name(format!("search.{generation}.db"))
}

fn generation_of(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("search.")?.strip_suffix(".db")?.parse().ok()
}

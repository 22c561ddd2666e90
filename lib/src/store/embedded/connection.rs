//! Opens connections to the database file and sets the pragmas that all of them need.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::fault::failed;
use super::{StoreError, WriteObstacle, obstacle};

/// Older versions can lose commits when several processes write and one of them resets the log.
const OLDEST_SQLITE: i32 = 3_051_003;

/// How long a writer waits for the lock of another process; no transaction takes this long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The page cache of a connection in KiB.
const CACHE_KIB: i64 = 512;

/// The number of prepared statements that a connection caches; fewer are in use.
const CACHED_STATEMENTS: usize = 48;

/// Refuses a SQLite version whose log is not safe with several writers.
pub(super) fn check_version(database: &Path) -> Result<(), StoreError> {
    let found = rusqlite::version_number();
    if found >= OLDEST_SQLITE {
        return Ok(());
    }
    let cause = format!("SQLite {} is too old, 3.51.3 is needed", rusqlite::version());
    Err(failed("opening", database, cause))
}

/// Opens a connection that writes. It never checkpoints by itself, since that would delay an append.
pub(super) fn writer(database: &Path) -> rusqlite::Result<Connection> {
    let connection = open(database)?;
    connection.execute_batch(
        "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;",
    )?;
    Ok(connection)
}

/// Opens a read-only connection.
pub(super) fn reader(database: &Path) -> rusqlite::Result<Connection> {
    let connection = open(database)?;
    connection.execute_batch("PRAGMA query_only = 1;")?;
    Ok(connection)
}

/// Checks that the file is a writable database in WAL mode.
pub(super) fn check_file(connection: &Connection, database: &Path) -> Result<(), StoreError> {
    let opening = |cause| failed("opening", database, cause);
    let _: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(opening)?;
    if connection.is_readonly(MAIN_DB).map_err(opening)? {
        return Err(match obstacle::of_disk(database) {
            Some(WriteObstacle::ReadOnly) => {
                failed("opening", database, std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem))
            }
            Some(WriteObstacle::Full) | None => failed("opening", database, "the file is read-only"),
        });
    }
    let mode = enter_wal(connection).map_err(opening)?;
    if mode == "wal" {
        Ok(())
    } else {
        Err(failed(
            "opening",
            database,
            format!("the file system does not support a write-ahead log (journal mode {mode})"),
        ))
    }
}

fn open(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // macOS: a plain sync leaves the data in the disk's cache.
    connection.execute_batch("PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1;")?;
    // Each of the six connections has its own cache; the system caches the file as well.
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// Switches to WAL mode. Several processes may open a new file at once, and this change does not use the busy timeout.
fn enter_wal(connection: &Connection) -> rusqlite::Result<String> {
    let patience = Instant::now() + BUSY_TIMEOUT;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Err(error) if is_busy(&error) && Instant::now() < patience => {
                thread::sleep(Duration::from_millis(5))
            }
            done => return done,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

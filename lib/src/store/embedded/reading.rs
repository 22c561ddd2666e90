//! Opens connections that read. Usually SQLite shares memory between processes, for which it makes a file: that is not
//! possible on a full disk or a read-only file system, unless another process has made it. There is a second way then.
//!
//! It is safe beside other processes. Where the database can be locked, it is locked for the time of one read: the lock is
//! not granted while any other process has the database open, and nobody can open it meanwhile. Such a process would have
//! made the file, so that the usual way is open. Where it cannot be locked, and has no log, it is read without a lock, and
//! what was read counts only if the database has not been changed meanwhile. A writer makes a log before it changes the
//! database.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, Transaction, TransactionBehavior, ffi};

use super::connection;
use super::fault::SqliteFault;
use super::files::with_suffix;

/// How long a process waits for others that read in the second way; a read takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// An open connection.
pub(super) enum ReadConnection {
    /// It may stay open.
    Shared(Connection),
    /// It is used for one read.
    Alone(LoneConnection),
}

/// A connection that shares nothing with other processes.
pub(super) struct LoneConnection {
    pub(super) connection: Connection,
    /// What the files were like, if they are not locked.
    unlocked: Option<FileState>,
}

/// The state of the database file and its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    inode: u64,
    size: u64,
    /// In nanoseconds, and in seconds.
    changed: (i64, i64),
    log: u64,
}

/// Opens a connection and reads from it once, so that it is known to work.
pub(super) fn open(database: &Path) -> rusqlite::Result<ReadConnection> {
    open_with(database, || connection::reader(database))
}

/// The same, with another usual way.
pub(super) fn open_with(
    database: &Path,
    shared: impl Fn() -> rusqlite::Result<Connection>,
) -> rusqlite::Result<ReadConnection> {
    let patience = Instant::now() + LOCK_TIMEOUT;
    loop {
        let error = match shared().and_then(probed) {
            // What is open read-only would keep connections of this process from writing, once that is possible.
            Ok(connection) if connection.is_readonly(MAIN_DB)? => {
                return Ok(ReadConnection::Alone(LoneConnection { connection, unlocked: None }));
            }
            Ok(connection) => return Ok(ReadConnection::Shared(connection)),
            Err(error) if is_unwritable(&error) => error,
            Err(error) => return Err(error),
        };
        match open_alone(database) {
            Ok(alone) => return Ok(ReadConnection::Alone(alone)),
            // Another process has it open: it reads alone too, or the usual way is open now.
            Err(other) if is_busy(&other) && Instant::now() < patience => {
                thread::sleep(Duration::from_millis(2 + u64::from(std::process::id() % 5)));
            }
            Err(_) => return Err(error),
        }
    }
}

impl LoneConnection {
    /// Runs `work` in a read transaction.
    pub(super) fn read<R>(
        self,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, SqliteFault>,
    ) -> Result<R, SqliteFault> {
        let tx = Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred)?;
        let done = work(&tx);
        let database = tx.path().unwrap_or_default().to_owned();
        drop(tx);
        match self.unlocked {
            Some(state) if FileState::of(Path::new(&database)) != Some(state) => Err(busy().into()),
            Some(_) | None => done,
        }
    }
}

fn open_alone(database: &Path) -> rusqlite::Result<LoneConnection> {
    match open_locked(database) {
        Ok(connection) => Ok(LoneConnection { connection, unlocked: None }),
        Err(error) if is_busy(&error) => Err(error),
        Err(error) => match FileState::of(database) {
            Some(state) if state.log == 0 => {
                Ok(LoneConnection { connection: open_immutable(database)?, unlocked: Some(state) })
            }
            Some(_) | None => Err(error),
        },
    }
}

/// Locks the database, so that SQLite keeps in its own memory what processes usually share.
fn open_locked(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    // A reader changes no file.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // First of all: most other statements would already use what processes share.
    connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
    connection.execute_batch("PRAGMA query_only = 1")?;
    probed(connection)
}

/// Opens a database that has no log and that nobody changes. No file is made beside it.
pub(super) fn open_immutable(database: &Path) -> rusqlite::Result<Connection> {
    let uri = format!("file:{}?immutable=1", percent_encoded(database));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    probed(Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?)
}

fn probed(connection: Connection) -> rusqlite::Result<Connection> {
    let _: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(connection)
}

impl FileState {
    fn of(database: &Path) -> Option<Self> {
        let log = fs::metadata(with_suffix(database, "-wal")).map_or(0, |meta| meta.len());
        let meta = fs::metadata(database).ok()?;
        let changed = (meta.mtime_nsec(), meta.mtime());
        Some(Self { inode: meta.ino(), size: meta.size(), changed, log })
    }
}

fn percent_encoded(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(byte);
    let encode = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.as_os_str().as_encoded_bytes().iter().copied().map(encode).collect()
}

/// Returns whether a connection may have failed because a file beside the database could not be made or written.
fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::DiskFull | ErrorCode::ReadOnly)
    )
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn busy() -> rusqlite::Error {
    let changed = "another process changed the database while it was read";
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), Some(changed.to_owned()))
}

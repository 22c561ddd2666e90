//! A copy of another tool's SQLite database, as it was at one moment. Its files are only read as bytes: opening a
//! database with SQLite, even for reading, would write to its `-shm` file and could run recovery or a checkpoint of a log
//! that belongs to the tool. Copying instead costs time and disk space for the size of the database, which `copy_file_range`
//! makes cheap on most file systems.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::files::open;
use super::reader::ReadError;
use crate::ids;

/// How often copying is tried while the tool writes, and the pause between.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// How the folders of copies begin, and after what time one belongs to a process that was killed.
const PREFIX: &str = "import-";
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// What SQLite keeps beside a database: pages that are newer, or those that an unfinished change has overwritten.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// A private copy of a database, which is removed when it is dropped.
#[derive(Debug)]
pub struct SqliteSnapshot {
    folder: PathBuf,
    original: PathBuf,
}

impl SqliteSnapshot {
    /// Copies a database and its log into a new folder below `scratch`.
    pub fn take(database: &Path, scratch: &Path) -> Result<Self, ReadError> {
        remove_old(scratch);
        let folder = scratch.join(format!("{PREFIX}{}", ids::unique()));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(ReadError::io(&folder))?;
        let snapshot = Self { folder, original: database.to_owned() };
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            if snapshot.copy().map_err(ReadError::io(database))? == Copied::Whole {
                return Ok(snapshot);
            }
        }
        let reason = "was changed all the time while it was copied".to_owned();
        Err(ReadError::Format { path: database.to_owned(), reason })
    }

    /// Opens the copy.
    pub fn open(&self) -> Result<Connection, ReadError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(self.database(), flags);
        let connection = opened.map_err(ReadError::database(&self.original))?;
        let checked =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
        checked.map_err(ReadError::database(&self.original))?;
        Ok(connection)
    }

    /// The database that was copied.
    #[must_use]
    pub fn original(&self) -> &Path {
        &self.original
    }

    fn database(&self) -> PathBuf {
        self.folder.join("copy.db")
    }

    /// Copies the database and what SQLite keeps beside it. A tool that moved pages from the log into the database
    /// meanwhile has changed the database.
    fn copy(&self) -> io::Result<Copied> {
        let (database, metadata) = open(&self.original)?;
        let beside: Vec<_> =
            LOGS.iter().map(|suffix| open_beside(&self.original, suffix)).collect::<Result<_, _>>()?;
        copy_to(database, &self.database())?;
        for (suffix, file) in LOGS.iter().zip(beside) {
            let copied = self.folder.join(format!("copy.db{suffix}"));
            match file {
                Some(file) => copy_to(file, &copied)?,
                None if copied.exists() => fs::remove_file(copied)?,
                None => {}
            }
        }
        let (_, after) = open(&self.original)?;
        let same = stamp(&metadata) == stamp(&after);
        Ok(if same { Copied::Whole } else { Copied::Torn })
    }
}

impl Drop for SqliteSnapshot {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!("the copy {} could not be removed: {error}", self.folder.display());
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    Whole,
    Torn,
}

/// A file beside a database, if there is one.
fn open_beside(database: &Path, suffix: &str) -> io::Result<Option<File>> {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    match open(Path::new(&name)) {
        Ok((file, _)) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn copy_to(mut from: File, path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut to = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    io::copy(&mut from, &mut to)?;
    Ok(())
}

/// Removes the copies that processes left which were killed.
fn remove_old(scratch: &Path) {
    for item in fs::read_dir(scratch).into_iter().flatten().flatten() {
        let is_ours = item.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let age = item.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > ABANDONED) {
            // Another process may be first.
            let _ = fs::remove_dir_all(item.path());
        }
    }
}

fn stamp(metadata: &fs::Metadata) -> (u64, i64, i64, u64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino())
}

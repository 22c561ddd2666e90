//! Errors inside the SQLite store, before the operation and the file are added to them.

use std::error::Error;
use std::io;
use std::path::Path;

use super::{StoreError, obstacle};

/// A refusal, after which the connection is still usable, or a failure, after which it is not.
#[derive(Debug)]
pub(super) enum SqliteFault {
    /// The operation is not allowed.
    Refused(StoreError),
    /// The database returned an error.
    Failed(rusqlite::Error),
}

impl SqliteFault {
    /// Converts to a store error that names the operation and the database.
    pub(super) fn at(self, what: &str, database: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Failed(error) => failed(what, database, error),
        }
    }
}

impl From<StoreError> for SqliteFault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for SqliteFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

/// Makes an I/O error that names the operation and the file, and the disk if it is full or read-only.
pub(super) fn failed(what: &str, file: &Path, cause: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    let (context, source) = (format!("{what} {}", file.display()), cause.into());
    match obstacle::find(file, &*source) {
        Some(obstacle) => StoreError::Unwritable { context, obstacle, disk: obstacle::disk_of(file) },
        None => StoreError::Io { context, source },
    }
}

/// The same for [`io::Error`], for use with `map_err`.
pub(super) fn io_failed<'a>(what: &'a str, file: &'a Path) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |cause| failed(what, file, cause)
}

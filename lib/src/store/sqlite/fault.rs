//! What goes wrong inside the embedded store, before it is known which file and which work it concerns.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::StoreError;

/// A refusal, which leaves the connection sound, or a failure, which does not.
#[derive(Debug)]
pub(super) enum Fault {
    /// The answer is no.
    Refused(StoreError),
    /// The database could not do it.
    Failed(rusqlite::Error),
}

impl Fault {
    /// The error for whoever asked: `what` was being done, on this database.
    pub(super) fn at(self, what: &str, database: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Failed(error) => failed(what, database, error),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

/// A failure of something done to a file.
pub(super) fn failed(what: &str, file: &Path, cause: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::Io { context: format!("{what} {}", file.display()), source: cause.into() }
}

/// The same for [`io::Error`], to be used with `map_err`.
pub(super) fn io_failed<'a>(what: &'a str, file: &'a Path) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |cause| failed(what, file, cause)
}

/// One cause that several callers are told.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<dyn Error + Send + Sync>);

impl Shared {
    pub(super) fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(cause))
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Shared {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

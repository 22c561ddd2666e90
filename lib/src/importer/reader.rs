//! The interface of a reader of another tool's session files: what it is told, what it finds and how it fails.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::Millis;

use super::sink::{Sink, SinkClosed};
use super::snapshot::SqliteSnapshot;

/// Finds and reads the sessions of one tool. The methods block and need not be quick; a read keeps little in memory,
/// however large the source is. Sources are opened for reading only.
pub trait SessionReader: Send + Sync {
    /// What is known of the tool.
    fn tool(&self) -> &'static ToolInfo;

    /// The folders and files where the tool keeps its sessions on this machine, whether they exist or not.
    fn roots(&self, places: &Places) -> Vec<PathBuf>;

    /// Finds the sessions below a folder, or in one file, which the user may have named. What cannot be read is
    /// reported with [`Found::unreadable`].
    fn find(&self, root: &Path, places: &Places, found: &mut Found);

    /// Reads one session from its beginning to its end. See [`Sink`] for what is to be given in which order.
    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError>;
}

/// What is known of a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolInfo {
    /// The word for it on the command line and in the ledger: `claude`.
    pub name: &'static str,
    /// Its name for people: `Claude Code`.
    pub title: &'static str,
    /// The names that its agents give themselves in `initialize`. A session is bound to the first, so that this agent
    /// restores it by itself; an id that any of them has in the store is one that is here already.
    pub agents: &'static [&'static str],
}

impl ToolInfo {
    /// The agent that restores imported sessions by itself.
    #[must_use]
    pub fn agent(&self) -> &'static str {
        self.agents.first().copied().unwrap_or(self.name)
    }
}

/// Where things are on this machine. Readers do not look into the environment themselves.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The home folder.
    pub home: PathBuf,
    /// The environment variables that readers may ask for.
    pub variables: BTreeMap<String, OsString>,
    /// A private folder for snapshots of databases, which is made when it is needed.
    pub scratch: PathBuf,
}

impl Places {
    /// The path in an environment variable that is set and not empty.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The path in an environment variable, else one below the home folder.
    #[must_use]
    pub fn variable_or_home(&self, name: &str, below_home: &str) -> PathBuf {
        self.variable(name).unwrap_or_else(|| self.home.join(below_home))
    }
}

/// A session that was found.
#[derive(Clone, Debug)]
pub struct SessionSource {
    /// The file or the database that has it.
    pub path: PathBuf,
    /// Its id inside of a database; empty where a file has one session.
    pub key: String,
    /// How much there is to read: bytes of a file, with those of its sub-agents; of a database whatever grows with the
    /// session.
    pub size: u64,
    /// When it was changed last. If this and the size are as they were, the session is not read again.
    pub modified: Millis,
    /// Other files that belong to it, such as those of sub-agents.
    pub parts: Vec<PathBuf>,
    /// The copy of the database that is read.
    pub snapshot: Option<Arc<SqliteSnapshot>>,
}

impl SessionSource {
    /// A file, with its size and time.
    #[must_use]
    pub fn file(path: &Path, metadata: &std::fs::Metadata) -> Self {
        let modified = metadata.modified().map_or(0, super::files::millis);
        let (size, path) = (metadata.len(), path.to_owned());
        Self { path, key: String::new(), size, modified, parts: Vec::new(), snapshot: None }
    }

    /// Adds a file that belongs to it: a change of that is one of the session.
    pub fn add_part(&mut self, path: PathBuf) {
        if let Ok(metadata) = path.symlink_metadata() {
            self.size += metadata.len();
            self.modified = self.modified.max(metadata.modified().map_or(0, super::files::millis));
        }
        self.parts.push(path);
    }
}

/// What a reader has found.
#[derive(Debug, Default)]
pub struct Found {
    /// The sessions.
    pub sources: Vec<SessionSource>,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// A file or folder that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which.
    pub path: PathBuf,
    /// Why, for people.
    pub reason: String,
}

impl Found {
    /// Notes a file or folder that cannot be read. One that is not there is no failure.
    pub fn unreadable(&mut self, path: &Path, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.unreadable.push(Unreadable { path: path.to_owned(), reason: error.to_string() });
        }
    }

    /// Notes a file or folder that is there and of no use.
    pub fn refused(&mut self, path: &Path, reason: impl Into<String>) {
        self.unreadable.push(Unreadable { path: path.to_owned(), reason: reason.into() });
    }
}

/// A session that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be opened or read.
    #[error("{} cannot be read", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file or database is not what the reader knows.
    #[error("{} {reason}", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, as the end of a sentence.
        reason: String,
    },
    /// A database cannot be read.
    #[error("{} cannot be read", path.display())]
    Database {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// Nobody wants to have the rest.
    #[error(transparent)]
    Stopped(#[from] SinkClosed),
}

impl ReadError {
    /// A failure to open or read a file.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// A failure to read a database.
    pub fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Database { path, source }
    }
}

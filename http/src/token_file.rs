//! The file with the tokens of one machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::tokens::{StoredToken, TokenError};

/// Tells one version of the file from another.
pub(crate) type FileStamp = Option<(u64, u64, i64, i64)>;

/// The file, which need not exist.
pub(crate) struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The tokens in this file.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// All tokens.
    pub(crate) fn list(&self) -> Result<Vec<StoredToken>, TokenError> {
        match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| self.failed(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Which version of the file there is now; nothing if there is none.
    pub(crate) fn stamp(&self) -> FileStamp {
        let found = fs::metadata(&self.path).ok()?;
        Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    }

    /// Replaces the file as a whole, one process at a time.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Vec<StoredToken>) -> T) -> Result<T, TokenError> {
        let failed = |error| self.failed(error);
        let private =
            |path: &Path| OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let lock: File = private(&self.path.with_extension("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut tokens = self.list()?;
        let outcome = change(&mut tokens);
        let next = self.path.with_extension("new");
        let mut file = private(&next).map_err(failed)?;
        let text = serde_json::to_vec_pretty(&tokens).map_err(|error| failed(error.into()))?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&next, &self.path).map_err(failed)?;
        Ok(outcome)
    }

    fn failed(&self, source: io::Error) -> TokenError {
        TokenError::Io { path: self.path.clone(), source }
    }
}

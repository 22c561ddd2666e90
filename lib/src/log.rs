//! A log for people: one line for each thing that was skipped or went wrong without anybody to tell.
//! Never holds what a session says.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock;
use crate::secret::Secrets;

/// At this size the log starts again.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Where such lines go; nowhere by default.
#[derive(Clone, Debug, Default)]
pub struct Log {
    path: Option<Arc<Mutex<PathBuf>>>,
    /// What is struck out of each line.
    secrets: Secrets,
}

impl Log {
    /// A log in this file, made when it is first needed.
    #[must_use]
    pub fn to(path: PathBuf) -> Self {
        Self { path: Some(Arc::new(Mutex::new(path))), secrets: Secrets::default() }
    }

    /// The same log, without these values.
    #[must_use]
    pub(crate) fn without(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Writes a line. A log that cannot be written must not stop the work it speaks of.
    pub fn line(&self, text: &str) {
        let Some(path) = &self.path else { return };
        let text = self.secrets.redact(text);
        let path = path.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(mut file) = open(&path) {
            let _ = writeln!(file, "{} {text}", clock::now());
        }
    }
}

fn open(path: &PathBuf) -> std::io::Result<File> {
    let grown = std::fs::metadata(path).is_ok_and(|meta| meta.len() > LONGEST);
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    if grown { options.write(true).truncate(true).open(path) } else { options.append(true).open(path) }
}

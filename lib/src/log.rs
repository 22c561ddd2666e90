//! A log for people: one line for each thing that was skipped or went wrong without anybody to tell.
//! Never holds what a session says.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::mint;

/// At this size the log starts again.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Where such lines go; nowhere by default.
#[derive(Clone, Debug, Default)]
pub struct Log(Option<Arc<Mutex<PathBuf>>>);

impl Log {
    /// A log in this file, made when it is first needed.
    #[must_use]
    pub fn to(path: PathBuf) -> Self {
        Self(Some(Arc::new(Mutex::new(path))))
    }

    /// Writes a line. A log that cannot be written must not stop the work it speaks of.
    pub fn line(&self, text: &str) {
        let Some(path) = &self.0 else { return };
        let path = path.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(mut file) = open(&path) {
            let _ = writeln!(file, "{} {text}", mint::now());
        }
    }
}

fn open(path: &PathBuf) -> std::io::Result<File> {
    let grown = std::fs::metadata(path).is_ok_and(|meta| meta.len() > LONGEST);
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    if grown { options.write(true).truncate(true).open(path) } else { options.append(true).open(path) }
}

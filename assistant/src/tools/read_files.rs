//! Records hashes of the files that the model has read in a session, so that `write` does not replace text that the model
//! has not read.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rethread::lock::locked;

use super::change::LARGEST;
use super::stop::Stop;

/// The maximum number of files. When it is exceeded, all are dropped and have to be read again.
const MOST_FILES: usize = 10_000;
/// The buffer size for hashing.
const BUFFER: usize = 256 * 1024;

/// The files that were read or written in this session.
#[derive(Debug, Default)]
pub(super) struct ReadFiles {
    hasher: RandomState,
    /// The hash of each file's content, by path without symbolic links.
    files: Mutex<HashMap<PathBuf, u64>>,
}

/// Whether the model has read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    /// It was read, and has not changed since.
    Current,
    /// It was read, and has changed since.
    Outdated,
    /// It was not read.
    Unread,
}

impl ReadFiles {
    /// Records a file that is about to be shown, unless it is too large to be written.
    pub(super) fn note_file(&self, path: &Path, file: &File, stop: &Stop) {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; BUFFER]);
        while bytes.len() <= LARGEST && !stop.now() {
            match file.read_at(&mut buffer, bytes.len() as u64) {
                Ok(0) => return self.note(path, &bytes),
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(_) => return,
            }
        }
    }

    /// Records the content of a file.
    pub(super) fn note(&self, path: &Path, bytes: &[u8]) {
        let hash = self.hasher.hash_one(bytes);
        let mut files = locked(&self.files);
        if files.len() >= MOST_FILES {
            files.clear();
        }
        files.insert(path.to_owned(), hash);
    }

    /// Compares the current content of a file with the recorded one.
    pub(super) fn state(&self, path: &Path, bytes: &[u8]) -> ReadState {
        let noted = locked(&self.files).get(path).copied();
        match noted {
            Some(hash) if hash == self.hasher.hash_one(bytes) => ReadState::Current,
            Some(_) => ReadState::Outdated,
            None => ReadState::Unread,
        }
    }
}

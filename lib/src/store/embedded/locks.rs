//! Lock files: a process holds one while it lives, and the kernel releases it however the process ends. Independent of
//! sessions.
//!
//! A query takes the lock in shared mode, so that two queries do not mistake each other for the holder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::files::create;

/// A lock that is held. Dropping it removes the file, then releases the lock.
pub(super) struct HeldLock {
    path: PathBuf,
    _file: File,
}

/// The state of the process that holds a lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The process lives.
    Alive,
    /// The process has ended.
    Gone,
    /// The file does not exist.
    NoFile,
}

/// Creates the lock file and locks it.
pub(super) fn acquire(dir: &Path, name: &str) -> io::Result<HeldLock> {
    let path = path_of(dir, name);
    loop {
        let file = create(&path)?;
        file.lock()?;
        // Between creating and locking, another process may have removed the file as stale.
        if is_at(&file, &path)? {
            return Ok(HeldLock { path, _file: file });
        }
    }
}

/// Returns whether the holder of this lock lives.
pub(super) fn query(dir: &Path, name: &str) -> io::Result<Holder> {
    match File::open(path_of(dir, name)) {
        Ok(file) => query_file(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Holder::NoFile),
        Err(error) => Err(error),
    }
}

/// Queries with a timeout, for a holder whose process seems to have ended. If a process is killed while it starts a
/// child, the child inherits the lock until it calls exec.
pub(super) fn query_with_retry(dir: &Path, name: &str, timeout: Duration) -> io::Result<Holder> {
    let end = Instant::now() + timeout;
    loop {
        let holder = query(dir, name)?;
        if holder != Holder::Alive || Instant::now() >= end {
            return Ok(holder);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Removes the lock files of processes that have ended.
pub(super) fn remove_stale(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "lock") {
            remove_if_stale(&path)?;
        }
    }
    Ok(())
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // If this fails, the next process removes the file.
        let _ = fs::remove_file(&self.path);
    }
}

fn path_of(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.lock"))
}

fn remove_if_stale(path: &Path) -> io::Result<()> {
    let cleared = File::open(path).and_then(|file| match query_file(&file)? {
        // The shared lock is held until `file` is dropped, so that nobody can acquire the lock while the file is
        // removed.
        Holder::Gone if is_at(&file, path)? => fs::remove_file(path),
        Holder::Gone | Holder::Alive | Holder::NoFile => Ok(()),
    });
    match cleared {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn query_file(file: &File) -> io::Result<Holder> {
    match file.try_lock_shared() {
        Ok(()) => Ok(Holder::Gone),
        Err(TryLockError::WouldBlock) => Ok(Holder::Alive),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((held.dev(), held.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_held_briefly_by_a_child_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let lock = create(&path_of(dir.path(), "a")).unwrap();
        lock.lock().unwrap();
        assert_eq!(query(dir.path(), "a").unwrap(), Holder::Alive);
        assert_eq!(query_with_retry(dir.path(), "a", Duration::from_millis(5)).unwrap(), Holder::Alive);
        let child = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            drop(lock);
        });
        assert_eq!(query_with_retry(dir.path(), "a", Duration::from_secs(5)).unwrap(), Holder::Gone);
        child.join().unwrap();
    }
}

//! Lock files: a process holds one for as long as it lives, and the kernel lets go of it however it dies.
//! Knows nothing of sessions.
//!
//! Whoever only asks takes the lock shared, so that two who ask at once do not mistake each other for the holder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::files::create;

/// A lock that is held. Dropping it removes the file, then lets go.
pub(super) struct HeldLock {
    path: PathBuf,
    _file: File,
}

/// What a lock file tells about its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// It lives.
    Alive,
    /// It is gone.
    Gone,
    /// There is no such file.
    NoFile,
}

/// Makes the lock file of this name and holds it.
pub(super) fn hold(dir: &Path, name: &str) -> io::Result<HeldLock> {
    let path = path_of(dir, name);
    loop {
        let file = create(&path)?;
        file.lock()?;
        // Between making and locking, somebody who clears up may have taken it for a dead one's.
        if is_at(&file, &path)? {
            return Ok(HeldLock { path, _file: file });
        }
    }
}

/// Asks whether the holder of this name lives.
pub(super) fn ask(dir: &Path, name: &str) -> io::Result<Holder> {
    match File::open(path_of(dir, name)) {
        Ok(file) => ask_file(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Holder::NoFile),
        Err(error) => Err(error),
    }
}

/// The same, for a holder whose process seems to be gone. One that is killed while it starts a child leaves its lock
/// to that child until the child executes: a moment, for which this waits.
pub(super) fn ask_patiently(dir: &Path, name: &str, patience: Duration) -> io::Result<Holder> {
    let end = Instant::now() + patience;
    loop {
        let holder = ask(dir, name)?;
        if holder != Holder::Alive || Instant::now() >= end {
            return Ok(holder);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Removes the lock files of the dead.
pub(super) fn clear(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "lock") {
            clear_one(&path)?;
        }
    }
    Ok(())
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // A file that stays is cleared by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

fn path_of(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.lock"))
}

fn clear_one(path: &Path) -> io::Result<()> {
    let cleared = File::open(path).and_then(|file| match ask_file(&file)? {
        // The shared lock is held until `file` is dropped, so nobody can come to hold what is removed.
        Holder::Gone if is_at(&file, path)? => fs::remove_file(path),
        Holder::Gone | Holder::Alive | Holder::NoFile => Ok(()),
    });
    match cleared {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn ask_file(file: &File) -> io::Result<Holder> {
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
    fn a_lock_that_a_child_has_for_a_moment_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let lock = create(&path_of(dir.path(), "a")).unwrap();
        lock.lock().unwrap();
        assert_eq!(ask(dir.path(), "a").unwrap(), Holder::Alive);
        assert_eq!(ask_patiently(dir.path(), "a", Duration::from_millis(5)).unwrap(), Holder::Alive);
        let child = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            drop(lock);
        });
        assert_eq!(ask_patiently(dir.path(), "a", Duration::from_secs(5)).unwrap(), Holder::Gone);
        child.join().unwrap();
    }
}

//! Tells whether a write failed because the disk is full or read-only, and which disk that is.

use std::error::Error;
use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::WriteObstacle;

/// Below this a disk is full for us: SQLite needs 32 KiB for the memory that processes share.
const LEAST_ROOM: u64 = 64 * 1024;

/// Why a file could not be written, if that is because of its disk.
pub(super) fn find(file: &Path, cause: &(dyn Error + 'static)) -> Option<WriteObstacle> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let read_only = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
        return full.then_some(WriteObstacle::Full).or(read_only.then_some(WriteObstacle::ReadOnly));
    }
    let code = cause.downcast_ref::<rusqlite::Error>()?.sqlite_error_code()?;
    if code == ErrorCode::DiskFull {
        return Some(WriteObstacle::Full);
    }
    // SQLite does not tell why it could not write or make a file.
    matches!(code, ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly)
        .then(|| of_disk(file))
        .flatten()
}

/// What is in the way of writing on the disk of a file.
pub(super) fn of_disk(file: &Path) -> Option<WriteObstacle> {
    let folder = file.ancestors().find(|path| path.is_dir())?;
    let path = CString::new(folder.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY: all zeroes is a valid `statvfs`.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero, and the struct is valid for the call.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } != 0 {
        return None;
    }
    #[allow(clippy::useless_conversion, reason = "the types differ between systems")]
    let (blocks, size) = (u64::from(found.f_bavail), u64::from(found.f_frsize));
    let no_files = found.f_files > 0 && found.f_ffree == 0;
    if found.f_flag & libc::ST_RDONLY != 0 {
        Some(WriteObstacle::ReadOnly)
    } else if blocks.saturating_mul(size) < LEAST_ROOM || no_files {
        Some(WriteObstacle::Full)
    } else {
        None
    }
}

/// The folder at which the disk of a file is mounted.
pub(super) fn disk_of(file: &Path) -> PathBuf {
    let device = |path: &Path| path.metadata().map(|meta| meta.dev());
    let mut folders = file.ancestors().skip(1).filter(|path| path.is_dir());
    let Some(mut root) = folders.next() else { return PathBuf::from("/") };
    let Ok(disk) = device(root) else { return root.to_owned() };
    for folder in folders {
        if device(folder).is_ok_and(|other| other != disk) {
            break;
        }
        root = folder;
    }
    root.to_owned()
}

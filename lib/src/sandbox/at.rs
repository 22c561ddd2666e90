//! System calls relative to an open directory, with owned descriptors and without following symbolic links. Independent
//! of session roots.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

/// How a directory is opened that is only passed through: on Linux this needs no permission to list it.
#[cfg(target_os = "linux")]
const DIRECTORY: libc::c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const DIRECTORY: libc::c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// More than any file system allows for a path.
const MAX_LINK_BYTES: usize = 16 * 1024;

/// Opens a directory by a resolved path. Refuses symbolic links in it, which must have been created since.
#[cfg(target_os = "linux")]
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    // SAFETY: the name is NUL-terminated for the whole call.
    let mut here = owned(unsafe { libc::open(c"/".as_ptr(), DIRECTORY) })?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            here = open_directory(here.as_fd(), name)?;
        }
    }
    Ok(here)
}

/// Opens a directory by a resolved path. Only the last name is checked for a symbolic link: opening the others one by
/// one would need permission to list them.
#[cfg(not(target_os = "linux"))]
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let name = text(path.as_os_str())?;
    // SAFETY: the name is NUL-terminated for the whole call.
    owned(unsafe { libc::open(name.as_ptr(), DIRECTORY | libc::O_NOFOLLOW) })
}

/// Opens a directory inside another one.
///
/// # Errors
/// If there is no directory of that name, or it is a symbolic link.
pub fn open_directory(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    open(directory, name, DIRECTORY, 0)
}

/// Opens a file inside a directory with these flags. Never blocks on the other end of a pipe.
pub(crate) fn open(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let name = text(name)?;
    // SAFETY: the directory is open and the name is NUL-terminated for the whole call.
    owned(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, libc::c_uint::from(mode)) })
}

/// Reads a symbolic link; `None` if the name exists and is not a link.
pub fn read_link(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<OsString>> {
    let name = text(name)?;
    let mut target = vec![0_u8; MAX_LINK_BYTES];
    // SAFETY: the name is NUL-terminated, and the buffer has the given length.
    let length = unsafe {
        libc::readlinkat(directory.as_raw_fd(), name.as_ptr(), target.as_mut_ptr().cast(), target.len())
    };
    match usize::try_from(length) {
        Ok(length) => {
            target.truncate(length);
            Ok(Some(OsString::from_vec(target)))
        }
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            error => Err(error),
        },
    }
}

pub(crate) fn make_directory(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let name = text(name)?;
    // SAFETY: the directory is open and the name is NUL-terminated.
    done(unsafe { libc::mkdirat(directory.as_raw_fd(), name.as_ptr(), 0o777) })
}

/// Renames a file within a directory, replacing an existing one.
pub(crate) fn rename(directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let (from, to, fd) = (text(from)?, text(to)?, directory.as_raw_fd());
    // SAFETY: the directory is open and both names are NUL-terminated.
    done(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) })
}

/// Creates a hard link within a directory. Fails if the name exists.
pub(crate) fn link(directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let (from, to, fd) = (text(from)?, text(to)?, directory.as_raw_fd());
    // SAFETY: the directory is open and both names are NUL-terminated.
    done(unsafe { libc::linkat(fd, from.as_ptr(), fd, to.as_ptr(), 0) })
}

/// Returns the status of a name without following a link.
pub fn status(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<libc::stat> {
    let name = text(name)?;
    // SAFETY: all zeroes is a valid status.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    let fd = directory.as_raw_fd();
    // SAFETY: the directory is open, the name is NUL-terminated, the status is valid for the call.
    done(unsafe { libc::fstatat(fd, name.as_ptr(), &mut status, libc::AT_SYMLINK_NOFOLLOW) })?;
    Ok(status)
}

pub(crate) fn remove(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let name = text(name)?;
    // SAFETY: the directory is open and the name is NUL-terminated.
    done(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) })
}

fn text(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    done(fd)?;
    // SAFETY: it was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

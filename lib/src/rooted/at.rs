//! System calls that are relative to an open directory, with owned descriptors. None of them follows a symbolic link in the
//! last name. Knows nothing of roots.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

/// How a directory is opened that is only passed through: on Linux that needs no right to list it.
#[cfg(target_os = "linux")]
const DIRECTORY: libc::c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const DIRECTORY: libc::c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// More than any file system allows for a path.
const LONGEST_LINK: usize = 16 * 1024;

/// Opens a directory by a path that leads through no link: it was resolved before, and a link in it now was put
/// there since.
#[cfg(target_os = "linux")]
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    // SAFETY: the name is a string with its end for the whole call.
    let mut here = owned(unsafe { libc::open(c"/".as_ptr(), DIRECTORY) })?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            here = open_directory(here.as_fd(), name)?;
        }
    }
    Ok(here)
}

/// Opens a directory by a path that was resolved before. Only its last name is sure to be no link: passing
/// through the others one by one would need the right to list them.
#[cfg(not(target_os = "linux"))]
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let name = text(path.as_os_str())?;
    // SAFETY: the name is a string with its end for the whole call.
    owned(unsafe { libc::open(name.as_ptr(), DIRECTORY | libc::O_NOFOLLOW) })
}

/// Opens a directory inside another one.
///
/// # Errors
/// If there is no directory of that name, or it is a symbolic link.
pub fn open_directory(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    open(directory, name, DIRECTORY, 0)
}

/// Opens a file inside a directory with these flags. Never waits for whoever is at the other end of a pipe.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let name = text(name)?;
    // SAFETY: the directory is open and the name is a string with its end for the whole call.
    owned(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, libc::c_uint::from(mode)) })
}

/// Reads the target of a symbolic link. Returns `None` for anything else that has this name.
///
/// # Errors
/// If nothing has this name.
pub fn read_link(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<OsString>> {
    let name = text(name)?;
    let mut target = vec![0_u8; LONGEST_LINK];
    // SAFETY: the name has its end, and the buffer is as long as is said.
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

/// Makes a directory.
pub(super) fn make_directory(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let name = text(name)?;
    // SAFETY: the directory is open and the name has its end.
    done(unsafe { libc::mkdirat(directory.as_raw_fd(), name.as_ptr(), 0o777) })
}

/// Puts a file in the place of another, both inside one directory.
pub(super) fn rename(directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let (from, to, fd) = (text(from)?, text(to)?, directory.as_raw_fd());
    // SAFETY: the directory is open and both names have their ends.
    done(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) })
}

/// Gives a file a second name in its directory. Fails if the name is taken.
pub(super) fn link(directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let (from, to, fd) = (text(from)?, text(to)?, directory.as_raw_fd());
    // SAFETY: the directory is open and both names have their ends.
    done(unsafe { libc::linkat(fd, from.as_ptr(), fd, to.as_ptr(), 0) })
}

/// The status of what has this name, as `fstatat` reports it. For a symbolic link it is the status of the link itself.
///
/// # Errors
/// If nothing has this name.
pub fn status(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<libc::stat> {
    let name = text(name)?;
    // SAFETY: all zeroes is a valid status.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    let fd = directory.as_raw_fd();
    // SAFETY: the directory is open, the name has its end, the status is valid for the call.
    done(unsafe { libc::fstatat(fd, name.as_ptr(), &mut status, libc::AT_SYMLINK_NOFOLLOW) })?;
    Ok(status)
}

/// Removes a file.
pub(super) fn remove(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let name = text(name)?;
    // SAFETY: the directory is open and the name has its end.
    done(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) })
}

fn text(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    done(fd)?;
    // SAFETY: it was just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

//! Lists the names and kinds in an open directory, without opening or following them.

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;

use super::at;

/// The limit for one directory.
const MAX_ENTRIES: usize = 50_000;

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Link,
    /// A pipe, a socket, a device.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name without its directory.
    pub name: OsString,
    /// Its kind at the time of listing.
    pub kind: EntryKind,
}

/// The entries of a directory.
#[derive(Debug)]
pub struct DirEntries {
    /// Sorted by name.
    pub list: Vec<DirEntry>,
    /// Whether entries beyond the limit were left out.
    pub cut: bool,
}

/// Lists a directory, sorted by name, without `.` and `..`.
pub fn entries(directory: BorrowedFd<'_>) -> io::Result<DirEntries> {
    let listing = DirStream::open(directory)?;
    let mut list = Vec::new();
    let mut cut = false;
    while let Some((name, kind)) = listing.next()? {
        if list.len() == MAX_ENTRIES {
            cut = true;
            break;
        }
        let kind = match kind {
            Some(kind) => kind,
            None => kind_of(directory, &name)?,
        };
        list.push(DirEntry { name, kind });
    }
    list.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(DirEntries { list, cut })
}

/// An open directory stream.
struct DirStream(*mut libc::DIR);

impl DirStream {
    fn open(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let fd = at::open(directory, OsStr::new("."), libc::O_RDONLY | libc::O_DIRECTORY, 0)?.into_raw_fd();
        // SAFETY: it is an open directory, which the stream owns from here on.
        let stream = unsafe { libc::fdopendir(fd) };
        if stream.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: the stream did not take ownership.
            unsafe { libc::close(fd) };
            return Err(error);
        }
        Ok(Self(stream))
    }

    /// Returns the next name, and its kind if the file system reports it.
    fn next(&self) -> io::Result<Option<(OsString, Option<EntryKind>)>> {
        loop {
            clear_errno();
            // SAFETY: the stream is open and used by this thread only.
            let entry = unsafe { libc::readdir(self.0) };
            if entry.is_null() {
                let error = io::Error::last_os_error();
                return if error.raw_os_error() == Some(0) { Ok(None) } else { Err(error) };
            }
            // SAFETY: the entry and its name are valid until the next call.
            let (name, kind) = unsafe { (CStr::from_ptr((*entry).d_name.as_ptr()), (*entry).d_type) };
            if !matches!(name.to_bytes(), b"." | b"..") {
                return Ok(Some((OsStr::from_bytes(name.to_bytes()).to_owned(), reported_kind(kind))));
            }
        }
    }
}

impl Drop for DirStream {
    fn drop(&mut self) {
        // SAFETY: it is open and not used again.
        unsafe { libc::closedir(self.0) };
    }
}

fn reported_kind(kind: u8) -> Option<EntryKind> {
    match kind {
        libc::DT_UNKNOWN => None,
        libc::DT_REG => Some(EntryKind::File),
        libc::DT_DIR => Some(EntryKind::Directory),
        libc::DT_LNK => Some(EntryKind::Link),
        _ => Some(EntryKind::Other),
    }
}

fn kind_of(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<EntryKind> {
    let kind = match at::status(directory, name) {
        Ok(status) => status.st_mode & libc::S_IFMT,
        // It was removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(EntryKind::Other),
        Err(error) => return Err(error),
    };
    Ok(match kind {
        libc::S_IFREG => EntryKind::File,
        libc::S_IFDIR => EntryKind::Directory,
        libc::S_IFLNK => EntryKind::Link,
        _ => EntryKind::Other,
    })
}

/// `readdir` reports the end and an error in the same way except for `errno`.
fn clear_errno() {
    #[cfg(target_os = "linux")]
    // SAFETY: the location belongs to this thread.
    unsafe {
        *libc::__errno_location() = 0;
    }
    #[cfg(not(target_os = "linux"))]
    // SAFETY: the location belongs to this thread.
    unsafe {
        *libc::__error() = 0;
    }
}

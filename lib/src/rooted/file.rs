//! Opens regular files at a place, and replaces them atomically. Which places are inside the roots is decided in
//! `beneath`.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::at;
use super::beneath::{PathError, Place};
use crate::ids;

/// How much is compared at once.
const COMPARED: usize = 64 * 1024;

/// What [`write()`] requires to be at the place before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before<'a> {
    /// A regular file or nothing.
    Whatever,
    /// Nothing.
    Nothing,
    /// A file with exactly these bytes.
    Bytes(&'a [u8]),
}

/// Why a file was not opened or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path was not resolved, or a system call failed.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The place is a directory, a pipe, a socket or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// The place does not have what [`Before`] requires.
    #[error("the file was changed by someone else")]
    Changed,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Path(PathError::Io(error))
    }
}

/// Opens a regular file with these flags of `open(2)`. Pipes and devices are refused, because opening or reading them can
/// block or have effects.
///
/// # Errors
/// If there is no regular file at the place, or it became a symbolic link.
pub fn open_regular(place: &Place, flags: libc::c_int) -> Result<(File, Metadata), FileError> {
    open_regular_in(place.directory.as_fd(), &place.name, flags)
}

/// Does the same as [`open_regular`] for a name in an open directory.
///
/// # Errors
/// If there is no regular file of that name, or it is a symbolic link.
pub fn open_regular_in(
    directory: impl AsFd,
    name: &OsStr,
    flags: libc::c_int,
) -> Result<(File, Metadata), FileError> {
    let opened = at::open(directory.as_fd(), name, flags, 0);
    let file = match opened {
        Ok(fd) => File::from(fd),
        // It became a link since it was looked at.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(PathError::Outside.into()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::EISDIR)) => {
            return Err(FileError::NotAFile);
        }
        Err(error) => return Err(error.into()),
    };
    let meta = file.metadata()?;
    if meta.is_file() { Ok((file, meta)) } else { Err(FileError::NotAFile) }
}

/// Writes a whole file, if the place has what `before` requires.
///
/// A concurrent reader sees the old bytes or the new ones, never a mixture. An existing file keeps its mode and its group.
/// A file of another owner keeps its owner and is overwritten in place, which is not atomic. If a file has several hard
/// links, only this name gets the new bytes, because the others may lie outside the roots.
///
/// # Errors
/// If the place does not have what `before` requires, or the file cannot be written.
pub fn write(place: &Place, bytes: &[u8], before: Before<'_>) -> Result<(), FileError> {
    // Opened for writing although it is replaced: whoever may not write it may not replace it either.
    let flags = if matches!(before, Before::Bytes(_)) { libc::O_RDWR } else { libc::O_WRONLY };
    match open_regular(place, flags) {
        Ok(_) if before == Before::Nothing => Err(FileError::Changed),
        Ok((file, meta)) if meta.uid() != user() && meta.nlink() == 1 => overwrite(file, bytes, before),
        Ok((file, meta)) => match replace(place, bytes, &meta, before) {
            // No new file may be made in this directory, or none like the old one.
            Err(FileError::Path(PathError::Io(error)))
                if error.kind() == io::ErrorKind::PermissionDenied && meta.nlink() == 1 =>
            {
                overwrite(file, bytes, before)
            }
            written => written,
        },
        Err(FileError::Path(PathError::Io(error))) if error.kind() == io::ErrorKind::NotFound => {
            create(place, bytes, before)
        }
        Err(error) => Err(error),
    }
}

/// Puts a new file in the place of another. Looked at as late as can be: between that look and the rename there
/// is no time for anybody, but no lock either.
fn replace(place: &Place, bytes: &[u8], old: &Metadata, before: Before<'_>) -> Result<(), FileError> {
    // Nobody reads the new bytes who might not read the old ones.
    let draft = Draft::write(place, bytes, 0o600)?;
    draft.take_after(old)?;
    if before != Before::Whatever {
        match open_regular(place, libc::O_RDONLY) {
            Ok((file, _)) => compare(file, before)?,
            Err(FileError::Path(PathError::Io(error))) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FileError::Changed);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(at::rename(place.directory.as_fd(), &draft.name, &place.name)?)
}

/// Makes a file where none is. Whatever somebody else puts there meanwhile stays, if it must not be replaced.
fn create(place: &Place, bytes: &[u8], before: Before<'_>) -> Result<(), FileError> {
    let draft = match before {
        Before::Bytes(_) => return Err(FileError::Changed),
        Before::Whatever | Before::Nothing => Draft::write(place, bytes, 0o666)?,
    };
    let directory = place.directory.as_fd();
    if before == Before::Nothing {
        match at::link(directory, &draft.name, &place.name) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(FileError::Changed),
            // Not every file system has second names.
            Err(_) => {}
        }
    }
    Ok(at::rename(directory, &draft.name, &place.name)?)
}

fn overwrite(mut file: File, bytes: &[u8], before: Before<'_>) -> Result<(), FileError> {
    if before != Before::Whatever {
        compare(&file, before)?;
    }
    file.rewind()?;
    file.set_len(0)?;
    Ok(file.write_all(bytes)?)
}

fn compare(mut file: impl Read, before: Before<'_>) -> Result<(), FileError> {
    let Before::Bytes(mut expected) = before else { return Err(FileError::Changed) };
    let mut buffer = vec![0; COMPARED];
    loop {
        let read = file.read(&mut buffer)?;
        match expected.strip_prefix(&buffer[..read]) {
            Some(rest) if read > 0 => expected = rest,
            Some([]) => return Ok(()),
            Some(_) | None => return Err(FileError::Changed),
        }
    }
}

/// A new file beside the one it is for. Dropping it removes it, unless it has got that one's name.
struct Draft<'a> {
    place: &'a Place,
    name: OsString,
    file: File,
}

impl<'a> Draft<'a> {
    fn write(place: &'a Place, bytes: &[u8], mode: libc::mode_t) -> io::Result<Self> {
        let name = OsString::from(format!(".rethread-{}", ids::message_id()));
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = File::from(at::open(place.directory.as_fd(), &name, flags, mode)?);
        let mut draft = Self { place, name, file };
        draft.file.write_all(bytes)?;
        Ok(draft)
    }

    /// Gives it the group and the mode of the file that it replaces.
    fn take_after(&self, old: &Metadata) -> io::Result<()> {
        if self.file.metadata()?.gid() != old.gid() {
            std::os::unix::fs::fchown(&self.file, None, Some(old.gid()))?;
        }
        // Behind the change of group, which takes some bits of the mode away.
        self.file.set_permissions(PermissionsExt::from_mode(old.mode() & 0o7777))
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // After a rename the name is free, and there is nothing to remove.
        let _ = at::remove(self.place.directory.as_fd(), &self.name);
    }
}

fn user() -> u32 {
    // SAFETY: it only asks, and cannot fail.
    unsafe { libc::geteuid() }
}

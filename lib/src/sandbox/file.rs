//! Opens regular files and replaces them atomically. Which paths are inside the roots is decided in `resolve`.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::at;
use super::resolve::{PathError, SandboxPath};
use crate::ids;

const COMPARED_BYTES: usize = 64 * 1024;

/// What must exist at a path before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected<'a> {
    /// Any regular file, or nothing.
    Anything,
    /// Nothing.
    Nothing,
    /// A file with this content.
    Bytes(&'a [u8]),
}

/// Why a file was not opened or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path cannot be resolved.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path is a directory, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file does not have the expected content.
    #[error("the file was changed by someone else")]
    Changed,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Path(PathError::Io(error))
    }
}

/// Opens a regular file. Pipes would block, and devices may have side effects.
pub fn open_regular(path: &SandboxPath, flags: libc::c_int) -> Result<(File, Metadata), FileError> {
    open_regular_in(path.directory.as_fd(), &path.name, flags)
}

/// The same for a name in a directory.
pub fn open_regular_in(
    directory: impl AsFd,
    name: &OsStr,
    flags: libc::c_int,
) -> Result<(File, Metadata), FileError> {
    let opened = at::open(directory.as_fd(), name, flags, 0);
    let file = match opened {
        Ok(fd) => File::from(fd),
        // It became a symbolic link since it was checked.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(PathError::Outside.into()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::EISDIR)) => {
            return Err(FileError::NotAFile);
        }
        Err(error) => return Err(error.into()),
    };
    let meta = file.metadata()?;
    if meta.is_file() { Ok((file, meta)) } else { Err(FileError::NotAFile) }
}

/// Replaces the content of a file if it is as expected.
///
/// A concurrent reader sees either the old or the new content. An existing file keeps its mode and group. A file of
/// another owner is overwritten in place to keep its owner. If a file has several hard links, only this name gets the
/// new content, since the others may be outside the roots.
pub fn write(path: &SandboxPath, bytes: &[u8], expected: Expected<'_>) -> Result<(), FileError> {
    // Opened for writing although it is replaced: a file that may not be written may not be replaced either.
    let flags = if matches!(expected, Expected::Bytes(_)) { libc::O_RDWR } else { libc::O_WRONLY };
    match open_regular(path, flags) {
        Ok(_) if expected == Expected::Nothing => Err(FileError::Changed),
        Ok((file, meta)) if meta.uid() != user() && meta.nlink() == 1 => overwrite(file, bytes, expected),
        Ok((file, meta)) => match replace(path, bytes, &meta, expected) {
            // The directory allows no new file, or none with the same attributes.
            Err(FileError::Path(PathError::Io(error)))
                if error.kind() == io::ErrorKind::PermissionDenied && meta.nlink() == 1 =>
            {
                overwrite(file, bytes, expected)
            }
            written => written,
        },
        Err(FileError::Path(PathError::Io(error))) if error.kind() == io::ErrorKind::NotFound => {
            create(path, bytes, expected)
        }
        Err(error) => Err(error),
    }
}

/// Replaces a file by a new one. The content is checked as late as possible, but without a lock.
fn replace(
    path: &SandboxPath,
    bytes: &[u8],
    old: &Metadata,
    expected: Expected<'_>,
) -> Result<(), FileError> {
    // The new content is readable only by those who could read the old one.
    let temp = TempFile::write(path, bytes, 0o600)?;
    temp.copy_group_and_mode(old)?;
    if expected != Expected::Anything {
        match open_regular(path, libc::O_RDONLY) {
            Ok((file, _)) => compare(file, expected)?,
            Err(FileError::Path(PathError::Io(error))) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FileError::Changed);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(at::rename(path.directory.as_fd(), &temp.name, &path.name)?)
}

/// Creates a new file without replacing one that appears meanwhile, unless anything may be replaced.
fn create(path: &SandboxPath, bytes: &[u8], expected: Expected<'_>) -> Result<(), FileError> {
    let temp = match expected {
        Expected::Bytes(_) => return Err(FileError::Changed),
        Expected::Anything | Expected::Nothing => TempFile::write(path, bytes, 0o666)?,
    };
    let directory = path.directory.as_fd();
    if expected == Expected::Nothing {
        match at::link(directory, &temp.name, &path.name) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(FileError::Changed),
            // Not every file system has hard links.
            Err(_) => {}
        }
    }
    Ok(at::rename(directory, &temp.name, &path.name)?)
}

fn overwrite(mut file: File, bytes: &[u8], expected: Expected<'_>) -> Result<(), FileError> {
    if expected != Expected::Anything {
        compare(&file, expected)?;
    }
    file.rewind()?;
    file.set_len(0)?;
    Ok(file.write_all(bytes)?)
}

fn compare(mut file: impl Read, expected: Expected<'_>) -> Result<(), FileError> {
    let Expected::Bytes(mut expected) = expected else { return Err(FileError::Changed) };
    let mut buffer = vec![0; COMPARED_BYTES];
    loop {
        let read = file.read(&mut buffer)?;
        match expected.strip_prefix(&buffer[..read]) {
            Some(rest) if read > 0 => expected = rest,
            Some([]) => return Ok(()),
            Some(_) | None => return Err(FileError::Changed),
        }
    }
}

/// A temporary file beside its target, removed on drop unless it was renamed.
struct TempFile<'a> {
    path: &'a SandboxPath,
    name: OsString,
    file: File,
}

impl<'a> TempFile<'a> {
    fn write(path: &'a SandboxPath, bytes: &[u8], mode: libc::mode_t) -> io::Result<Self> {
        let name = OsString::from(format!(".rethread-{}", ids::message_id()));
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = File::from(at::open(path.directory.as_fd(), &name, flags, mode)?);
        let mut temp = Self { path, name, file };
        temp.file.write_all(bytes)?;
        Ok(temp)
    }

    /// Copies the group and mode of the file that it replaces.
    fn copy_group_and_mode(&self, old: &Metadata) -> io::Result<()> {
        if self.file.metadata()?.gid() != old.gid() {
            std::os::unix::fs::fchown(&self.file, None, Some(old.gid()))?;
        }
        // After the change of group, which clears some mode bits.
        self.file.set_permissions(PermissionsExt::from_mode(old.mode() & 0o7777))
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = at::remove(self.path.directory.as_fd(), &self.name);
    }
}

fn user() -> u32 {
    // SAFETY: the call has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

//! Text files inside the roots of a session, for agents that let their client read and write them. Which paths
//! are inside is decided in `beneath`.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::{Value, json};

use super::at;
use super::beneath::{Missing, PathError, Place, Roots};
use crate::mint;
use crate::wire::{RpcError, code};

/// How much text one answer may hold, and one request may write.
const LONGEST: usize = 50 * 1024 * 1024;

/// Which lines of a file are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// The first one, counted from 1.
    pub(super) first: Option<u64>,
    /// How many.
    pub(super) count: Option<u64>,
}

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// The path leads nowhere.
    #[error(transparent)]
    Path(#[from] PathError),
    /// It is no text.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// It is too much.
    #[error("the text is longer than {LONGEST} bytes")]
    TooLong,
    /// It is a directory, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Path(PathError::Io(error))
    }
}

/// Reads a file, or some lines of it, with their line ends as they are.
pub(super) fn read(roots: &Roots, path: &Path, lines: Lines) -> Result<String, FileError> {
    let place = roots.place(path, Missing::Fail)?;
    let (file, _) = regular(&place, libc::O_RDONLY)?;
    let bytes = pick(BufReader::with_capacity(64 * 1024, file), lines)?;
    String::from_utf8(bytes).map_err(|_| FileError::NotText)
}

/// Writes a file as a whole, and the directories above it that are missing.
///
/// Whoever reads meanwhile sees the old text or the new one. An existing file keeps its mode; one that has
/// several names or another owner keeps those too, and is then written in its place.
pub(super) fn write(roots: &Roots, path: &Path, text: &str) -> Result<(), FileError> {
    if text.len() > LONGEST {
        return Err(FileError::TooLong);
    }
    let place = roots.place(path, Missing::Make)?;
    // Opened for writing although it is replaced: whoever may not write it may not replace it either.
    let old = match regular(&place, libc::O_WRONLY) {
        Ok(old) => Some(old),
        Err(FileError::Path(PathError::Io(error))) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    match old {
        Some((file, meta)) if meta.nlink() > 1 || meta.uid() != user() => Ok(overwrite(file, text)?),
        Some((file, meta)) => match replace(&place, text, Some(&meta)) {
            // No new file may be made in this directory.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(overwrite(file, text)?),
            written => Ok(written?),
        },
        None => Ok(replace(&place, text, None)?),
    }
}

/// The error for an agent that asked for `path`.
pub(super) fn refused(error: &FileError, field: &str, path: &str, roots: &[String]) -> RpcError {
    let got = Value::String(path.to_owned());
    let cause = match error {
        FileError::Path(PathError::Outside) => {
            return RpcError::field(field, &got, "a path inside the session's roots")
                .hint(format!("the roots are {}; links that lead out are refused", roots.join(", ")));
        }
        FileError::NotText => {
            return RpcError::field(field, &got, "a text file in UTF-8").hint("read it with another tool");
        }
        FileError::TooLong => {
            return RpcError::field(field, &got, &format!("at most {LONGEST} bytes of text"))
                .hint("ask for a part of it with line and limit");
        }
        FileError::NotAFile => {
            return RpcError::field(field, &got, "a regular file").hint("name a file in it, or another one");
        }
        FileError::Path(PathError::Io(error)) => error.raw_os_error(),
    };
    let told = match cause {
        Some(libc::ENOENT) => RpcError::new(code::NOT_FOUND, format!("{path} does not exist"))
            .with("uri", path)
            .hint("check the spelling; paths are absolute"),
        Some(libc::EISDIR | libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG) => {
            RpcError::new(code::INVALID_PARAMS, format!("{path}: {error}")).hint("name another path")
        }
        _ => RpcError::internal(format!("{path}: {error}")).hint("see to the rights and the room there are"),
    };
    told.with("field", field).with("got", json!(path))
}

/// Opens a file that must be a regular one: a pipe would wait, a device does who knows what.
fn regular(place: &Place, flags: libc::c_int) -> Result<(File, Metadata), FileError> {
    let opened = at::open(place.directory.as_fd(), &place.name, flags, 0);
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

/// Takes the wanted lines. What is not wanted is not kept, however long it is.
fn pick(mut from: impl BufRead, lines: Lines) -> Result<Vec<u8>, FileError> {
    let mut skip = lines.first.unwrap_or(1).saturating_sub(1);
    let mut left = lines.count.unwrap_or(u64::MAX);
    let mut taken = Vec::new();
    while left > 0 {
        let bytes = from.fill_buf()?;
        if bytes.is_empty() {
            break;
        }
        let (length, whole) = match memchr::memchr(b'\n', bytes) {
            Some(end) => (end + 1, true),
            None => (bytes.len(), false),
        };
        if skip == 0 {
            if taken.len() + length > LONGEST {
                return Err(FileError::TooLong);
            }
            taken.extend_from_slice(&bytes[..length]);
        }
        from.consume(length);
        match (whole, skip) {
            (true, 0) => left -= 1,
            (true, _) => skip -= 1,
            (false, _) => {}
        }
    }
    Ok(taken)
}

/// Puts a new file in the place of whatever has the name, which is followed nowhere.
fn replace(place: &Place, text: &str, old: Option<&Metadata>) -> io::Result<()> {
    let directory = place.directory.as_fd();
    let draft = OsString::from(format!(".rethread-{}", mint::message_id()));
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let mut file = File::from(at::open(directory, &draft, flags, 0o666)?);
    let written = (|| {
        file.write_all(text.as_bytes())?;
        if let Some(old) = old {
            file.set_permissions(PermissionsExt::from_mode(old.mode() & 0o7777))?;
        }
        at::rename(directory, &draft, &place.name)
    })();
    if written.is_err() {
        let _ = at::remove(directory, &draft);
    }
    written
}

fn overwrite(mut file: File, text: &str) -> io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

fn user() -> u32 {
    // SAFETY: it only asks, and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests;

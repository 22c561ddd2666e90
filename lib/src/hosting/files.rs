//! Text files inside the roots of a session, for agents that let their client read and write them. Which paths
//! are inside, and how files are replaced, is decided in `rooted`.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use crate::rooted::{self, Before, FileError, Missing, PathError, Roots, open_regular};
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

/// Why a text was not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum TextError {
    /// The file cannot be had.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no text.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// It is too much.
    #[error("the text is longer than {LONGEST} bytes")]
    TooLong,
}

/// Reads a file, or some lines of it, with their line ends as they are.
pub(super) fn read(roots: &Roots, path: &Path, lines: Lines) -> Result<String, TextError> {
    let place = roots.place(path, Missing::Fail).map_err(FileError::from)?;
    let (file, _) = open_regular(&place, libc::O_RDONLY)?;
    let bytes = pick(BufReader::with_capacity(64 * 1024, file), lines)?;
    String::from_utf8(bytes).map_err(|_| TextError::NotText)
}

/// Writes a file as a whole, and the directories above it that are missing.
pub(super) fn write(roots: &Roots, path: &Path, text: &str) -> Result<(), TextError> {
    if text.len() > LONGEST {
        return Err(TextError::TooLong);
    }
    let place = roots.place(path, Missing::Make).map_err(FileError::from)?;
    Ok(rooted::write(&place, text.as_bytes(), Before::Whatever)?)
}

/// The error for an agent that asked for `path`.
pub(super) fn refused(error: &TextError, field: &str, path: &str, roots: &[String]) -> RpcError {
    let got = Value::String(path.to_owned());
    let cause = match error {
        TextError::File(FileError::Path(PathError::Outside | PathError::Linked)) => {
            return RpcError::field(field, &got, "a path inside the session's roots")
                .hint(format!("the roots are {}; links that point outside are refused", roots.join(", ")));
        }
        TextError::NotText => {
            return RpcError::field(field, &got, "a text file in UTF-8").hint("read it with another tool");
        }
        TextError::TooLong => {
            return RpcError::field(field, &got, &format!("at most {LONGEST} bytes of text"))
                .hint("ask for a part of it with line and limit");
        }
        TextError::File(FileError::NotAFile) => {
            return RpcError::field(field, &got, "a regular file").hint("use the path of a regular file");
        }
        // Nobody here asks for what was there before, so that it cannot have changed.
        TextError::File(FileError::Changed) => None,
        TextError::File(FileError::Path(PathError::Io(error))) => error.raw_os_error(),
    };
    let told = match cause {
        Some(libc::ENOENT) => RpcError::new(code::NOT_FOUND, format!("{path} does not exist"))
            .with("uri", path)
            .hint("check the spelling; paths are absolute"),
        Some(libc::EISDIR | libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG) => {
            RpcError::new(code::INVALID_PARAMS, format!("{path}: {error}")).hint("use another path")
        }
        _ => RpcError::internal(format!("{path}: {error}")).hint("check the permissions and the free space"),
    };
    told.with("field", field).with("got", json!(path))
}

/// Takes the wanted lines. What is not wanted is not kept, however long it is.
fn pick(mut from: impl BufRead, lines: Lines) -> Result<Vec<u8>, TextError> {
    let mut skip = lines.first.unwrap_or(1).saturating_sub(1);
    let mut left = lines.count.unwrap_or(u64::MAX);
    let mut taken = Vec::new();
    while left > 0 {
        let bytes = from.fill_buf().map_err(FileError::from)?;
        if bytes.is_empty() {
            break;
        }
        let (length, whole) = match memchr::memchr(b'\n', bytes) {
            Some(end) => (end + 1, true),
            None => (bytes.len(), false),
        };
        if skip == 0 {
            if taken.len() + length > LONGEST {
                return Err(TextError::TooLong);
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

#[cfg(test)]
mod tests;

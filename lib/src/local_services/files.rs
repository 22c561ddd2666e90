//! `fs/read_text_file` and `fs/write_text_file`: text files inside the roots of a session. Paths and atomic replacement
//! are handled in `sandbox`.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use crate::sandbox::{self, Expected, FileError, MissingDirs, PathError, Roots, open_regular};
use crate::wire::{RpcError, code};

/// The limit for one answer or one write.
const MAX_TEXT_BYTES: usize = 50 * 1024 * 1024;

/// The requested lines of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineRange {
    /// The first line, counted from 1.
    pub(super) first: Option<u64>,
    /// The number of lines.
    pub(super) count: Option<u64>,
}

/// Why a text was not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum TextError {
    /// The file cannot be accessed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not UTF-8 text.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// The text is longer than the limit.
    #[error("the text is longer than {MAX_TEXT_BYTES} bytes")]
    TooLong,
}

/// Reads a file or some of its lines, keeping line endings.
pub(super) fn read(roots: &Roots, path: &Path, lines: LineRange) -> Result<String, TextError> {
    let place = roots.resolve(path, MissingDirs::Fail).map_err(FileError::from)?;
    let (file, _) = open_regular(&place, libc::O_RDONLY)?;
    let bytes = pick(BufReader::with_capacity(64 * 1024, file), lines)?;
    String::from_utf8(bytes).map_err(|_| TextError::NotText)
}

/// Writes a whole file and creates missing directories.
pub(super) fn write(roots: &Roots, path: &Path, text: &str) -> Result<(), TextError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(TextError::TooLong);
    }
    let place = roots.resolve(path, MissingDirs::Create).map_err(FileError::from)?;
    Ok(sandbox::write(&place, text.as_bytes(), Expected::Anything)?)
}

/// The error for an agent that requested `path`.
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
            return RpcError::field(field, &got, &format!("at most {MAX_TEXT_BYTES} bytes of text"))
                .hint("ask for a part of it with line and limit");
        }
        TextError::File(FileError::NotAFile) => {
            return RpcError::field(field, &got, "a regular file").hint("use the path of a regular file");
        }
        // Writes here expect no earlier content, so it cannot have changed.
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

/// Selects the requested lines without storing the others.
fn pick(mut from: impl BufRead, lines: LineRange) -> Result<Vec<u8>, TextError> {
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
            if taken.len() + length > MAX_TEXT_BYTES {
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

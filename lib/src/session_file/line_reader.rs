//! Reads the lines of a file of sessions in bounded memory. What cannot be read is told apart line by line.

use std::io::{self, BufRead, ErrorKind};

use rethread_core::Entry;
use serde::Deserialize;
use serde_json::Value;

use super::header::{FORMAT, SessionFileHeader, VERSION};
use super::untrusted::check_entry;

/// The longest line that is read.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// A line of a file.
#[derive(Debug)]
pub(super) enum FileLine {
    /// A session begins.
    Header(Box<SessionFileHeader>),
    /// An entry of the session.
    Entry(Box<Entry>),
    /// The session ends after so many entries.
    End(u64),
    /// A session of a newer format begins.
    Newer(u32),
    /// Something that cannot be read, and why.
    Broken(String),
}

/// Reads lines and counts them.
pub(super) struct FileLineReader<R> {
    input: R,
    /// The number of the line that was read last, from 1.
    pub(super) line: u64,
    /// How many bytes were read.
    pub(super) offset: u64,
}

impl<R: BufRead> FileLineReader<R> {
    pub(super) fn new(input: R, line: u64, offset: u64) -> Self {
        Self { input, line, offset }
    }

    /// Reads a line; nothing at the end. Empty lines are skipped.
    pub(super) fn next(&mut self) -> io::Result<Option<FileLine>> {
        loop {
            let Some(bytes) = self.raw_line()? else { return Ok(None) };
            match bytes {
                RawLine::TooLong => return Ok(Some(FileLine::Broken("the line is too long".to_owned()))),
                RawLine::Bytes(bytes) if bytes.trim_ascii().is_empty() => {}
                RawLine::Bytes(bytes) => return Ok(Some(parse(bytes.trim_ascii()))),
            }
        }
    }

    fn raw_line(&mut self) -> io::Result<Option<RawLine>> {
        let mut bytes = Vec::new();
        let read = io::Read::take(&mut self.input, MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        self.offset += read as u64;
        if read as u64 == MAX_LINE_BYTES && bytes.last() != Some(&b'\n') {
            drop(bytes);
            self.offset += skip_line(&mut self.input)?;
            return Ok(Some(RawLine::TooLong));
        }
        Ok(Some(RawLine::Bytes(bytes)))
    }
}

/// Skips the rest of a line without keeping it. Returns how many bytes it had.
pub(crate) fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let part = match input.fill_buf() {
            Ok(part) => part,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = memchr::memchr(b'\n', part);
        let length = end.map_or(part.len(), |end| end + 1);
        let over = end.is_some() || part.is_empty();
        input.consume(length);
        skipped += length as u64;
        if over {
            return Ok(skipped);
        }
    }
}

enum RawLine {
    Bytes(Vec<u8>),
    TooLong,
}

/// What tells the kinds of line apart.
#[derive(Deserialize)]
struct LineShape {
    #[serde(default)]
    format: Option<Value>,
    #[serde(default)]
    version: Option<u64>,
    #[serde(default)]
    end: Option<EndLine>,
}

#[derive(Deserialize)]
struct EndLine {
    entries: u64,
}

fn parse(bytes: &[u8]) -> FileLine {
    let Ok(text) = str::from_utf8(bytes) else { return FileLine::Broken("it is not UTF-8".to_owned()) };
    match serde_json::from_str::<LineShape>(text) {
        Ok(LineShape { format: Some(format), version, .. }) => header(text, &format, version),
        Ok(LineShape { end: Some(end), .. }) => FileLine::End(end.entries),
        Ok(LineShape { .. }) => match serde_json::from_str::<Entry>(text) {
            Ok(entry) => match check_entry(&entry) {
                Ok(()) => FileLine::Entry(entry.into()),
                Err(reason) => FileLine::Broken(reason),
            },
            Err(error) => FileLine::Broken(format!("it is no entry of a session: {error}")),
        },
        Err(error) => FileLine::Broken(format!("it is not the expected JSON: {error}")),
    }
}

fn header(text: &str, format: &Value, version: Option<u64>) -> FileLine {
    match version {
        _ if format != FORMAT => FileLine::Broken(format!("it is of another format than {FORMAT}")),
        Some(version) if version > u64::from(VERSION) => {
            FileLine::Newer(u32::try_from(version).unwrap_or(u32::MAX))
        }
        _ => match serde_json::from_str::<SessionFileHeader>(text).map_err(|error| error.to_string()) {
            Ok(header) => match header.checked() {
                Ok(header) => FileLine::Header(header.into()),
                Err(reason) => FileLine::Broken(reason),
            },
            Err(reason) => FileLine::Broken(format!("the head of the session cannot be read: {reason}")),
        },
    }
}

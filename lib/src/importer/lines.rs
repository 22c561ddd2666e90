//! Reads files of JSON lines in bounded memory. A line that is too long is skipped without keeping it; a last line that
//! is half written is left for another time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use rethread_core::RawMembers;

use super::sink::Sink;
use crate::session_file::skip_line;

/// The longest line that is read.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// A line of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum SourceLine<'a> {
    /// Its text, without the line end, and whether that is there: one that is not may be half written.
    Text(&'a str, LineEnd),
    /// It cannot be read, and why.
    Damaged(&'static str),
}

/// Whether a line is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// It has a line end.
    Complete,
    /// It is the last one and has none: it may be half written.
    Missing,
}

/// Where a line is in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinePlace {
    /// Its number, from 1.
    pub line: u64,
    /// Where it begins, in bytes.
    pub offset: u64,
}

/// Reads the lines of a file or a stream one after the other.
#[derive(Debug)]
pub struct SourceLines<R> {
    input: BufReader<R>,
    bytes: Vec<u8>,
    place: LinePlace,
    next: u64,
}

impl<R: Read> SourceLines<R> {
    /// Reads from the beginning.
    #[must_use]
    pub fn new(input: R) -> Self {
        let input = BufReader::with_capacity(256 * 1024, input);
        Self { input, bytes: Vec::new(), place: LinePlace::default(), next: 0 }
    }

    /// Reads the next line and says where it is; nothing at the end. Empty lines are skipped.
    pub fn next_line(&mut self) -> io::Result<Option<(LinePlace, SourceLine<'_>)>> {
        loop {
            self.place = LinePlace { line: self.place.line + 1, offset: self.next };
            self.bytes.clear();
            let read = (&mut self.input).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.bytes)? as u64;
            self.next += read;
            let complete = self.bytes.last() == Some(&b'\n');
            if read == 0 {
                return Ok(None);
            }
            if read == MAX_LINE_BYTES && !complete {
                self.bytes = Vec::new();
                self.next += skip_line(&mut self.input)?;
                return Ok(Some((self.place, SourceLine::Damaged("the line is too long"))));
            }
            if !self.bytes.trim_ascii().is_empty() {
                break;
            }
        }
        let end = if self.bytes.last() == Some(&b'\n') { LineEnd::Complete } else { LineEnd::Missing };
        let line = match str::from_utf8(self.bytes.trim_ascii()) {
            Ok(text) => SourceLine::Text(text, end),
            Err(_) => SourceLine::Damaged("it is not UTF-8"),
        };
        Ok(Some((self.place, line)))
    }
}

/// Parses the lines as JSON objects and gives them to `each`. Lines that are damaged are reported.
pub fn for_each_record<R: Read>(
    path: &Path,
    lines: &mut SourceLines<R>,
    sink: &mut Sink,
    mut each: impl FnMut(&RawMembers<'_>, LinePlace, &mut Sink),
) -> io::Result<()> {
    while let Some((place, line)) = lines.next_line()? {
        let (text, end) = match line {
            SourceLine::Text(text, end) => (text, end),
            SourceLine::Damaged(reason) => {
                sink.damaged(path, place.line, reason);
                continue;
            }
        };
        match serde_json::from_str::<RawMembers<'_>>(text) {
            Ok(record) => each(&record, place, sink),
            // It is being written: the next import has it.
            Err(_) if end == LineEnd::Missing => {}
            Err(error) => sink.damaged(path, place.line, format!("it is not a JSON object: {error}")),
        }
    }
    Ok(())
}

impl SourceLines<File> {
    /// Goes to a line that was read before. Places that are near are cheap to go to.
    pub fn go_to(&mut self, place: LinePlace) -> io::Result<()> {
        let distance = i64::try_from(i128::from(place.offset) - i128::from(self.next));
        match distance {
            Ok(distance) => self.input.seek_relative(distance)?,
            Err(_) => {
                self.input.seek(SeekFrom::Start(place.offset))?;
            }
        }
        self.next = place.offset;
        self.place = LinePlace { line: place.line.saturating_sub(1), offset: place.offset };
        Ok(())
    }
}

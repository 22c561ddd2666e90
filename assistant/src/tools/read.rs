//! The tool `read`: returns numbered lines of a text file, or an image. Does not read more of a file than necessary.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use super::arguments::Arguments;
use super::change::LARGEST;
use super::error::ToolError;
use super::excerpt;
use super::file_type;
use super::prepared::{Action, Findings, ImageFile, PreparedCall, ReadAction};
use super::spec::{Effect, Kind, ToolSpec, number, object, text};
use super::stop::{Stop, Stoppable};
use super::workspace::{Opened, Workspace};

pub(super) const NAME: &str = "read";

/// The maximum line number.
const LAST_LINE: u64 = 1_000_000_000;
/// The maximum number of lines.
const MOST_LINES: u64 = 2000;
/// The maximum length of the text, in bytes.
const MOST_TEXT: usize = 64 * 1024;
/// The maximum length of a line, in bytes.
const LONGEST_LINE: usize = 2000;
/// How many bytes of a line are read to find its end.
const FOLLOWED_LINE: u64 = 64 * 1024 * 1024;
/// The maximum size of a file whose lines are counted.
const COUNTED: u64 = 16 * 1024 * 1024;
/// The maximum size of an image, in bytes. In base64 it stays below the 5 MB limit of providers.
const LARGEST_IMAGE: u64 = 3_700_000;
/// The buffer size; the first buffer determines the file type.
const BUFFER: usize = 64 * 1024;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME,
        description: "Reads lines of a text file. Each line begins with its number and a tab. Returns at most \
            2000 lines and 64 KiB at once and cuts very long lines; use `offset` for more. An image file (PNG, JPEG, GIF, \
            WebP) is returned as an image.",
        schema: object(
            [
                ("path", text("The file, absolute or from the working directory.")),
                ("offset", number(1, LAST_LINE, "The first line, counted from 1. Default: 1.")),
                ("limit", number(1, MOST_LINES, "How many lines. Default: 2000.")),
            ],
            &["path"],
        ),
        kind: Kind::Read,
        effect: Effect::Reads,
    }
}

/// The file and the range of lines.
#[derive(Debug)]
struct LineWindow {
    sent: String,
    first: u64,
    count: u64,
}

pub(super) fn prepare(
    workspace: &Arc<Workspace>,
    arguments: &Arguments<'_>,
) -> Result<PreparedCall, ToolError> {
    let sent = arguments.some_text("path")?;
    let offset = arguments.number("offset", 1..=LAST_LINE)?;
    let count = arguments.number("limit", 1..=MOST_LINES)?.unwrap_or(MOST_LINES);
    let opened = workspace.file(sent)?;
    let window = LineWindow { sent: sent.to_owned(), first: offset.unwrap_or(1), count };
    let title = format!("Read {}", workspace.shown(&opened.at.shown));
    Ok(PreparedCall::new(workspace, Kind::Read, title, Action::Read(Box::new(window)))
        .at(opened.at.shown, offset))
}

impl ReadAction for LineWindow {
    fn look(&self, workspace: &Workspace, stop: &Stop) -> Result<Findings, ToolError> {
        let Opened { file, meta, at } = workspace.file(&self.sent)?;
        // Recorded before it is shown: a change in between counts as not read.
        if meta.len() <= LARGEST as u64 {
            workspace.read_files.note_file(&at.real, &file, stop);
        }
        let mut from = BufReader::with_capacity(BUFFER, file);
        let head = from.fill_buf().map_err(|error| workspace.error(&self.sent, error))?;
        if let Some(mime) = file_type::image(head) {
            return self.image(workspace, from, mime, meta.len(), stop);
        }
        if let Some(kind) = file_type::binary(head) {
            return Err(self.no_text(kind, meta.len()));
        }
        let mut pages = LineReader::of(self);
        match pages.turn(&mut from, meta.len(), stop) {
            Ok(()) => {}
            Err(Unreadable::Zero) => return Err(self.no_text("binary data", meta.len())),
            Err(Unreadable::Io(_)) if stop.now() => pages.end = ReadEnd::Window,
            Err(Unreadable::Io(error)) => return Err(workspace.error(&self.sent, error)),
        }
        self.report(pages, meta.len(), stop).map(Findings::from)
    }
}

impl LineWindow {
    fn image(
        &self,
        workspace: &Workspace,
        from: impl Read,
        mime: &'static str,
        size: u64,
        stop: &Stop,
    ) -> Result<Findings, ToolError> {
        let mut bytes = Vec::new();
        // One byte more than allowed, since the length may change while the file is read.
        let read = Stoppable { from, stop }.take(LARGEST_IMAGE + 1).read_to_end(&mut bytes);
        read.map_err(|error| workspace.error(&self.sent, error))?;
        if bytes.len() as u64 > LARGEST_IMAGE {
            return Err(ToolError::File {
                path: self.sent.clone(),
                why: format!(
                    "the image has {size} bytes, and images of more than {LARGEST_IMAGE} bytes are not read"
                ),
                hint: "make a smaller copy with a command".to_owned(),
                source: None,
            });
        }
        let text = format!("({} is an image, {mime}, {} bytes)", self.sent, bytes.len());
        Ok(Findings { text, image: Some(ImageFile { mime, bytes }) })
    }

    fn report(&self, pages: LineReader, size: u64, stop: &Stop) -> Result<String, ToolError> {
        if pages.taken == 0 {
            return match pages.line {
                _ if stop.now() => Ok(format!("(line {} was not reached)", self.first)),
                1 => Ok("(the file is empty)".to_owned()),
                _ => Err(self.too_far(pages.line - 1)),
            };
        }
        let last = (self.first + pages.taken).saturating_sub(1);
        let mut notes = match pages.end {
            ReadEnd::File if last == pages.line - 1 && self.first == 1 => Vec::new(),
            ReadEnd::File => vec![format!("lines {} to {last} of {}", self.first, pages.line - 1)],
            ReadEnd::Window => vec![format!("lines {} to {last} of a file of {size} bytes", self.first)],
        };
        if pages.full || last < pages.line - 1 || matches!(pages.end, ReadEnd::Window) {
            notes.push(format!("go on with offset {}", last + 1));
        }
        if pages.lossy {
            notes.push("the file is not UTF-8: what could not be read is shown as \u{fffd}".to_owned());
        }
        if pages.windows {
            notes.push("lines end in CRLF".to_owned());
        }
        let notes = if notes.is_empty() { String::new() } else { format!("({})", notes.join("; ")) };
        Ok(pages.text + &notes)
    }

    fn no_text(&self, kind: &str, size: u64) -> ToolError {
        ToolError::File {
            path: self.sent.clone(),
            why: format!("it is {kind} of {size} bytes, not text"),
            hint: "use a command that can read this format".to_owned(),
            source: None,
        }
    }

    fn too_far(&self, lines: u64) -> ToolError {
        ToolError::Argument {
            tool: NAME,
            argument: "offset".to_owned(),
            got: self.first.to_string(),
            expected: format!("a line of {}, which has {lines}", self.sent),
            hint: None,
        }
    }
}

/// Where reading ended.
enum ReadEnd {
    File,
    Window,
}

/// Why reading failed.
enum Unreadable {
    Zero,
    Io(std::io::Error),
}

/// Collects the lines of a range.
struct LineReader {
    first: u64,
    count: u64,
    /// The current line number.
    line: u64,
    /// The beginning of the current line, if it is in the range.
    begun: Vec<u8>,
    /// The length of the current line so far.
    length: u64,
    /// The number of lines in the text.
    taken: u64,
    text: String,
    /// Whether the text reached its maximum length.
    full: bool,
    lossy: bool,
    windows: bool,
    end: ReadEnd,
}

impl LineReader {
    fn of(window: &LineWindow) -> Self {
        Self {
            first: window.first,
            count: window.count,
            line: 1,
            begun: Vec::new(),
            length: 0,
            taken: 0,
            text: String::new(),
            full: false,
            lossy: false,
            windows: false,
            end: ReadEnd::File,
        }
    }

    /// Reads the range of lines, and a small file to its end to count its lines.
    fn turn(&mut self, from: &mut BufReader<File>, size: u64, stop: &Stop) -> Result<(), Unreadable> {
        let rest = from.buffer().to_vec();
        from.consume(rest.len());
        let more = Stoppable { from: from.get_mut(), stop };
        let mut from = BufReader::with_capacity(BUFFER, rest.chain(more));
        loop {
            let bytes = from.fill_buf().map_err(Unreadable::Io)?;
            if bytes.is_empty() {
                if self.length > 0 {
                    self.finish_line();
                }
                return Ok(());
            }
            let (length, whole) = match memchr::memchr(b'\n', bytes) {
                Some(end) => (end + 1, true),
                None => (bytes.len(), false),
            };
            self.take(&bytes[..length])?;
            from.consume(length);
            if whole {
                self.finish_line();
            }
            let closed = !self.is_wanted() && self.line > self.first;
            if (closed && size > COUNTED) || (self.is_wanted() && self.length > FOLLOWED_LINE) {
                if self.length > 0 {
                    self.finish_line();
                }
                self.end = ReadEnd::Window;
                return Ok(());
            }
        }
    }

    fn is_wanted(&self) -> bool {
        !self.full && self.line >= self.first && self.taken < self.count
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        self.length += bytes.len() as u64;
        if self.is_wanted() {
            if memchr::memchr(0, bytes).is_some() {
                return Err(Unreadable::Zero);
            }
            let room = (LONGEST_LINE + 4).saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        Ok(())
    }

    fn finish_line(&mut self) {
        if self.is_wanted() {
            let line = self.shown_line();
            // The first line is always included.
            if self.taken > 0 && self.text.len() + line.len() > MOST_TEXT {
                self.full = true;
            } else {
                self.text.push_str(&line);
                self.taken += 1;
            }
        }
        self.line += 1;
        self.length = 0;
        self.begun.clear();
    }

    fn shown_line(&mut self) -> String {
        let mut line = self.begun.as_slice();
        let mut cut = String::new();
        if line.ends_with(b"\r\n") {
            self.windows = true;
        }
        while let [rest @ .., b'\n' | b'\r'] = line {
            line = rest;
        }
        if line.len() > LONGEST_LINE {
            line = excerpt::whole(&line[..LONGEST_LINE]);
            cut = format!("… ({} more bytes)", self.length - line.len() as u64);
        }
        self.lossy |= std::str::from_utf8(line).is_err();
        format!("{:>6}\t{}{cut}\n", self.line, excerpt::text(line))
    }
}

//! The sessions of a file: a first reading finds where each begins, what it comes to and which lines are broken, without
//! keeping its entries.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead};

use rethread_core::session::Native;
use rethread_core::{Entry, Session};

use super::canonical::CanonicalFold;
use super::export::{ExportRedaction, LineWriter};
use super::header::SessionFileHeader;
use super::line_reader::{FileLine, FileLineReader};

/// How many broken lines are listed.
const MAX_LISTED: usize = 20;

/// One session of a file.
#[derive(Clone, Debug)]
pub struct FileSection {
    /// What is known of the session.
    pub header: SessionFileHeader,
    /// The number of entries that can be read.
    pub entries: u64,
    /// Whether the file has all of the session: its last line is there, and so are all entries.
    pub complete: bool,
    /// Where its entries begin, in bytes and in lines.
    pub(super) start: (u64, u64),
    /// The number of its lines.
    pub(super) lines: u64,
    /// About how many bytes its entries have.
    pub(super) bytes: u64,
    /// What the session comes to, to compare it with a stored one.
    pub(super) digest: u64,
    /// The ids that agents use for it.
    pub(super) natives: Vec<Native>,
    /// Whether it has a prompt.
    pub(super) prompted: bool,
}

/// A line that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLine {
    /// Its number, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}

/// What a file has.
#[derive(Clone, Debug, Default)]
pub struct FileContent {
    /// Its sessions.
    pub sections: Vec<FileSection>,
    /// The first lines that were skipped.
    pub broken: Vec<BrokenLine>,
    /// How many lines were skipped.
    pub skipped: u64,
}

/// A file that cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum SessionFileError {
    /// It cannot be read.
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
    /// A newer program wrote it.
    #[error(
        "line {line} begins a session of format version {found}, but this program reads only versions up to {known}"
    )]
    Newer {
        /// The line.
        line: u64,
        /// The version.
        found: u32,
        /// The newest version that can be read.
        known: u32,
    },
}

/// Reads a file once, and says what it has.
pub fn read_sections(input: impl BufRead) -> Result<FileContent, SessionFileError> {
    let mut reader = FileLineReader::new(input, 0, 0);
    let mut content = FileContent::default();
    let mut open: Option<SectionReader> = None;
    while let Some(line) = reader.next()? {
        match (line, &mut open) {
            (FileLine::Newer(found), _) => {
                return Err(SessionFileError::Newer { line: reader.line, found, known: super::VERSION });
            }
            (FileLine::Header(header), _) => {
                content.sections.extend(open.take().map(SectionReader::finish));
                open = Some(SectionReader::new(*header, (reader.offset, reader.line)));
            }
            (FileLine::Entry(entry), Some(section)) => section.entry(*entry, reader.line),
            (FileLine::End(entries), Some(section)) => section.end(entries, reader.line),
            (FileLine::Broken(reason), section) => {
                section.iter_mut().for_each(|section| section.line(reader.line));
                content.broken(reader.line, reason);
            }
            (FileLine::Entry(_) | FileLine::End(_), None) => {
                content.broken(reader.line, "it belongs to no session".to_owned());
            }
        }
    }
    content.sections.extend(open.map(SectionReader::finish));
    Ok(content)
}

impl FileContent {
    fn broken(&mut self, line: u64, reason: String) {
        self.skipped += 1;
        if self.broken.len() < MAX_LISTED {
            self.broken.push(BrokenLine { line, reason });
        }
    }
}

/// Takes in the lines of one session.
struct SectionReader {
    section: FileSection,
    digest: SessionDigest,
    session: Session,
    turns: CanonicalFold,
}

impl SectionReader {
    fn new(header: SessionFileHeader, start: (u64, u64)) -> Self {
        let digest = SessionDigest::new(&header);
        let section = FileSection {
            header,
            entries: 0,
            complete: false,
            start,
            lines: 0,
            bytes: 0,
            digest: 0,
            natives: Vec::new(),
            prompted: false,
        };
        Self { section, digest, session: Session::default(), turns: CanonicalFold::default() }
    }

    fn line(&mut self, line: u64) {
        self.section.lines = line - self.section.start.1;
    }

    fn entry(&mut self, entry: Entry, line: u64) {
        self.line(line);
        let before = (self.section.entries == 0).then(|| opening(&self.section.header, &entry)).flatten();
        self.section.entries += 1;
        for entry in before.into_iter().chain([entry]) {
            let folded = self.turns.push(entry);
            self.folded(folded);
        }
    }

    fn folded(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.section.bytes += super::canonical::size(&entry) as u64;
            self.section.prompted |= matches!(entry, Entry::PromptInserted { .. });
            self.session.apply(&entry);
            self.digest.entry(entry);
        }
    }

    fn end(&mut self, entries: u64, line: u64) {
        self.line(line);
        self.section.complete = entries == self.section.entries;
    }

    fn finish(mut self) -> FileSection {
        let rest = self.turns.take();
        self.folded(rest);
        FileSection { digest: self.digest.finish(), natives: self.session.natives, ..self.section }
    }
}

/// The entry that opens a session whose first entry is missing.
pub(super) fn opening(header: &SessionFileHeader, first: &Entry) -> Option<Entry> {
    let SessionFileHeader { cwd, agent, .. } = header.clone();
    let at = header.changed(crate::clock::now());
    (!matches!(first, Entry::Opened { .. })).then_some(Entry::Opened {
        cwd,
        roots: Vec::new(),
        agent,
        at,
        moved_from: None,
    })
}

/// What a session comes to: two sessions with the same digest have the same lines.
pub(super) struct SessionDigest {
    hasher: DefaultHasher,
    lines: LineWriter<'static>,
}

impl SessionDigest {
    fn new(header: &SessionFileHeader) -> Self {
        let mut lines = LineWriter { redaction: ExportRedaction::Off, entries: 0 };
        let mut hasher = DefaultHasher::new();
        hasher.write(lines.header(header.clone()).as_bytes());
        Self { hasher, lines }
    }

    fn entry(&mut self, entry: Entry) {
        let line = self.lines.entry(entry);
        self.hasher.write(line.as_bytes());
    }

    fn finish(mut self) -> u64 {
        let end = self.lines.end();
        self.hasher.write(end.as_bytes());
        self.hasher.finish()
    }
}

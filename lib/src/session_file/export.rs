//! Writes a session as lines.

use rethread_core::Entry;
use serde::Serialize;
use serde_json::json;

use super::canonical::CanonicalFold;
use super::header::SessionFileHeader;
use super::redaction::redacted_header;
use crate::secret::{SecretFinder, redacted_entry};
use crate::store::{SessionRow, Store, StoreError};
use crate::transcript::{JournalDamage, JournalScan, ScanStep};
use crate::visible::is_hostile;

/// Whether what looks like a secret is replaced.
pub enum ExportRedaction<'a> {
    /// Nothing is replaced.
    Off,
    /// It is replaced and counted.
    On(&'a mut SecretFinder),
}

/// What is written of what was said since the last turn ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UnfinishedTurn {
    /// All.
    #[default]
    Whole,
    /// The prompts, and not what the agent has said: of a secret only the beginning may be there yet.
    WithoutAgent,
}

/// Writes a session line by line, each with a line end. Of a fork all is written, also what it has from its parent. Needs no
/// ownership. Returns where the journal is damaged: then the last line is missing.
pub async fn export_session<E: From<StoreError>>(
    store: &dyn Store,
    row: &SessionRow,
    redaction: ExportRedaction<'_>,
    mut write: impl FnMut(&str) -> Result<(), E>,
) -> Result<Option<JournalDamage>, E> {
    let mut lines = SessionLines::new(store, row, redaction);
    while let Some(text) = lines.next().await? {
        write(&text)?;
    }
    Ok(lines.damage().cloned())
}

/// The lines of a session, in pieces of some lines each.
pub struct SessionLines<'a> {
    scan: JournalScan<'a>,
    turns: CanonicalFold,
    lines: LineWriter<'a>,
    header: Option<SessionFileHeader>,
    unfinished: UnfinishedTurn,
    is_over: bool,
}

impl<'a> SessionLines<'a> {
    /// Begins with the header.
    #[must_use]
    pub fn new(store: &'a dyn Store, row: &'a SessionRow, redaction: ExportRedaction<'a>) -> Self {
        Self {
            scan: JournalScan::new(store, &row.id),
            turns: CanonicalFold::default(),
            lines: LineWriter { redaction, entries: 0 },
            header: Some(SessionFileHeader::of(row)),
            unfinished: UnfinishedTurn::default(),
            is_over: false,
        }
    }

    /// Writes this of what was said since the last turn ended.
    pub(crate) fn with_unfinished_turn(mut self, unfinished: UnfinishedTurn) -> Self {
        self.unfinished = unfinished;
        self
    }

    /// The next lines; nothing after the last one. They may be an empty text.
    pub async fn next(&mut self) -> Result<Option<String>, StoreError> {
        if let Some(header) = self.header.take() {
            return Ok(Some(self.lines.header(header)));
        }
        if self.is_over {
            return Ok(None);
        }
        let mut text = String::new();
        match self.scan.step().await? {
            ScanStep::Page(page) => {
                for item in self.scan.decoded(&page)? {
                    let entries = self.turns.push(item.entry);
                    entries.into_iter().for_each(|entry| text += &self.lines.entry(entry));
                }
            }
            ScanStep::Restarted => self.turns.restart_turn(),
            ScanStep::End => {
                self.is_over = true;
                let mut rest = self.turns.take();
                match self.unfinished {
                    UnfinishedTurn::Whole => {}
                    UnfinishedTurn::WithoutAgent => {
                        rest.retain(|entry| !matches!(entry, Entry::Updated { .. }));
                    }
                }
                rest.into_iter().for_each(|entry| text += &self.lines.entry(entry));
                if self.scan.damage().is_none() {
                    text += &self.lines.end();
                }
            }
        }
        Ok(Some(text))
    }

    /// Where the journal is damaged, if that is known: then the last line is missing.
    #[must_use]
    pub fn damage(&self) -> Option<&JournalDamage> {
        self.scan.damage()
    }
}

/// Writes the lines of one session.
pub(super) struct LineWriter<'a> {
    pub(super) redaction: ExportRedaction<'a>,
    pub(super) entries: u64,
}

impl LineWriter<'_> {
    pub(super) fn header(&mut self, header: SessionFileHeader) -> String {
        match &mut self.redaction {
            ExportRedaction::Off => line(&header),
            ExportRedaction::On(finder) => line(&redacted_header(header, finder)),
        }
    }

    pub(super) fn entry(&mut self, entry: Entry) -> String {
        self.entries += 1;
        match &mut self.redaction {
            ExportRedaction::Off => line(&entry),
            ExportRedaction::On(finder) => line(&redacted_entry(entry, finder)),
        }
    }

    pub(super) fn end(&self) -> String {
        line(&json!({"end": {"entries": self.entries}}))
    }
}

/// Writes a value as a line. Characters that control a terminal are escaped.
fn line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("entries always serialise");
    let mut line = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        match c {
            // JSON of an agent may have line ends between its members; inside strings they are escaped.
            '\n' | '\r' | '\t' => line.push(' '),
            hostile if is_hostile(hostile) => {
                let mut units = [0; 2];
                hostile.encode_utf16(&mut units).iter().for_each(|unit| line += &format!("\\u{unit:04x}"));
            }
            other => line.push(other),
        }
    }
    line.push('\n');
    line
}

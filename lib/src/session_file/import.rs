//! Stores a session of a file. A session that is there already with the same content is left alone.

use std::hash::{DefaultHasher, Hasher};
use std::io::BufRead;

use rethread_core::{Entry, HeldPrompts, Input, Seq, SessionId};

use super::export::{ExportRedaction, export_session};
use super::line_reader::{FileLine, FileLineReader};
use super::sections::{FileSection, SessionFileError, opening};
use super::writer::{KeptNatives, SessionWriter, WrittenRow};
use crate::store::{Deleted, Listed, RowFacts, SessionRow, Store, StoreError};
use crate::{clock, ids};

/// Under which id a session is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportMode {
    /// Under its own.
    #[default]
    Same,
    /// As a copy under a new id. The agents' own sessions stay with the original.
    Copy,
}

/// What became of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// It was stored.
    Stored,
    /// It was there already.
    Unchanged,
    /// Another session has its id: with other content, or it was deleted.
    Refused(String),
}

/// A session that was imported or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedSession {
    /// The id that it has in the store.
    pub id: SessionId,
    /// What became of it.
    pub outcome: ImportOutcome,
}

/// A section cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file.
    #[error(transparent)]
    File(#[from] SessionFileError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Stores one session. `input` must be at the first entry of the section.
pub async fn import_section(
    store: &dyn Store,
    section: &FileSection,
    mode: ImportMode,
    input: impl BufRead,
) -> Result<ImportedSession, ImportError> {
    let id = match mode {
        ImportMode::Same => section.header.id.clone(),
        ImportMode::Copy => ids::session_id(),
    };
    if let Some(row) = store.find(&id).await?.filter(|row| row.head > Seq(0) || row.deleted == Deleted::Yes) {
        let outcome = compare(store, &row, section).await?;
        return Ok(ImportedSession { id, outcome });
    }
    let mut writing = SessionWriter::new(store, row_of(section, id.clone()), natives_of(section, mode));
    let mut reader = FileLineReader::new(input, 0, 0);
    while reader.line < section.lines {
        match reader.next().map_err(SessionFileError::from)? {
            Some(FileLine::Entry(entry)) => {
                let before = writing.is_untouched().then(|| opening(&section.header, &entry)).flatten();
                for entry in before.into_iter().chain([*entry]) {
                    writing.entry(entry).await?;
                }
            }
            Some(FileLine::Header(_) | FileLine::End(_) | FileLine::Newer(_) | FileLine::Broken(_)) => {}
            None => break,
        }
    }
    if mode == ImportMode::Copy {
        writing.end_turn().await?;
        for entry in own_beginning(&writing, section) {
            writing.write(entry).await?;
        }
    }
    writing.finish(RowFacts::default()).await?;
    Ok(ImportedSession { id, outcome: ImportOutcome::Stored })
}

impl FileSection {
    /// Where the first entry is, in bytes from the beginning of the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.start.0
    }
}

async fn compare(
    store: &dyn Store,
    row: &SessionRow,
    section: &FileSection,
) -> Result<ImportOutcome, StoreError> {
    if row.deleted == Deleted::Yes {
        return Ok(ImportOutcome::Refused("it was deleted here".to_owned()));
    }
    let mut hasher = DefaultHasher::new();
    let write = |line: &str| -> Result<(), StoreError> {
        hasher.write(line.as_bytes());
        Ok(())
    };
    export_session(store, row, ExportRedaction::Off, write).await?;
    if hasher.finish() == section.digest {
        return Ok(ImportOutcome::Unchanged);
    }
    Ok(ImportOutcome::Refused("it is here already, with other content".to_owned()))
}

fn row_of(section: &FileSection, id: SessionId) -> WrittenRow {
    let header = section.header.clone();
    let at = header.changed(clock::now());
    let facts = RowFacts {
        title: header.title.zip(header.title_by),
        listed: section.prompted.then_some(Listed),
        ..RowFacts::default()
    };
    WrittenRow { id, cwd: header.cwd, agent: header.agent, facts, at }
}

fn natives_of(section: &FileSection, mode: ImportMode) -> KeptNatives {
    match mode {
        ImportMode::Same => KeptNatives::These(section.natives.clone().into_iter().peekable()),
        ImportMode::Copy => KeptNatives::None,
    }
}

/// A copy begins as a fork does: what was under way has ended, and no agent has it yet.
fn own_beginning(writing: &SessionWriter<'_>, section: &FileSection) -> Vec<Entry> {
    let (reason, at) = (format!("copied from {}", section.header.id), clock::now());
    let ended = Input::AgentExited { reason, held: HeldPrompts::Drop, at };
    let mut entries = rethread_core::decide(writing.session(), ended).unwrap_or_default();
    let super::SessionFileHeader { cwd, agent, .. } = section.header.clone();
    entries.push(Entry::Opened { cwd, roots: Vec::new(), agent, at, moved_from: None });
    entries
}

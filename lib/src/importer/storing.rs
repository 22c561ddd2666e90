//! Stores a source as a new session: its entries by the writer that files of sessions use, its row and its place in the
//! ledger with them.

use std::path::Path;

use rethread_core::{Entry, Millis, SessionId};

use super::import::{Rest, SourceOutcome, Stored};
use super::reader::{SessionSource, ToolInfo};
use super::recorder::{Recorder, SourceEnd};
use super::sink::{ReadEvent, SessionFacts};
use crate::clock;
use crate::session_file::ImportMode;
use crate::session_file::writer::{KeptNatives, SessionWriter, WrittenRow};
use crate::store::{ImportProgress, ImportRecord, Listed, RowFacts, Store, StoreError};

/// A source that was changed within this time may be one that the tool works on now: a turn that is not finished is left
/// for the next import.
const FRESH: Millis = 10 * 60 * 1000;

/// The longest path that a client could use.
const MAX_PATH_BYTES: usize = 4096;

/// A new session that is being stored.
pub(super) struct StoringSession<'a> {
    tool: &'static ToolInfo,
    id: SessionId,
    mode: ImportMode,
    cwd: String,
    modified: Millis,
    recorder: Recorder,
    writer: SessionWriter<'a>,
}

impl<'a> StoringSession<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        tool: &'static ToolInfo,
        source: &SessionSource,
        facts: &SessionFacts,
        id: SessionId,
        mode: ImportMode,
    ) -> Self {
        let now = clock::now();
        let cwd = directory(&facts.cwd, &source.path);
        let facts = SessionFacts { cwd: cwd.clone(), ..facts.clone() };
        let begun = ImportRecord {
            progress: ImportProgress::Begun,
            ..Stored { session: Some(id.clone()), ..Stored::none(SourceOutcome::Empty) }.record(tool, source)
        };
        let (natives, import) = match mode {
            ImportMode::Same => (KeptNatives::All, Some(begun)),
            ImportMode::Copy => (KeptNatives::None, None),
        };
        let row = WrittenRow {
            id: id.clone(),
            cwd: cwd.clone(),
            agent: tool.title.to_owned(),
            facts: RowFacts { title: facts.title.clone(), import, ..RowFacts::default() },
            at: facts.updated.unwrap_or(source.modified).min(now),
        };
        let recorder = Recorder::new(tool, &facts, &facts.native, now);
        let writer = SessionWriter::new(store, row, natives);
        Self { tool, id, mode, cwd, modified: source.modified, recorder, writer }
    }

    /// Takes the next event.
    pub(super) async fn event(&mut self, event: ReadEvent) -> Result<(), StoreError> {
        let entries = self.recorder.add(event);
        self.entries(entries).await
    }

    /// Gives up a source that could not be read to its end.
    pub(super) async fn abandon(self) -> Result<(), StoreError> {
        self.writer.abandon().await
    }

    /// Stores the end of the session.
    pub(super) async fn finish(mut self) -> Result<Stored, StoreError> {
        if !self.recorder.has_conversation() {
            return Ok(Stored::none(SourceOutcome::Empty));
        }
        let rest = finish_turn(&mut self.recorder, &mut self.writer, self.modified).await?;
        let turns = self.writer.session().turns.0;
        if turns == 0 {
            self.writer.abandon().await?;
            return Ok(Stored::none(SourceOutcome::InProgress));
        }
        for entry in self.closing() {
            self.writer.write(entry).await?;
        }
        if !self.writer.is_stored() {
            self.writer.changed_at(self.recorder.last());
        }
        let outcome = SourceOutcome::Imported(turns);
        let mark = self.recorder.complete().clone();
        let session = Some(self.id.clone());
        let title = self.writer.session().title.clone();
        let facts = RowFacts { title, listed: Some(Listed), ..RowFacts::default() };
        self.writer.finish(facts).await?;
        Ok(Stored { session, outcome, turns, mark, rest })
    }

    /// What ends the import. A copy begins as a fork does: no agent has it yet.
    fn closing(&self) -> Vec<Entry> {
        let mut entries = self.recorder.closing(self.writer.session(), self.tool);
        if self.mode == ImportMode::Copy {
            let (cwd, agent) = (self.cwd.clone(), self.tool.title.to_owned());
            entries.push(Entry::Opened { cwd, roots: Vec::new(), agent, at: clock::now(), moved_from: None });
        }
        entries
    }

    async fn entries(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        for entry in entries {
            self.writer.entry(entry).await?;
        }
        Ok(())
    }
}

/// Ends the last turn, or leaves it for later if the tool may be working on it.
pub(super) async fn finish_turn(
    recorder: &mut Recorder,
    writer: &mut SessionWriter<'_>,
    modified: Millis,
) -> Result<Rest, StoreError> {
    let is_fresh = clock::now().saturating_sub(modified) < FRESH;
    if is_fresh && recorder.end() == SourceEnd::Unfinished && writer.drop_open_turn() {
        return Ok(Rest::Later);
    }
    for entry in recorder.end_turn() {
        writer.entry(entry).await?;
    }
    writer.end_turn().await?;
    Ok(Rest::Nothing)
}

/// The working directory that the records name; else the folder of the source.
fn directory(named: &str, path: &Path) -> String {
    if named.starts_with('/') && named.len() <= MAX_PATH_BYTES && !named.contains('\0') {
        return named.to_owned();
    }
    let folder = path.parent().and_then(|folder| std::path::absolute(folder).ok());
    folder.map_or_else(|| "/".to_owned(), |folder| super::import::path_text(&folder))
}

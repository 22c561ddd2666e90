//! Imports one session: reads it on a thread that may block, and stores what comes out of the sink as a session that is
//! bound to its own agent.

use std::sync::Arc;

use rethread_core::{Entry, SessionId};
use tokio::sync::mpsc;

use super::reader::{ReadError, SessionReader, SessionSource, ToolInfo};
use super::recorder::Recorder;
use super::sink::{ReadEvent, ReadNotes, SessionFacts, Sink};
use crate::session_file::writer::{KeptNatives, SessionWriter, WrittenRow};
use crate::store::{Listed, RowFacts, Store, StoreError};
use crate::{clock, ids};

/// What became of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceOutcome {
    /// It was stored as a new session.
    Imported,
    /// It has no conversation.
    Empty,
}

/// What an import of one source came to.
#[derive(Clone, Debug)]
pub struct SourceReport {
    /// The session, if there is one.
    pub session: Option<SessionId>,
    /// What became of it.
    pub outcome: SourceOutcome,
    /// What was odd about the source.
    pub notes: ReadNotes,
}

/// A source that could not be imported. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum SourceImportError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Imports one session.
pub async fn import_source(
    store: &dyn Store,
    reader: &'static dyn SessionReader,
    source: Arc<SessionSource>,
) -> Result<SourceReport, SourceImportError> {
    let (sink, events) = Sink::channel();
    let reading = tokio::task::spawn_blocking(move || read(reader, &source, sink));
    let stored = store_events(store, reader.tool(), events).await;
    let notes = reading.await.unwrap_or_else(|stopped| Err(panicked(reader.tool(), &stopped)));
    let (session, outcome) = stored?;
    Ok(SourceReport { session, outcome, notes: notes? })
}

fn read(
    reader: &'static dyn SessionReader,
    source: &SessionSource,
    mut sink: Sink,
) -> Result<ReadNotes, ReadError> {
    reader.read(source, &mut sink)?;
    Ok(sink.finish())
}

fn panicked(tool: &ToolInfo, stopped: &tokio::task::JoinError) -> ReadError {
    let reason = format!("could not be read: the reader of {} stopped: {stopped}", tool.name);
    ReadError::Format { path: tool.name.into(), reason }
}

async fn store_events(
    store: &dyn Store,
    tool: &'static ToolInfo,
    mut events: mpsc::Receiver<Vec<ReadEvent>>,
) -> Result<(Option<SessionId>, SourceOutcome), StoreError> {
    let mut writing: Option<StoringSession<'_>> = None;
    let mut is_whole = false;
    while let Some(batch) = events.recv().await {
        for event in batch {
            match (event, &mut writing) {
                (ReadEvent::Begun(facts), None) => writing = Some(StoringSession::new(store, tool, &facts)),
                (ReadEvent::Ended, _) => is_whole = true,
                (event, Some(writing)) => writing.event(event).await?,
                (_, None) => {}
            }
        }
    }
    match writing {
        Some(writing) if is_whole => writing.finish().await,
        Some(_) | None => Ok((None, SourceOutcome::Empty)),
    }
}

/// A session that is being stored.
struct StoringSession<'a> {
    tool: &'static ToolInfo,
    id: SessionId,
    recorder: Recorder,
    writer: SessionWriter<'a>,
}

impl<'a> StoringSession<'a> {
    fn new(store: &'a dyn Store, tool: &'static ToolInfo, facts: &SessionFacts) -> Self {
        let now = clock::now();
        let id = ids::session_id();
        let recorder = Recorder::new(tool, facts, &facts.native, now);
        let row = WrittenRow {
            id: id.clone(),
            cwd: facts.cwd.clone(),
            agent: tool.title.to_owned(),
            facts: RowFacts { title: facts.title.clone(), ..RowFacts::default() },
            at: facts.updated.unwrap_or(now).min(now),
        };
        let writer = SessionWriter::new(store, row, KeptNatives::All);
        Self { tool, id, recorder, writer }
    }

    async fn event(&mut self, event: ReadEvent) -> Result<(), StoreError> {
        let entries = self.recorder.add(event);
        self.store(entries).await
    }

    async fn store(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        for entry in entries {
            self.writer.entry(entry).await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(Option<SessionId>, SourceOutcome), StoreError> {
        if !self.recorder.has_conversation() {
            return Ok((None, SourceOutcome::Empty));
        }
        let title = self.recorder.session().title.clone();
        let (entries, _) = self.recorder.finish(self.tool);
        for entry in entries {
            self.writer.entry(entry).await?;
        }
        let facts = RowFacts { title, listed: Some(Listed), ..RowFacts::default() };
        self.writer.finish(facts).await?;
        Ok((Some(self.id), SourceOutcome::Imported))
    }
}

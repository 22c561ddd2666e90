//! Imports the sessions of one tool: decides by the ledger what has to be read, reads it on a thread that may block, and
//! stores what comes out of the sink as a session that is bound to its own agent.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rethread_core::{Seq, SessionId};
use tokio::sync::mpsc;

use super::growth;
use super::reader::{ReadError, SessionReader, SessionSource, ToolInfo};
use super::sink::{ReadEvent, ReadNotes, SessionFacts, Sink};
use super::storing::StoringSession;
use crate::session_file::ImportMode;
use crate::store::{Archived, Deleted, DriftCount, ImportProgress, ImportRecord, Store, StoreError};
use crate::{clock, ids, store};

/// What became of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceOutcome {
    /// It was stored as a new session with so many turns.
    Imported(u64),
    /// It has grown: so many turns were appended to its session.
    Grown(u64),
    /// It is as it was.
    Unchanged,
    /// Its session is here already, because an agent ran it here or another source has it.
    AlreadyHere,
    /// It has changed, but its session had turns here since it was imported, or is open now: it stays as it is.
    Diverged,
    /// What was imported of it is not there any more, because it was rewound or written anew: its session stays as it is.
    Rewritten,
    /// Its session was deleted here, and stays so.
    DeletedHere,
    /// The tool works on its only turn just now.
    InProgress,
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

/// An import of the sessions of one tool.
pub struct ToolImport<'a> {
    store: &'a dyn Store,
    reader: &'static dyn SessionReader,
    mode: ImportMode,
    records: HashMap<(String, String), ImportRecord>,
}

impl<'a> ToolImport<'a> {
    /// Begins an import: reads what was imported before.
    pub async fn begin(
        store: &'a dyn Store,
        reader: &'static dyn SessionReader,
        mode: ImportMode,
    ) -> Result<Self, StoreError> {
        let records = store.imports(reader.tool().name).await?;
        let by_source = |record: ImportRecord| ((record.path.clone(), record.key.clone()), record);
        Ok(Self { store, reader, mode, records: records.into_iter().map(by_source).collect() })
    }

    /// Says whether a source has to be read.
    #[must_use]
    pub fn is_due(&self, source: &SessionSource) -> bool {
        let as_it_was = |record: &ImportRecord| {
            record.progress == ImportProgress::Done
                && (record.size, record.modified) == (source.size, source.modified)
        };
        self.mode == ImportMode::Copy || !self.record(source).is_some_and(as_it_was)
    }

    /// Imports one source, as far as it has to be.
    pub async fn source(&mut self, source: SessionSource) -> Result<SourceReport, SourceImportError> {
        if !self.is_due(&source) {
            let session = self.record(&source).and_then(|record| record.session.clone());
            return Ok(SourceReport {
                session,
                outcome: SourceOutcome::Unchanged,
                notes: ReadNotes::default(),
            });
        }
        let source = Arc::new(source);
        let earlier = self.settled(&source).await?;
        let (sink, events) = Sink::channel();
        let (reader, reading) = (self.reader, source.clone());
        let reading = tokio::task::spawn_blocking(move || read(reader, &reading, sink));
        let stored = self.store_events(&source, earlier, EventStream::new(events)).await;
        let notes = reading.await.unwrap_or_else(|stopped| Err(panicked(&source.path, &stopped)));
        // The reader stops when nobody wants to have the rest, which is no failure of its own.
        let notes = match (notes, &stored) {
            (Err(ReadError::Stopped(_)), _) => ReadNotes::default(),
            (notes, _) => notes?,
        };
        let stored = stored?;
        self.note(&source, &stored).await?;
        self.count_drift(&stored.outcome, &notes).await?;
        Ok(SourceReport { session: stored.session, outcome: stored.outcome, notes })
    }

    fn record(&self, source: &SessionSource) -> Option<&ImportRecord> {
        self.records.get(&(path_text(&source.path), source.key.clone()))
    }

    /// What is known of a source. What an import that was interrupted left is deleted.
    async fn settled(&self, source: &SessionSource) -> Result<Earlier, StoreError> {
        let Some(record) = self.record(source).cloned() else { return Ok(Earlier::default()) };
        let Some(session) = record.session.clone().filter(|_| record.progress == ImportProgress::Begun)
        else {
            return Ok(Earlier { record: Some(record), dropped: None });
        };
        match store::read_state(self.store, &session).await {
            // The last entry of an import is that the agent is gone.
            Ok((state, row)) if state.agent.is_some() && row.deleted == Deleted::No => {
                self.store.delete(&session, clock::now()).await?;
                Ok(Earlier { record: None, dropped: Some(session) })
            }
            Ok(_) => Ok(Earlier { record: Some(ImportRecord { events: 0, ..record }), dropped: None }),
            Err(StoreError::Unknown(_)) => Ok(Earlier { record: None, dropped: Some(session) }),
            Err(error) => Err(error),
        }
    }

    async fn store_events(
        &self,
        source: &SessionSource,
        earlier: Earlier,
        mut events: EventStream,
    ) -> Result<Stored, StoreError> {
        let Some(facts) = events.facts().await else { return Ok(Stored::none(SourceOutcome::Empty)) };
        let tool = self.reader.tool();
        if self.mode == ImportMode::Same {
            if let Some(record) = earlier.record.filter(|record| record.events > 0)
                && let Some(session) = record.session.clone()
            {
                return growth::grow(self.store, tool, source, &record, session, &facts, events).await;
            }
            if let Some(stored) = self.known(&facts, earlier.dropped.as_ref()).await? {
                return Ok(stored);
            }
        }
        let id = self.new_id(&facts).await?;
        let mut storing = StoringSession::new(self.store, tool, source, &facts, id, self.mode);
        while let Some(event) = events.next().await {
            storing.event(event).await?;
        }
        if !events.is_whole {
            storing.abandon().await?;
            return Ok(Stored::none(SourceOutcome::Empty));
        }
        let stored = storing.finish().await?;
        if let Some((session, at)) = stored.session.as_ref().zip(facts.archived) {
            self.store.set_archived(session, Archived::Yes, at.min(clock::now())).await?;
        }
        Ok(stored)
    }

    /// A session of ours that has the id of the source, other than what was left of an interrupted import.
    async fn known(
        &self,
        facts: &SessionFacts,
        dropped: Option<&SessionId>,
    ) -> Result<Option<Stored>, StoreError> {
        let found = self.store.find_native(self.reader.tool().agents, &facts.native).await?;
        let Some(session) = found.filter(|session| Some(session) != dropped) else { return Ok(None) };
        let row = self.store.find(&session).await?;
        let is_deleted = row.is_none_or(|row| row.deleted == Deleted::Yes);
        let outcome = if is_deleted { SourceOutcome::DeletedHere } else { SourceOutcome::AlreadyHere };
        Ok(Some(Stored { session: Some(session), ..Stored::none(outcome) }))
    }

    /// The tool's own id, unless something else has it here.
    async fn new_id(&self, facts: &SessionFacts) -> Result<SessionId, StoreError> {
        let own = SessionId(facts.native.clone());
        if self.mode == ImportMode::Copy || !is_usable(&facts.native) {
            return Ok(ids::session_id());
        }
        let row = self.store.find(&own).await?;
        // A row without entries is a session that an agent has listed: this is it.
        let is_free = row.is_none_or(|row| row.head == Seq(0) && row.deleted == Deleted::No);
        Ok(if is_free { own } else { ids::session_id() })
    }

    /// Notes how far a source was imported, so that it is not read again before it changes.
    async fn note(&mut self, source: &SessionSource, stored: &Stored) -> Result<(), StoreError> {
        if self.mode == ImportMode::Copy {
            return Ok(());
        }
        let record = match stored.outcome {
            // They are read and reported again.
            SourceOutcome::Diverged | SourceOutcome::Rewritten | SourceOutcome::InProgress => return Ok(()),
            SourceOutcome::Imported(_)
            | SourceOutcome::Grown(_)
            | SourceOutcome::Unchanged
            | SourceOutcome::AlreadyHere
            | SourceOutcome::DeletedHere
            | SourceOutcome::Empty => stored.record(self.reader.tool(), source),
        };
        self.store.remember_import(&record).await?;
        self.records.insert((record.path.clone(), record.key.clone()), record);
        Ok(())
    }

    async fn count_drift(&self, outcome: &SourceOutcome, notes: &ReadNotes) -> Result<(), StoreError> {
        let is_new = matches!(outcome, SourceOutcome::Imported(_) | SourceOutcome::Grown(_));
        if !is_new || notes.drift.is_empty() {
            return Ok(());
        }
        let tool = self.reader.tool().name;
        let count = |((version, what), count): (&(String, String), &u64)| DriftCount {
            tool: tool.to_owned(),
            version: version.clone(),
            what: what.clone(),
            count: *count,
        };
        let drift: Vec<_> = notes.drift.iter().map(count).collect();
        self.store.add_drift(&drift, clock::now()).await
    }
}

/// What is known of a source from earlier imports.
#[derive(Default)]
struct Earlier {
    record: Option<ImportRecord>,
    /// What an interrupted import left, which is deleted.
    dropped: Option<SessionId>,
}

/// What is stored of a source.
pub(super) struct Stored {
    pub(super) session: Option<SessionId>,
    pub(super) outcome: SourceOutcome,
    pub(super) turns: u64,
    pub(super) mark: super::ReadMark,
    /// Whether a part of the source was left for later, so that it is read again.
    pub(super) rest: Rest,
}

/// Whether a part of a source was left for later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    Later,
}

impl Stored {
    pub(super) fn none(outcome: SourceOutcome) -> Self {
        Self { session: None, outcome, turns: 0, mark: super::ReadMark::default(), rest: Rest::Nothing }
    }

    pub(super) fn record(&self, tool: &ToolInfo, source: &SessionSource) -> ImportRecord {
        ImportRecord {
            tool: tool.name.to_owned(),
            path: path_text(&source.path),
            key: source.key.clone(),
            // A source that has more than was stored is never as it was.
            size: if self.rest == Rest::Later { 0 } else { source.size },
            modified: source.modified,
            session: self.session.clone(),
            turns: self.turns,
            events: self.mark.events,
            hash: self.mark.hash.to_vec(),
            progress: ImportProgress::Done,
        }
    }
}

/// The events of a source, one by one.
pub(super) struct EventStream {
    receiver: mpsc::Receiver<Vec<ReadEvent>>,
    batch: std::vec::IntoIter<ReadEvent>,
    /// Whether the source was read to its end.
    pub(super) is_whole: bool,
}

impl EventStream {
    fn new(receiver: mpsc::Receiver<Vec<ReadEvent>>) -> Self {
        Self { receiver, batch: Vec::new().into_iter(), is_whole: false }
    }

    /// The facts, which come first.
    async fn facts(&mut self) -> Option<SessionFacts> {
        match self.next().await? {
            ReadEvent::Begun(facts) => Some(*facts),
            ReadEvent::Updated(..)
            | ReadEvent::Model(_)
            | ReadEvent::Tokens(_)
            | ReadEvent::TurnEnded(..)
            | ReadEvent::Unfinished
            | ReadEvent::Ended => None,
        }
    }

    pub(super) async fn next(&mut self) -> Option<ReadEvent> {
        loop {
            match self.batch.next() {
                Some(ReadEvent::Ended) => self.is_whole = true,
                Some(event) => return Some(event),
                None => self.batch = self.receiver.recv().await?.into_iter(),
            }
        }
    }
}

/// A path as the ledger has it.
pub(super) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn is_usable(id: &str) -> bool {
    const LONGEST: usize = 1024;
    !id.is_empty() && id.len() <= LONGEST && !id.chars().any(char::is_control)
}

fn read(
    reader: &'static dyn SessionReader,
    source: &SessionSource,
    mut sink: Sink,
) -> Result<ReadNotes, ReadError> {
    reader.read(source, &mut sink)?;
    Ok(sink.finish())
}

fn panicked(path: &Path, stopped: &tokio::task::JoinError) -> ReadError {
    ReadError::Format { path: path.to_owned(), reason: format!("could not be read: {stopped}") }
}

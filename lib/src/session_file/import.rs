//! Stores a session of a file. A session that is there already with the same content is left alone.

use std::hash::{DefaultHasher, Hasher};
use std::io::BufRead;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use rethread_core::session::Native;
use rethread_core::{Entry, HeldPrompts, Input, Seq, Session, SessionId, stored};

use super::canonical::{CanonicalFold, size};
use super::export::{ExportRedaction, export_session};
use super::line_reader::{FileLine, FileLineReader};
use super::sections::{FileSection, SessionFileError, opening};
use crate::store::{
    Append, Deleted, Durability, FoldUpTo, Lease, Listed, NativeId, NewSession, RowFacts, SessionRow,
    Snapshot, Store, StoreError,
};
use crate::{clock, ids};

/// Up to this size a session is stored in one step, so that a crash leaves nothing of it.
const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

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
    let mut writing = SectionWriter::new(store, section, mode, id.clone());
    let mut reader = FileLineReader::new(input, 0, 0);
    while reader.line < section.lines {
        match reader.next().map_err(SessionFileError::from)? {
            Some(FileLine::Entry(entry)) => writing.entry(*entry).await?,
            Some(FileLine::Header(_) | FileLine::End(_) | FileLine::Newer(_) | FileLine::Broken(_)) => {}
            None => break,
        }
    }
    writing.finish().await?;
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

/// Stores the entries of one session in batches.
struct SectionWriter<'a> {
    store: &'a dyn Store,
    section: &'a FileSection,
    mode: ImportMode,
    id: SessionId,
    turns: CanonicalFold,
    session: Session,
    lease: Option<Lease>,
    batch: Vec<Arc<Entry>>,
    bytes: usize,
    last_turn_end: Seq,
    /// The agents' ids that have not been stored.
    natives: Peekable<IntoIter<Native>>,
    /// The agent's id that is stored with the batch.
    native: Option<NativeId>,
}

impl<'a> SectionWriter<'a> {
    fn new(store: &'a dyn Store, section: &'a FileSection, mode: ImportMode, id: SessionId) -> Self {
        let natives = match mode {
            ImportMode::Same => section.natives.clone(),
            ImportMode::Copy => Vec::new(),
        };
        Self {
            store,
            section,
            mode,
            id,
            turns: CanonicalFold::default(),
            session: Session::default(),
            lease: None,
            batch: Vec::new(),
            bytes: 0,
            last_turn_end: Seq(0),
            natives: natives.into_iter().peekable(),
            native: None,
        }
    }

    async fn entry(&mut self, entry: Entry) -> Result<(), StoreError> {
        let untouched = self.session.head == Seq(0) && self.turns.is_empty();
        let before = untouched.then(|| opening(&self.section.header, &entry)).flatten();
        for entry in before.into_iter().chain([entry]) {
            for entry in self.turns.push(entry) {
                self.write(entry).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, entry: Entry) -> Result<(), StoreError> {
        if let Some(native) = self.next_native(&entry) {
            // A change of the row has room for one id.
            if self.native.is_some() {
                self.store_batch(None).await?;
            }
            self.native = Some(native);
        }
        self.session.apply(&entry);
        if matches!(entry, Entry::TurnEnded { .. }) {
            self.last_turn_end = self.session.head;
        }
        self.bytes += size(&entry);
        self.batch.push(Arc::new(entry));
        if self.bytes > MAX_BATCH_BYTES { self.store_batch(None).await } else { Ok(()) }
    }

    /// The agent's id that an entry brings, if it is one of those that the session has in the end.
    fn next_native(&mut self, entry: &Entry) -> Option<NativeId> {
        let Entry::AgentBound { agent, native, .. } = entry else { return None };
        let found = self.natives.next_if(|next| next.agent == *agent && next.id == *native)?;
        Some(NativeId { agent: found.agent, id: found.id })
    }

    /// Stores the rest, folds the finished turns and releases the session.
    async fn finish(mut self) -> Result<(), StoreError> {
        for entry in self.turns.take() {
            self.write(entry).await?;
        }
        if self.mode == ImportMode::Copy {
            for entry in self.own_beginning() {
                self.write(entry).await?;
            }
        }
        let snapshot = self.session.turn.is_none().then(|| stored::encode_session(&self.session));
        self.store_batch(snapshot.clone()).await?;
        let Some(lease) = self.lease.take() else { return Ok(()) };
        if self.last_turn_end > lease.folded {
            let snapshot = snapshot.map(|state| Snapshot { head: self.session.head, state });
            self.store.fold(&lease, FoldUpTo { upto: self.last_turn_end, snapshot }).await?;
        }
        self.store.release(&lease).await
    }

    /// A copy begins as a fork does: what was under way has ended, and no agent has it yet.
    fn own_beginning(&self) -> Vec<Entry> {
        let (reason, at) = (format!("copied from {}", self.section.header.id), clock::now());
        let ended = Input::AgentExited { reason, held: HeldPrompts::Drop, at };
        let mut entries = rethread_core::decide(&self.session, ended).unwrap_or_default();
        let super::SessionFileHeader { cwd, agent, .. } = self.section.header.clone();
        entries.push(Entry::Opened { cwd, roots: Vec::new(), agent, at, moved_from: None });
        entries
    }

    async fn store_batch(&mut self, snapshot: Option<Vec<u8>>) -> Result<(), StoreError> {
        self.bytes = 0;
        let (entries, native) = (std::mem::take(&mut self.batch), self.native.take());
        let count = entries.len() as u64;
        match &mut self.lease {
            None => {
                let new = self.new_session(entries, native, snapshot);
                self.lease = Some(self.store.create(new).await?);
            }
            Some(_) if count == 0 => {}
            Some(lease) => {
                let append = Append {
                    session: self.id.clone(),
                    epoch: lease.epoch,
                    expected: lease.head,
                    entries,
                    facts: RowFacts { native, ..RowFacts::default() },
                    durability: Durability::Process,
                    at: None,
                };
                self.store.append(append).await?;
                lease.head = Seq(lease.head.0 + count);
            }
        }
        Ok(())
    }

    fn new_session(
        &self,
        entries: Vec<Arc<Entry>>,
        native: Option<NativeId>,
        snapshot: Option<Vec<u8>>,
    ) -> NewSession {
        let header = self.section.header.clone();
        let at = header.changed(clock::now());
        let facts = RowFacts {
            title: header.title.zip(header.title_by),
            roots: None,
            native,
            listed: self.section.prompted.then_some(Listed),
            ..RowFacts::default()
        };
        let (id, cwd, agent) = (self.id.clone(), header.cwd, header.agent);
        NewSession { id, cwd, agent, parent: None, entries, facts, snapshot, at }
    }
}

//! Where a reader puts what it reads: the facts of a session, then its updates, ends of turns and the like in order.
//! What is odd about the source is counted on the way. The other end is a bounded channel, or a list in tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rethread_core::{Millis, Stop, TitleSource, Update};
use tokio::sync::mpsc;

/// How much is passed on at once, in bytes and in events.
const BATCH_BYTES: usize = 256 * 1024;
const BATCH_EVENTS: usize = 512;

/// How many damaged places are listed.
const MAX_LISTED: usize = 20;

/// The longest name of an unknown kind or field that is kept, in characters, and how many of them.
const MAX_DRIFT_NAME: usize = 80;
const MAX_DRIFT_KINDS: usize = 200;

/// What a reader says of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// What is known of the session.
    Begun(Box<SessionFacts>),
    /// Something was said or done.
    Updated(Update, Option<Millis>),
    /// The model from here on.
    Model(String),
    /// UsedTokens that were used in this turn.
    Tokens(UsedTokens),
    /// The turn ended.
    TurnEnded(Stop, Option<Millis>),
    /// The source ends in the middle of a turn.
    Unfinished,
    /// All was read. What has no such end was not read to its end, and is not stored.
    Ended,
}

/// What is known of a session before its first update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// The tool's own id of the session.
    pub native: String,
    /// The working directory that the records name; empty if they name none.
    pub cwd: String,
    /// The title and who gave it. Without one the first words of the first prompt are used.
    pub title: Option<(String, TitleSource)>,
    /// When it was created.
    pub created: Option<Millis>,
    /// When it was changed last, if the reader knows that by now.
    pub updated: Option<Millis>,
    /// When it was archived, if it was.
    pub archived: Option<Millis>,
}

/// Numbers of tokens, to be added to those of the same turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedTokens {
    /// Input tokens that were neither read from a cache nor written to one.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens that were read from a cache.
    pub cached_read: u64,
    /// Input tokens that were written to a cache.
    pub cached_write: u64,
}

/// Nobody reads the other end any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the import was stopped")]
pub struct SinkClosed;

/// What was odd about a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadNotes {
    /// Unknown kinds of record and fields, each with the version of the tool that wrote it, and how often.
    pub drift: BTreeMap<(String, String), u64>,
    /// The first damaged places.
    pub damaged: Vec<DamagedPlace>,
    /// How many places are damaged.
    pub damage_count: u64,
}

/// A line or record that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPlace {
    /// The file.
    pub path: PathBuf,
    /// The line, or the row, from 1.
    pub line: u64,
    /// Why it was skipped.
    pub reason: String,
}

/// Takes what a reader reads. The facts come first and once, then everything in the order in which a client would have
/// been told of it.
#[derive(Debug)]
pub struct Sink {
    sender: mpsc::Sender<Vec<ReadEvent>>,
    batch: Vec<ReadEvent>,
    bytes: usize,
    notes: ReadNotes,
}

impl Sink {
    /// A sink and the end that its events come out of, in batches.
    #[must_use]
    pub fn channel() -> (Self, mpsc::Receiver<Vec<ReadEvent>>) {
        let (sender, receiver) = mpsc::channel(4);
        (Self { sender, batch: Vec::new(), bytes: 0, notes: ReadNotes::default() }, receiver)
    }

    /// Gives the facts of the session: first of all, and once.
    pub fn begin(&mut self, facts: SessionFacts) -> Result<(), SinkClosed> {
        self.push(ReadEvent::Begun(Box::new(facts)), 0)
    }

    /// Gives an update in canonical shape (see `updates`) with the time at which it was recorded. A user message begins
    /// a turn; its id is the one that the tool has for it, if it has one.
    pub fn update(&mut self, update: Update, at: Option<Millis>) -> Result<(), SinkClosed> {
        let bytes = update.body.text().len();
        self.push(ReadEvent::Updated(update, at), bytes)
    }

    /// Says which model is used from here on.
    pub fn model(&mut self, name: &str) -> Result<(), SinkClosed> {
        self.push(ReadEvent::Model(name.to_owned()), name.len())
    }

    /// Adds tokens to those of the turn.
    pub fn tokens(&mut self, tokens: UsedTokens) -> Result<(), SinkClosed> {
        self.push(ReadEvent::Tokens(tokens), 0)
    }

    /// Ends the turn: `end_turn`, `cancelled`, `refusal`, `max_tokens` or an error. A turn that is not ended by this ends
    /// well before the next user message, and at the end of the source.
    pub fn end_turn(&mut self, stop: Stop, at: Option<Millis>) -> Result<(), SinkClosed> {
        self.push(ReadEvent::TurnEnded(stop, at), 0)
    }

    /// Says, at the end, that the last turn is not finished: the tool works on it now, or was stopped in it.
    pub fn unfinished(&mut self) -> Result<(), SinkClosed> {
        self.push(ReadEvent::Unfinished, 0)
    }

    /// Counts a kind of record or a field that the reader does not know, by the version of the tool that wrote it.
    pub fn drift(&mut self, version: &str, what: &str) {
        let short = |text: &str| text.chars().take(MAX_DRIFT_NAME).collect::<String>();
        let key = (short(version), short(what));
        if self.notes.drift.len() < MAX_DRIFT_KINDS || self.notes.drift.contains_key(&key) {
            *self.notes.drift.entry(key).or_default() += 1;
        }
    }

    /// Counts a line or record that was skipped because it is damaged.
    pub fn damaged(&mut self, path: &Path, line: u64, reason: impl Into<String>) {
        self.notes.damage_count += 1;
        if self.notes.damaged.len() < MAX_LISTED {
            let (path, reason) = (path.to_owned(), reason.into());
            self.notes.damaged.push(DamagedPlace { path, line, reason });
        }
    }

    /// Says that all was read, and returns what was odd.
    pub fn finish(mut self) -> ReadNotes {
        self.batch.push(ReadEvent::Ended);
        // Whoever closed the other end wants nothing more.
        let _ = self.flush();
        self.notes
    }

    fn push(&mut self, event: ReadEvent, bytes: usize) -> Result<(), SinkClosed> {
        self.batch.push(event);
        self.bytes += bytes;
        if self.bytes > BATCH_BYTES || self.batch.len() >= BATCH_EVENTS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SinkClosed> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        self.sender.blocking_send(batch).map_err(|_| SinkClosed)
    }
}

impl ReadNotes {
    /// Adds the notes of another source.
    pub fn add(&mut self, more: Self) {
        for (key, count) in more.drift {
            *self.drift.entry(key).or_default() += count;
        }
        let room = MAX_LISTED.saturating_sub(self.damaged.len());
        self.damaged.extend(more.damaged.into_iter().take(room));
        self.damage_count += more.damage_count;
    }
}

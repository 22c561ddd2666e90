//! The stored form of entries, apart from the model: a version byte, then JSON for single entries and states, and
//! the compact form of `items` for folded parts. Compression and rows are up to the store.
//!
//! | version | old reader, new data | new reader, old data | old writer, new data |
//! |---|---|---|---|
//! | 1, JSON | - | - | - |
//! | 1, `kind` in `AgentBound` | skips it, and trusts `_meta.rethread` of every agent as it always did | takes an agent without it for external: its `_meta.rethread` is not handed on | writes it without, see before |
//! | 1, `moved_from` in `Opened` | skips it: the session has its new directory and no agent session, as in a fork | takes an entry without it for a new session or a fork | never moves a session; keeps the entries as they are |
//! | 2, folded parts only | refuses the part as newer | reads both | adds parts of version 1 beside those of 2 |
//!
//! A version is added when an entry changes its meaning or loses a member. A new kind of entry needs one too:
//! a reader that does not know it must refuse the journal rather than fold it wrongly.

mod items;

use std::borrow::Cow;

use crate::{Entry, Folded, Seq, Session, UpdateKind};

/// The version in which entries and states are written.
pub const VERSION: u8 = 1;

/// The version in which folded parts are written.
pub const SEGMENT_VERSION: u8 = 2;

/// Stored bytes that this program cannot read.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// Nothing is there.
    #[error("the stored value is empty")]
    Empty,
    /// A newer program wrote it.
    #[error("stored form {found} is newer than the newest this program reads")]
    Newer {
        /// The version byte found.
        found: u8,
    },
    /// The bytes are damaged.
    #[error("the stored value is damaged")]
    Damaged(#[source] serde_json::Error),
    /// The bytes are not items.
    #[error("the stored items are damaged: {0}")]
    Broken(&'static str),
}

/// Writes one entry.
#[must_use]
pub fn encode_entry(entry: &Entry) -> Vec<u8> {
    encode(entry)
}

/// Reads one entry.
pub fn decode_entry(bytes: &[u8]) -> Result<Entry, StoredError> {
    decode(bytes)
}

/// Writes a folded part of a journal.
#[must_use]
pub fn encode_segment(items: &[Folded]) -> Vec<u8> {
    let mut bytes = vec![SEGMENT_VERSION];
    items::write(items, &mut bytes);
    bytes
}

/// Writes an entry in the compact form of segments, behind whatever is in `bytes`.
pub fn write_compact(entry: &Entry, bytes: &mut Vec<u8>) {
    items::put_entry(bytes, entry);
}

/// Reads a folded part of a journal.
pub fn decode_segment(bytes: &[u8]) -> Result<Vec<Folded>, StoredError> {
    SegmentItems::of(bytes)?.map(|item| item?.folded()).collect()
}

/// An item of a journal as it is stored: its place is known, its entry is read when it is asked for.
#[derive(Clone, Debug)]
pub struct Stored<'a> {
    /// The first entry it came from: its place.
    pub first: Seq,
    /// The last entry it came from.
    pub last: Seq,
    form: StoredForm<'a>,
}

#[derive(Clone, Debug)]
enum StoredForm<'a> {
    /// In a folded part of the second version.
    Compact(&'a [u8]),
    /// On its own.
    Single(&'a [u8]),
    /// Read already.
    Read(Cow<'a, Entry>),
}

/// What sort of entry an item has, as far as that is known before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemSort {
    /// It says only how the work went along: a prompt was sent, a turn began.
    Bookkeeping,
    /// A turn is over.
    TurnEnded,
    /// Whatever it is.
    Any,
}

/// What can be seen of an entry without reading it. Texts are as they were written: JSON that was JSON then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawItem<'a> {
    /// [`Entry::PromptInserted`].
    Prompt {
        /// The id of the user message.
        message: &'a str,
        /// Its content blocks, as JSON.
        content: &'a str,
    },
    /// [`Entry::Updated`].
    Update {
        /// What it speaks of.
        kind: UpdateKind,
        /// The id of that thing.
        id: &'a str,
        /// Whether that thing was spoken of before.
        known: bool,
        /// The whole update, as JSON.
        body: &'a str,
    },
}

impl<'a> Stored<'a> {
    /// A single entry, as [`encode_entry`] wrote it.
    #[must_use]
    pub fn single(seq: Seq, bytes: &'a [u8]) -> Self {
        Self { first: seq, last: seq, form: StoredForm::Single(bytes) }
    }

    /// A single entry, as [`write_compact`] wrote it.
    #[must_use]
    pub fn compact(seq: Seq, bytes: &'a [u8]) -> Self {
        Self { first: seq, last: seq, form: StoredForm::Compact(bytes) }
    }

    /// An item that is at hand.
    #[must_use]
    pub fn at_hand(item: &'a Folded) -> Self {
        Self { first: item.first, last: item.last, form: StoredForm::Read(Cow::Borrowed(&item.entry)) }
    }

    /// What sort of entry it has.
    #[must_use]
    pub fn sort(&self) -> ItemSort {
        match &self.form {
            StoredForm::Compact(bytes) => items::sort(bytes),
            StoredForm::Single(_) | StoredForm::Read(_) => ItemSort::Any,
        }
    }

    /// What can be seen of its entry; nothing if the entry is another, or has to be read.
    #[must_use]
    pub fn raw_item(&self) -> Option<RawItem<'a>> {
        match &self.form {
            StoredForm::Compact(bytes) => items::raw_item(bytes),
            StoredForm::Single(_) | StoredForm::Read(_) => None,
        }
    }

    /// About how many stored bytes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.form {
            StoredForm::Compact(bytes) | StoredForm::Single(bytes) => bytes.len(),
            StoredForm::Read(entry) => encode_entry(entry).len(),
        }
    }

    /// Its entry.
    pub fn entry(self) -> Result<Cow<'a, Entry>, StoredError> {
        match self.form {
            StoredForm::Compact(bytes) => items::entry(bytes).map(Cow::Owned),
            StoredForm::Single(bytes) => decode_entry(bytes).map(Cow::Owned),
            StoredForm::Read(entry) => Ok(entry),
        }
    }

    /// All of it.
    pub fn folded(self) -> Result<Folded, StoredError> {
        let (first, last) = (self.first, self.last);
        Ok(Folded { first, last, entry: self.entry()?.into_owned() })
    }
}

/// The items of a folded part of a journal, found one by one.
#[derive(Debug)]
pub struct SegmentItems<'a>(Items<'a>);

#[derive(Debug)]
enum Items<'a> {
    Compact(items::Reader<'a>),
    /// Of the first version.
    Parsed(std::vec::IntoIter<Folded>),
}

impl<'a> SegmentItems<'a> {
    /// Begins to read.
    pub fn of(bytes: &'a [u8]) -> Result<Self, StoredError> {
        match bytes.split_first() {
            Some((&SEGMENT_VERSION, items)) => Ok(Self(Items::Compact(items::Reader::of(items)))),
            Some(_) | None => Ok(Self(Items::Parsed(decode::<Vec<Folded>>(bytes)?.into_iter()))),
        }
    }
}

impl<'a> Iterator for SegmentItems<'a> {
    type Item = Result<Stored<'a>, StoredError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Items::Compact(reader) => reader.next(),
            Items::Parsed(items) => items.next().map(|Folded { first, last, entry }| {
                Ok(Stored { first, last, form: StoredForm::Read(Cow::Owned(entry)) })
            }),
        }
    }
}

/// Makes one folded part of two that follow each other. Says nothing of whether they can be read.
#[must_use]
pub fn join_segments(before: &[u8], after: &[u8]) -> Option<Vec<u8>> {
    match (before.split_first(), after.split_first()) {
        (Some((&SEGMENT_VERSION, _)), Some((&SEGMENT_VERSION, items))) => Some([before, items].concat()),
        _ => None,
    }
}

/// Writes the state of a session, so that opening it need not fold all of its journal.
#[must_use]
pub fn encode_session(session: &Session) -> Vec<u8> {
    encode(session)
}

/// Reads the state of a session.
pub fn decode_session(bytes: &[u8]) -> Result<Session, StoredError> {
    decode(bytes)
}

fn encode<T: serde::Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    serde_json::to_writer(&mut bytes, value).expect("entries always serialise");
    bytes
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, StoredError> {
    match bytes.split_first() {
        None => Err(StoredError::Empty),
        Some((&VERSION, json)) => serde_json::from_slice(json).map_err(StoredError::Damaged),
        Some((&found, _)) => Err(StoredError::Newer { found }),
    }
}

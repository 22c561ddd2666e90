//! The stored form of entries, apart from the model: a version byte, then JSON. Compression and rows are
//! the store's business.
//!
//! | version | old reader, new data | new reader, old data | old writer, new data |
//! |---|---|---|---|
//! | 1 | - | - | - |
//!
//! A version is added when an entry changes its meaning or loses a member. A new kind of entry needs one too:
//! a reader that does not know it must refuse the journal rather than fold it wrongly.

use crate::{Entry, Folded, Session};

/// The version that is written.
pub const VERSION: u8 = 1;

/// Stored bytes that this program cannot read.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// Nothing is there.
    #[error("the stored value is empty")]
    Empty,
    /// A newer program wrote it.
    #[error("stored form {found} is newer than {VERSION}, the newest this program reads")]
    Newer {
        /// The version byte found.
        found: u8,
    },
    /// The bytes are damaged.
    #[error("the stored value is damaged")]
    Damaged(#[source] serde_json::Error),
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
    encode(items)
}

/// Reads a folded part of a journal.
pub fn decode_segment(bytes: &[u8]) -> Result<Vec<Folded>, StoredError> {
    decode(bytes)
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

//! The cursor of a list: the place after one row, opaque to clients. The first byte is a version, so that a
//! later order can refuse the cursors of this one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rethread_core::Millis;

use super::{ListPage, SessionRow, StoreError};

const VERSION: u8 = 1;
const TIME_BYTES: usize = size_of::<Millis>();

/// The row that the page before ended with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    /// Its time.
    pub(super) updated_at: Millis,
    /// Its id.
    pub(super) uid: String,
}

impl Cursor {
    /// The place after a row.
    pub(super) fn after(row: &SessionRow) -> Self {
        Self { updated_at: row.updated_at, uid: row.id.0.clone() }
    }

    /// The cursor as clients see it.
    pub(super) fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(self.updated_at.to_be_bytes());
        bytes.extend(self.uid.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads what a client sent back.
    pub(super) fn decode(text: &str) -> Result<Self, StoreError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| StoreError::BadCursor)?;
        parse(&bytes).ok_or(StoreError::BadCursor)
    }
}

impl ListPage {
    /// The first rows of a longer list, with a cursor if more follow.
    pub(super) fn of(mut rows: Vec<SessionRow>, limit: usize) -> Self {
        let limit = limit.max(1);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| Cursor::after(row).encode());
        Self { rows, next }
    }

    /// Leaves the rows from this one on, which is not the first, to the next page.
    pub fn cut(&mut self, at: usize) {
        self.rows.truncate(at);
        self.next = self.rows.last().map(|row| Cursor::after(row).encode());
    }
}

fn parse(bytes: &[u8]) -> Option<Cursor> {
    let (version, rest) = bytes.split_first()?;
    let (time, uid) = rest.split_at_checked(TIME_BYTES)?;
    let updated_at = Millis::from_be_bytes(time.try_into().ok()?);
    let uid = String::from_utf8(uid.to_vec()).ok()?;
    (*version == VERSION && !uid.is_empty()).then_some(Cursor { updated_at, uid })
}

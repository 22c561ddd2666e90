//! The cursor of a paged list: the last row of a page, encoded as an opaque string. Its first byte is a format version,
//! so that cursors of another format can be refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rethread_core::Millis;

use super::{ListPage, SessionRow, StoreError};

const VERSION: u8 = 1;
const TIME_BYTES: usize = size_of::<Millis>();

/// The last row of the previous page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListCursor {
    pub(super) updated_at: Millis,
    pub(super) uid: String,
}

impl ListCursor {
    /// Makes the cursor after a row.
    pub(super) fn after(row: &SessionRow) -> Self {
        Self { updated_at: row.updated_at, uid: row.id.0.clone() }
    }

    /// Encodes the cursor for clients.
    pub(super) fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(self.updated_at.to_be_bytes());
        bytes.extend(self.uid.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a cursor that a client sent.
    pub(super) fn decode(text: &str) -> Result<Self, StoreError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| StoreError::BadCursor)?;
        parse(&bytes).ok_or(StoreError::BadCursor)
    }
}

impl ListPage {
    /// Makes a page of the first `limit` rows, with a cursor if there are more.
    pub(super) fn of(mut rows: Vec<SessionRow>, limit: usize) -> Self {
        let limit = limit.max(1);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| ListCursor::after(row).encode());
        Self { rows, next }
    }

    /// Removes the rows from index `at` on; the next page begins with them. `at` must not be 0.
    pub fn cut(&mut self, at: usize) {
        self.rows.truncate(at);
        self.next = self.rows.last().map(|row| ListCursor::after(row).encode());
    }
}

fn parse(bytes: &[u8]) -> Option<ListCursor> {
    let (version, rest) = bytes.split_first()?;
    let (time, uid) = rest.split_at_checked(TIME_BYTES)?;
    let updated_at = Millis::from_be_bytes(time.try_into().ok()?);
    let uid = String::from_utf8(uid.to_vec()).ok()?;
    (*version == VERSION && !uid.is_empty()).then_some(ListCursor { updated_at, uid })
}

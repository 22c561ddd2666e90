//! Searching the text of sessions: queries, hits, pages and their cursors, as all stores have them. How a store finds the
//! text is its own matter.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rethread_core::search::{Excerpt, TextQuery};
use rethread_core::{Millis, Seq, SessionId, Speaker, TurnNo};

use super::{Archived, StoreError};

/// The most hits of a page.
pub const MAX_HITS: usize = 200;

/// The approximate length of an excerpt in bytes.
pub(super) const EXCERPT_BYTES: usize = 320;

/// What to search for.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// What a message must have.
    pub text: TextQuery,
    /// Only sessions with exactly this working directory; a trailing slash makes no difference.
    pub cwd: Option<String>,
    /// Only sessions that were created with, or served by, an agent whose name contains this text. ASCII letters match
    /// in both cases.
    pub agent: Option<String>,
    /// Only messages of this time or later.
    pub since: Option<Millis>,
    /// The cursor of the previous page.
    pub after: Option<String>,
    /// The maximum number of hits, at most [`MAX_HITS`].
    pub limit: usize,
}

impl SearchQuery {
    /// A search for this text, without filters, for this many hits.
    #[must_use]
    pub fn new(text: TextQuery, limit: usize) -> Self {
        Self { text, cwd: None, agent: None, since: None, after: None, limit }
    }

    /// The number of hits on a page.
    pub(super) fn page_size(&self) -> usize {
        self.limit.clamp(1, MAX_HITS)
    }
}

/// One page of hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// The hits, newest message first.
    pub hits: Vec<SearchHit>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// A message, tool call or other passage that was found. Text that a fork shares with its parent is found once: in the
/// parent, or in a fork if the parent is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The session.
    pub session: SessionId,
    /// The title of the session.
    pub title: Option<String>,
    /// The agent that served the session last.
    pub agent: String,
    /// The working directory of the session.
    pub cwd: String,
    /// Whether the session is archived.
    pub archived: Archived,
    /// The turn; 0 before the first one.
    pub turn: TurnNo,
    /// The first entry of the message.
    pub seq: Seq,
    /// The id of the message or tool call; empty if there is none.
    pub message: String,
    /// Who speaks.
    pub speaker: Speaker,
    /// The time of the message. Only prompts and turns have times of their own: what an agent says is given a time between
    /// the beginning and the end of its turn.
    pub at: Millis,
    /// The text around the matches.
    pub excerpt: Excerpt,
}

/// How far the index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexProgress {
    /// The sessions that were looked at.
    pub done: usize,
    /// The sessions to look at.
    pub total: usize,
}

/// A callback for the progress of indexing. It runs on a thread that may block.
pub type ProgressCallback = Box<dyn FnMut(IndexProgress) + Send>;

/// The place of a message among all messages: milliseconds, then a number for messages of the same millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessagePlace(pub(super) i64);

/// The bits of a place for messages of the same millisecond.
const NUMBER_BITS: u32 = 20;

/// The last time that fits into a place, in the year 2248. Later times count as this one.
const LAST_TIME: Millis = (1 << (63 - NUMBER_BITS)) - 1;

const CURSOR_VERSION: u8 = 1;

impl MessagePlace {
    /// The first place of a millisecond.
    pub(super) fn first_at(at: Millis) -> Self {
        Self(i64::try_from(at.min(LAST_TIME) << NUMBER_BITS).unwrap_or(i64::MAX))
    }

    /// The last place of a millisecond.
    pub(super) fn last_at(at: Millis) -> Self {
        Self(Self::first_at(at).0 | ((1 << NUMBER_BITS) - 1))
    }

    /// The time.
    pub(super) fn at(self) -> Millis {
        u64::try_from(self.0).unwrap_or(0) >> NUMBER_BITS
    }

    /// The cursor for what comes behind this message in a list of hits.
    pub(super) fn cursor(self) -> String {
        let mut bytes = vec![CURSOR_VERSION];
        bytes.extend(self.0.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor that a client sent.
    pub(super) fn of_cursor(text: &str) -> Result<Self, StoreError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| StoreError::BadCursor)?;
        match bytes.split_first() {
            Some((&CURSOR_VERSION, place)) => {
                let place = place.try_into().map_err(|_| StoreError::BadCursor)?;
                Ok(Self(i64::from_be_bytes(place)))
            }
            Some(_) | None => Err(StoreError::BadCursor),
        }
    }
}

/// A directory without the slash at its end.
pub(super) fn bare_directory(cwd: &str) -> &str {
    match cwd.trim_end_matches('/') {
        "" => cwd.get(..1).unwrap_or_default(),
        bare => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_sort_by_time() {
        let place = MessagePlace::first_at(1_700_000_000_000);
        assert_eq!(place.at(), 1_700_000_000_000);
        assert!(
            MessagePlace::last_at(1_699_999_999_999) < place && place < MessagePlace::last_at(place.at())
        );
        assert!(MessagePlace::first_at(u64::MAX) > place && MessagePlace::last_at(u64::MAX).0 == i64::MAX);
        assert_eq!(MessagePlace::of_cursor(&place.cursor()).ok(), Some(place));
        for wrong in
            ["", "AA", "not base64!", &URL_SAFE_NO_PAD.encode([1, 2]), &URL_SAFE_NO_PAD.encode([9; 9])]
        {
            assert!(MessagePlace::of_cursor(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_slash_at_the_end_makes_no_difference() {
        let bare = ["/w", "/w/", "/w//", "/", "//", ""].map(bare_directory);
        assert_eq!(bare, ["/w", "/w", "/w", "/", "/", ""]);
    }
}

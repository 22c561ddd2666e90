//! A reader that goes through a journal from an entry on and is told what is new. It has a position and no queue. If entries
//! were folded behind its position, it gives the items that they have become, as a whole.

use std::sync::Arc;

use rethread_core::{Entry, Folded, Json, Seq, SessionId};
use serde::Serialize;

use super::item::{Freshness, ReadItem, entry_items, items_of};
use super::position::TurnTime;
use super::stretch::{FIRST, Stretch};
use crate::secret::{RedactedEntries, Redaction, SecretFinder};
use crate::store::{Store, StoreError};

/// About how much is given at once of a turn that was folded.
const MAX_FOLDED: usize = 1024 * 1024;

/// A position in a journal.
pub(crate) struct JournalFollower {
    session: SessionId,
    /// The entry that is read next.
    next: Seq,
    /// The first entry after the last turn that has ended before `next`.
    turn_start: Seq,
    now: TurnTime,
    /// Entries up to here are history.
    past: Seq,
    /// Of a turn that was folded: items that begin before this one have been given.
    given: Seq,
    /// A larger entry is shortened.
    longest: usize,
    /// Holds back and redacts entries, if secrets are not shown.
    redactor: Option<RedactedEntries>,
}

/// What a follower gives next.
pub(crate) struct FollowedEntries {
    /// The entries as clients get them; there may be none of interest.
    pub(crate) entries: Vec<Json>,
    /// Whether there is nothing more for now.
    pub(crate) is_last: bool,
}

impl JournalFollower {
    /// Begins after an entry of a session whose last entry is `head`.
    pub(crate) async fn new(
        store: &dyn Store,
        session: &SessionId,
        after: Seq,
        head: Seq,
        redaction: Redaction,
        longest: usize,
    ) -> Result<Self, StoreError> {
        let mut after = after.min(head);
        let stretch = Stretch::before(store, session, after.next()).await?;
        let mut now = TurnTime { turn: None, at: stretch.since };
        let mut turn_start = stretch.start;
        for item in stretch.items.iter().take_while(|item| item.first <= after) {
            now.pass(&item.entry);
            if is_turn_end(&item.entry) {
                turn_start = item.last.next();
            }
        }
        let redactor = match redaction {
            Redaction::Off => None,
            Redaction::Secrets => {
                // A secret may be split at any entry, so a turn is read from its beginning.
                after = Seq(turn_start.0.saturating_sub(1));
                now = TurnTime { turn: None, at: stretch.since };
                Some(RedactedEntries::default())
            }
        };
        let (session, next) = (session.clone(), after.next());
        Ok(Self { session, next, turn_start, now, past: head, given: Seq(0), longest, redactor })
    }

    /// The entry that it reads next.
    pub(crate) fn next(&self) -> Seq {
        self.next
    }

    /// Takes the entries that come next, as they were appended.
    pub(crate) fn take(&mut self, appended: &[Arc<Entry>]) -> Vec<Json> {
        let mut entries = Vec::new();
        for entry in appended {
            let seq = self.next;
            self.pass(Folded { first: seq, last: seq, entry: entry.as_ref().clone() }, &mut entries);
            self.next = seq.next();
        }
        entries
    }

    /// Reads on in the store, about `budget` bytes.
    pub(crate) async fn read(
        &mut self,
        store: &dyn Store,
        budget: usize,
    ) -> Result<FollowedEntries, StoreError> {
        let page = store.read(&self.session, self.next, budget).await?;
        if page.begins_folded() && self.next > self.turn_start {
            return self.read_folded(store).await;
        }
        let mut entries = Vec::new();
        for item in page.items() {
            let item = item?;
            let first = item.first;
            let item = item.folded().map_err(|cause| page.damaged(first, cause));
            match item {
                Ok(item) => self.pass(item, &mut entries),
                // What could be read is given first; the next read begins with the error.
                Err(_) if !entries.is_empty() => {
                    self.next = first;
                    return Ok(FollowedEntries { entries, is_last: false });
                }
                Err(error) => return Err(error),
            }
        }
        self.next = page.next;
        Ok(FollowedEntries { entries, is_last: page.end })
    }

    /// The turn that it was reading was folded: what goes on behind its position is given as a whole.
    async fn read_folded(&mut self, store: &dyn Store) -> Result<FollowedEntries, StoreError> {
        let stretch = Stretch::before(store, &self.session, self.next.next()).await?;
        let (next, given) = (self.next, self.given);
        let items = items_of(&stretch, self.past);
        let mut entries = Vec::new();
        let mut bytes = 0;
        for item in items.into_iter().filter(|item| item.last() >= next && item.seq >= given) {
            if bytes > MAX_FOLDED && item.seq > self.given {
                self.given = item.seq;
                return Ok(FollowedEntries { entries, is_last: false });
            }
            self.given = item.seq;
            let item = match &self.redactor {
                Some(_) => item.redacted(&mut SecretFinder::default()),
                None => item,
            };
            let entry = self.encoded(item);
            bytes += entry.text().len();
            entries.push(entry);
        }
        self.now = TurnTime { turn: None, at: stretch.since };
        for item in &stretch.items {
            self.now.pass(&item.entry);
        }
        self.given = Seq(0);
        self.next = stretch.end.next.max(next);
        self.turn_start = self.next.max(FIRST);
        Ok(FollowedEntries { entries, is_last: false })
    }

    fn pass(&mut self, item: Folded, entries: &mut Vec<Json>) {
        match &mut self.redactor {
            None => self.add(&item, entries),
            Some(redactor) => redactor.push(item).iter().for_each(|item| self.add(item, entries)),
        }
    }

    fn add(&mut self, item: &Folded, entries: &mut Vec<Json>) {
        let here = self.now.pass(&item.entry);
        let freshness = if item.first <= self.past { Freshness::History } else { Freshness::New };
        let items = entry_items(item, here, freshness);
        entries.extend(items.into_iter().map(|item| self.encoded(item)));
        if is_turn_end(&item.entry) {
            self.turn_start = item.last.next();
        }
    }

    fn encoded(&self, mut item: ReadItem) -> Json {
        item.cut_to(self.longest);
        Json::of(&item)
    }
}

/// The parameters of a notification with entries of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FollowedParams<'a> {
    /// The session.
    pub(crate) session_id: &'a SessionId,
    /// The entries as clients get them.
    pub(crate) entries: &'a [Json],
}

fn is_turn_end(entry: &Entry) -> bool {
    matches!(entry, Entry::TurnEnded { .. })
}

//! Searches the sessions of a memory store by reading all of their text: there is no index.

use rethread_core::{Folded, Seq, SessionId, fold};

use super::{MemoryState, StoredSession};
use crate::store::search::{EXCERPT_BYTES, MessagePlace, bare_directory};
use crate::store::texts::{TextReader, TextRow};
use crate::store::{Deleted, SearchHit, SearchPage, SearchQuery, StoreError};

/// A row with the session that it is shown for.
struct FoundRow<'a> {
    journal: &'a SessionId,
    shown: &'a StoredSession,
    row: TextRow,
}

impl MemoryState {
    pub(super) fn search(&self, query: &SearchQuery) -> Result<SearchPage, StoreError> {
        let before = query.after.as_deref().map(MessagePlace::of_cursor).transpose()?;
        let before = before.unwrap_or(MessagePlace(i64::MAX));
        let since = query.since.map_or(MessagePlace(0), MessagePlace::first_at);
        let mut found = self.matching_rows(query);
        found.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut placed = placed(found);
        placed.retain(|(place, _)| *place < before && *place >= since);
        placed.reverse();
        // The parts of a long message are one hit.
        placed.dedup_by_key(|(_, found)| (found.journal, found.row.seq));
        let limit = query.page_size();
        let more = placed.len() > limit;
        placed.truncate(limit);
        let next = placed.last().filter(|_| more).map(|(place, _)| place.cursor());
        let hits = placed.into_iter().map(|(_, found)| found.hit(query)).collect();
        Ok(SearchPage { hits, next })
    }

    fn matching_rows(&self, query: &SearchQuery) -> Vec<FoundRow<'_>> {
        let mut found = Vec::new();
        for stored in self.sessions.values() {
            let Some((shown, upto)) = self.shown_for(stored) else { continue };
            if shown.is_searched(query) {
                let rows = stored.texts(upto).into_iter().filter(|row| query.text.matches(&row.text));
                found.extend(rows.map(|row| FoundRow { journal: &stored.row.id, shown, row }));
            }
        }
        found
    }

    /// The session that the text of a session is shown for, and up to which entry: itself, or a fork of a deleted one.
    fn shown_for<'a>(&'a self, stored: &'a StoredSession) -> Option<(&'a StoredSession, Seq)> {
        if stored.row.deleted == Deleted::No {
            return Some((stored, stored.row.head));
        }
        let living = self.sessions.values().filter(|other| other.row.deleted == Deleted::No);
        let forks = living.filter_map(|fork| {
            let layers = self.layers(&fork.row.id, fork.row.head);
            let layer = layers.into_iter().find(|layer| layer.key == stored.row.id)?;
            Some((fork, layer.upto))
        });
        forks.max_by(|(a, upto_a), (b, upto_b)| upto_a.cmp(upto_b).then_with(|| b.row.id.cmp(&a.row.id)))
    }
}

impl StoredSession {
    fn is_searched(&self, query: &SearchQuery) -> bool {
        let wanted = query.cwd.as_deref().map(bare_directory);
        wanted.is_none_or(|cwd| cwd == bare_directory(&self.row.cwd))
            && query.agent.as_deref().is_none_or(|agent| self.was_served_by(agent))
    }

    /// The texts of the session's own journal; those of a turn that runs are left out.
    fn texts(&self, upto: Seq) -> Vec<TextRow> {
        let own = self.items.iter().map(|sized| &sized.item).filter(|item| item.first <= upto);
        let items: Vec<Folded> = own.cloned().collect();
        let mut reader = TextReader::default();
        reader.read(&fold(&items), upto);
        if self.row.owner.is_none() {
            reader.end(upto);
        }
        reader.take()
    }
}

impl FoundRow<'_> {
    fn hit(self, query: &SearchQuery) -> SearchHit {
        let row = &self.shown.row;
        let served = self.shown.natives.last().map(|native| &native.agent);
        SearchHit {
            session: row.id.clone(),
            title: row.title.as_ref().map(|(title, _)| title.clone()).filter(|title| !title.is_empty()),
            agent: served.unwrap_or(&row.agent).clone(),
            cwd: row.cwd.clone(),
            archived: row.archived,
            turn: self.row.turn,
            seq: self.row.seq,
            message: self.row.message,
            speaker: self.row.speaker,
            at: self.row.at,
            excerpt: query.text.excerpt(&self.row.text, EXCERPT_BYTES),
        }
    }
}

/// Oldest first.
fn order<'a>(found: &'a FoundRow<'_>) -> (u64, &'a SessionId, Seq, u32) {
    (found.row.at, found.journal, found.row.seq, found.row.part)
}

/// Gives rows that are in order their places.
fn placed(rows: Vec<FoundRow<'_>>) -> Vec<(MessagePlace, FoundRow<'_>)> {
    let mut last = MessagePlace(-1);
    let mut placed = Vec::new();
    for row in rows {
        last = MessagePlace::first_at(row.row.at).max(MessagePlace(last.0 + 1));
        placed.push((last, row));
    }
    placed
}

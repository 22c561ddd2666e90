//! Reads the journal of a session page by page, without claiming it. Notices where the journal is damaged, and when another
//! process folds entries between two pages.

use rethread_core::{Entry, Folded, Seq, SessionId};

use crate::store::{Page, Store, StoreError};
use crate::wire::with_causes;

/// How much of a journal is read at once.
const PAGE: usize = 1024 * 1024;

/// How many sessions are looked at to find the folded end of one.
const CANDIDATES: usize = 16;

/// How many sessions a session may descend from for folds of them to be noticed.
const MAX_ANCESTORS: usize = 16;

/// Where a journal cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalDamage {
    /// The first entry that cannot be read.
    pub at: Seq,
    /// What is wrong.
    pub message: String,
}

/// What a scan finds next.
#[derive(Debug)]
pub enum ScanStep {
    /// The next part of the journal.
    Page(Page),
    /// The entries since the last finished turn were folded while they were read. They come again, and what was read of
    /// them does not count.
    Restarted,
    /// Nothing more: the journal ends here, or it is damaged.
    End,
}

/// Reads a journal from its beginning to its end.
pub struct JournalScan<'a> {
    store: &'a dyn Store,
    session: &'a SessionId,
    next: Seq,
    /// The first entry after the last turn that has ended.
    turn_start: Seq,
    /// How far the session and those that it was forked from are folded. Not needed for a session of one page.
    folded: Option<Vec<Option<Seq>>>,
    state: ScanState,
    damage: Option<JournalDamage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanState {
    Reading,
    Ended,
}

impl<'a> JournalScan<'a> {
    /// Begins at the first entry of the session, or of the oldest session that it was forked from.
    #[must_use]
    pub fn new(store: &'a dyn Store, session: &'a SessionId) -> Self {
        let state = ScanState::Reading;
        Self { store, session, next: Seq(0), turn_start: Seq(0), folded: None, state, damage: None }
    }

    /// Begins at an entry that is the first one after a turn.
    #[must_use]
    pub fn starting_at(store: &'a dyn Store, session: &'a SessionId, first: Seq) -> Self {
        Self { next: first, turn_start: first, ..Self::new(store, session) }
    }

    /// Reads on. The items of a page must be passed through [`JournalScan::readable`].
    pub async fn step(&mut self) -> Result<ScanStep, StoreError> {
        if self.state == ScanState::Ended {
            return Ok(ScanStep::End);
        }
        if self.turn_start < self.next && self.was_folded().await? {
            self.next = self.turn_start;
            return Ok(ScanStep::Restarted);
        }
        let read = self.store.read(self.session, self.next, PAGE).await;
        let Some(page) = self.readable(read)? else { return Ok(ScanStep::End) };
        self.next = page.next;
        if page.end {
            self.state = ScanState::Ended;
        }
        Ok(ScanStep::Page(page))
    }

    /// Passes on what could be read. Damage ends the scan; other errors are returned.
    pub fn readable<T>(&mut self, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Damaged { session, at, source }) => {
                self.state = ScanState::Ended;
                let error = StoreError::Damaged { session, at, source };
                self.damage = Some(JournalDamage { at, message: with_causes(&error) });
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Decodes the items of a page up to the first that is damaged.
    pub fn decoded(&mut self, page: &Page) -> Result<Vec<Folded>, StoreError> {
        let mut items = Vec::new();
        for item in page.items() {
            let Some(item) = self.readable(item)? else { break };
            let first = item.first;
            let item = item.folded().map_err(|cause| page.damaged(first, cause));
            let Some(item) = self.readable(item)? else { break };
            self.passed(&item.entry, item.last);
            items.push(item);
        }
        Ok(items)
    }

    /// Notes that an entry was read, for the case that entries are folded meanwhile.
    pub fn passed(&mut self, entry: &Entry, last: Seq) {
        if matches!(entry, Entry::TurnEnded { .. }) {
            self.turn_start = last.next();
        }
    }

    /// Where the journal is damaged, if the scan has come upon it.
    #[must_use]
    pub fn damage(&self) -> Option<&JournalDamage> {
        self.damage.as_ref()
    }

    /// Returns whether entries were folded since the last call, or whether that is not known, because it is the first one.
    /// Then one item may stand for entries on both sides of the position. Folds never merge across the end of a turn.
    async fn was_folded(&mut self) -> Result<bool, StoreError> {
        let mut folded = Vec::new();
        let mut next = Some(self.session.clone());
        while let Some(id) = next.take().filter(|_| folded.len() < MAX_ANCESTORS) {
            let rows = self.store.find_by_part(id.as_str(), CANDIDATES).await?;
            let row = rows.into_iter().find(|row| row.id == id);
            folded.push(row.as_ref().map(|row| row.head));
            next = row.and_then(|row| row.parent).map(|(parent, _)| parent);
        }
        let changed = self.folded.as_ref() != Some(&folded);
        self.folded = Some(folded);
        Ok(changed)
    }
}

//! Whole turns of a journal, read forwards or backwards. Folds merge nothing across the end of a turn, and each stretch comes
//! from one read, so that it does not matter whether the store folds meanwhile.

use rethread_core::{Entry, Folded, Millis, Seq, SessionId};

use crate::store::{Page, Store, StoreError};
use crate::transcript::JournalDamage;
use crate::wire::with_causes;

/// How much is read at once: more if a turn does not fit.
const BUDGETS: [usize; 4] = [128 * 1024, 1024 * 1024, 8 * 1024 * 1024, MAX_BUDGET];

/// A turn that does not fit into this is divided, and so are its items.
const MAX_BUDGET: usize = 32 * 1024 * 1024;

/// The first entry of every journal.
pub(super) const FIRST: Seq = Seq(1);

/// A part of a journal that begins and ends between two turns, or at an end of the journal.
#[derive(Debug)]
pub(super) struct Stretch {
    /// The items as they are stored, in order.
    pub(super) items: Vec<Folded>,
    /// The first entry.
    pub(super) start: Seq,
    /// When the turn before it ended, if that is known.
    pub(super) since: Option<Millis>,
    /// Its end.
    pub(super) end: StretchEnd,
}

/// The end of a stretch.
#[derive(Clone, Debug)]
pub(super) struct StretchEnd {
    /// The entry after the last one.
    pub(super) next: Seq,
    /// Whether the journal has no more entries for now, or cannot be read on.
    pub(super) is_last: bool,
    /// Where the journal is damaged, if that ends the stretch.
    pub(super) damage: Option<JournalDamage>,
    /// When its last turn ended.
    at: Option<Millis>,
}

impl Stretch {
    /// Reads the turn that has the entry before `before`, and some turns before that one.
    pub(super) async fn before(
        store: &dyn Store,
        session: &SessionId,
        before: Seq,
    ) -> Result<Self, StoreError> {
        if before <= FIRST {
            let end = StretchEnd { next: FIRST, is_last: false, damage: None, at: None };
            return Ok(Self { items: Vec::new(), start: FIRST, since: None, end });
        }
        for budget in BUDGETS {
            let from = store.seek_back(session, before, budget / 2).await?;
            let mut read = Reading::new(store, session, from, budget).await?;
            read.complete(store, session, Seq(before.0 - 1)).await?;
            if let Some(stretch) = read.whole_turns_before(before) {
                return Ok(stretch);
            }
        }
        let mut from = store.seek_back(session, before, MAX_BUDGET / 2).await?;
        loop {
            let read = Reading::new(store, session, from, MAX_BUDGET).await?;
            if read.next >= before || read.is_last {
                return Ok(read.divided());
            }
            from = read.next;
        }
    }

    /// Reads whole turns from the end of another stretch on.
    pub(super) async fn after(
        store: &dyn Store,
        session: &SessionId,
        end: &StretchEnd,
    ) -> Result<Self, StoreError> {
        for budget in BUDGETS {
            let mut read = Reading::new(store, session, end.next, budget).await?;
            read.complete(store, session, end.next).await?;
            if let Some(stretch) = read.whole_turns(end.at) {
                return Ok(stretch);
            }
        }
        Ok(Reading::new(store, session, end.next, MAX_BUDGET).await?.divided())
    }
}

/// What one read gave.
struct Reading {
    items: Vec<Folded>,
    from: Seq,
    next: Seq,
    is_last: bool,
    damage: Option<JournalDamage>,
}

impl Reading {
    async fn new(
        store: &dyn Store,
        session: &SessionId,
        from: Seq,
        budget: usize,
    ) -> Result<Self, StoreError> {
        let page = store.read(session, from, budget).await?;
        let mut items = Vec::new();
        let mut damage = None;
        for item in page.items() {
            match decoded(&page, item) {
                Ok(item) => items.push(item),
                Err(StoreError::Damaged { session, at, source }) if !items.is_empty() => {
                    damage = Some(described(StoreError::Damaged { session, at, source }, at));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let (next, is_last) = match &damage {
            Some(damage) => (damage.at, true),
            None => (page.next, page.end),
        };
        Ok(Self { items, from, next, is_last, damage })
    }

    /// A page that ends within the turn which has this entry may end where the journal is damaged: what comes next says so.
    async fn complete(
        &mut self,
        store: &dyn Store,
        session: &SessionId,
        inside: Seq,
    ) -> Result<(), StoreError> {
        let ends_turn = |item: &Folded| turn_end(&item.entry).is_some() && item.first >= inside;
        if !self.is_last && !self.items.iter().any(ends_turn) {
            match store.read(session, self.next, 1).await {
                Ok(_) => {}
                Err(StoreError::Damaged { session, at, source }) => {
                    self.damage = Some(described(StoreError::Damaged { session, at, source }, at));
                    (self.next, self.is_last) = (at, true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Keeps the turn that has the entry before `before` and the whole turns before it; nothing if that turn is not complete.
    fn whole_turns_before(mut self, before: Seq) -> Option<Stretch> {
        let inside = Seq(before.0 - 1);
        let end = self.items.iter().position(|item| turn_end(&item.entry).is_some() && item.first >= inside);
        match end {
            Some(end) => {
                self.is_last &= end + 1 == self.items.len() && self.damage.is_none();
                self.damage = None;
                self.items.truncate(end + 1);
                if !self.is_last {
                    self.next = self.items[end].last.next();
                }
            }
            None if self.is_last => {}
            None => return None,
        }
        if self.from <= FIRST {
            return Some(self.stretch(FIRST, None));
        }
        let (at, ended) =
            self.items.iter().enumerate().find_map(|(at, item)| Some((at, turn_end(&item.entry)?)))?;
        let start = self.items[at].last.next();
        (start <= inside).then(|| {
            self.items.drain(..=at);
            self.stretch(start, Some(ended))
        })
    }

    /// Keeps the whole turns; nothing if there is none.
    fn whole_turns(mut self, since: Option<Millis>) -> Option<Stretch> {
        if !self.is_last {
            let end = self.items.iter().rposition(|item| turn_end(&item.entry).is_some())?;
            self.items.truncate(end + 1);
            self.next = self.items[end].last.next();
        }
        let start = self.from;
        Some(self.stretch(start, since))
    }

    /// Takes what there is as it is, of a turn that is too long.
    fn divided(self) -> Stretch {
        let start = self.from.max(FIRST);
        self.stretch(start, None)
    }

    fn stretch(self, start: Seq, since: Option<Millis>) -> Stretch {
        let Self { items, next, is_last, damage, .. } = self;
        let at = items.last().and_then(|item| turn_end(&item.entry));
        Stretch { items, start, since, end: StretchEnd { next, is_last, damage, at } }
    }
}

fn decoded(
    page: &Page,
    item: Result<rethread_core::stored::Stored<'_>, StoreError>,
) -> Result<Folded, StoreError> {
    let item = item?;
    let first = item.first;
    item.folded().map_err(|cause| page.damaged(first, cause))
}

pub(super) fn described(error: StoreError, at: Seq) -> JournalDamage {
    JournalDamage { at, message: with_causes(&error) }
}

/// When an entry ends a turn.
fn turn_end(entry: &Entry) -> Option<Millis> {
    match entry {
        Entry::TurnEnded { at, .. } => Some(*at),
        Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentBound { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptInserted { .. }
        | Entry::PromptDropped { .. }
        | Entry::TurnStarted { .. }
        | Entry::StateChanged { .. }
        | Entry::Updated { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => None,
    }
}

//! Folds a part of a journal into whole messages and tool calls, so that a finished turn is small. The JSON of updates is
//! merged in `merge`.
//!
//! Nothing is merged or dropped across the end of a turn, so that a fork, which reads its parent's journal up to such an end,
//! finds the state of that moment.

mod gathered;
mod settled;
mod thing;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::kind::FoldRule;
use crate::merge::Base;
use crate::{Entry, Seq, Update, UpdateForm, UpdateKind};
pub use gathered::Gathered;
use settled::Sifted;
use thing::{Placed, Plan, Thing};

/// An entry that stands for itself or for several that were merged into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folded {
    /// The first entry it came from: its place.
    pub first: Seq,
    /// The last entry it came from.
    pub last: Seq,
    /// What they come to.
    pub entry: Entry,
}

/// Folds entries of one session, in order, that end outside a turn, or any window of such. What a client would
/// see of the whole journal stays the same, and so does the state of the session at the end of each turn.
///
/// The result is ordered by `first`. Items may overlap, entries that nobody needs are gone, the last one among
/// them: which entries a folded part covers, and the head of the session, are in the store's rows and not in
/// the items.
#[must_use]
pub fn fold(entries: &[Folded]) -> Vec<Folded> {
    let mut seen = HashSet::new();
    let mut folded = Vec::new();
    for stretch in entries.split_inclusive(|item| matches!(item.entry, Entry::TurnEnded { .. })) {
        let start = folded.len();
        let mut walk =
            Walk { seen, index: HashMap::new(), things: Vec::new(), plans: HashMap::new(), folded };
        walk.all(stretch);
        (seen, folded) = walk.finish();
        // Stable, and nearly in order already.
        folded[start..].sort_by_key(|item| item.first);
    }
    folded
}

/// What is one thing: its kind as a whole, and its id.
type Key<'a> = (UpdateKind, &'a str);

/// Folds the entries of one turn.
struct Walk<'a> {
    /// Objects of earlier turns.
    seen: HashSet<Key<'a>>,
    /// Where in `things` an object of this turn is.
    index: HashMap<Key<'a>, usize>,
    things: Vec<Thing<'a>>,
    plans: HashMap<&'a str, Plan<'a>>,
    folded: Vec<Folded>,
}

impl<'a> Walk<'a> {
    fn all(&mut self, stretch: &'a [Folded]) {
        let sifted = Sifted::of(stretch);
        for (at, item) in stretch.iter().enumerate() {
            if let Entry::Updated { update, known } = &item.entry
                && !sifted.is_kept(at)
            {
                self.updated(Placed { first: item.first, last: item.last, known: *known, update });
            } else if sifted.is_kept(at) {
                self.keep(item);
            }
        }
    }

    fn updated(&mut self, placed: Placed<'a>) {
        let meaning = placed.update.kind.meaning();
        match meaning.fold {
            FoldRule::Merge | FoldRule::MergeUnknown => self.thing(placed),
            FoldRule::LastOfId if meaning.form == UpdateForm::Removal => {
                self.plan(placed.update).remove(placed);
            }
            FoldRule::LastOfId => self.plan(placed.update).set(placed),
            // Those of them that stay were sifted out before.
            FoldRule::LastOfKind | FoldRule::Keep | FoldRule::Drop => {}
        }
    }

    fn thing(&mut self, placed: Placed<'a>) {
        let key = (placed.update.kind.whole(), placed.update.id.as_str());
        let at = *self.index.entry(key).or_insert_with(|| {
            let known = placed.known || self.seen.contains(&key);
            self.things.push(Thing::new(key.0, if known { Base::Unknown } else { Base::Empty }));
            self.things.len() - 1
        });
        self.things[at].add(placed, &mut self.folded);
    }

    fn plan(&mut self, update: &'a Update) -> &mut Plan<'a> {
        self.plans.entry(&update.id).or_default()
    }

    fn keep(&mut self, item: &'a Folded) {
        self.folded.push(item.clone());
        match &item.entry {
            // A prompt is a message too, so what is said of that message adds to it.
            Entry::PromptInserted { message, .. } => self.bar((UpdateKind::UserMessage, message.as_str())),
            // Whoever sets the title last has it.
            Entry::TitleSet { .. } => self.bar((UpdateKind::SessionInfoUpdate, "")),
            Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::TurnStarted { .. }
            | Entry::StateChanged { .. }
            | Entry::TurnEnded { .. }
            | Entry::Updated { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. } => {}
        }
    }

    /// Nothing of this thing is merged across here.
    fn bar(&mut self, key: Key<'a>) {
        match self.index.get(&key) {
            Some(&at) => self.things[at].close(&mut self.folded),
            None => {
                self.seen.insert(key);
            }
        }
    }

    fn finish(mut self) -> (HashSet<Key<'a>>, Vec<Folded>) {
        for mut thing in self.things {
            thing.close(&mut self.folded);
        }
        for plan in self.plans.into_values() {
            plan.close(&mut self.folded);
        }
        self.seen.extend(self.index.into_keys());
        (self.seen, self.folded)
    }
}

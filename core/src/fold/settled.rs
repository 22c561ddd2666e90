//! Decides which entries of a turn a fold keeps: those that no later entry of the same turn settles or replaces. Updates of
//! messages, tool calls and other objects are folded in `thing`.

use std::collections::HashMap;

use super::Folded;
use crate::kind::FoldRule;
use crate::{Entry, Update, UpdateKind};

/// Which entries are kept, by position.
pub(super) struct Sifted(Vec<bool>);

impl Sifted {
    /// Decides for the entries of one turn.
    pub(super) fn of(stretch: &[Folded]) -> Self {
        let mut sieve = Sieve { kept: vec![false; stretch.len()], ..Sieve::default() };
        for (at, item) in stretch.iter().enumerate() {
            sieve.entry(at, &item.entry);
        }
        Self(sieve.kept)
    }

    /// Says whether the entry at this position stays as it is.
    pub(super) fn is_kept(&self, at: usize) -> bool {
        self.0[at]
    }
}

/// The state of the sifting.
#[derive(Default)]
struct Sieve<'a> {
    kept: Vec<bool>,
    prompts: Dealings<'a>,
    questions: Dealings<'a>,
    asks: Dealings<'a>,
    roots: Option<usize>,
    title: Option<usize>,
    state: Option<usize>,
    /// The updates of which only the last one of a kind stays.
    latest: HashMap<UpdateKind, usize>,
}

impl<'a> Sieve<'a> {
    fn entry(&mut self, at: usize, entry: &'a Entry) {
        let kept = &mut self.kept;
        match entry {
            Entry::Opened { .. } | Entry::AgentBound { .. } | Entry::AgentLost { .. } => kept[at] = true,
            Entry::RootsSet { .. } => replace(kept, &mut self.roots, at),
            Entry::TitleSet { .. } => replace(kept, &mut self.title, at),
            Entry::PromptHeld { message, .. } => self.prompts.begin(kept, message.as_str(), at),
            Entry::PromptSent { message } => self.prompts.go_on(kept, message.as_str(), at),
            Entry::PromptDropped { message, .. } => self.prompts.settle(kept, message.as_str(), at),
            Entry::PromptInserted { message, .. } => {
                self.prompts.settle(kept, message.as_str(), at);
                kept[at] = true;
            }
            Entry::QuestionAsked { question, .. } => self.questions.begin(kept, question.as_str(), at),
            Entry::QuestionAnswered { question, .. } | Entry::QuestionWithdrawn { question } => {
                self.questions.settle(kept, question.as_str(), at);
            }
            Entry::OptionAsked { ask, .. } => self.asks.begin(kept, ask.as_str(), at),
            Entry::OptionSettled { ask, .. } => self.asks.settle(kept, ask.as_str(), at),
            Entry::StateChanged { .. } => replace(kept, &mut self.state, at),
            // It outlives its turn: prompts that were sent before the stretch may still be under it.
            Entry::CancelAsked { .. } => kept[at] = true,
            Entry::TurnStarted { .. } => self.turn_started(at),
            Entry::TurnEnded { .. } => self.turn_ended(at),
            Entry::Updated { update, .. } => self.updated(update, at),
        }
    }

    fn turn_started(&mut self, at: usize) {
        // A state before the turn is not one inside it.
        self.state = None;
        self.kept[at] = true;
    }

    fn turn_ended(&mut self, at: usize) {
        if let Some(state) = self.state.take() {
            self.kept[state] = false;
        }
        self.kept[at] = true;
    }

    fn updated(&mut self, update: &Update, at: usize) {
        match update.kind.meaning().fold {
            FoldRule::LastOfKind => {
                if let Some(old) = self.latest.insert(update.kind, at) {
                    self.kept[old] = false;
                }
                self.kept[at] = true;
            }
            FoldRule::Keep => self.kept[at] = true,
            FoldRule::Merge | FoldRule::MergeUnknown | FoldRule::LastOfId | FoldRule::Drop => {}
        }
    }
}

/// Keeps this one and lets go of the one that it replaces.
fn replace(kept: &mut [bool], latest: &mut Option<usize>, at: usize) {
    if let Some(old) = latest.replace(at) {
        kept[old] = false;
    }
    kept[at] = true;
}

/// Entries that begin something, go on with it and settle it, by the id of that something.
#[derive(Default)]
struct Dealings<'a>(HashMap<&'a str, Dealing>);

/// The entries of one such something that stand open.
#[derive(Default)]
struct Dealing {
    begun: bool,
    entries: Vec<usize>,
}

impl<'a> Dealings<'a> {
    fn begin(&mut self, kept: &mut [bool], id: &'a str, at: usize) {
        self.go_on(kept, id, at);
        self.0.entry(id).or_default().begun = true;
    }

    fn go_on(&mut self, kept: &mut [bool], id: &'a str, at: usize) {
        self.0.entry(id).or_default().entries.push(at);
        kept[at] = true;
    }

    /// Lets go of all that stood open, and of the settlement too unless the beginning lies before the stretch.
    fn settle(&mut self, kept: &mut [bool], id: &'a str, at: usize) {
        let dealing = self.0.remove(id).unwrap_or_default();
        for open in dealing.entries {
            kept[open] = false;
        }
        kept[at] = !dealing.begun;
    }
}

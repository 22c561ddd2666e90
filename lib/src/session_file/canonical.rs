//! One form for the same session, however far the store has folded it: each turn is folded as a whole. A turn that is very
//! long is folded in parts, so that memory stays bounded. What must not travel is removed.

use rethread_core::{Entry, Folded, KnownThings, Seq, UpdateKind, fold};

use super::untrusted::untrusted;

/// About how many bytes of a turn are folded at once.
const MAX_TURN_BYTES: usize = 32 * 1024 * 1024;

/// Folds entries turn by turn, and removes what must not travel.
#[derive(Default)]
pub(super) struct CanonicalFold {
    items: Vec<Folded>,
    bytes: usize,
    part: TurnPart,
    known: KnownThings,
}

/// Whether a part of the turn was passed on already.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum TurnPart {
    #[default]
    First,
    Later,
}

impl CanonicalFold {
    /// Goes on where these things were spoken of.
    pub(super) fn after(known: KnownThings) -> Self {
        Self { known, ..Self::default() }
    }

    /// Adds an entry. Returns the entries of the turn that it ends, or nothing.
    pub(super) fn push(&mut self, entry: Entry) -> Vec<Entry> {
        let Some(entry) = untrusted(entry) else { return Vec::new() };
        let ends = matches!(entry, Entry::TurnEnded { .. });
        self.bytes += size(&entry);
        let seq = Seq(self.items.len() as u64 + 1);
        self.items.push(Folded { first: seq, last: seq, entry });
        if ends {
            self.part = TurnPart::First;
            self.take()
        } else if self.bytes > MAX_TURN_BYTES {
            self.part = TurnPart::Later;
            self.take()
        } else {
            Vec::new()
        }
    }

    /// Returns the entries after the last turn.
    pub(super) fn take(&mut self) -> Vec<Entry> {
        self.bytes = 0;
        self.items.iter_mut().for_each(|item| note(&mut self.known, &mut item.entry));
        let folded = fold(&self.items);
        self.items.clear();
        folded.into_iter().map(|item| item.entry).collect()
    }

    /// Returns whether no entry waits for the end of its turn.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Drops the entries since the last turn, which come again.
    pub(super) fn restart_turn(&mut self) {
        if self.part == TurnPart::First {
            self.items.clear();
            self.bytes = 0;
        }
    }
}

/// Records whether the thing that an update speaks of was there before. A file may say otherwise.
fn note(things: &mut KnownThings, entry: &mut Entry) {
    match entry {
        Entry::Updated { update, known } if !update.id.is_empty() => *known = things.note_update(update),
        Entry::PromptInserted { message, .. } => {
            things.note(UpdateKind::UserMessage, message.as_str());
        }
        Entry::Updated { .. }
        | Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentBound { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptDropped { .. }
        | Entry::TurnStarted { .. }
        | Entry::StateChanged { .. }
        | Entry::TurnEnded { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => {}
    }
}

/// About how many bytes an entry has in a file.
pub(super) fn size(entry: &Entry) -> usize {
    const FIXED: usize = 128;
    FIXED + entry.text_len()
}

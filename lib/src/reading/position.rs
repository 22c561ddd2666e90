//! Where an entry is in the conversation: its turn and its time. Most entries have no time of their own; theirs is that of
//! the last entry before them that has one.

use rethread_core::{Entry, Folded, Millis, Seq};

/// A turn and a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TurnTime {
    /// The turn that runs.
    pub(super) turn: Option<u64>,
    /// The time.
    pub(super) at: Option<Millis>,
}

impl TurnTime {
    /// Passes an entry. Returns where the entry itself is: the end of a turn belongs to it.
    pub(super) fn pass(&mut self, entry: &Entry) -> Self {
        let (turn, at) = match entry {
            Entry::TurnStarted { turn, at, .. } | Entry::PromptInserted { turn, at, .. } => {
                (Some(turn.0), *at)
            }
            Entry::TurnEnded { turn, at, .. } => {
                let here = Self { turn: Some(turn.0), at: Some(*at) };
                *self = Self { turn: None, ..here };
                return here;
            }
            Entry::Opened { at, .. } => (self.turn, *at),
            Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::StateChanged { .. }
            | Entry::Updated { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => return *self,
        };
        *self = Self { turn, at: Some(at) };
        *self
    }
}

/// The turns and times of a part of a journal.
pub(super) struct TurnTimes(Vec<(Seq, TurnTime)>);

impl TurnTimes {
    /// Reads them from entries in order. `since` is the time before them.
    pub(super) fn of(items: &[Folded], since: Option<Millis>) -> Self {
        let mut now = TurnTime { turn: None, at: since };
        let mut times = vec![(Seq(0), now)];
        for item in items {
            let before = now;
            let here = now.pass(&item.entry);
            if here != before {
                times.push((item.first, here));
            }
            if now != here {
                times.push((item.first.next(), now));
            }
        }
        // What comes before the first time is not older than the journal.
        if let Some(first) = times.iter().find_map(|(_, time)| time.at) {
            times
                .iter_mut()
                .take_while(|(_, time)| time.at.is_none())
                .for_each(|(_, time)| time.at = Some(first));
        }
        Self(times)
    }

    /// The turn and the time of an entry.
    pub(super) fn at(&self, seq: Seq) -> TurnTime {
        let behind = self.0.partition_point(|(first, _)| *first <= seq);
        behind.checked_sub(1).map_or_else(TurnTime::default, |at| self.0[at].1)
    }
}

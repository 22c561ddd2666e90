//! Folds finished turns in the background, several at a time, once no client reads inside them: when there are many, when
//! the session has been quiet for a moment, and when it ends.

use std::time::Duration;

use rethread_core::{Seq, stored};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::LiveSession;
use crate::live::Live;
use crate::store::{FoldUpTo, Snapshot};
use crate::wire::with_causes;

/// The interval at which clients that read inside a finished turn are looked at again.
const FOLD_CHECK: Duration = Duration::from_millis(300);

/// After a turn of this many entries, or this many turns, they are folded at once.
const MANY_ENTRIES: u64 = 2_000;
const MANY_TURNS: u32 = 256;

/// How long after the last turn the rest is folded.
const QUIET: Duration = Duration::from_secs(5);

/// How far the journal of a session is folded.
#[derive(Default)]
pub(super) struct Folding {
    /// The end of the last turn, up to which entries may be folded.
    foldable: Seq,
    /// The end of what has been folded, or is being folded.
    folded: Seq,
    /// How many turns have ended since.
    turns: u32,
    /// When the last turn ended.
    ended_at: Option<Instant>,
    /// A fold under way: nobody may begin to read until it is done.
    task: Option<JoinHandle<()>>,
}

/// What can be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foldable {
    Nothing,
    /// Not before this time: there is little, somebody still reads there, or a fold is under way.
    Later(Instant),
    /// All up to here.
    UpTo(Seq),
}

impl Folding {
    /// What is in the store is folded up to here.
    pub(super) fn since(folded: Seq) -> Self {
        Self { folded, ..Self::default() }
    }

    /// A turn ended with this entry.
    pub(super) fn turn_ended(&mut self, seq: Seq, now: Instant) {
        self.foldable = seq;
        self.turns += 1;
        self.ended_at = Some(now);
    }

    fn has_many(&self) -> bool {
        self.turns >= MANY_TURNS || self.foldable.0.saturating_sub(self.folded.0) >= MANY_ENTRIES
    }

    fn foldable(&self, live: &Live, now: Instant) -> Foldable {
        if self.folded >= self.foldable {
            return Foldable::Nothing;
        }
        let quiet = self.ended_at.map(|ended| ended + QUIET);
        let quiet = quiet.filter(|quiet| *quiet > now && !self.has_many());
        let busy = self.task.as_ref().is_some_and(|task| !task.is_finished());
        match quiet {
            Some(quiet) => Foldable::Later(quiet),
            None if busy || live.read_below(self.foldable) => Foldable::Later(now + FOLD_CHECK),
            None => Foldable::UpTo(self.foldable),
        }
    }

    fn begun(&mut self, upto: Seq, task: JoinHandle<()>) {
        self.folded = upto;
        self.turns = 0;
        self.task = Some(task);
    }

    /// Waits for a fold under way: a reader must not have the journal change below it.
    pub(super) async fn settled(&mut self) {
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl LiveSession {
    /// Finished turns are folded once it is time and nobody reads inside them.
    pub(super) fn fold_if_read(&mut self) {
        // Between two looks nothing is done: this runs after each message.
        if self.timers.fold_check.is_some() && !self.folding.has_many() {
            return;
        }
        match self.folding.foldable(&self.live, Instant::now()) {
            Foldable::Nothing => self.timers.fold_check = None,
            Foldable::Later(at) => self.timers.fold_check = Some(at),
            Foldable::UpTo(upto) => {
                self.timers.fold_check = None;
                self.fold(upto);
            }
        }
    }

    /// Folds what is left of a session that ends.
    pub(super) async fn fold_rest(&mut self) {
        self.folding.settled().await;
        if self.folding.folded < self.folding.foldable && self.condition.broken.is_none() {
            // What follows the last turn is folded with it, so that no journal file is left to read.
            let upto = if self.session.turn.is_none() { self.lease.head } else { self.folding.foldable };
            self.fold(upto);
            self.folding.settled().await;
        }
    }

    fn fold(&mut self, upto: Seq) {
        // What follows the last turn stays for those who have not read it.
        self.live.forget(upto.min(self.folding.foldable));
        let state = || Snapshot { head: self.lease.head, state: stored::encode_session(&self.session) };
        let snapshot = self.session.turn.is_none().then(state);
        let (store, lease, id) = (self.deps.store.clone(), self.lease.clone(), self.id.clone());
        let task = tokio::spawn(async move {
            // A fold that fails costs room, not truth; the next one takes up the rest.
            if let Err(error) = store.fold(&lease, FoldUpTo { upto, snapshot }).await {
                tracing::warn!(session = %id, "{}", with_causes(&error));
            }
        });
        self.folding.begun(upto, task);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::SessionId;

    use super::*;
    use crate::live::Cursor;

    #[test]
    fn turns_are_folded_when_it_is_quiet_and_everybody_has_read_them() {
        let live = Live::new(Seq(9));
        let mut folding = Folding::default();
        let now = Instant::now();
        assert_eq!(folding.foldable(&live, now), Foldable::Nothing);
        let cursor = Cursor::new(SessionId("s".to_owned()), Seq(5), Arc::default());
        live.attach(&cursor);
        folding.turn_ended(Seq(7), now);
        assert_eq!(folding.foldable(&live, now), Foldable::Later(now + QUIET), "it is not quiet");
        let quiet = now + QUIET;
        assert_eq!(
            folding.foldable(&live, quiet),
            Foldable::Later(quiet + FOLD_CHECK),
            "5 to 7 are not read"
        );
        cursor.advance(Seq(8));
        assert_eq!(folding.foldable(&live, quiet), Foldable::UpTo(Seq(7)));
        folding.folded = Seq(7);
        assert_eq!(folding.foldable(&live, quiet), Foldable::Nothing);
    }

    #[test]
    fn many_turns_and_many_entries_are_folded_at_once() {
        let (live, now) = (Live::new(Seq(9)), Instant::now());
        let mut long = Folding::default();
        long.turn_ended(Seq(MANY_ENTRIES), now);
        assert_eq!(long.foldable(&live, now), Foldable::UpTo(Seq(MANY_ENTRIES)));
        let mut short = Folding::default();
        (1..=u64::from(MANY_TURNS)).for_each(|turn| short.turn_ended(Seq(turn), now));
        assert_eq!(short.foldable(&live, now), Foldable::UpTo(Seq(u64::from(MANY_TURNS))));
    }
}

//! Folds finished turns in the background, one at a time, once no client reads inside them.

use std::time::Duration;

use rethread_core::Seq;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::LiveSession;
use crate::live::Live;
use crate::wire::with_causes;

/// The interval at which clients that read inside a finished turn are looked at again.
const FOLD_CHECK: Duration = Duration::from_millis(300);

/// How far the journal of a session is folded.
#[derive(Default)]
pub(super) struct Folding {
    /// The end of the last turn, up to which entries may be folded.
    foldable: Seq,
    /// The end of what has been folded, or is being folded.
    folded: Seq,
    /// A fold under way: nobody may begin to read until it is done.
    task: Option<JoinHandle<()>>,
}

/// What can be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foldable {
    Nothing,
    /// Somebody still reads there, or a fold is under way.
    Later,
    /// All up to here.
    UpTo(Seq),
}

impl Folding {
    /// A turn ended with this entry.
    pub(super) fn turn_ended(&mut self, seq: Seq) {
        self.foldable = seq;
    }

    fn foldable(&self, live: &Live) -> Foldable {
        let busy = self.task.as_ref().is_some_and(|task| !task.is_finished());
        if self.folded >= self.foldable {
            Foldable::Nothing
        } else if busy || live.read_below(self.foldable) {
            Foldable::Later
        } else {
            Foldable::UpTo(self.foldable)
        }
    }

    fn begun(&mut self, upto: Seq, task: JoinHandle<()>) {
        self.folded = upto;
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
    /// A finished turn is folded once nobody reads inside it.
    pub(super) fn fold_if_read(&mut self) {
        match self.folding.foldable(&self.live) {
            Foldable::Nothing => self.timers.fold_check = None,
            // A slow reader need not be asked often.
            Foldable::Later => {
                self.timers.fold_check.get_or_insert_with(|| Instant::now() + FOLD_CHECK);
            }
            Foldable::UpTo(upto) => {
                self.timers.fold_check = None;
                self.fold(upto);
            }
        }
    }

    fn fold(&mut self, upto: Seq) {
        self.live.forget(upto);
        let (journal, lease, id) = (self.deps.journal.clone(), self.lease.clone(), self.id.clone());
        let task = tokio::spawn(async move {
            // A fold that fails costs room, not truth; the next one takes up the rest.
            if let Err(error) = journal.fold(lease, upto).await {
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
    fn a_turn_is_folded_when_everybody_has_read_it() {
        let live = Live::new(Seq(9));
        let mut folding = Folding::default();
        assert_eq!(folding.foldable(&live), Foldable::Nothing);
        let cursor = Cursor::new(SessionId("s".to_owned()), Seq(5), Arc::default());
        live.attach(&cursor);
        folding.turn_ended(Seq(7));
        assert_eq!(folding.foldable(&live), Foldable::Later, "it has not read 5 to 7");
        cursor.advance(Seq(8));
        assert_eq!(folding.foldable(&live), Foldable::UpTo(Seq(7)));
        folding.folded = Seq(7);
        assert_eq!(folding.foldable(&live), Foldable::Nothing);
    }
}

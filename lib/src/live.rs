//! The newest entries of a live session, shared with its clients, and the notification of new ones. A client has a position,
//! not a queue; one that falls behind reads the store. The bell of a client names the sessions that have something new for it,
//! so that it looks at no others. Observers follow a session that need not be live (`observed`).

mod observed;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rethread_core::{Entry, Seq, SessionId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock::locked;
pub(crate) use observed::ObservedTail;

/// How many bytes of newest entries a session keeps in memory.
const TAIL: usize = 3 * 1024 * 1024;

/// How often it is looked whether peers have caught up.
const LOOK: Duration = Duration::from_millis(5);

/// The shared end of a journal.
#[derive(Default)]
pub(crate) struct Live {
    tail: Mutex<Tail>,
    peers: Mutex<Vec<Weak<Cursor>>>,
}

#[derive(Default)]
struct Tail {
    /// The sequence number of the first entry kept.
    first: u64,
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    /// Nothing more will be made known.
    ended: bool,
}

/// Wakes the writing half of a client.
#[derive(Default)]
pub(crate) struct Bell {
    notify: Notify,
    /// The cursors whose sessions have something new, each at most once.
    rung: Mutex<Vec<Weak<Cursor>>>,
}

impl Bell {
    /// Wakes the client, which looks at its queue of messages.
    pub(crate) fn ring(&self) {
        self.notify.notify_one();
    }

    /// Waits until somebody has rung since the last wait.
    pub(crate) async fn rung(&self) {
        self.notify.notified().await;
    }

    /// Takes the cursors whose sessions have rung since the last call. What a session publishes from now on rings again.
    pub(crate) fn take_rung(&self) -> Vec<Arc<Cursor>> {
        let rung = std::mem::take(&mut *locked(&self.rung));
        let silenced = |cursor: &Arc<Cursor>| cursor.rung.store(false, Ordering::SeqCst);
        rung.iter().filter_map(Weak::upgrade).inspect(silenced).collect()
    }
}

/// Where one peer is.
pub(crate) struct Cursor {
    session: SessionId,
    /// The sequence number it will read next.
    next: AtomicU64,
    /// Whether it is among those that the bell has named.
    rung: AtomicBool,
    bell: Arc<Bell>,
}

impl Cursor {
    /// A cursor in a session, before `next`, that rings this bell.
    #[must_use]
    pub(crate) fn new(session: SessionId, next: Seq, bell: Arc<Bell>) -> Arc<Self> {
        Arc::new(Self { session, next: AtomicU64::new(next.0), rung: AtomicBool::new(false), bell })
    }

    /// The session that it reads.
    #[must_use]
    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    /// What it reads next.
    #[must_use]
    pub(crate) fn next(&self) -> Seq {
        Seq(self.next.load(Ordering::Acquire))
    }

    /// Everything before `next` has been shown.
    pub(crate) fn advance(&self, next: Seq) {
        self.next.store(next.0, Ordering::Release);
    }

    /// Rings its bell, unless that was done and nobody has looked since.
    fn ring(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            locked(&self.bell.rung).push(Arc::downgrade(self));
            self.bell.ring();
        }
    }
}

/// What is there for a cursor.
pub(crate) enum Tailing {
    /// These, from the cursor on.
    Entries(Vec<Arc<Entry>>),
    /// It is behind the tail: the store has them.
    Behind,
}

impl Live {
    /// A session whose journal ends at `head`.
    #[must_use]
    pub(crate) fn new(head: Seq) -> Self {
        let tail = Tail { first: head.0 + 1, ..Tail::default() };
        Self { tail: Mutex::new(tail), peers: Mutex::default() }
    }

    /// Makes entries known that are written, and rings everybody.
    pub(crate) fn publish(&self, entries: &[Arc<Entry>]) {
        let mut tail = locked(&self.tail);
        for entry in entries {
            tail.bytes += weight(entry);
            tail.entries.push_back(entry.clone());
        }
        while tail.bytes > TAIL && tail.entries.len() > 1 {
            if let Some(oldest) = tail.entries.pop_front() {
                tail.bytes -= weight(&oldest);
                tail.first += 1;
            }
        }
        drop(tail);
        self.ring();
    }

    /// Rings everybody who reads along.
    pub(crate) fn ring(&self) {
        locked(&self.peers).retain(|peer| match peer.upgrade() {
            Some(peer) => {
                peer.ring();
                true
            }
            None => false,
        });
    }

    /// The store has entries up to `head`, which are read there.
    pub(crate) fn advance_to(&self, head: Seq) {
        let mut tail = locked(&self.tail);
        if head.0 < tail.first + tail.entries.len() as u64 {
            return;
        }
        tail.entries.clear();
        tail.bytes = 0;
        tail.first = head.0 + 1;
        drop(tail);
        self.ring();
    }

    /// The session has ended: whoever has been shown everything leaves.
    pub(crate) fn end(&self) {
        locked(&self.tail).ended = true;
        self.ring();
    }

    /// Says whether the session has ended and a cursor here has been shown everything.
    #[must_use]
    pub(crate) fn is_over(&self, next: Seq) -> bool {
        let tail = locked(&self.tail);
        tail.ended && next.0 >= tail.first + tail.entries.len() as u64
    }

    /// Frees the entries up to `seq`, which everybody has read and the store has.
    pub(crate) fn forget(&self, seq: Seq) {
        let mut tail = locked(&self.tail);
        while tail.first <= seq.0
            && let Some(oldest) = tail.entries.pop_front()
        {
            tail.bytes -= weight(&oldest);
            tail.first += 1;
        }
        tail.entries.shrink_to(64);
    }

    /// Lets a peer hear the bell.
    pub(crate) fn attach(&self, cursor: &Arc<Cursor>) {
        locked(&self.peers).push(Arc::downgrade(cursor));
    }

    /// The last entry that was made known.
    #[must_use]
    pub(crate) fn head(&self) -> Seq {
        let tail = locked(&self.tail);
        Seq(tail.first + tail.entries.len() as u64 - 1)
    }

    /// Says whether some peer has yet to read an entry up to `seq`.
    #[must_use]
    pub(crate) fn read_below(&self, seq: Seq) -> bool {
        locked(&self.peers).iter().filter_map(Weak::upgrade).any(|peer| peer.next() <= seq)
    }

    /// Waits until every peer has read all that there is, but no longer than this.
    pub(crate) async fn caught_up(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.read_below(self.head()) && Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads on, about `budget` bytes.
    #[must_use]
    pub(crate) fn read(&self, from: Seq, budget: usize) -> Tailing {
        let tail = locked(&self.tail);
        let Some(skip) = from.0.checked_sub(tail.first) else { return Tailing::Behind };
        let mut bytes = 0;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let entries = tail.entries.iter().skip(skip).take_while(|entry| {
            let room = bytes < budget;
            bytes += weight(entry);
            room
        });
        Tailing::Entries(entries.cloned().collect())
    }
}

/// About what an entry costs in memory.
fn weight(entry: &Entry) -> usize {
    const FIXED: usize = 192;
    FIXED + entry.text_len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(bell: &Bell) -> Vec<String> {
        bell.take_rung().iter().map(|cursor| cursor.session().to_string()).collect()
    }

    #[test]
    fn a_bell_names_each_session_with_something_new_once() {
        let bell = Arc::<Bell>::default();
        let [(one, _one_cursor), (two, _two_cursor), (_quiet, _quiet_cursor)] =
            ["one", "two", "quiet"].map(|id| {
                let live = Live::new(Seq(0));
                let cursor = Cursor::new(SessionId(id.to_owned()), Seq(1), bell.clone());
                live.attach(&cursor);
                (live, cursor)
            });
        assert!(named(&bell).is_empty());
        two.ring();
        one.ring();
        two.ring();
        assert_eq!(named(&bell), ["two", "one"]);
        one.ring();
        assert_eq!(named(&bell), ["one"], "a session that was looked at rings again");
    }
}

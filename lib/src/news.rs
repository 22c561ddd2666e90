//! What happens in the live sessions of a server, for others than its clients: events for notifications, and totals for
//! metrics. A reader of events that is too slow loses the oldest ones and is told how many; no session ever waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rethread_core::{Json, Millis, QuestionKind, SessionId, Stop, TurnNo};
use tokio::sync::broadcast;

/// How many events wait for a reader.
const WAITING: usize = 256;

/// Something that happened in a live session.
#[derive(Clone, Debug)]
pub struct SessionNews {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: Option<String>,
    /// Its working directory.
    pub cwd: String,
    /// The name of its agent.
    pub agent: String,
    /// The turn that runs or ran last.
    pub turn: TurnNo,
    /// When it happened.
    pub at: Millis,
    /// What happened.
    pub event: NewsEvent,
}

/// What happened in a session.
#[derive(Clone, Debug)]
pub enum NewsEvent {
    /// A turn has started.
    TurnStarted,
    /// The agent has asked the user for something, and waits.
    Asked {
        /// What sort of question.
        kind: QuestionKind,
        /// The question, as version 2 of the protocol has its parameters, without the session.
        body: Json,
    },
    /// A turn has ended.
    TurnEnded {
        /// Why it ended.
        stop: Stop,
    },
}

/// Reads the events of a server, from when it was made on.
#[derive(Debug)]
pub struct NewsReader(broadcast::Receiver<Arc<SessionNews>>);

/// What a reader gets.
#[derive(Clone, Debug)]
pub enum NewsItem {
    /// The next event.
    Happened(Arc<SessionNews>),
    /// So many events were lost, because the reader was too slow.
    Missed(u64),
}

impl NewsReader {
    /// The next event; nothing when the server is gone.
    pub async fn next(&mut self) -> Option<NewsItem> {
        match self.0.recv().await {
            Ok(news) => Some(NewsItem::Happened(news)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(NewsItem::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Where sessions report what happens. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct NewsDesk {
    readers: broadcast::Sender<Arc<SessionNews>>,
    counted: Arc<NewsCounts>,
}

#[derive(Debug, Default)]
struct NewsCounts {
    turns: AtomicU64,
    failed_turns: AtomicU64,
    questions: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
    store_errors: AtomicU64,
    agents_lost: AtomicU64,
    appends: Durations,
    turn_times: Durations,
}

/// The totals of a server since it was started.
#[derive(Clone, Debug)]
pub struct ServerTotals {
    /// Turns that were started.
    pub turns: u64,
    /// Turns that ended with an error.
    pub failed_turns: u64,
    /// Questions that agents asked.
    pub questions: u64,
    /// Entries that were written to journals.
    pub entries: u64,
    /// Bytes of text in these entries.
    pub bytes: u64,
    /// Writes that failed.
    pub store_errors: u64,
    /// Agents that exited, or were given up, while a session used them.
    pub agents_lost: u64,
    /// How long writes took.
    pub appends: DurationTotals,
    /// How long turns took.
    pub turn_times: DurationTotals,
}

/// How long something took, as counts of those that took at most so long.
#[derive(Clone, Debug)]
pub struct DurationTotals {
    /// All of it together, in seconds.
    pub sum: f64,
    /// Upper bounds in seconds, each with the number between the bound before and this one. The last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

/// The upper bounds of all but the last bucket, in microseconds: from 20 µs to about 20 minutes.
const BOUNDS: [u64; 14] = [
    20,
    50,
    100,
    250,
    1_000,
    5_000,
    25_000,
    100_000,
    500_000,
    2_000_000,
    10_000_000,
    60_000_000,
    300_000_000,
    1_200_000_000,
];

#[derive(Debug, Default)]
struct Durations {
    micros: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len() + 1],
}

impl Durations {
    fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        let bucket = BOUNDS.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
    }

    fn totals(&self) -> DurationTotals {
        let bounds = BOUNDS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        DurationTotals {
            sum: self.micros.load(Ordering::Relaxed) as f64 / 1e6,
            buckets: bounds.zip(counts).collect(),
        }
    }
}

impl Default for NewsDesk {
    fn default() -> Self {
        Self { readers: broadcast::Sender::new(WAITING), counted: Arc::default() }
    }
}

impl NewsDesk {
    /// Reads what happens from now on.
    pub(crate) fn reader(&self) -> NewsReader {
        NewsReader(self.readers.subscribe())
    }

    /// Tells the readers, if there are any; otherwise the event is not made.
    pub(crate) fn tell(&self, news: impl FnOnce() -> SessionNews) {
        if self.readers.receiver_count() > 0 {
            // All readers may have gone meanwhile.
            let _ = self.readers.send(Arc::new(news()));
        }
    }

    pub(crate) fn turn_started(&self) {
        self.counted.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn turn_ended(&self, stop: &Stop, took: Option<Duration>) {
        self.counted.failed_turns.fetch_add(u64::from(stop.reason == "error"), Ordering::Relaxed);
        if let Some(took) = took {
            self.counted.turn_times.add(took);
        }
    }

    pub(crate) fn asked(&self) {
        self.counted.questions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn agent_lost(&self) {
        self.counted.agents_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// So many entries with so many bytes of text were written.
    pub(crate) fn written(&self, entries: usize, bytes: usize, took: Duration) {
        self.counted.entries.fetch_add(entries as u64, Ordering::Relaxed);
        self.counted.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.counted.appends.add(took);
    }

    pub(crate) fn store_failed(&self) {
        self.counted.store_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The totals until now.
    pub(crate) fn totals(&self) -> ServerTotals {
        let counted = &*self.counted;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ServerTotals {
            turns: get(&counted.turns),
            failed_turns: get(&counted.failed_turns),
            questions: get(&counted.questions),
            entries: get(&counted.entries),
            bytes: get(&counted.bytes),
            store_errors: get(&counted.store_errors),
            agents_lost: get(&counted.agents_lost),
            appends: counted.appends.totals(),
            turn_times: counted.turn_times.totals(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(turn: u64) -> SessionNews {
        SessionNews {
            session: SessionId::from("s"),
            title: None,
            cwd: "/".to_owned(),
            agent: "a".to_owned(),
            turn: TurnNo(turn),
            at: 0,
            event: NewsEvent::TurnStarted,
        }
    }

    #[tokio::test]
    async fn a_slow_reader_loses_the_oldest_and_is_told_how_many() {
        let desk = NewsDesk::default();
        desk.tell(|| panic!("nobody reads, so nothing is made"));
        let mut reader = desk.reader();
        for turn in 0..(WAITING as u64 + 10) {
            desk.tell(|| news(turn));
        }
        assert!(matches!(reader.next().await, Some(NewsItem::Missed(10))));
        assert!(matches!(reader.next().await, Some(NewsItem::Happened(news)) if news.turn == TurnNo(10)));
        drop(desk);
        for _ in 1..WAITING {
            assert!(matches!(reader.next().await, Some(NewsItem::Happened(_))));
        }
        assert!(reader.next().await.is_none());
    }

    #[test]
    fn durations_are_counted_by_their_bounds() {
        let durations = Durations::default();
        for micros in [1, 20, 21, 2_000_000_000] {
            durations.add(Duration::from_micros(micros));
        }
        let totals = durations.totals();
        let counts: Vec<u64> = totals.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!((counts[0], counts[1], counts[BOUNDS.len()]), (2, 1, 1));
        assert_eq!(totals.buckets[BOUNDS.len()].0, f64::INFINITY);
        assert!((totals.sum - 2_000.000_042).abs() < 1e-6);
    }
}

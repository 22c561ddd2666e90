//! The upkeep thread of a store: moves the write-ahead log into the database file, writes the pending changes of rows, makes
//! the files of claimed sessions, indexes turns that have ended, and folds the journal files of sessions whose owner has
//! ended.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::StoreError;
use super::connection;
use super::fault::io_failed;
use super::open_store::OpenStore;

/// The log size in pages from which a checkpoint is made: 4 MiB.
const CHECKPOINT_PAGES: i32 = 1024;

/// The growth in pages before another attempt, since readers may have kept the last one from finishing.
const RETRY_PAGES: i32 = 256;

/// The log size in pages from which the log file is truncated: 16 MiB.
const TRUNCATE_PAGES: i64 = 4 * 1024;

/// Moves the log into the database file and empties it.
const TRUNCATE: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// How long truncating may delay writers.
const TRUNCATE_TIMEOUT: Duration = Duration::from_millis(200);

/// How long changes of rows are collected.
const ROWS_DELAY: Duration = Duration::from_millis(100);

/// How long after a claim its file is made, unless an append needs it sooner: first the session is read and shown.
const FILES_DELAY: Duration = Duration::from_millis(50);

/// Turns are indexed when none has ended for a while, but not much later than they ended: a search does not wait for that.
const INDEX_DELAY: Duration = Duration::from_secs(2);
const INDEX_LATEST: Duration = Duration::from_secs(30);

/// The pause before something that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long after opening, and how often then, the files of ended owners are looked for.
const FIRST_CLEANING: Duration = Duration::from_secs(10);
const CLEANING_INTERVAL: Duration = Duration::from_secs(300);

/// The upkeep thread. Dropping it stops the thread.
pub(super) struct Upkeep {
    requests: Arc<UpkeepRequests>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    pub(super) fn start(store: &Arc<OpenStore>) -> Result<Self, StoreError> {
        let requests = store.requests.clone();
        let database = store.writer.database().to_owned();
        let thread = UpkeepThread {
            database: database.clone(),
            store: Arc::downgrade(store),
            requests: requests.clone(),
            connection: None,
        };
        let started = thread::Builder::new().name("store upkeep".to_owned()).spawn(move || thread.run());
        let thread = started.map_err(io_failed("starting the upkeep thread of", &database))?;
        Ok(Self { requests, thread: Some(thread) })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.requests.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there is harmless: the log still contains everything.
            let _ = thread.join();
        }
    }
}

/// What the upkeep thread is asked to do.
pub(super) struct UpkeepRequests {
    state: Mutex<RequestState>,
    changed: Condvar,
}

/// What is to be done, and when.
struct RequestState {
    stop: bool,
    /// The size of the log at the last checkpoint.
    pages: i32,
    checkpoint: Option<Instant>,
    truncate: Option<Instant>,
    rows: Option<Instant>,
    files: Option<Instant>,
    index: Option<Instant>,
    /// When the turns that wait to be indexed must be, at the latest.
    index_latest: Option<Instant>,
    erasing: Option<Instant>,
    cleaning: Option<Instant>,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Stop,
    Checkpoint,
    Truncate,
    Rows,
    Files,
    Index,
    Erasing,
    Cleaning,
}

impl Default for UpkeepRequests {
    fn default() -> Self {
        let state = RequestState {
            stop: false,
            pages: 0,
            checkpoint: None,
            truncate: None,
            rows: None,
            files: None,
            index: None,
            index_latest: None,
            erasing: None,
            cleaning: Some(Instant::now() + FIRST_CLEANING),
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl UpkeepRequests {
    /// Reports the size of the log in pages after a commit.
    pub(super) fn log_size(&self, pages: i32) {
        let mut state = self.lock();
        if pages < state.pages {
            state.pages = 0;
        }
        if pages >= CHECKPOINT_PAGES.max(state.pages + RETRY_PAGES) {
            state.pages = pages;
            state.checkpoint = Some(Instant::now());
            self.changed.notify_one();
        }
    }

    /// Removes from the log what was deleted.
    pub(super) fn truncate_log(&self) {
        self.lock().truncate = Some(Instant::now());
        self.changed.notify_one();
    }

    /// Changes of rows are pending.
    pub(super) fn rows_changed(&self) {
        self.lock().rows.get_or_insert_with(|| Instant::now() + ROWS_DELAY);
        self.changed.notify_one();
    }

    /// A journal has no file yet.
    pub(super) fn file_missing(&self) {
        self.lock().files.get_or_insert_with(|| Instant::now() + FILES_DELAY);
        self.changed.notify_one();
    }

    /// A turn has ended and is to be indexed.
    pub(super) fn turn_ended(&self) {
        let mut state = self.lock();
        let now = Instant::now();
        let latest = *state.index_latest.get_or_insert(now + INDEX_LATEST);
        // A thread that waits for an earlier time wakes up then and finds that it is not due.
        if state.index.replace(latest.min(now + INDEX_DELAY)).is_none() {
            self.changed.notify_one();
        }
    }

    /// Something was deleted and is to be erased from the search index.
    pub(super) fn text_deleted(&self) {
        self.lock().erasing = Some(Instant::now());
        self.changed.notify_one();
    }

    /// Takes back the request to remove what was deleted from the log.
    fn take_truncation(&self) -> bool {
        self.lock().truncate.take().is_some()
    }

    fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_one();
    }

    /// Waits for the next thing to do.
    fn next(&self) -> Task {
        let mut state = self.lock();
        loop {
            if state.stop {
                return Task::Stop;
            }
            let now = Instant::now();
            if let Some(task) = state.take_due(now) {
                return task;
            }
            state = match state.earliest() {
                Some(at) => {
                    let waited = self.changed.wait_timeout(state, at.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Does something again later, unless it was requested meanwhile.
    fn later(&self, task: Task, delay: Duration) {
        let mut state = self.lock();
        let place = match task {
            Task::Stop => return,
            Task::Checkpoint => &mut state.checkpoint,
            Task::Truncate => &mut state.truncate,
            Task::Rows => &mut state.rows,
            Task::Files => &mut state.files,
            Task::Index => &mut state.index,
            Task::Erasing => &mut state.erasing,
            Task::Cleaning => &mut state.cleaning,
        };
        place.get_or_insert_with(|| Instant::now() + delay);
    }

    fn lock(&self) -> MutexGuard<'_, RequestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestState {
    fn take_due(&mut self, now: Instant) -> Option<Task> {
        let places = [
            (&mut self.files, Task::Files),
            (&mut self.rows, Task::Rows),
            (&mut self.truncate, Task::Truncate),
            (&mut self.checkpoint, Task::Checkpoint),
            (&mut self.erasing, Task::Erasing),
            (&mut self.index, Task::Index),
            (&mut self.cleaning, Task::Cleaning),
        ];
        for (place, task) in places {
            if place.is_some_and(|at| at <= now) {
                *place = None;
                if task == Task::Index {
                    self.index_latest = None;
                }
                return Some(task);
            }
        }
        None
    }

    fn earliest(&self) -> Option<Instant> {
        let soon = [self.files, self.rows, self.truncate, self.checkpoint];
        let later = [self.erasing, self.index, self.cleaning];
        soon.into_iter().chain(later).flatten().min()
    }
}

struct UpkeepThread {
    database: PathBuf,
    store: Weak<OpenStore>,
    requests: Arc<UpkeepRequests>,
    connection: Option<Connection>,
}

impl UpkeepThread {
    fn run(mut self) {
        loop {
            let task = self.requests.next();
            let done = match task {
                Task::Stop => return self.stop(),
                Task::Checkpoint => self.checkpoint("PRAGMA wal_checkpoint(PASSIVE)"),
                Task::Truncate => self.truncate(),
                Task::Rows => self.write_rows(),
                Task::Files => self.make_files(),
                Task::Index => self.index(),
                Task::Erasing => self.erase(),
                Task::Cleaning => self.clean(),
            };
            // A failure loses nothing: the log and the journals have everything.
            if !done {
                self.connection = None;
                self.requests.later(task, RETRY_DELAY);
            }
        }
    }

    /// What was deleted is removed from the log even if the process ends right after that.
    fn stop(&mut self) {
        if self.requests.take_truncation() {
            self.checkpoint(TRUNCATE);
        }
    }

    fn truncate(&mut self) -> bool {
        let index = self.store.upgrade().is_none_or(|store| store.truncate_index_log());
        self.checkpoint(TRUNCATE) && index
    }

    fn checkpoint(&mut self, pragma: &str) -> bool {
        let Ok(Checkpointed { busy, pages }) = self.run_checkpoint(pragma) else { return false };
        if pages > TRUNCATE_PAGES {
            self.requests.truncate_log();
        }
        // Readers keep a passive checkpoint from finishing; the next one follows when the log has grown.
        !busy || pragma.contains("PASSIVE")
    }

    fn run_checkpoint(&mut self, pragma: &str) -> rusqlite::Result<Checkpointed> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(open(&self.database)?),
        };
        connection.query_row(pragma, [], |row| Ok(Checkpointed { busy: row.get(0)?, pages: row.get(1)? }))
    }

    fn write_rows(&self) -> bool {
        self.store.upgrade().is_none_or(|store| store.write_pending().is_ok())
    }

    fn make_files(&self) -> bool {
        let Some(store) = self.store.upgrade() else { return true };
        // The next append tries again, and its caller gets the error.
        if let Err(error) = store.make_missing_files() {
            tracing::warn!("{}", crate::wire::with_causes(&error));
        }
        true
    }

    /// Indexes a part at a time, so that nothing else waits long.
    fn index(&self) -> bool {
        let Some(store) = self.store.upgrade() else { return true };
        match store.index_ended_turns() {
            Ok(true) => self.requests.later(Task::Index, Duration::ZERO),
            Ok(false) => {}
            // The next search tries again.
            Err(error) => tracing::warn!("{}", crate::wire::with_causes(&error)),
        }
        true
    }

    /// Erases a part at a time.
    fn erase(&self) -> bool {
        let Some(store) = self.store.upgrade() else { return true };
        match store.erase_some() {
            Ok(true) => self.requests.later(Task::Erasing, Duration::ZERO),
            Ok(false) => {}
            // The next cleaning tries again.
            Err(error) => tracing::warn!("{}", crate::wire::with_causes(&error)),
        }
        true
    }

    fn clean(&self) -> bool {
        let Some(store) = self.store.upgrade() else { return true };
        if let Err(error) = store.clean() {
            tracing::warn!("{}", crate::wire::with_causes(&error));
        }
        self.requests.later(Task::Cleaning, CLEANING_INTERVAL);
        true
    }
}

/// The outcome of a checkpoint.
struct Checkpointed {
    busy: bool,
    pages: i64,
}

fn open(database: &Path) -> rusqlite::Result<Connection> {
    let connection = connection::writer(database)?;
    connection.busy_timeout(TRUNCATE_TIMEOUT)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_requested_for_a_large_log_and_again_after_growth() {
        let requests = UpkeepRequests::default();
        let steps = [
            (1000, false),
            (1024, true),
            (1100, false),
            (1279, false),
            (1280, true),
            (5, false),
            (1030, true),
        ];
        for (pages, wished) in steps {
            requests.log_size(pages);
            assert_eq!(requests.lock().checkpoint.take().is_some(), wished, "{pages} pages");
        }
    }

    #[test]
    fn what_is_due_first_is_done_first() {
        let mut state = UpkeepRequests::default().state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        assert_eq!(state.take_due(now), None, "the cleaning comes later");
        (state.checkpoint, state.rows) = (Some(now), Some(now));
        assert_eq!(state.earliest(), Some(now));
        assert_eq!((state.take_due(now), state.take_due(now)), (Some(Task::Rows), Some(Task::Checkpoint)));
    }
}

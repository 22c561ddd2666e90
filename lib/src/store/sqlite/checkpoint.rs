//! The checkpoint thread: moves the write-ahead log into the database file, so that no append waits for that.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use super::StoreError;
use super::connection;
use super::fault::io_failed;

/// The log size in pages from which a checkpoint is made: 4 MiB.
const CHECKPOINT_PAGES: i32 = 1024;

/// The growth in pages before another attempt, since readers may have kept the last one from finishing.
const RETRY_PAGES: i32 = 256;

/// The log size in pages from which the log file is truncated: 64 MiB.
const TRUNCATE_PAGES: i64 = 16 * 1024;

/// How long truncating may delay writers.
const TRUNCATE_TIMEOUT: Duration = Duration::from_millis(200);

/// The checkpoint thread. Dropping it stops the thread.
pub(super) struct Checkpoints {
    growth: Arc<Growth>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn start(database: &Path) -> Result<Self, StoreError> {
        let growth = Arc::new(Growth::default());
        let checkpoint_thread =
            CheckpointThread { database: database.to_owned(), growth: Arc::clone(&growth), connection: None };
        let thread =
            thread::Builder::new().name("store checkpoint".to_owned()).spawn(move || checkpoint_thread.run());
        let thread = thread.map_err(io_failed("starting the checkpoint thread of", database))?;
        Ok(Self { growth, thread: Some(thread) })
    }

    /// Where the writer reports the size of the log.
    pub(super) fn growth(&self) -> &Arc<Growth> {
        &self.growth
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.growth.request(CheckpointRequest::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic there is harmless: the log still contains everything.
            let _ = thread.join();
        }
    }
}

/// Reports from the writer to the checkpoint thread.
#[derive(Default)]
pub(super) struct Growth {
    state: Mutex<GrowthState>,
    changed: Condvar,
}

#[derive(Default)]
struct GrowthState {
    request: CheckpointRequest,
    pages: i32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum CheckpointRequest {
    #[default]
    None,
    Checkpoint,
    Stop,
}

impl Growth {
    /// Reports the size of the log in pages after a commit.
    pub(super) fn log_size(&self, pages: i32) {
        let mut state = self.lock();
        if pages < state.pages {
            state.pages = 0;
        }
        if pages >= CHECKPOINT_PAGES.max(state.pages + RETRY_PAGES) {
            state.pages = pages;
            drop(state);
            self.request(CheckpointRequest::Checkpoint);
        }
    }

    fn request(&self, request: CheckpointRequest) {
        let mut state = self.lock();
        if state.request != CheckpointRequest::Stop {
            state.request = request;
        }
        self.changed.notify_one();
    }

    fn next_request(&self) -> CheckpointRequest {
        let mut state = self.lock();
        while state.request == CheckpointRequest::None {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut state.request)
    }

    fn lock(&self) -> MutexGuard<'_, GrowthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct CheckpointThread {
    database: PathBuf,
    growth: Arc<Growth>,
    connection: Option<Connection>,
}

impl CheckpointThread {
    fn run(mut self) {
        loop {
            match self.growth.next_request() {
                CheckpointRequest::None => {}
                CheckpointRequest::Checkpoint => self.try_checkpoint(),
                CheckpointRequest::Stop => return,
            }
        }
    }

    /// A failure loses nothing, since the log keeps all data: the next attempt uses a new connection.
    fn try_checkpoint(&mut self) {
        if self.checkpoint().is_err() {
            self.connection = None;
        }
    }

    fn checkpoint(&mut self) -> rusqlite::Result<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(open(&self.database)?),
        };
        let pages = run(connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
        if pages > TRUNCATE_PAGES {
            run(connection, "PRAGMA wal_checkpoint(TRUNCATE)")?;
        }
        Ok(())
    }
}

fn open(database: &Path) -> rusqlite::Result<Connection> {
    let connection = connection::writer(database)?;
    connection.busy_timeout(TRUNCATE_TIMEOUT)?;
    Ok(connection)
}

/// Runs a checkpoint pragma and returns the number of pages in the log.
fn run(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.query_row(pragma, [], |row| row.get(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_requested_for_a_large_log_and_again_after_growth() {
        let growth = Growth::default();
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
            growth.log_size(pages);
            assert_eq!(
                std::mem::take(&mut growth.lock().request) == CheckpointRequest::Checkpoint,
                wished,
                "{pages} pages"
            );
        }
    }
}

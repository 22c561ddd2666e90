//! Moves what the log holds into the database file, on a thread of its own: no append ever waits for it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use super::StoreError;
use super::connection;
use super::fault::io_failed;

/// Pages in the log from which a checkpoint is worth it: 4 MiB.
const WORTH_IT: i32 = 1024;

/// Pages by which the log must have grown before another attempt: readers may have kept the last from finishing.
const AGAIN: i32 = 256;

/// Pages from which the file of the log is cut back: 64 MiB.
const VERY_LARGE: i64 = 16 * 1024;

/// How long cutting back may hold writers up.
const CUT_PATIENCE: Duration = Duration::from_millis(200);

/// The thread. It ends when this is dropped.
pub(super) struct Checkpoints {
    growth: Arc<Growth>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread.
    pub(super) fn start(database: &Path) -> Result<Self, StoreError> {
        let growth = Arc::new(Growth::default());
        let worker = Worker { database: database.to_owned(), growth: Arc::clone(&growth), connection: None };
        let thread = thread::Builder::new().name("store checkpoint".to_owned()).spawn(move || worker.run());
        let thread = thread.map_err(io_failed("starting the checkpoint thread of", database))?;
        Ok(Self { growth, thread: Some(thread) })
    }

    /// Where the writer tells how the log grows.
    pub(super) fn growth(&self) -> &Arc<Growth> {
        &self.growth
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.growth.wish(Wish::End);
        if let Some(thread) = self.thread.take() {
            // A panic there has harmed nothing: the log is as good as the database.
            let _ = thread.join();
        }
    }
}

/// What the writer tells the thread.
#[derive(Default)]
pub(super) struct Growth {
    told: Mutex<Told>,
    changed: Condvar,
}

#[derive(Default)]
struct Told {
    wish: Wish,
    pages: i32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    Nothing,
    Checkpoint,
    End,
}

impl Growth {
    /// The log has this many pages after a commit.
    pub(super) fn grown(&self, pages: i32) {
        let mut told = self.lock();
        if pages < told.pages {
            told.pages = 0;
        }
        if pages >= WORTH_IT.max(told.pages + AGAIN) {
            told.pages = pages;
            drop(told);
            self.wish(Wish::Checkpoint);
        }
    }

    fn wish(&self, wish: Wish) {
        let mut told = self.lock();
        if told.wish != Wish::End {
            told.wish = wish;
        }
        self.changed.notify_one();
    }

    fn next_wish(&self) -> Wish {
        let mut told = self.lock();
        while told.wish == Wish::Nothing {
            told = self.changed.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut told.wish)
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    database: PathBuf,
    growth: Arc<Growth>,
    connection: Option<Connection>,
}

impl Worker {
    fn run(mut self) {
        loop {
            match self.growth.next_wish() {
                Wish::Nothing => {}
                Wish::Checkpoint => self.try_checkpoint(),
                Wish::End => return,
            }
        }
    }

    /// A failure loses nothing, since the log keeps all of it: the next growth tries again on a new connection.
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
        if pages > VERY_LARGE {
            run(connection, "PRAGMA wal_checkpoint(TRUNCATE)")?;
        }
        Ok(())
    }
}

fn open(database: &Path) -> rusqlite::Result<Connection> {
    let connection = connection::writer(database)?;
    connection.busy_timeout(CUT_PATIENCE)?;
    Ok(connection)
}

/// Runs one kind of checkpoint and says how many pages the log had.
fn run(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.query_row(pragma, [], |row| row.get(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_wished_for_when_the_log_is_large_and_again_when_it_has_grown() {
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
            growth.grown(pages);
            assert_eq!(std::mem::take(&mut growth.lock().wish) == Wish::Checkpoint, wished, "{pages} pages");
        }
    }
}

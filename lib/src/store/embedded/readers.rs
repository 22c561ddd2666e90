//! A pool of read-only connections, opened when first needed, so that reads and writes do not wait for each other.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;
use super::fault::SqliteFault;
use super::reading::{self, ReadConnection};

/// More connections would only compete for the same disk.
const MAX_CONNECTIONS: usize = 4;

/// The pool of connections.
pub(super) struct Readers {
    database: PathBuf,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Connection>,
    open: usize,
}

impl Readers {
    /// Makes an empty pool.
    pub(super) fn new(database: &Path) -> Self {
        Self { database: database.to_owned(), pool: Mutex::default(), returned: Condvar::new() }
    }

    /// Runs `work` in a read transaction: it sees one consistent state of the database.
    pub(super) fn read<R>(
        &self,
        what: &str,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, SqliteFault>,
    ) -> Result<R, StoreError> {
        let mut slot = self.slot();
        let outcome = attempt(&mut slot.connection, &self.database, work);
        if matches!(outcome, Err(SqliteFault::Failed(_))) {
            slot.connection = None;
        }
        outcome.map_err(|fault| fault.at(what, &self.database))
    }

    fn slot(&self) -> PooledConnection<'_> {
        let mut pool = self.lock();
        while pool.idle.is_empty() && pool.open == MAX_CONNECTIONS {
            pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        let connection = pool.idle.pop();
        if connection.is_none() {
            pool.open += 1;
        }
        PooledConnection { readers: self, connection }
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection taken from the pool. It is returned on drop, even after a panic, unless it failed.
struct PooledConnection<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let mut pool = self.readers.lock();
        match self.connection.take() {
            Some(connection) => pool.idle.push(connection),
            None => pool.open -= 1,
        }
        drop(pool);
        self.readers.returned.notify_one();
    }
}

fn attempt<R>(
    connection: &mut Option<Connection>,
    database: &Path,
    work: impl FnOnce(&Transaction<'_>) -> Result<R, SqliteFault>,
) -> Result<R, SqliteFault> {
    let connection = match connection {
        Some(connection) => connection,
        None => match reading::open(database)? {
            ReadConnection::Shared(opened) => connection.insert(opened),
            ReadConnection::Alone(alone) => return alone.read(work),
        },
    };
    let tx = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
    work(&tx)
}

//! The connections that read: a few, opened when first needed, so that reading neither waits for writing nor
//! holds it up.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;
use super::connection;
use super::fault::Fault;

/// More would only wait for the same disk.
const MOST: usize = 4;

/// The connections that are not in use, and how many there are in all.
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
    /// No connection yet.
    pub(super) fn new(database: &Path) -> Self {
        Self { database: database.to_owned(), pool: Mutex::default(), returned: Condvar::new() }
    }

    /// Runs `work` on one state of the database, whatever is written meanwhile.
    pub(super) fn read<R>(
        &self,
        what: &str,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, Fault>,
    ) -> Result<R, StoreError> {
        let mut place = self.place();
        let outcome = attempt(&mut place.connection, &self.database, work);
        if matches!(outcome, Err(Fault::Failed(_))) {
            place.connection = None;
        }
        outcome.map_err(|fault| fault.at(what, &self.database))
    }

    fn place(&self) -> Place<'_> {
        let mut pool = self.lock();
        while pool.idle.is_empty() && pool.open == MOST {
            pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        let connection = pool.idle.pop();
        if connection.is_none() {
            pool.open += 1;
        }
        Place { readers: self, connection }
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the few places, with its connection if that is open and sound. It is given back even in a panic.
struct Place<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for Place<'_> {
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
    work: impl FnOnce(&Transaction<'_>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(connection::reader(database)?),
    };
    let tx = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
    work(&tx)
}

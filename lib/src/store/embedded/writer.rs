//! The only connection that writes. Every change is one transaction of [`SqliteWriter::write`], which is either stored
//! with the requested durability or rolled back.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::connection;
use super::fault::SqliteFault;
use super::upkeep::UpkeepRequests;
use super::{Durability, StoreError};

/// The connection; it is opened again after a disk error.
pub(super) struct SqliteWriter {
    database: PathBuf,
    requests: Arc<UpkeepRequests>,
    open: Mutex<Option<OpenConnection>>,
}

struct OpenConnection {
    connection: Connection,
    durability: Durability,
}

impl SqliteWriter {
    /// Makes a writer that reports the size of its log. Without a connection it opens one when it is used.
    pub(super) fn new(
        database: &Path,
        first: Option<Connection>,
        requests: Arc<UpkeepRequests>,
    ) -> Result<Self, StoreError> {
        let open = first.map(|first| OpenConnection::new(first, &requests)).transpose();
        let open = open.map_err(|cause| SqliteFault::from(cause).at("opening", database))?;
        Ok(Self { database: database.to_owned(), requests, open: Mutex::new(open) })
    }

    /// Runs `work` in a transaction and commits it if it succeeds.
    pub(super) fn write<R>(
        &self,
        what: &str,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, SqliteFault>,
    ) -> Result<R, StoreError> {
        self.write_as(Durability::Process, work).map_err(|fault| fault.at(what, &self.database))
    }

    /// The same with a given durability and the original error.
    pub(super) fn write_as<R>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, SqliteFault>,
    ) -> Result<R, SqliteFault> {
        let mut open = self.lock();
        let outcome = self.attempt(&mut open, durability, work);
        if matches!(outcome, Err(SqliteFault::Failed(_))) {
            // After a disk error the state of the connection is unknown; the next call opens a new one.
            *open = None;
        }
        outcome
    }

    pub(super) fn database(&self) -> &Path {
        &self.database
    }

    fn attempt<R>(
        &self,
        open: &mut Option<OpenConnection>,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, SqliteFault>,
    ) -> Result<R, SqliteFault> {
        let open = match open {
            Some(open) => open,
            None => open.insert(OpenConnection::new(connection::writer(&self.database)?, &self.requests)?),
        };
        open.set_durability(durability)?;
        let tx = Transaction::new_unchecked(&open.connection, TransactionBehavior::Immediate)?;
        let result = work(&tx)?;
        tx.commit()?;
        Ok(result)
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenConnection>> {
        // A panic inside a transaction has rolled it back.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnection {
    fn new(mut connection: Connection, requests: &Arc<UpkeepRequests>) -> rusqlite::Result<Self> {
        let requests = Arc::clone(requests);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            requests.log_size(pages);
            Ok(())
        }))?;
        Ok(Self { connection, durability: Durability::Process })
    }

    /// Must be called outside a transaction.
    fn set_durability(&mut self, durability: Durability) -> rusqlite::Result<()> {
        if self.durability != durability {
            self.connection.execute_batch(match durability {
                Durability::Process => "PRAGMA synchronous = NORMAL",
                // FULL, not NORMAL: a finished turn must survive a power cut.
                Durability::Power => "PRAGMA synchronous = FULL",
            })?;
            self.durability = durability;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_must_survive_a_power_cut_is_synced_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("db");
        let first = Connection::open(&database).unwrap();
        let writer = SqliteWriter::new(&database, Some(first), Arc::default()).unwrap();
        for (durability, synchronous) in
            [(Durability::Process, 1), (Durability::Power, 2), (Durability::Process, 1)]
        {
            // The first connection of this test has SQLite's default; an error makes the writer open its own.
            let _: Result<(), SqliteFault> =
                writer.write_as(durability, |_| Err(rusqlite::Error::InvalidQuery.into()));
            let _: Result<(), SqliteFault> =
                writer.write_as(durability, |_| Err(StoreError::BadCursor.into()));
            let in_force = writer.write_as(durability, |tx| {
                Ok(tx.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))?)
            });
            assert_eq!(in_force.unwrap(), synchronous);
        }
    }
}

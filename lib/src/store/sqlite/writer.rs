//! The one connection that writes. Every change goes through [`Writer::write`]: one transaction, which either is
//! stored as durably as asked or leaves no trace.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::checkpoint::Growth;
use super::connection;
use super::fault::Fault;
use super::{Durability, StoreError};

/// The connection, or the knowledge of how to open it anew.
pub(super) struct Writer {
    database: PathBuf,
    growth: Arc<Growth>,
    open: Mutex<Option<Open>>,
}

struct Open {
    connection: Connection,
    durability: Durability,
}

impl Writer {
    /// A writer on this connection, which tells how its log grows.
    pub(super) fn new(database: &Path, first: Connection, growth: Arc<Growth>) -> Result<Self, StoreError> {
        let open = Open::new(first, &growth).map_err(|cause| Fault::from(cause).at("opening", database))?;
        Ok(Self { database: database.to_owned(), growth, open: Mutex::new(Some(open)) })
    }

    /// Runs `work` in a transaction and commits it, unless it fails.
    pub(super) fn write<R>(
        &self,
        what: &str,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, Fault>,
    ) -> Result<R, StoreError> {
        self.write_as(Durability::Process, work).map_err(|fault| fault.at(what, &self.database))
    }

    /// The same, with the durability named and the fault as it is.
    pub(super) fn write_as<R>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let mut open = self.lock();
        let outcome = self.attempt(&mut open, durability, work);
        if matches!(outcome, Err(Fault::Failed(_))) {
            // After an error of the disk nothing that the connection believes is sure; the next call opens anew.
            *open = None;
        }
        outcome
    }

    /// The database file.
    pub(super) fn database(&self) -> &Path {
        &self.database
    }

    fn attempt<R>(
        &self,
        open: &mut Option<Open>,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let open = match open {
            Some(open) => open,
            None => open.insert(Open::new(connection::writer(&self.database)?, &self.growth)?),
        };
        open.set_durability(durability)?;
        let tx = Transaction::new_unchecked(&open.connection, TransactionBehavior::Immediate)?;
        let result = work(&tx)?;
        tx.commit()?;
        Ok(result)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        // A panic inside a transaction has rolled it back.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn new(mut connection: Connection, growth: &Arc<Growth>) -> rusqlite::Result<Self> {
        let growth = Arc::clone(growth);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            growth.grown(pages);
            Ok(())
        }))?;
        Ok(Self { connection, durability: Durability::Process })
    }

    /// It must happen outside a transaction to have an effect on it.
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
        let writer = Writer::new(&database, first, Arc::default()).unwrap();
        for (durability, synchronous) in
            [(Durability::Process, 1), (Durability::Power, 2), (Durability::Process, 1)]
        {
            // The first connection of this test has SQLite's own setting; a failure makes the writer open its own.
            let _: Result<(), Fault> =
                writer.write_as(durability, |_| Err(rusqlite::Error::InvalidQuery.into()));
            let _: Result<(), Fault> = writer.write_as(durability, |_| Err(StoreError::BadCursor.into()));
            let in_force = writer.write_as(durability, |tx| {
                Ok(tx.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))?)
            });
            assert_eq!(in_force.unwrap(), synchronous);
        }
    }
}

//! The processes that use the database: one row and one lock file each. Determines which of them live; ownership of
//! sessions is in `session`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::fault::{SqliteFault, io_failed};
use super::files::make_dir;
use super::integers::{from_sql, to_sql};
use super::locks::{self, HeldLock, Holder};
use super::writer::SqliteWriter;
use super::{OwnedHere, Owner, StoreError};
use crate::clock;
use crate::ids;
use crate::lock::locked;
use crate::store::process::{ProcessIdentity, runs};

/// How long a process that seems to have ended may still hold its lock before it counts as live.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// This store as an owner. A second store in the same process is a different owner.
pub(super) struct ThisProcess {
    id: String,
    process: ProcessIdentity,
    locks: PathBuf,
    /// Held as soon as this process is registered.
    lock: Mutex<Option<HeldLock>>,
}

/// A row of the table `owner`.
pub(super) struct OwnerRow {
    pub(super) id: String,
    pub(super) process: ProcessIdentity,
}

/// Whether an owner lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// The owner is this store.
    ThisProcess,
    /// Another owner that lives, or may live.
    Alive,
    /// The owner has ended.
    Gone,
}

impl ThisProcess {
    /// Not registered yet.
    pub(super) fn new(locks: &Path) -> Self {
        let (id, process) = (ids::unique().to_string(), ProcessIdentity::this());
        Self { id, process, locks: locks.to_owned(), lock: Mutex::default() }
    }

    /// Registers this process, if it is not registered: it must be before it writes. Acquires a lock, removes rows of ended
    /// processes, then inserts its own row: a process that sees the row finds the lock held.
    pub(super) fn register(&self, writer: &SqliteWriter) -> Result<(), StoreError> {
        let mut held = locked(&self.lock);
        if held.is_some() {
            return Ok(());
        }
        make_dir(&self.locks)?;
        let lock = locks::acquire(&self.locks, &self.id).map_err(io_failed("locking in", &self.locks))?;
        writer.write("writing to", |tx| {
            self.clear_rows(tx)?;
            self.insert_row(tx)
        })?;
        *held = Some(lock);
        drop(held);
        locks::remove_stale(&self.locks).map_err(io_failed("clearing", &self.locks))
    }

    /// Removes the row, which releases all sessions.
    pub(super) fn unregister(&self, writer: &SqliteWriter) -> Result<(), StoreError> {
        if locked(&self.lock).is_none() {
            return Ok(());
        }
        writer.write("leaving", |tx| {
            tx.execute("DELETE FROM owner WHERE id = ?1", [&self.id])?;
            Ok(())
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// This store as the owner of a session.
    pub(super) fn owner(&self) -> Owner {
        let ProcessIdentity { pid, host, .. } = self.process.clone();
        Owner { pid, host, since: clock::now(), ours: OwnedHere::Yes, contact: None }
    }

    /// Returns whether an owner lives. An owner on another machine counts as live, since its lock is not visible here.
    pub(super) fn liveness_of(&self, other: &OwnerRow) -> Result<Liveness, SqliteFault> {
        if other.id == self.id {
            return Ok(Liveness::ThisProcess);
        }
        Ok(liveness(&self.process, &self.locks, other)?)
    }

    fn insert_row(&self, tx: &Transaction<'_>) -> Result<(), SqliteFault> {
        let process = &self.process;
        tx.execute(
            "INSERT OR IGNORE INTO owner (id, pid, host, boot, started_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![self.id, process.pid, process.host, process.boot, to_sql(clock::now())],
        )?;
        Ok(())
    }

    fn clear_rows(&self, tx: &Transaction<'_>) -> Result<(), SqliteFault> {
        let mut statement = tx.prepare("SELECT id, pid, host, boot FROM owner")?;
        let others = statement.query_map([], read_owner_row)?.collect::<Result<Vec<_>, _>>()?;
        for other in others {
            if self.liveness_of(&other)? == Liveness::Gone {
                tx.execute("DELETE FROM owner WHERE id = ?1", [&other.id])?;
            }
        }
        Ok(())
    }
}

/// Returns whether an owner other than this store lives.
pub(super) fn liveness(
    this: &ProcessIdentity,
    locks: &Path,
    other: &OwnerRow,
) -> Result<Liveness, StoreError> {
    let same_boot = this.shares_boot_with(&other.process);
    let same_host = this.host == other.process.host;
    if !same_boot && !same_host {
        return Ok(Liveness::Alive);
    }
    // The process id alone is not enough: it may belong to another namespace.
    let seems_gone = same_boot && same_host && !runs(other.process.pid);
    let timeout = if seems_gone { LOCK_TIMEOUT } else { Duration::ZERO };
    let asked =
        locks::query_with_retry(locks, &other.id, timeout).map_err(io_failed("checking a lock in", locks))?;
    Ok(match asked {
        Holder::Alive => Liveness::Alive,
        Holder::Gone => Liveness::Gone,
        // The lock file was deleted by someone. The process id decides, if it is from this boot.
        Holder::NoFile if !same_boot => Liveness::Gone,
        Holder::NoFile if !same_host || runs(other.process.pid) => Liveness::Alive,
        Holder::NoFile => Liveness::Gone,
    })
}

/// A registered owner that lives, for a store that is not registered itself.
pub(super) fn any_alive(tx: &Transaction<'_>, locks: &Path) -> Result<Option<Owner>, SqliteFault> {
    let mut statement = tx.prepare("SELECT id, pid, host, boot, started_at FROM owner")?;
    let others = statement.query_map([], |row| Ok((read_owner_row(row)?, row.get::<_, i64>(4)?)))?;
    for other in others {
        let (other, since) = other?;
        if liveness(&ProcessIdentity::this(), locks, &other)? != Liveness::Gone {
            let ProcessIdentity { pid, host, .. } = other.process;
            let (since, ours) = (from_sql(since), OwnedHere::No);
            return Ok(Some(Owner { pid, host, since, ours, contact: None }));
        }
    }
    Ok(None)
}

/// Finds the owner with this id, if it is still registered.
pub(super) fn find(tx: &Transaction<'_>, id: &str) -> Result<Option<OwnerRow>, SqliteFault> {
    let mut statement = tx.prepare_cached("SELECT id, pid, host, boot FROM owner WHERE id = ?1")?;
    Ok(statement.query_row([id], read_owner_row).optional()?)
}

fn read_owner_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<OwnerRow> {
    let process = ProcessIdentity { pid: row.get(1)?, host: row.get(2)?, boot: row.get(3)? };
    Ok(OwnerRow { id: row.get(0)?, process })
}

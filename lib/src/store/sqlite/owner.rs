//! The processes that write: one row and one lock file each. Says who lives; who owns what is in `session`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::StoreError;
use super::fault::{Fault, io_failed};
use super::locks::{self, HeldLock, Holder};
use super::number::put;
use super::writer::Writer;
use crate::clock;
use crate::ids;
use crate::store::process::{Process, runs};

/// How long a process that seems to be gone may still hold its lock before it is taken to live.
const PATIENCE: Duration = Duration::from_secs(1);

/// This store as an owner. A second store in the same process is another one.
pub(super) struct Ourselves {
    id: String,
    process: Process,
    locks: PathBuf,
    _lock: HeldLock,
}

/// A row of `owner`.
pub(super) struct Other {
    pub(super) id: String,
    pub(super) process: Process,
}

/// Whether an owner lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It is this store.
    Ours,
    /// It is another one that lives, or may live.
    Alive,
    /// It is gone.
    Gone,
}

impl Ourselves {
    /// Takes a lock, then clears up after the dead, then writes our row: whoever sees the row finds the lock held.
    pub(super) fn enter(writer: &Writer, locks: &Path) -> Result<Self, StoreError> {
        let id = ids::unique().to_string();
        let lock = locks::hold(locks, &id).map_err(io_failed("locking in", locks))?;
        let ourselves = Self { id, process: Process::this(), locks: locks.to_owned(), _lock: lock };
        writer.write("entering", |tx| {
            ourselves.clear_rows(tx)?;
            ourselves.insert_row(tx)
        })?;
        locks::clear(locks).map_err(io_failed("clearing", locks))?;
        Ok(ourselves)
    }

    /// Takes our row out; what we owned is nobody's then.
    pub(super) fn leave(&self, writer: &Writer) -> Result<(), StoreError> {
        writer.write("leaving", |tx| {
            tx.execute("DELETE FROM owner WHERE id = ?1", [&self.id])?;
            Ok(())
        })
    }

    /// Our id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Says whether an owner lives. One on another machine is taken to live: its lock cannot be seen from here.
    pub(super) fn life_of(&self, other: &Other) -> Result<Life, Fault> {
        if other.id == self.id {
            return Ok(Life::Ours);
        }
        let same_boot = self.process.shares_boot_with(&other.process);
        let same_host = self.process.host == other.process.host;
        if !same_boot && !same_host {
            return Ok(Life::Alive);
        }
        // The process number alone does not decide: it may be of another namespace.
        let seems_gone = same_boot && same_host && !runs(other.process.pid);
        let patience = if seems_gone { PATIENCE } else { Duration::ZERO };
        let asked = locks::ask_patiently(&self.locks, &other.id, patience)
            .map_err(io_failed("asking for a lock in", &self.locks))?;
        Ok(match asked {
            Holder::Alive => Life::Alive,
            Holder::Gone => Life::Gone,
            // Somebody swept the directory. The process number decides, where it means something here.
            Holder::NoFile if !same_boot => Life::Gone,
            Holder::NoFile if !same_host || runs(other.process.pid) => Life::Alive,
            Holder::NoFile => Life::Gone,
        })
    }

    fn insert_row(&self, tx: &Transaction<'_>) -> Result<(), Fault> {
        let process = &self.process;
        tx.execute(
            "INSERT INTO owner (id, pid, host, boot, started_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![self.id, process.pid, process.host, process.boot, put(clock::now())],
        )?;
        Ok(())
    }

    fn clear_rows(&self, tx: &Transaction<'_>) -> Result<(), Fault> {
        let mut statement = tx.prepare("SELECT id, pid, host, boot FROM owner")?;
        let others = statement.query_map([], read_other)?.collect::<Result<Vec<_>, _>>()?;
        for other in others {
            if self.life_of(&other)? == Life::Gone {
                tx.execute("DELETE FROM owner WHERE id = ?1", [&other.id])?;
            }
        }
        Ok(())
    }
}

/// The owner with this id, if it has not left.
pub(super) fn find(tx: &Transaction<'_>, id: &str) -> Result<Option<Other>, Fault> {
    let mut statement = tx.prepare_cached("SELECT id, pid, host, boot FROM owner WHERE id = ?1")?;
    Ok(statement.query_row([id], read_other).optional()?)
}

fn read_other(row: &rusqlite::Row<'_>) -> rusqlite::Result<Other> {
    let process = Process { pid: row.get(1)?, host: row.get(2)?, boot: row.get(3)? };
    Ok(Other { id: row.get(0)?, process })
}

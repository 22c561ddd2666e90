//! Creates, claims and releases sessions: the row, the lease and the journal file that goes with it.

use std::fs::File;
use std::sync::{Mutex, MutexGuard};

use rethread_core::{Seq, SessionId};
use rusqlite::Transaction;

use super::chain::{FileName, deregister, files_of, register};
use super::fault::io_failed;
use super::journals::{FIRST_FILE, FirstFile, OwnedJournal, lock, make};
use super::leftovers::{CopiedEntries, Leftovers};
use super::open_store::OpenStore;
use super::read::ReadFault;
use super::row::{self, existing_head, session_head};
use super::session::{self, ClaimedSession, LastOwner};
use super::{Deleted, Durability, Lease, NewSession, StoreError};
use super::{backups, free, rows};
use crate::ids;
use crate::lock::locked;

impl OpenStore {
    /// Creates a session that this process owns.
    pub(super) fn create(&self, new: &NewSession) -> Result<Lease, StoreError> {
        let parent_head = match &new.parent {
            Some((parent, fork)) => Some(self.secure_fork_point(parent, *fork)?),
            None => None,
        };
        let name =
            FileName { journal: *ids::unique().as_bytes(), epoch: session::FIRST_EPOCH, number: FIRST_FILE };
        let name = make(self.folder(), name)?;
        let (key, lease) = self.write("creating a session in", Durability::Power, |tx| {
            let (key, lease) = session::create(tx, &self.this_process, new, &name, parent_head)?;
            register(tx, key, &name)?;
            Ok((key, lease))
        })?;
        match new.parent {
            Some(_) => _ = self.times.next(new.at),
            None => self.times.saw(new.at),
        }
        let file = FirstFile::Made(name);
        self.journals.add(&lease, key, file, Vec::new(), new.facts.listed.is_some());
        Ok(lease)
    }

    /// Has a fork point survive a power failure, since the fork does. Returns the last entry of the parent.
    fn secure_fork_point(&self, parent: &SessionId, fork: Seq) -> Result<Seq, StoreError> {
        let head = self.head_of(parent)?;
        let unsynced = self.journals.get(parent).is_none_or(|journal| lock(&journal).synced() < fork);
        if unsynced && fork <= head {
            self.read_with_files("reading", parent, |tx| {
                let session_head = existing_head(tx, parent)?;
                if fork > session_head.head {
                    self.sync_files(tx, session_head.key)?;
                }
                Ok(())
            })?;
        }
        Ok(head)
    }

    fn sync_files(&self, tx: &Transaction<'_>, key: i64) -> Result<(), ReadFault> {
        for name in files_of(tx, key)? {
            let path = self.folder().path_of(&name);
            let synced = File::open(&path).and_then(|file| file.sync_data());
            match synced {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(super::chain::ChainFault::Vanished(path).into());
                }
                synced => synced.map_err(io_failed("syncing", &path))?,
            }
        }
        Ok(())
    }

    /// Claims a session, unless a live process owns it, this one included. The claim itself is not synced: nothing follows
    /// from it before the first file of its epoch is registered, which is. That file is made soon, or by the first append
    /// if that comes sooner, so that a client can be shown the session without waiting for the disk. For the same reason the
    /// files of an owner that has released the session are synced then: it has synced every turn that has ended.
    ///
    /// Where nothing can be written, the session is claimed later, with the first append.
    pub(super) fn claim(&self, session: &SessionId) -> Result<Lease, StoreError> {
        let (claimed, leftovers, listed) = match self.claim_now(session, None) {
            Err(StoreError::Unwritable { .. }) => return self.claim_later(session),
            claimed => claimed?,
        };
        let synced = leftovers.synced(claimed.last_owner());
        let ClaimedSession { key, epoch, journal, .. } = claimed;
        let lease = Lease { session: session.clone(), epoch, head: leftovers.head, folded: leftovers.folded };
        let file = FirstFile::Missing { journal, epoch, synced };
        self.journals.add(&lease, key, file, leftovers.files, listed);
        self.requests.file_missing();
        Ok(lease)
    }

    /// Claims a session and reads what earlier owners have left. `expected` is the epoch that the claim must have. Returns
    /// also whether the session is in lists.
    fn claim_now(
        &self,
        session: &SessionId,
        expected: Option<u64>,
    ) -> Result<(ClaimedSession, Leftovers, bool), StoreError> {
        let claimed = self.write("claiming a session in", Durability::Process, |tx| {
            let found = session_head(tx, session)?.epoch;
            match expected {
                Some(held) if held != found + 1 => {
                    Err(StoreError::StaleEpoch { session: session.clone(), held, found }.into())
                }
                Some(_) | None => session::claim(tx, &self.this_process, session),
            }
        })?;
        match self.take_over(session, &claimed) {
            Ok((leftovers, listed)) => Ok((claimed, leftovers, listed)),
            Err(error) => {
                // The next claim must find what this one has found: an owner that crashed, or none.
                self.give_back(&claimed, claimed.former_owner.as_deref());
                Err(error)
            }
        }
    }

    /// Leaves a session to nobody or to an owner that has ended, after an error. If this fails too, the error is the same.
    fn give_back(&self, claimed: &ClaimedSession, to: Option<&str>) {
        let _ = self.write("releasing a session in", Durability::Process, |tx| {
            session::give_back(tx, &self.this_process, claimed.key, to)
        });
    }

    /// Has a session open that can only be read now. If another process claims it before this one does, the epoch tells.
    fn claim_later(&self, session: &SessionId) -> Result<Lease, StoreError> {
        if self.journals.get(session).is_some() {
            let owner = self.this_process.owner();
            return Err(StoreError::LiveElsewhere { session: session.clone(), owner });
        }
        let (claimable, leftovers, listed) = self.read_with_files("reading", session, |tx| {
            let claimable = session::claimable(tx, &self.this_process, session)?;
            let leftovers = self.leftovers(tx, session, claimable.key, claimable.last_owner())?;
            let listed = row::is_listed(tx, claimable.key)?;
            Ok((claimable, leftovers, listed))
        })?;
        let ClaimedSession { key, epoch, .. } = claimable;
        let lease = Lease { session: session.clone(), epoch, head: leftovers.head, folded: leftovers.folded };
        self.journals.add(&lease, key, FirstFile::Unclaimed { epoch }, leftovers.files, listed);
        Ok(lease)
    }

    /// Claims a session that is still to be claimed. Call it with the guard of `making`.
    pub(super) fn claim_open(
        &self,
        journal: &Mutex<OwnedJournal>,
        _making: &MutexGuard<'_, ()>,
    ) -> Result<(), StoreError> {
        let (session, epoch, head) = {
            let journal = lock(journal);
            if !journal.is_unclaimed() {
                return Ok(());
            }
            (journal.session.clone(), journal.epoch, journal.head)
        };
        let (claimed, leftovers, listed) = self.claim_now(&session, Some(epoch))?;
        if leftovers.head != head {
            // What a crash has left is settled.
            self.give_back(&claimed, None);
            return Err(StoreError::MovedOn { session, expected: head, found: leftovers.head });
        }
        let synced = leftovers.synced(claimed.last_owner());
        let mut journal = lock(journal);
        journal.claimed(claimed.journal, leftovers.files, synced);
        journal.listed |= listed;
        Ok(())
    }

    /// Reads what earlier owners have left in files, and completes the row. Returns also whether the session is in lists.
    fn take_over(
        &self,
        session: &SessionId,
        claimed: &ClaimedSession,
    ) -> Result<(Leftovers, bool), StoreError> {
        let (key, last_owner) = (claimed.key, claimed.last_owner());
        let (mut leftovers, mut listed) = self.read_with_files("reading", session, |tx| {
            Ok((self.leftovers(tx, session, key, last_owner)?, row::is_listed(tx, key)?))
        })?;
        if last_owner == LastOwner::Crashed {
            let name = FileName { journal: claimed.journal, epoch: claimed.epoch, number: FIRST_FILE };
            let (folded, head) = (leftovers.folded, leftovers.head);
            if let Some(copy) = self.secure(
                session,
                key,
                leftovers.names(),
                CopiedEntries { after: folded, last: head, name },
            )? {
                leftovers.files = vec![(copy, head)];
            }
        }
        if !leftovers.empty.is_empty() || !leftovers.change.is_empty() {
            listed = self.write("claiming a session in", removal_durability(&leftovers.empty), |tx| {
                deregister(tx, key, &leftovers.empty)?;
                rows::write_one(tx, key, &leftovers.change)?;
                row::is_listed(tx, key)
            })?;
            self.folder().remove(&leftovers.empty);
        }
        Ok((leftovers, listed))
    }

    /// Releases a session; does nothing if the lease is not the one in force.
    pub(super) fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        // No file is made for a journal that is being released.
        let making = locked(&self.making);
        let Some(journal) = self.journals.get(&lease.session) else { return Ok(()) };
        let (key, empty) = {
            let journal = lock(&journal);
            if journal.epoch != lease.epoch {
                return Ok(());
            }
            if journal.is_unclaimed() {
                drop(journal);
                self.journals.remove(lease);
                return Ok(());
            }
            (journal.key, journal.empty_files())
        };
        self.journals.trim(&journal);
        let mut unused = self.write("releasing a session in", removal_durability(&empty), |tx| {
            session::give_back(tx, &self.this_process, key, None)?;
            deregister(tx, key, &empty)?;
            Ok(empty.clone())
        })?;
        self.journals.remove(lease);
        drop(making);
        if row_is_deleted(self, key)? {
            unused.extend(self.free(&lease.session, key)?);
        }
        self.folder().remove(&unused);
        Ok(())
    }

    /// Frees the text of a deleted session that nobody owns.
    pub(super) fn free(&self, session: &SessionId, key: i64) -> Result<Vec<FileName>, StoreError> {
        self.fold_for_forks(session, key)?;
        let unused = self.write("freeing a session in", Durability::Power, |tx| free::free(tx, key))?;
        self.requests.truncate_log();
        backups::erase(self.writer.database(), session.as_str())?;
        Ok(unused)
    }
}

/// A file must not be gone as long as a row names it.
fn removal_durability(files: &[FileName]) -> Durability {
    if files.is_empty() { Durability::Process } else { Durability::Power }
}

fn row_is_deleted(store: &OpenStore, key: i64) -> Result<bool, StoreError> {
    store.readers.read("reading", |tx| Ok(row::deleted_of(tx, key)? == Deleted::Yes))
}

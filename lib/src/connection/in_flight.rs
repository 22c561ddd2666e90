//! The requests of a client that are not answered yet: no id is used twice at a time, and a request can be
//! taken back.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_core::SessionId;

use crate::wire::{Id, IdKind};

/// How many requests a client may have open.
const MOST: usize = 1024;

/// Who works on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Worker {
    /// This connection.
    Connection,
    /// A session.
    Session(SessionId),
    /// The agent, under this number of ours.
    Agent(u64),
}

/// Why a request cannot be taken.
pub(super) enum NotTaken {
    /// Its id is that of another open request.
    Twice,
    /// There are too many.
    TooMany,
}

/// The open requests.
#[derive(Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Id, Worker>>>);

impl InFlight {
    /// Takes a request in.
    pub(super) fn take(&self, id: &Id) -> Result<(), NotTaken> {
        let mut open = self.open();
        if open.len() >= MOST {
            return Err(NotTaken::TooMany);
        }
        // Version 1 allows null, which names nothing and so clashes with nothing.
        if id.kind() == IdKind::Null {
            return Ok(());
        }
        match open.entry(id.clone()) {
            Entry::Occupied(_) => Err(NotTaken::Twice),
            Entry::Vacant(free) => {
                free.insert(Worker::Connection);
                Ok(())
            }
        }
    }

    /// Says who works on it.
    pub(super) fn assign(&self, id: &Id, worker: Worker) {
        if let Some(open) = self.open().get_mut(id) {
            *open = worker;
        }
    }

    /// Who works on it, if it is open.
    pub(super) fn worker(&self, id: &Id) -> Option<Worker> {
        self.open().get(id).cloned()
    }

    /// The request that the agent works on under this number.
    pub(super) fn of_agent(&self, number: u64) -> Option<Id> {
        let open = self.open();
        open.iter().find(|(_, worker)| **worker == Worker::Agent(number)).map(|(id, _)| id.clone())
    }

    /// It is answered.
    pub(super) fn answered(&self, id: &Id) {
        self.open().remove(id);
    }

    /// Says whether nothing is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open().is_empty()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Id, Worker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The requests that a client has been sent and has not answered. The one thing that both halves of a
//! connection share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_core::{QuestionId, SessionId};

use crate::outbox::Relayed;
use crate::wire::Id;

/// What the client was asked.
pub(super) enum AskedOf {
    /// A question of a session.
    Question(SessionId, QuestionId),
    /// A request of the agent's, relayed.
    Relayed(Relayed),
}

/// The open requests by our own numbers.
#[derive(Clone, Default)]
pub(super) struct Asked(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    last: u64,
    requests: HashMap<u64, AskedOf>,
}

impl Asked {
    /// Opens a request and gives it an id.
    pub(super) fn ask(&self, of: AskedOf) -> Id {
        let mut open = self.open();
        open.last += 1;
        let number = open.last;
        open.requests.insert(number, of);
        Id::number(number)
    }

    /// Closes a request that was answered.
    pub(super) fn answered(&self, id: &Id) -> Option<AskedOf> {
        self.open().requests.remove(&id.as_number()?)
    }

    /// Closes the request for a question, if it is open.
    pub(super) fn question(&self, question: &QuestionId) -> Option<Id> {
        self.close(|of| matches!(of, AskedOf::Question(_, open) if open == question))
    }

    /// Closes a relayed request, if it is open.
    pub(super) fn relayed(&self, request: &Id) -> Option<Id> {
        self.close(|of| matches!(of, AskedOf::Relayed(open) if open.request == *request))
    }

    fn close(&self, is: impl Fn(&AskedOf) -> bool) -> Option<Id> {
        let mut open = self.open();
        let number = open.requests.iter().find(|(_, of)| is(of)).map(|(number, _)| *number)?;
        open.requests.remove(&number);
        Some(Id::number(number))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

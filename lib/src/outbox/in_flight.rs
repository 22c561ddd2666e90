//! The requests of a client that are being worked on. An [`OpenRequest`] is answered exactly once: answering consumes it,
//! dropping it answers with an error. Its id stays in use until the answer is encoded.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_core::{Json, Seq, SessionId};

use super::{AnswerSlot, Outbound, Outbox};
use crate::wire::{Id, IdKind, RpcError};

/// How many requests of a client may be worked on at a time. More are refused, so that a client that reads its answers
/// is always read from: one that waits for room could not cancel what takes up the room. Less than there are slots.
pub(crate) const MOST: usize = 1024;

/// Who works on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// This connection.
    Connection,
    /// A session.
    Session(SessionId),
    /// The agent, under this number of ours.
    Agent(u64),
    /// Another host.
    OtherHost {
        /// Which of the client's connections to other hosts.
        link: u64,
        /// The number of the request there.
        number: u64,
    },
}

/// Why a request cannot be taken.
pub(crate) enum RequestNotTaken {
    /// Its id is that of another open request.
    Twice,
    /// There are too many.
    TooMany,
}

/// The open requests.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<OpenState>>);

#[derive(Default)]
struct OpenState {
    /// Who works on what, by the ids in use. Null is not among them: it names nothing and so clashes with nothing.
    workers: HashMap<Id, Worker>,
    /// How many requests nobody has answered yet.
    unanswered: usize,
}

impl InFlight {
    /// Takes a request in, with the slot that its answer will need.
    pub(crate) fn take(
        &self,
        id: Id,
        slot: AnswerSlot,
        outbox: &Outbox,
    ) -> Result<OpenRequest, (RequestNotTaken, AnswerSlot)> {
        let mut open = self.open();
        if open.unanswered >= MOST {
            return Err((RequestNotTaken::TooMany, slot));
        }
        if id.kind() != IdKind::Null {
            match open.workers.entry(id.clone()) {
                Entry::Occupied(_) => return Err((RequestNotTaken::Twice, slot)),
                Entry::Vacant(free) => free.insert(Worker::Connection),
            };
        }
        open.unanswered += 1;
        drop(open);
        let in_flight = self.clone();
        Ok(OpenRequest {
            id: id.clone(),
            held: Some(RequestIdInUse { id, in_flight, _slot: slot }),
            outbox: outbox.clone(),
        })
    }

    /// Who works on it, if it is open.
    pub(crate) fn worker(&self, id: &Id) -> Option<Worker> {
        self.open().workers.get(id).cloned()
    }

    /// The request that the agent works on under this number.
    pub(crate) fn of_agent(&self, number: u64) -> Option<Id> {
        let open = self.open();
        open.workers.iter().find(|(_, worker)| **worker == Worker::Agent(number)).map(|(id, _)| id.clone())
    }

    /// Says whether every answer is among the lines to be written.
    pub(crate) fn is_empty(&self) -> bool {
        let open = self.open();
        open.unanswered == 0 && open.workers.is_empty()
    }

    fn open(&self) -> MutexGuard<'_, OpenState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id and the slot of its answer, both in use until this is dropped.
pub(crate) struct RequestIdInUse {
    id: Id,
    in_flight: InFlight,
    _slot: AnswerSlot,
}

impl RequestIdInUse {
    /// The id.
    #[must_use]
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }
}

impl Drop for RequestIdInUse {
    fn drop(&mut self) {
        self.in_flight.open().workers.remove(&self.id);
    }
}

/// A request that is to be answered.
pub(crate) struct OpenRequest {
    id: Id,
    /// Not there once it is answered.
    held: Option<RequestIdInUse>,
    outbox: Outbox,
}

impl OpenRequest {
    /// The id of the request.
    #[must_use]
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// Says who works on it.
    pub(crate) fn assign(&self, worker: Worker) {
        if let Some(held) = &self.held
            && let Some(open) = held.in_flight.open().workers.get_mut(&self.id)
        {
            *open = worker;
        }
    }

    /// Answers at once.
    pub(crate) fn answer(self, outcome: Result<Json, RpcError>) {
        self.answer_behind(None, outcome);
    }

    /// Answers once the client has been shown everything up to a place, if it has one.
    pub(crate) fn answer_behind(mut self, place: Option<(SessionId, Seq)>, outcome: Result<Json, RpcError>) {
        self.send(place, outcome);
    }

    /// Hands over what the client must have before the answer. Once for each request, which is what bounds it.
    pub(crate) fn hand_over(&self, message: Outbound) {
        self.outbox.push(message);
    }

    /// Hands itself over to be answered where it arrives.
    pub(crate) fn hand_over_with(self, message: impl FnOnce(Self) -> Outbound) {
        let outbox = self.outbox.clone();
        outbox.push(message(self));
    }

    /// Returns the id for an answer that is written now.
    pub(crate) fn take_id(mut self) -> Option<RequestIdInUse> {
        self.settle()
    }

    fn send(&mut self, place: Option<(SessionId, Seq)>, outcome: Result<Json, RpcError>) {
        if let Some(id) = self.settle() {
            self.outbox.push(Outbound::Answer { id, outcome }.behind(place));
        }
    }

    fn settle(&mut self) -> Option<RequestIdInUse> {
        let held = self.held.take()?;
        held.in_flight.open().unanswered -= 1;
        Some(held)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.send(None, Err(RpcError::internal("the session ended before it answered")));
    }
}

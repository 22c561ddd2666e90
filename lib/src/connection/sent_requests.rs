//! The requests that were sent to the client and are not answered: questions and relayed requests. Shared by both halves of
//! the connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_core::{QuestionId, SessionId};

use super::host_link::HostLink;
use crate::outbox::Relayed;
use crate::wire::Id;

/// What the client was asked.
pub(super) enum SentRequest {
    /// Something that another host asks, under an id of its own.
    Carried(Arc<HostLink>, Id),
    /// A question of a session.
    Question(SessionId, QuestionId),
    /// A request of the agent's, relayed.
    Relayed(Relayed),
    /// The same after it was taken back: its answer still goes to the agent.
    TakenBack(Relayed),
}

/// The open requests by our own numbers.
#[derive(Clone, Default)]
pub(super) struct SentRequests(Arc<Mutex<SentState>>);

#[derive(Default)]
struct SentState {
    last: u64,
    requests: HashMap<u64, SentRequest>,
}

impl SentRequests {
    /// The request of another host with this id of its own, if it is open.
    pub(super) fn carried(&self, link: &Arc<HostLink>, id: &Id) -> Option<Id> {
        let open = self.open();
        let is = |of: &SentRequest| matches!(of, SentRequest::Carried(by, own) if Arc::ptr_eq(by, link) && own == id);
        open.requests.iter().find(|(_, of)| is(of)).map(|(number, _)| Id::number(*number))
    }

    /// Closes the requests of a host that was lost.
    pub(super) fn lost_link(&self, link: &Arc<HostLink>) -> Vec<Id> {
        let mut open = self.open();
        let is = |of: &SentRequest| matches!(of, SentRequest::Carried(by, _) if Arc::ptr_eq(by, link));
        open.requests.extract_if(|_, of| is(of)).map(|(number, _)| Id::number(number)).collect()
    }

    /// Opens a request and gives it an id.
    pub(super) fn ask(&self, of: SentRequest) -> Id {
        let mut open = self.open();
        open.last += 1;
        let number = open.last;
        open.requests.insert(number, of);
        Id::number(number)
    }

    /// Closes a request that was answered.
    pub(super) fn answered(&self, id: &Id) -> Option<SentRequest> {
        self.open().requests.remove(&id.as_number()?)
    }

    /// Closes the request for a question, if it is open.
    pub(super) fn question(&self, question: &QuestionId) -> Option<Id> {
        let mut open = self.open();
        let is = |of: &SentRequest| matches!(of, SentRequest::Question(_, open) if open == question);
        let number = open.requests.iter().find(|(_, of)| is(of)).map(|(number, _)| *number)?;
        open.requests.remove(&number);
        Some(Id::number(number))
    }

    /// Marks a relayed request as taken back, if it is open and was not.
    pub(super) fn take_back(&self, taken: &Relayed) -> Option<Id> {
        let mut open = self.open();
        let found = open.requests.iter_mut().find_map(|(number, of)| match of {
            SentRequest::Relayed(relayed) if relayed.is_same(taken) => Some((*number, of)),
            SentRequest::Relayed(_)
            | SentRequest::TakenBack(_)
            | SentRequest::Question(..)
            | SentRequest::Carried(..) => None,
        });
        let (number, of) = found?;
        if let SentRequest::Relayed(relayed) = &*of {
            *of = SentRequest::TakenBack(relayed.clone());
        }
        Some(Id::number(number))
    }

    fn open(&self) -> MutexGuard<'_, SentState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

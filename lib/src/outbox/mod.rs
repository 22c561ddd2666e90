//! The messages that other parts of the program send to a client through its connection. Answers and relayed requests carry
//! a place in the journal: they are sent after the client has been shown everything up to it.

mod in_flight;
mod queue;
mod reply;

use std::sync::Arc;

use rethread_core::{Json, MessageId, Seq, SessionId};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::client_id::ClientTag;
use crate::edge::client_request::UpdateDelivery;
use crate::edge::view::View;
use crate::live::{Cursor, Live, ObservedTail};
use crate::wire::{Id, Out, RpcError};

pub(crate) use in_flight::{InFlight, OpenRequest, RequestIdInUse, RequestNotTaken, Worker};
pub(crate) use queue::{AnswerSlot, Outbox, Outgoing, queue};
pub(crate) use reply::Reply;

/// The notification that takes back a request to a client.
pub(crate) const CANCEL_REQUEST: &str = "$/cancel_request";

/// Its parameters.
pub(crate) fn cancelled(request: &Id) -> Json {
    json!({"requestId": request.as_number()}).into()
}

/// One thing for a client.
pub(crate) enum Outbound {
    /// The answer to a request of the client's.
    Answer {
        /// Its id, in use until the answer is written.
        id: RequestIdInUse,
        /// The result or the error.
        outcome: Result<Json, RpcError>,
    },
    /// Something whose place is right behind this entry of a session. It is handed over before anything is
    /// written that must come after it.
    Behind(SessionId, Seq, Box<Self>),
    /// The answer to a line that was not taken as a request. Its id may be that of a request which was.
    Refusal {
        /// The id on the line, or null.
        id: Id,
        /// Why.
        error: RpcError,
        /// The room that was kept for this.
        slot: AnswerSlot,
    },
    /// The client follows a session from now on.
    Attach(Box<Attachment>),
    /// The client follows a session no longer, once it has been shown everything up to this entry.
    Leave(SessionId, Seq),
    /// Updates of the moment: no entry has them.
    Ephemeral(SessionId, Ephemeral),
    /// Who sent a prompt, before the prompt is shown.
    PromptFrom(SessionId, MessageId, Sender),
    /// A terminal that the client made for the agent: our id, which the agent knows, and the client's own.
    OwnTerminal {
        /// The session.
        session: SessionId,
        /// The id that the agent knows.
        ours: String,
        /// The client's id.
        theirs: String,
    },
    /// A request of the agent's that only the client can answer.
    Relay {
        /// The session it belongs to; none if to no one.
        from: Relayed,
        /// The method.
        method: String,
        /// The parameters with our session id.
        params: Json,
    },
    /// A relayed request is taken back.
    CancelRelay(Relayed),
    /// What happened in a session that the client follows without being attached. The next is read when this was taken.
    Followed {
        /// The parameters.
        params: Json,
        /// The room for it.
        room: OwnedSemaphorePermit,
    },
    /// What another host has for the client, as lines.
    Carried {
        /// The lines.
        lines: Out,
        /// The room for them.
        room: OwnedSemaphorePermit,
    },
    /// A notification of the agent's.
    Notify {
        /// The method.
        method: String,
        /// The parameters with our session id.
        params: Json,
    },
    /// Changes of the list that the client subscribed to. The next ones are sent when these have been taken.
    ListChanges {
        /// The method.
        method: &'static str,
        /// The parameters.
        params: Json,
        /// Held until the notification is taken.
        waiting: Arc<()>,
    },
}

impl Outbound {
    /// The same in its place behind an entry, if it has one.
    #[must_use]
    pub(crate) fn behind(self, place: Option<(SessionId, Seq)>) -> Self {
        match place {
            Some((session, seq)) => Self::Behind(session, seq, Box::new(self)),
            None => self,
        }
    }
}

/// Who sent a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The client that is shown it.
    Own,
    /// Another client.
    Other(ClientTag),
}

/// Something that a client is shown and that is not kept.
#[derive(Clone)]
pub(crate) enum Ephemeral {
    /// A turn cannot go on. Version 1 gets that as the answer to its prompt.
    Error(Vec<Json>),
    /// A notice for this client, in either version.
    Notice(Json),
}

/// Where the answer to a relayed request goes.
#[derive(Clone)]
pub(crate) struct Relayed {
    /// The agent's request id.
    pub(crate) request: Id,
    /// The session, or the agent itself.
    pub(crate) origin: Origin,
}

impl Relayed {
    /// Says whether both are the same request of the same agent.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let origin = match (&self.origin, &other.origin) {
            (Origin::Session(one), Origin::Session(other)) => one == other,
            (Origin::Agent(one), Origin::Agent(other)) => one.is_same(other),
            (Origin::Session(_), Origin::Agent(_)) | (Origin::Agent(_), Origin::Session(_)) => false,
        };
        origin && self.request == other.request
    }
}

/// Who relays.
#[derive(Clone)]
pub(crate) enum Origin {
    /// A session.
    Session(SessionId),
    /// The agent, apart from any session.
    Agent(crate::agent::peer::AgentPeer),
}

/// A client that follows a session.
pub(crate) struct Attachment {
    /// The session.
    pub(crate) session: SessionId,
    /// Where its newest entries are.
    pub(crate) live: Arc<Live>,
    /// Where the client is.
    pub(crate) cursor: Arc<Cursor>,
    /// Up to here it is a replay.
    pub(crate) past: Seq,
    /// How the client sees it. Not here while a piece of the replay is made with it.
    pub(crate) view: Option<View>,
    /// What is sent between the replay and everything after it.
    pub(crate) then: AfterReplay,
    /// Whether the client is sent updates.
    pub(crate) updates: UpdateDelivery,
    /// For an observer: where it reads on, and what it is not shown.
    pub(crate) observing: Option<Observing>,
}

/// How an observer follows a session.
pub(crate) struct Observing {
    /// Where it reads on when the session begins or ends to be live.
    pub(crate) tail: Arc<ObservedTail>,
    /// Holds back and redacts entries, if secrets are not shown.
    pub(crate) redactor: Option<crate::secret::RedactedEntries>,
}

/// What is sent when a replay is over, in this order.
#[derive(Default)]
pub(crate) struct AfterReplay {
    /// Updates that say how things stand.
    pub(crate) updates: Vec<Json>,
    /// The request to answer, and its result.
    pub(crate) answer: Option<(OpenRequest, Json)>,
    /// A notice for this client, which must not come before the answer.
    pub(crate) notice: Option<Json>,
    /// Updates that must not come before the answer.
    pub(crate) after_answer: Vec<Json>,
    /// Sub-agents that a replay did not announce, and requests that are open.
    pub(crate) open: Vec<crate::edge::view::ClientMessage>,
}

//! What the rest of the program hands to a connection for its client. Answers and what is relayed have a place
//! among the entries: they are sent once the client has been shown everything before, and nothing behind it.

mod in_flight;
mod queue;
mod reply;

use std::sync::Arc;

use rethread_core::{Json, MessageId, Seq, SessionId};

use crate::edge::view::View;
use crate::live::{Cursor, Live};
use crate::runner::Handle;
use crate::wire::{Id, RpcError};

pub(crate) use in_flight::{IdInUse, InFlight, NotTaken, OpenRequest, Worker};
pub(crate) use queue::{Outbox, Outgoing, Slot, queue};
pub(crate) use reply::Reply;

/// One thing for a client.
pub(crate) enum Outbound {
    /// The answer to a request of the client's.
    Answer {
        /// Its id, in use until the answer is written.
        id: IdInUse,
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
        slot: Slot,
    },
    /// The client follows a session from now on.
    Attach(Box<Attachment>),
    /// Updates that say why a turn cannot go on. They are of the moment: no entry has them.
    Trouble(SessionId, Vec<Json>),
    /// A prompt that the client sent itself.
    OwnPrompt(SessionId, MessageId),
    /// A request of the agent's that only the client can answer.
    Relay {
        /// The session it belongs to; none if to no one.
        from: Relayed,
        /// The method.
        method: String,
        /// The parameters with our session id.
        params: Json,
    },
    /// A relayed request is taken back, by the agent's id for it.
    Unrelay(Id),
    /// A notification of the agent's.
    Notify {
        /// The method.
        method: String,
        /// The parameters with our session id.
        params: Json,
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

/// Where the answer to a relayed request goes.
#[derive(Clone)]
pub(crate) struct Relayed {
    /// The agent's request id.
    pub(crate) request: Id,
    /// The session, or the agent itself.
    pub(crate) origin: Origin,
}

/// Who relays.
#[derive(Clone)]
pub(crate) enum Origin {
    /// A session.
    Session(Handle),
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
    pub(crate) then: Then,
}

/// What is sent when a replay is over, in this order.
#[derive(Default)]
pub(crate) struct Then {
    /// Updates that say how things stand.
    pub(crate) updates: Vec<Json>,
    /// The answer to whoever asked for all this.
    pub(crate) answer: Option<(OpenRequest, Json)>,
    /// Updates that must not come before the answer.
    pub(crate) after_answer: Vec<Json>,
    /// Sub-agents that a replay did not announce, and requests that are open.
    pub(crate) open: Vec<crate::edge::view::Shown>,
}

//! What the rest of the program hands to a connection for its client. Answers and what is relayed have a place
//! among the entries: they are sent once the client has been shown everything before, and nothing behind it.

use std::sync::Arc;

use rethread_core::{Json, MessageId, Seq, SessionId};
use tokio::sync::mpsc;

use crate::edge::Version;
use crate::edge::capabilities::ClientProfile;
use crate::edge::v1::Notices;
use crate::edge::v1::aside::with_notices;
use crate::edge::view::View;
use crate::live::{Cursor, Live};
use crate::runner::Handle;
use crate::wire::{Id, RpcError};

/// How much may wait for a client that does not read, apart from entries, which do not wait here.
pub(crate) const WAITING: usize = 4096;

/// The way to a client.
pub(crate) type Outbox = mpsc::Sender<Outbound>;

/// One thing for a client.
pub(crate) enum Outbound {
    /// The answer to a request of the client's.
    Answer {
        /// Its id.
        id: Id,
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
    },
    /// The client follows a session from now on.
    Attach(Box<Attachment>),
    /// The client does not follow it any more, once it has been shown everything up to there.
    Detach(SessionId, Seq),
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
    pub(crate) answer: Option<(Id, Json)>,
    /// Updates that must not come before the answer.
    pub(crate) after_answer: Vec<Json>,
    /// Sub-agents that a replay did not announce, and requests that are open.
    pub(crate) open: Vec<crate::edge::view::Shown>,
}

/// A request that is to be answered. One that is dropped without an answer is answered with an error: no
/// client waits for ever.
pub(crate) struct Reply {
    /// The version that the client speaks.
    pub(crate) version: Version,
    notices: Notices,
    /// What is told with the answer, since the client does not take it as an update.
    noted: Vec<Json>,
    id: Id,
    session: SessionId,
    outbox: Outbox,
    answered: bool,
}

impl Reply {
    /// A reply to the request `id` of a client about a session.
    #[must_use]
    pub(crate) fn new(client: &ClientProfile, id: Id, session: SessionId, outbox: Outbox) -> Self {
        let (version, notices) = (client.version, client.notices());
        Self { version, notices, noted: Vec::new(), id, session, outbox, answered: false }
    }

    /// A notice came while the client waits.
    pub(crate) fn note(&mut self, notice: &Json) {
        if self.version == Version::V1 && self.notices == Notices::AsText {
            self.noted.push(notice.clone());
        }
    }

    /// The id of the request.
    #[must_use]
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// Answers once the client has been shown everything up to `after`.
    pub(crate) fn send(mut self, after: Seq, outcome: Result<Json, RpcError>) {
        let after = Some((self.session.clone(), after));
        let outcome = outcome.map(|answer| with_notices(&answer, &self.noted));
        self.answer(after, outcome);
    }

    /// Answers at once.
    pub(crate) fn refuse(mut self, error: RpcError) {
        self.answer(None, Err(error));
    }

    fn answer(&mut self, after: Option<(SessionId, Seq)>, outcome: Result<Json, RpcError>) {
        self.answered = true;
        let answer = Outbound::Answer { id: self.id.clone(), outcome };
        // A client that is gone, or that let thousands of answers pile up, is not waited for.
        let _ = self.outbox.try_send(answer.behind(after));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(None, Err(RpcError::internal("the session ended before it answered")));
        }
    }
}

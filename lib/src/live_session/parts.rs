//! The parts of a live session that own its state: the agent's side, the clients' side, services for the agent, the mailbox,
//! and whether the session works.

use std::collections::HashMap;

use rethread_core::session::Native;
use rethread_core::{QuestionId, QuestionKind};
use tokio::sync::{mpsc, watch};

use super::agent_slot::{AgentSlot, Bound};
use super::clients::Clients;
use super::message::{AgentLines, Message};
use super::opening::Opening;
use super::postponed::Postponed;
use super::relays::Relays;
use super::requests::Requests;
use super::{PendingAnswer, SessionStatus};
use crate::agent::peer::{AgentLine, FromAgent};
use crate::agent::pool::HostUser;
use crate::edge::client_request::Setup;
use crate::local_services::LocalServices;
use crate::wire::Id;

/// The agent's side: the agent, what it is asked, and what it asks.
pub(super) struct AgentSide {
    pub(super) slot: AgentSlot,
    /// Where the agent comes from.
    pub(super) host: HostUser,
    /// What the agent says of this session.
    pub(super) lines: mpsc::Receiver<FromAgent>,
    pub(super) route: mpsc::Sender<FromAgent>,
    /// What the agent said before the task of the session ran.
    pub(super) early: Vec<AgentLine>,
    /// The servers and roots that the agent has, or gets when it opens the session.
    pub(super) setup: Setup,
    /// The agent's session that this one was forked from, until the agent has been asked.
    pub(super) fork_of: Option<Native>,
    /// The agent's own session at the end of the last turn, if a turn has ended since this session was opened here.
    pub(super) at_turn_end: Option<Native>,
    /// The transcript for an agent that does not know it, until a prompt has carried it.
    pub(super) seed: Option<String>,
    /// What the answers to our requests are for.
    pub(super) waiting: HashMap<u64, PendingAnswer>,
    /// The agent's own requests behind the questions that are open.
    pub(super) questions: HashMap<QuestionId, (Id, QuestionKind)>,
}

impl AgentSide {
    /// A side with nothing asked.
    pub(super) fn new(
        slot: AgentSlot,
        host: HostUser,
        lines: AgentLines,
        setup: Setup,
        fork_of: Option<Native>,
    ) -> Self {
        let AgentLines { route, lines, early } = lines;
        Self {
            slot,
            host,
            lines,
            route,
            early,
            setup,
            fork_of,
            at_turn_end: None,
            seed: None,
            waiting: HashMap::new(),
            questions: HashMap::new(),
        }
    }

    /// The agent, if it has the session open.
    pub(super) fn bound(&self) -> Option<&Bound> {
        match &self.slot {
            AgentSlot::Bound(bound) => Some(bound),
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Opening(_) | AgentSlot::Stopping(_) => None,
        }
    }

    /// Takes an agent out of its slot that is opening the session. Any other agent stays.
    pub(super) fn take_opening(&mut self) -> Option<Box<Opening>> {
        if !matches!(self.slot, AgentSlot::Opening(_)) {
            return None;
        }
        match std::mem::replace(&mut self.slot, AgentSlot::Empty) {
            AgentSlot::Opening(opening) => Some(opening),
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Bound(_) | AgentSlot::Stopping(_) => None,
        }
    }

    /// The open question that the agent asked with this request.
    pub(super) fn question_of(&self, request: &Id) -> Option<QuestionId> {
        let open = self.questions.iter().find(|(_, (asked, _))| asked == request);
        open.map(|(question, _)| question.clone())
    }
}

/// The clients' side: who follows, what they wait for, and what they have for an agent that is not there.
pub(super) struct ClientSide {
    pub(super) attached: Clients,
    pub(super) requests: Requests,
    pub(super) postponed: Postponed,
}

/// What is done for the agent: by clients, and by this process where no client can.
pub(super) struct Services {
    pub(super) relays: Relays,
    pub(super) local: LocalServices,
}

/// The messages to a session, its own among them.
pub(super) struct Mailbox {
    pub(super) inbox: mpsc::Receiver<Box<Message>>,
    pub(super) own: mpsc::Sender<Box<Message>>,
}

/// Whether a session can work.
#[derive(Default)]
pub(super) struct Condition {
    /// The store failed; what it was.
    pub(super) broken: Option<String>,
    /// Whether the state in memory may be ahead of the store, since that failed.
    pub(super) ahead: bool,
    pub(super) ended: bool,
    /// Tells the server how the session is.
    pub(super) status: watch::Sender<SessionStatus>,
    /// When the turn that runs was started here.
    pub(super) turn_began: Option<std::time::Instant>,
}

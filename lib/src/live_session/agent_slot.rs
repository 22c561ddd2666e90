//! The state of the agent behind a live session: none, starting, opening the session, bound to it, or stopping. Decides when
//! an agent is needed and handles one that fails to start or exits. `ladder` chooses how the session is restored, `opening`
//! does it, `release` lets the agent go.

use std::time::Duration;

use rethread_core::{HeldPrompts, Input};

use super::opening::Opening;
use super::outcome::read_only;
use super::release::Stopping;
use super::{LiveSession, Message};
use crate::agent::Restore;
use crate::agent::host::LiveAgent;
use crate::clock;
use crate::edge::agent_translator::AgentTranslator;
use crate::wire::RpcError;

/// How long the start of an agent waits for clients that are still being shown the history.
const HEAD_START: Duration = Duration::from_millis(100);

/// Where the agent is.
pub(crate) enum AgentSlot {
    /// None is needed.
    Empty,
    /// It is being started.
    Starting,
    /// It runs and opens the session.
    Opening(Box<Opening>),
    /// It has the session open.
    Bound(Box<Bound>),
    /// It was asked to stop and has not stopped yet.
    Stopping(Box<Stopping>),
}

/// An agent that has a session open.
pub(crate) struct Bound {
    pub(crate) agent: LiveAgent,
    pub(crate) translator: AgentTranslator,
    /// Its own id for the session.
    pub(crate) native: String,
    /// Whether it may still be replaying: some agents answer a load first and replay after.
    pub(crate) replaying: Replaying,
}

/// Whether an agent may be replaying its own session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaying {
    /// It has been asked nothing since it restored the session.
    Maybe,
    /// It has not, or no longer.
    No,
}

impl LiveSession {
    /// Has the agent brought up, if it is not.
    pub(super) async fn need_agent(&mut self) {
        if !matches!(self.agent.slot, AgentSlot::Empty) {
            return;
        }
        if self.deps.restore == Restore::ReadOnly && self.session.turns.0 > 0 {
            return self.agent_failed(read_only()).await;
        }
        self.agent.slot = AgentSlot::Starting;
        let (host, own, live) =
            (self.agent.host.shared().clone(), self.mailbox.own.clone(), self.live.clone());
        tokio::spawn(async move {
            // A start takes processor time, and opening reads the journal too: clients that are being replayed go first.
            live.caught_up(HEAD_START).await;
            let up = host.live().await;
            // A session that has ended needs no agent.
            let _ = own.send(Box::new(Message::AgentUp(up))).await;
        });
    }

    /// Says whether anything cannot go on without the agent.
    pub(super) fn waits_for_agent(&self) -> bool {
        !self.session.prompts.is_empty() || !self.clients.postponed.is_empty()
    }

    /// Fails everything that waits for an agent that did not start or did not open the session.
    pub(super) async fn agent_failed(&mut self, error: RpcError) {
        self.agent.slot = AgentSlot::Empty;
        self.step(vec![Input::AgentFailed { error: error.json() }]).await;
        for message in self.clients.postponed.take() {
            if let Some(reply) = super::client_requests::reply_of(message) {
                self.reply_error(reply, error.clone());
            }
        }
        Box::pin(self.close_if_asked()).await;
    }

    /// Its process has ended.
    pub(super) async fn agent_gone(&mut self, reason: String) {
        match std::mem::replace(&mut self.agent.slot, AgentSlot::Empty) {
            AgentSlot::Opening(_) => {
                self.end_local_services().await;
                self.forget_agent();
                self.agent_failed(RpcError::internal(reason)).await;
            }
            AgentSlot::Stopping(_) => self.stopped().await,
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Bound(_) => {
                self.end_local_services().await;
                self.forget_agent();
                self.step(vec![Input::AgentExited { reason, held: HeldPrompts::Wait, at: clock::now() }])
                    .await;
                self.close_if_asked().await;
                if !self.condition.ended && self.waits_for_agent() {
                    self.need_agent().await;
                }
            }
        }
    }
}

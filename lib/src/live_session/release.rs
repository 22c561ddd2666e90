//! Lets the agent of a session go: closes its side of the session, stops its work if it cannot be stored, or ends its
//! process if it does not stop.

use std::collections::HashSet;

use rethread_core::{HeldPrompts, Input, Json};
use serde_json::json;

use super::agent_slot::AgentSlot;
use super::ladder::RestoreStep;
use super::opening::{Opening, Progress};
use super::{LiveSession, PendingAnswer};
use crate::agent::host::LiveAgent;
use crate::clock;

/// An agent that stops its work on prompts. Its updates are ignored.
pub(crate) struct Stopping {
    agent: LiveAgent,
    /// The requests that it has not answered.
    prompts: HashSet<u64>,
}

impl LiveSession {
    /// Lets an agent go that has the session open: what runs for it is ended, that it is gone is written, and its side of
    /// the session is closed. Prompts that wait go to the next one.
    pub(super) async fn part_with_agent(&mut self, reason: &str) {
        self.end_local_services().await;
        let (reason, held) = (reason.to_owned(), HeldPrompts::Wait);
        self.step(vec![Input::AgentExited { reason, held, at: clock::now() }]).await;
        self.forget_agent();
        self.release_slot();
    }

    /// Closes the agent's side of the session and stops listening to it.
    pub(super) fn release_slot(&mut self) {
        let (agent, native) = match std::mem::replace(&mut self.agent.slot, AgentSlot::Empty) {
            AgentSlot::Bound(bound) => (bound.agent, bound.native),
            AgentSlot::Opening(opening) => match self.taken_back(&opening) {
                Some(native) => (opening.agent, native),
                None => return,
            },
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Stopping(_) => return,
        };
        // The agent may have given the id of a session that it was to restore to another one.
        let ours = agent.peer.remove_route(&native, &self.agent.route);
        if ours && agent.profile.has("close") {
            let params: Json = json!({"sessionId": native}).into();
            let _ = agent.peer.request("session/close", &params, &self.agent.route);
        }
    }

    /// Takes back what an agent was asked that opens the session. Gives the session of its own that it has open by
    /// now, or will have if the cancellation comes too late.
    fn taken_back(&self, opening: &Opening) -> Option<String> {
        if matches!(opening.progress, Progress::Asked) {
            let asked =
                self.agent.waiting.iter().filter(|(_, waiting)| matches!(waiting, PendingAnswer::Open));
            for (request, _) in asked {
                // One that does not take it has ended, and its sessions with it.
                let _ = opening.agent.peer.cancel(*request);
            }
        }
        match (&opening.progress, opening.rung) {
            (Progress::Asked, RestoreStep::New | RestoreStep::Fork) => None,
            (Progress::Answered(answer), RestoreStep::New | RestoreStep::Fork) => {
                answer.fields().text("sessionId")
            }
            (Progress::Asked | Progress::Answered(_) | Progress::Choosing(_), _) => opening.native.clone(),
        }
    }

    /// Work that cannot be written down must not go on unseen.
    pub(super) fn stop_agent(&mut self) {
        let prompt = |(request, waiting): (&u64, &PendingAnswer)| {
            matches!(waiting, PendingAnswer::Prompt(_)).then_some(*request)
        };
        let prompts: HashSet<_> = self.agent.waiting.iter().filter_map(prompt).collect();
        let agent = match &self.agent.slot {
            AgentSlot::Bound(bound) => {
                let _ = bound.agent.peer.notify("session/cancel", &json!({"sessionId": bound.native}).into());
                Some(bound.agent.clone())
            }
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Opening(_) | AgentSlot::Stopping(_) => None,
        };
        self.forget_agent();
        if matches!(self.agent.slot, AgentSlot::Stopping(_)) {
            return;
        }
        self.release_slot();
        // It takes no other prompt before it has answered those it has.
        if let Some(agent) = agent.filter(|_| !prompts.is_empty()) {
            self.agent.slot = AgentSlot::Stopping(Box::new(Stopping { agent, prompts }));
        }
    }

    /// The agent answered something that nobody waits for any more.
    pub(super) async fn answered_late(&mut self, request: u64) {
        if let AgentSlot::Stopping(stopping) = &mut self.agent.slot
            && stopping.prompts.remove(&request)
            && stopping.prompts.is_empty()
        {
            self.stopped().await;
        }
    }

    /// It has stopped: the next one may come.
    pub(super) async fn stopped(&mut self) {
        self.agent.slot = AgentSlot::Empty;
        if self.waits_for_agent() {
            self.need_agent().await;
        }
    }

    /// Ends its process, and with it the turns of every other session that it serves.
    pub(super) fn end_agent(&mut self) {
        let agent = match &self.agent.slot {
            AgentSlot::Bound(bound) => bound.agent.clone(),
            AgentSlot::Stopping(stopping) => stopping.agent.clone(),
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Opening(_) => return,
        };
        tokio::spawn(async move { agent.end().await });
    }
}

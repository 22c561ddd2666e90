//! Handles an agent that answered `initialize` with version 2 but speaks version 1: it is used as a version 1 agent from then
//! on, and no prompt is sent twice.

use bytes::Bytes;
use rethread_core::{Input, Json, PromptStyle};

use super::{AgentSlot, LiveSession, PendingAnswer};
use crate::clock;
use crate::edge::agent_translator::VersionFinding;
use crate::wire::RpcError;

impl LiveSession {
    /// Checks lines before they are decoded. Lines that may be of either version are held back.
    pub(super) async fn check_version(&mut self, said: &mut Vec<Bytes>, inputs: &mut Vec<Input>) {
        if let AgentSlot::Bound(bound) = &mut self.agent.slot {
            let sign = bound.translator.check_version(said);
            self.use_finding(sign, inputs).await;
        }
    }

    /// Checks an answer before it is handled. Returns the lines that were held back for it, to be decoded first.
    pub(super) async fn check_answer(
        &mut self,
        waiting: &PendingAnswer,
        outcome: &Result<Json, RpcError>,
        inputs: &mut Vec<Input>,
    ) -> Vec<Bytes> {
        let (AgentSlot::Bound(bound), PendingAnswer::Prompt(_), Ok(answer)) =
            (&mut self.agent.slot, waiting, outcome)
        else {
            return Vec::new();
        };
        let sign = bound.translator.check_prompt_answer(answer);
        self.use_finding(sign, inputs).await;
        match sign {
            VersionFinding::Version1 => self.held_back(),
            // They follow the acknowledged prompt.
            VersionFinding::None => Vec::new(),
        }
    }

    /// What was held back and need not be any longer.
    pub(super) fn held_back(&mut self) -> Vec<Bytes> {
        match &mut self.agent.slot {
            AgentSlot::Bound(bound) => bound.translator.take_held_lines(),
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Opening(_) | AgentSlot::Stopping(_) => {
                Vec::new()
            }
        }
    }

    /// Decodes the lines that were held back, since nothing more comes from the agent.
    pub(super) async fn release_held_back(&mut self) {
        let AgentSlot::Bound(bound) = &mut self.agent.slot else { return };
        let (mut said, mut inputs) = (bound.translator.stop_waiting_for_version(), Vec::new());
        self.on_updates(&mut said, &mut inputs).await;
        self.step(inputs).await;
    }

    async fn use_finding(&mut self, sign: VersionFinding, inputs: &mut Vec<Input>) {
        let (VersionFinding::Version1, AgentSlot::Bound(bound)) = (sign, &mut self.agent.slot) else {
            return;
        };
        tracing::info!(session = %self.id, "the agent answered with version 2 but speaks version 1");
        bound.agent = self.agent.host.speaks_version_1(&bound.agent);
        let updates = bound.translator.reread_open_answer();
        inputs.extend(updates.into_iter().map(|update| Input::Updated { update, known: true }));
        inputs.push(Input::StyleFound { style: PromptStyle::OneAtATime, at: clock::now() });
        // It went with the prompt that the agent works on.
        self.agent.seed = None;
        // The turn must begin before its updates are decoded.
        self.step(std::mem::take(inputs)).await;
    }
}

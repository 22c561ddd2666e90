//! Handles an agent that answered `initialize` with version 2 but speaks version 1: it is used as a version 1 agent from then
//! on, and no prompt is sent twice.

use bytes::Bytes;
use rethread_core::{Input, Json, PromptStyle};

use super::{AgentSlot, LiveSession, PendingAnswer};
use crate::clock;
use crate::edge::agent_translator::VersionFinding;
use crate::wire::RpcError;

impl LiveSession {
    /// Looks at what the agent said before it is heard. What may be of either version is held back.
    pub(super) async fn check_version(&mut self, said: &mut Vec<Bytes>, inputs: &mut Vec<Input>) {
        if let AgentSlot::Bound(bound) = &mut self.agent.slot {
            let sign = bound.translator.check_version(said);
            self.use_finding(sign, inputs).await;
        }
    }

    /// Looks at an answer before it is taken. What was held back for its sake is given, to be heard first.
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
            // It stands behind the prompt that is acknowledged.
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

    /// The agent says nothing more: what was held back is heard as it is.
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
        // The turn begins before what is said in it is heard.
        self.step(std::mem::take(inputs)).await;
    }
}

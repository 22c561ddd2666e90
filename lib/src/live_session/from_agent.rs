//! Handles the lines of the agent: decodes updates and requests into inputs, and matches answers with our requests.

use bytes::Bytes;
use rethread_core::{ConversationRole, Input, Json, MessageId, PromptStyle, Update, UpdateKind};

use super::journal_scan::said_by_agent;
use super::{AgentSlot, LiveSession, PendingAnswer, Replaying};
use crate::agent::peer::{AgentLine, FromAgent};
use crate::clock;
use crate::edge::agent_translator::{AgentEvent, outgoing};
use crate::ids;
use crate::wire::{RpcError, code};

impl LiveSession {
    pub(super) async fn on_agent_message(&mut self, from: FromAgent) {
        match from {
            FromAgent::Lines(lines) => self.on_lines(lines).await,
            FromAgent::Gone(reason) => {
                Box::pin(self.release_held_back()).await;
                Box::pin(self.agent_gone(reason)).await;
            }
        }
    }

    /// Runs of lines between answers are taken together: one write for many lines.
    async fn on_lines(&mut self, lines: Vec<AgentLine>) {
        let mut said: Vec<Bytes> = Vec::with_capacity(lines.len());
        let mut inputs = Vec::new();
        for line in lines {
            match line {
                AgentLine::Message(bytes) => said.push(bytes),
                AgentLine::Answered { request, outcome } => {
                    self.on_updates(&mut said, &mut inputs).await;
                    match self.agent.waiting.remove(&request) {
                        Some(PendingAnswer::Open) => {
                            self.step(std::mem::take(&mut inputs)).await;
                            Box::pin(self.open_answered(outcome)).await;
                        }
                        Some(waiting) => {
                            said = self.check_answer(&waiting, &outcome, &mut inputs).await;
                            self.on_updates(&mut said, &mut inputs).await;
                            self.answered(waiting, outcome, &mut inputs);
                            said = self.held_back();
                        }
                        None => Box::pin(self.answered_late(request)).await,
                    }
                }
            }
        }
        self.on_updates(&mut said, &mut inputs).await;
        self.step(inputs).await;
        self.choose_on().await;
        self.wait_for_quiet();
        self.close_if_asked().await;
    }

    pub(super) async fn on_updates(&mut self, said: &mut Vec<Bytes>, inputs: &mut Vec<Input>) {
        self.check_version(said, inputs).await;
        let at = clock::now();
        let idle = self.session.turn.is_none();
        let lines = said.iter().map(|line| &line[..]);
        let (events, swallowing) = match &mut self.agent.slot {
            AgentSlot::Bound(bound) => {
                let late = idle && bound.replaying == Replaying::Maybe;
                (
                    bound.translator.decode_lines(lines, at),
                    if late { Swallow::Conversation } else { Swallow::Nothing },
                )
            }
            AgentSlot::Opening(opening) => {
                let options =
                    if opening.keeps_options() { Swallow::AllButCommands } else { Swallow::AllButStanding };
                (opening.translator.decode_lines(lines, at), options)
            }
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Stopping(_) => {
                (Vec::new(), Swallow::AllButStanding)
            }
        };
        said.clear();
        for event in events {
            match self.without_secrets(event) {
                // What an agent replays of its own session is in the journal already.
                AgentEvent::Input(input) if swallowing.swallows(&input) => self.swallowed(&input),
                AgentEvent::Input(input) => inputs.push(input),
                AgentEvent::Question { request, kind, body } => {
                    let question = ids::question_id();
                    self.question_opened(question.clone(), request, kind);
                    inputs.push(Input::Question { question, kind, body });
                }
                AgentEvent::Relay { request, method, params } => {
                    // What was said before is shown before.
                    self.step(std::mem::take(inputs)).await;
                    self.relay_to_client(request, &method, &params);
                }
                AgentEvent::Withdrawn { request } => match self.agent.question_of(&request) {
                    Some(question) => inputs.push(Input::QuestionWithdrawn { question }),
                    None => self.cancel_relay(&request),
                },
            }
        }
    }

    /// What an agent reports about its work is kept and shown: notices, and the errors that turns end with.
    fn without_secrets(&self, mut event: AgentEvent) -> AgentEvent {
        let secrets = &self.deps.secrets;
        if let AgentEvent::Input(Input::Updated { update, .. }) = &mut event
            && update.kind == UpdateKind::Notice
        {
            update.body = secrets.redact_json(&update.body);
        }
        if let AgentEvent::Input(Input::AgentState { stop, state, .. }) = &mut event {
            *state = secrets.redact_json(state);
            if let Some(error) = stop.as_mut().and_then(|stop| stop.error.as_mut()) {
                *error = secrets.redact_json(error);
            }
        }
        event
    }

    fn swallowed(&mut self, input: &Input) {
        if let (AgentSlot::Opening(opening), Input::Updated { update, .. }) = (&mut self.agent.slot, input) {
            opening.replayed.updates += usize::from(is_conversation(input));
            opening.replayed.text += said_by_agent(update);
        }
    }

    pub(super) fn answered(
        &mut self,
        waiting: PendingAnswer,
        outcome: Result<Json, RpcError>,
        inputs: &mut Vec<Input>,
    ) {
        match waiting {
            PendingAnswer::Prompt(message) => self.prompt_answered(message, outcome, inputs),
            PendingAnswer::Option { ask, option, value } => {
                let (error, options) = match outcome {
                    Ok(result) => (None, self.option_set(&option, &value, &result)),
                    Err(error) => (Some(error.json()), None),
                };
                inputs.push(Input::OptionAnswered { ask, error, options });
            }
            PendingAnswer::Relay(reply) => reply.send(self.lease.head, outcome),
            PendingAnswer::CancelThing(reply) => {
                reply.send(self.lease.head, outcome.map_err(not_cancellable))
            }
            PendingAnswer::Open => {}
        }
    }

    /// The options after a change that the agent accepted; nothing while clients see them as they were left.
    fn option_set(&mut self, option: &str, value: &Json, result: &Json) -> Option<Update> {
        match &mut self.agent.slot {
            AgentSlot::Bound(bound) => Some(bound.translator.option_set(option, value, result)),
            AgentSlot::Opening(opening) => {
                let update = opening.translator.option_set(option, value, result);
                (!opening.keeps_options()).then_some(update)
            }
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Stopping(_) => None,
        }
    }

    fn prompt_answered(
        &mut self,
        message: MessageId,
        outcome: Result<Json, RpcError>,
        inputs: &mut Vec<Input>,
    ) {
        let AgentSlot::Bound(bound) = &mut self.agent.slot else { return };
        let at = clock::now();
        match (bound.translator.dialect().prompts, outcome) {
            (PromptStyle::OneAtATime, outcome) => {
                let (stop, extra) = outgoing::prompt_outcome(outcome.as_ref());
                inputs.push(Input::PromptFinished { message, stop, extra, at });
            }
            (PromptStyle::Acknowledged, Ok(result)) => {
                inputs.push(Input::PromptInserted { message, at });
                inputs.extend(bound.translator.prompt_acknowledged(result.fields().text("messageId")));
            }
            (PromptStyle::Acknowledged, Err(error)) => {
                inputs.push(Input::PromptRefused { message, error: error.json() });
                inputs.extend(bound.translator.prompt_acknowledged(None));
            }
        }
    }
}

/// Converts "method not found" of an agent: for the client the method exists, only this thing cannot be cancelled.
fn not_cancellable(error: RpcError) -> RpcError {
    match error.code {
        code::METHOD_NOT_FOUND => RpcError { code: code::INVALID_PARAMS, ..error },
        _ => error,
    }
}

/// The updates that are ignored from an agent that restores its own session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Swallow {
    Nothing,
    /// What a late replay would say.
    Conversation,
    /// All but how things stand: commands and options.
    AllButStanding,
    AllButCommands,
}

impl Swallow {
    fn swallows(self, input: &Input) -> bool {
        match self {
            Self::Nothing => false,
            Self::Conversation => is_conversation(input),
            Self::AllButStanding => {
                !is_of(input, UpdateKind::AvailableCommandsUpdate)
                    && !is_of(input, UpdateKind::ConfigOptionUpdate)
            }
            Self::AllButCommands => !is_of(input, UpdateKind::AvailableCommandsUpdate),
        }
    }
}

fn is_conversation(input: &Input) -> bool {
    let Input::Updated { update, .. } = input else { return false };
    match update.kind.meaning().conversation {
        ConversationRole::Essential | ConversationRole::Accompanying => true,
        ConversationRole::Outside => false,
    }
}

fn is_of(input: &Input, kind: UpdateKind) -> bool {
    matches!(input, Input::Updated { update, .. } if update.kind == kind)
}

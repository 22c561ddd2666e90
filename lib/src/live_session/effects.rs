//! The effects of stored entries: sends prompts, cancellations, options and answers to the agent, and answers the requests
//! of clients. Changes no state; failures come back as inputs.

use rethread_core::{
    AskId, Dropped, Entry, HeldPrompts, Input, Json, MessageId, PromptStyle, QuestionId, QuestionKind, Seq,
    Stop, TurnNo, Update, UpdateKind,
};
use serde_json::json;
use tokio::time::Instant;

use super::requests::Due;
use super::{AgentSlot, LiveSession, PendingAnswer, Replaying};
use crate::clock;
use crate::edge::agent_translator::outgoing::{self, cancelled_answer};
use crate::edge::dialect::PromptAnswer;
use crate::outbox::Reply;
use crate::wire::{RpcError, code};

impl LiveSession {
    pub(super) fn effect(&mut self, seq: Seq, entry: &Entry, inputs: &mut Vec<Input>) {
        match entry {
            Entry::PromptSent { message } => self.send_prompt(message, inputs),
            Entry::PromptInserted { message, turn, .. } => self.prompt_inserted(seq, message, *turn),
            Entry::PromptDropped { message, why } => self.prompt_dropped(seq, message, why),
            Entry::TurnStarted { .. } => {
                if let AgentSlot::Bound(bound) = &mut self.agent.slot {
                    bound.translator.turn_started();
                }
            }
            Entry::TurnEnded { turn, stop, state, .. } => self.turn_ended(seq, *turn, stop, state),
            Entry::CancelAsked { .. } => self.send_cancel(),
            Entry::QuestionAnswered { question, answer } => self.question_closed(question, Some(answer)),
            Entry::QuestionWithdrawn { question } => self.question_closed(question, None),
            Entry::OptionAsked { ask, option, value } => self.send_option(ask, option, value, inputs),
            Entry::OptionSettled { ask, error } => self.option_settled(seq, ask, error.as_ref()),
            Entry::Updated { update, .. } => self.note(update),
            Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::StateChanged { .. }
            | Entry::QuestionAsked { .. }
            | Entry::TitleSet { .. } => {}
        }
    }

    fn send_prompt(&mut self, message: &MessageId, inputs: &mut Vec<Input>) {
        let Some(prompt) = self.session.prompt(message) else { return };
        let AgentSlot::Bound(bound) = &mut self.agent.slot else { return };
        let meta = self.clients.requests.take_meta(message);
        let content = match &self.agent.seed {
            Some(seed) => outgoing::with_transcript(&bound.agent.profile, seed, &prompt.content),
            None => prompt.content.clone(),
        };
        let params = bound.translator.prompt(&bound.native, &content, meta.as_ref());
        bound.replaying = Replaying::No;
        match bound.agent.peer.request("session/prompt", &params, &self.agent.route) {
            Ok(request) => {
                bound.translator.prompt_sent(&content);
                self.agent.seed.iter().for_each(|seed| bound.translator.transcript_sent(seed));
                // An agent that acknowledges prompts has the transcript when it has acknowledged this one.
                if bound.translator.dialect().prompts == PromptStyle::OneAtATime {
                    self.agent.seed = None;
                }
                self.agent.waiting.insert(request, PendingAnswer::Prompt(message.clone()));
            }
            Err(error) => {
                let (reason, held) = (error.to_string(), HeldPrompts::Wait);
                inputs.push(Input::AgentExited { reason, held, at: clock::now() });
                // One that lives and does not read is of no use to anybody; its end brings up the next.
                self.end_agent();
            }
        }
    }

    fn send_cancel(&mut self) {
        if let AgentSlot::Bound(bound) = &self.agent.slot {
            // An agent that does not take it any more is about to be seen gone.
            let _ = bound.agent.peer.notify("session/cancel", &json!({"sessionId": bound.native}).into());
            self.timers.cancel = Some(Instant::now() + self.deps.cancel_patience);
        }
    }

    fn send_option(&mut self, ask: &AskId, option: &str, value: &Json, inputs: &mut Vec<Input>) {
        let (agent, translator, native) = match &mut self.agent.slot {
            AgentSlot::Bound(bound) => (&bound.agent, &bound.translator, &bound.native),
            AgentSlot::Opening(opening) => {
                opening.tries(option);
                let Some(native) = &opening.native else { return };
                (&opening.agent, &opening.translator, native)
            }
            AgentSlot::Empty | AgentSlot::Starting | AgentSlot::Stopping(_) => return,
        };
        let (method, params) = translator.set_option(native, option, value);
        match agent.peer.request(method, &params, &self.agent.route) {
            Ok(request) => {
                let (ask, option, value) = (ask.clone(), option.to_owned(), value.clone());
                self.agent.waiting.insert(request, PendingAnswer::Option { ask, option, value });
            }
            Err(error) => inputs.push(Input::OptionAnswered {
                ask: ask.clone(),
                error: Some(RpcError::internal(error.to_string()).json()),
                options: None,
            }),
        }
    }

    fn question_closed(&mut self, question: &QuestionId, answer: Option<&Json>) {
        self.clients.attached.question_closed(question);
        let Some((request, kind)) = self.agent.questions.remove(question) else { return };
        let AgentSlot::Bound(bound) = &self.agent.slot else { return };
        let result = match answer {
            Some(answer) => bound.translator.answer(kind, answer),
            None => cancelled_answer(kind),
        };
        let _ = bound.agent.peer.answer(&request, Ok(&result));
    }

    fn prompt_inserted(&mut self, seq: Seq, message: &MessageId, turn: TurnNo) {
        // The agent has the transcript with it.
        if let AgentSlot::Bound(bound) = &self.agent.slot
            && bound.translator.dialect().prompts == PromptStyle::Acknowledged
        {
            self.agent.seed = None;
        }
        match self.clients.requests.prompt_inserted(message, turn) {
            Some((reply, Due::Accepted)) => reply.send(seq, Ok(json!({"messageId": message}).into())),
            Some((reply, Due::TurnEnd)) => {
                let stop = self.session.last_stop.clone().unwrap_or_else(|| Stop::plain("end_turn"));
                reply.send(seq, end_of_turn(&stop, None));
            }
            None => {}
        }
    }

    fn prompt_dropped(&mut self, seq: Seq, message: &MessageId, why: &Dropped) {
        let Some(reply) = self.clients.requests.prompt_dropped(message) else { return };
        let outcome = match (why, reply.dialect().prompt_answer) {
            (Dropped::Cancelled, PromptAnswer::AtTurnEnd) => Ok(json!({"stopReason": "cancelled"}).into()),
            (Dropped::Cancelled, PromptAnswer::WhenAccepted) => Err(RpcError::cancelled()),
            (Dropped::Refused(error), _) => Err(RpcError::read(error)),
        };
        reply.send(seq, outcome);
    }

    fn turn_ended(&mut self, seq: Seq, turn: TurnNo, stop: &Stop, state: &Json) {
        if !self.session.cancel_is_awaited() {
            self.timers.cancel = None;
        }
        self.folding.turn_ended(seq, Instant::now());
        if self.agent.at_turn_end.as_ref() != self.session.natives.last() {
            self.agent.at_turn_end = self.session.natives.last().cloned();
        }
        self.fetch_outputs();
        for reply in self.clients.requests.turn_ended(turn) {
            reply.send(seq, end_of_turn(stop, Some(state)));
        }
    }

    fn option_settled(&mut self, seq: Seq, ask: &AskId, error: Option<&Json>) {
        let Some((reply, form)) = self.clients.requests.take_option(ask) else { return };
        let outcome = match error {
            Some(error) => Err(RpcError::read(error)),
            None => Ok(self.option_answer(&reply, form)),
        };
        reply.send(seq, outcome);
    }

    /// Adds a notice to the answers of prompts for clients that do not accept notices.
    fn note(&mut self, update: &Update) {
        if update.kind == UpdateKind::Notice {
            self.clients.requests.note(&update.body);
        }
    }

    /// Drops everything that is open at the agent, without answers.
    pub(super) fn forget_agent(&mut self) {
        for (_, waiting) in self.agent.waiting.drain() {
            if let PendingAnswer::Relay(reply) | PendingAnswer::CancelThing(reply) = waiting {
                reply.refuse(RpcError::internal("the agent exited before it answered"));
            }
        }
        self.agent.questions.clear();
        self.services.relays.clear();
        self.services.local.end();
    }

    pub(super) fn question_opened(
        &mut self,
        question: QuestionId,
        request: crate::wire::Id,
        kind: QuestionKind,
    ) {
        self.agent.questions.insert(question, (request, kind));
    }

    pub(super) fn reply_error(&self, reply: Reply, error: RpcError) {
        reply.send(self.lease.head, Err(error));
    }
}

/// The members of an answer to a version 1 prompt.
#[derive(serde::Serialize)]
struct PromptAnswerBody<'a> {
    #[serde(rename = "stopReason")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a serde_json::value::RawValue>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Json>,
}

/// The answer to a version 1 prompt. Its stop reasons are a closed list; what is not in it is said beside.
fn end_of_turn(stop: &Stop, state: Option<&Json>) -> Result<Json, RpcError> {
    if stop.reason == "error" {
        let error = stop.error.as_ref().map(RpcError::read);
        return Err(error.unwrap_or_else(|| RpcError::new(code::INTERNAL, "the turn failed")));
    }
    let known = ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"];
    let reason = known.iter().find(|known| **known == stop.reason).unwrap_or(&"end_turn");
    let state = state.map(Json::members).unwrap_or_default();
    let meta = if *reason == stop.reason {
        state.get("_meta").map(|meta| Json::from(meta.to_owned()))
    } else {
        let mut meta =
            state.get("_meta").map(|meta| Json::from(meta.to_owned()).fields()).unwrap_or_default();
        meta.set("rethread", json!({"stopReason": stop.reason}).into());
        Some(meta.json())
    };
    Ok(Json::of(&PromptAnswerBody { reason, usage: state.get("usage"), meta }))
}

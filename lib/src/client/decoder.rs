//! Decodes what an agent sends about one session into events, with the translator of the edge. Needs no connection: the
//! caller supplies lines and answers in the order in which they came.

use std::collections::HashSet;

use rethread_core::{Activity, Fields, Input, Json, PromptStyle, QuestionKind, Stop, Subject, Update};
use serde_json::json;

use super::SessionEvent;
use crate::edge::Version;
use crate::edge::agent_translator::{AgentEvent, AgentTranslator, outgoing};
use crate::edge::dialect::AgentDialect;
use crate::wire::{Id, RpcError};

/// Decodes one session.
pub struct SessionDecoder {
    translator: AgentTranslator,
    /// The prompts that are answered at the end of their turn and are not answered yet.
    open_prompts: usize,
}

/// What a line is.
#[derive(Debug)]
pub enum Decoded {
    /// Something happened in the session.
    Event(SessionEvent),
    /// The agent asks the user.
    Question {
        /// The agent's request id.
        request: Id,
        /// A permission or an elicitation.
        kind: QuestionKind,
        /// The question in canonical form.
        body: Json,
    },
    /// Another request or notification of the agent.
    Relay {
        /// The agent's request id; `None` for a notification.
        request: Option<Id>,
        /// The method.
        method: String,
        /// The parameters.
        params: Json,
    },
    /// The agent withdrew one of its requests.
    Withdrawn {
        /// The id of that request.
        request: Id,
    },
}

impl SessionDecoder {
    /// Makes a decoder for an agent that speaks this version.
    #[must_use]
    pub fn new(version: Version) -> Self {
        Self { translator: AgentTranslator::new(version, 1, HashSet::new()), open_prompts: 0 }
    }

    /// What the agent does and expects.
    #[must_use]
    pub fn dialect(&self) -> AgentDialect {
        self.translator.dialect()
    }

    /// The translator, which encodes requests and answers.
    #[must_use]
    pub fn translator(&self) -> &AgentTranslator {
        &self.translator
    }

    /// Decodes lines of the agent.
    pub fn lines<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> Vec<Decoded> {
        let events = self.translator.decode_lines(lines, 0);
        events.into_iter().flat_map(decoded).collect()
    }

    /// Decodes the answer to new, load, resume or fork.
    pub fn opened(&mut self, answer: &Json) -> Vec<SessionEvent> {
        self.translator.decode_open_answer(answer).into_iter().map(SessionEvent::Updated).collect()
    }

    /// Records that an option was changed, with the agent's answer to that.
    pub fn option_set(&mut self, option: &str, value: &Json, answer: &Json) -> SessionEvent {
        SessionEvent::Updated(self.translator.option_set(option, value, answer))
    }

    /// Records that a prompt was sent. An agent that acknowledges prompts sends it back as a message.
    pub fn prompt_sent(&mut self, content: &Json) -> Vec<SessionEvent> {
        match self.dialect().prompts {
            PromptStyle::Acknowledged => Vec::new(),
            PromptStyle::OneAtATime => {
                self.translator.prompt_sent(content);
                self.translator.turn_started();
                self.open_prompts += 1;
                vec![SessionEvent::Prompted { content: content.clone() }, running()]
            }
        }
    }

    /// Decodes the answer to a prompt; for some agents it is the end of the turn.
    pub fn prompt_answered(&mut self, outcome: Result<&Json, &RpcError>) -> Vec<SessionEvent> {
        match self.dialect().prompts {
            PromptStyle::Acknowledged => Vec::new(),
            PromptStyle::OneAtATime => {
                self.open_prompts = self.open_prompts.saturating_sub(1);
                let (stop, extra) = outgoing::prompt_outcome(outcome);
                // The next prompt is worked on at once.
                if self.open_prompts == 0 { vec![idle(stop, extra.as_ref())] } else { Vec::new() }
            }
        }
    }
}

fn decoded(event: AgentEvent) -> Vec<Decoded> {
    match event {
        AgentEvent::Input(input) => input_events(input).into_iter().map(Decoded::Event).collect(),
        AgentEvent::Question { request, kind, body } => vec![Decoded::Question { request, kind, body }],
        AgentEvent::Relay { request, method, params } => vec![Decoded::Relay { request, method, params }],
        AgentEvent::Withdrawn { request } => vec![Decoded::Withdrawn { request }],
    }
}

fn input_events(input: Input) -> Vec<SessionEvent> {
    match input {
        Input::Updated { update, .. } => {
            let state = state_in_info(&update);
            std::iter::once(SessionEvent::Updated(update)).chain(state).collect()
        }
        Input::AgentState { activity, stop, state, .. } => {
            vec![SessionEvent::StateChanged { activity, stop, body: state }]
        }
        // These come from elsewhere than the lines of an agent.
        Input::Prompt { .. }
        | Input::Withdraw { .. }
        | Input::Cancel
        | Input::SetRoots { .. }
        | Input::SetOption { .. }
        | Input::SetTitle { .. }
        | Input::Answer { .. }
        | Input::AgentOffers { .. }
        | Input::AgentBound { .. }
        | Input::StyleFound { .. }
        | Input::AgentFailed { .. }
        | Input::AgentExited { .. }
        | Input::PromptInserted { .. }
        | Input::PromptFinished { .. }
        | Input::PromptRefused { .. }
        | Input::Question { .. }
        | Input::QuestionWithdrawn { .. }
        | Input::OptionAnswered { .. } => Vec::new(),
    }
}

/// The state of a turn that another client started, which version 1 has no update for.
fn state_in_info(update: &Update) -> Option<SessionEvent> {
    if update.kind.subject() != Subject::SessionInfo {
        return None;
    }
    let meta = update.body.fields().get("_meta")?.fields();
    let own = meta.get("rethread")?.fields();
    let activity = match own.text("state")?.as_str() {
        "running" => Activity::Running,
        "requires_action" => Activity::RequiresAction,
        "idle" => Activity::Idle,
        _ => Activity::Other,
    };
    let stop = own.text("stopReason").map(|reason| Stop { reason, error: own.get("error").cloned() });
    let mut body: Fields = [("sessionUpdate", Json::of("state_update"))].into_iter().collect();
    own.iter().for_each(|(name, value)| body.set(name, value.clone()));
    Some(SessionEvent::StateChanged { activity, stop, body: body.json() })
}

fn running() -> SessionEvent {
    let body = json!({"sessionUpdate": "state_update", "state": "running"}).into();
    SessionEvent::StateChanged { activity: Activity::Running, stop: None, body }
}

fn idle(stop: Stop, extra: Option<&Json>) -> SessionEvent {
    let mut body: Fields = [
        ("sessionUpdate", Json::of("state_update")),
        ("state", Json::of("idle")),
        ("stopReason", Json::of(&stop.reason)),
    ]
    .into_iter()
    .collect();
    if let Some(error) = &stop.error {
        body.set("error", error.clone());
    }
    extra
        .map(Json::fields)
        .unwrap_or_default()
        .iter()
        .for_each(|(name, value)| body.set(name, value.clone()));
    SessionEvent::StateChanged { activity: Activity::Idle, stop: Some(stop), body: body.json() }
}

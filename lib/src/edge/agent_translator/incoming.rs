//! Decodes the lines that an agent writes into inputs, questions and relayed messages.

use rethread_core::{
    Activity, Fields, Input, Json, Millis, QuestionKind, Stop, Subject, Update, UpdateForm, UpdateKind,
};
use serde_json::value::RawValue;

use super::text_run::{TextChunk, TextRun};
use super::{AgentEvent, AgentTranslator, OptionReport};
use crate::edge::v1::options::Source;
use crate::edge::{Version, v1};
use crate::ids;
use crate::wire::{Id, RpcMessage, parse};

/// The plan id for v1 agents, which have a single plan without an id.
pub(super) const ONLY_PLAN: &str = "plan";

impl AgentTranslator {
    /// Decodes several lines. Adjacent plain-text chunks of one message become one chunk.
    pub fn decode_lines<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>, at: Millis) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        let mut run: Option<TextRun> = None;
        for line in lines {
            let Some((chunk, text)) = self.text_chunk(line) else {
                events.extend(run.take().map(TextRun::finish));
                self.decode_line(line, at, &mut events);
                continue;
            };
            match &mut run {
                Some(run) if run.accepts(&chunk) => run.add(text),
                other => {
                    events.extend(other.take().map(TextRun::finish));
                    *other = Some(self.start_run(&chunk, text));
                }
            }
            self.last_chunk = Some(chunk);
        }
        events.extend(run.map(TextRun::finish));
        events
    }

    /// Recognizes a plain-text chunk of this session: as the same as the last one but for its text, or by parsing it.
    fn text_chunk<'a>(&mut self, line: &'a [u8]) -> Option<(TextChunk, &'a str)> {
        let text = self.last_chunk.as_ref().and_then(|last| last.template.content_of(line));
        if let Some(known) = text.and_then(|text| Some((self.last_chunk.take()?, text))) {
            return Some(known);
        }
        let (chunk, text) = TextChunk::read(line)?;
        (!self.subagents.contains_key(&chunk.session)).then_some((chunk, text))
    }

    fn start_run(&mut self, chunk: &TextChunk, text: &str) -> TextRun {
        let id = self.message_id(chunk.kind, chunk.message.as_deref());
        let known = self.seen.note(chunk.kind, &id);
        TextRun::start(chunk, id, known, text)
    }

    fn decode_line(&mut self, line: &[u8], at: Millis, events: &mut Vec<AgentEvent>) {
        match parse(line) {
            Ok(RpcMessage::Request { id, method, params }) => events.push(self.request(id, &method, params)),
            Ok(RpcMessage::Notification { method, params }) => self.notification(&method, params, at, events),
            // Responses are matched to requests before this point, and invalid lines were logged.
            Ok(RpcMessage::Response { .. }) | Err(_) => {}
        }
    }

    fn request(&mut self, id: Id, method: &str, params: Option<&RawValue>) -> AgentEvent {
        match method {
            "session/request_permission" => {
                let body = self.permission(&fields(params));
                AgentEvent::Question { request: id, kind: QuestionKind::Permission, body }
            }
            "elicitation/create" => {
                let params = fields(params);
                let mut body = params.clone();
                self.keep_subagent_id(&mut body, &params);
                AgentEvent::Question { request: id, kind: QuestionKind::Elicitation, body: body.json() }
            }
            _ => AgentEvent::Relay {
                request: Some(id),
                method: method.to_owned(),
                params: fields(params).json(),
            },
        }
    }

    /// Keeps `sessionId` in a question only if it names a sub-agent's session.
    fn keep_subagent_id(&self, body: &mut Fields, params: &Fields) {
        body.take("sessionId");
        if let Some(child) = params.text("sessionId").filter(|session| self.subagents.contains_key(session)) {
            body.set("sessionId", Json::of(&child));
        }
    }

    fn permission(&mut self, params: &Fields) -> Json {
        let mut body = match self.version {
            Version::V1 => v1::permission::from_v1(params.clone(), "Permission needed").fields(),
            Version::V2 => params.clone(),
        };
        self.keep_subagent_id(&mut body, params);
        let mut subject = body.get("subject").map(Json::fields).unwrap_or_default();
        if let Some(call) = subject.get("toolCall").map(Json::fields) {
            let call = self.with_public_references(UpdateKind::ToolCallUpdate, call);
            subject.set("toolCall", self.with_public_ids(&call));
            body.set("subject", subject.json());
        } else if subject.get("terminalId").is_some() {
            body.set("subject", self.with_public_ids(&subject));
        }
        body.json()
    }

    fn notification(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        at: Millis,
        events: &mut Vec<AgentEvent>,
    ) {
        match method {
            "session/update" => {
                let mut params = fields(params);
                let update = params.take("update").map(|update| update.fields()).unwrap_or_default();
                let speaker = params.text("sessionId").filter(|session| self.subagents.contains_key(session));
                self.note_subagent(&update);
                match speaker {
                    Some(child) => events.push(AgentEvent::Input(self.subagent_input(child, update))),
                    None => events.extend(self.update(update, at).into_iter().map(AgentEvent::Input)),
                }
            }
            "$/cancel_request" => {
                let params = fields(params);
                let request = params.get("requestId").and_then(|id| Id::read(id.raw()));
                events.extend(request.map(|request| AgentEvent::Withdrawn { request }));
            }
            _ => events.push(AgentEvent::Relay {
                request: None,
                method: method.to_owned(),
                params: fields(params).json(),
            }),
        }
    }

    fn update(&mut self, mut update: Fields, at: Millis) -> Vec<Input> {
        let is_info = update.text("sessionUpdate").as_deref() == Some("session_info_update");
        if is_info && !self.remove_transcript_title(&mut update) {
            return Vec::new();
        }
        match self.version {
            Version::V1 => self.update_v1(update),
            Version::V2 => self.update_v2(update, at),
        }
    }

    fn update_v1(&mut self, mut update: Fields) -> Vec<Input> {
        let tag = update.text("sessionUpdate").unwrap_or_default();
        let body = match tag.as_str() {
            "user_message_chunk" if self.is_prompt_echo(&update) => return Vec::new(),
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                let id = self.message_id(UpdateKind::of_tag(&tag), update.text("messageId").as_deref());
                update.set("messageId", Json::of(&id));
                return vec![self.input(Update::of(&update))];
            }
            "plan" => v1::plan::from_v1(update, ONLY_PLAN).fields(),
            "current_mode_update" => return self.mode_changed(&update),
            "config_option_update" => {
                self.replace_config_options(update.get("configOptions"));
                return vec![Input::Updated { update: self.options_update(), known: true }];
            }
            other => v1::to_canonical_simple(other, update).fields(),
        };
        vec![self.public_input(&body)]
    }

    fn update_v2(&mut self, update: Fields, at: Millis) -> Vec<Input> {
        let tag = update.text("sessionUpdate").unwrap_or_default();
        match tag.as_str() {
            "state_update" => {
                self.confirm_version_2();
                vec![state(&self.with_background(update), at)]
            }
            "config_option_update" => {
                self.replace_config_options(update.get("configOptions"));
                vec![self.input(Update::of(&update))]
            }
            "user_message" | "user_message_chunk" => {
                let update = self.with_message_id(&tag, update);
                self.user_message(update)
            }
            "agent_message" | "agent_message_chunk" | "agent_thought" | "agent_thought_chunk" => {
                let update = self.with_message_id(&tag, update);
                vec![self.public_input(&update)]
            }
            _ => vec![self.public_input(&update)],
        }
    }

    /// Gives a message without an id a new one: v2 requires an id for every message.
    fn with_message_id(&mut self, tag: &str, mut update: Fields) -> Fields {
        let kind = UpdateKind::of_tag(tag);
        let native = update.text("messageId");
        if native.is_some() || kind.meaning().form != UpdateForm::Chunk {
            self.open_message = None;
        }
        if native.is_none() {
            let id = self.message_id(kind, None);
            update.set("messageId", Json::of(&id));
        }
        update
    }

    /// Drops the agent's echo of a prompt, which is in the journal already. An echo may arrive before the
    /// acknowledgement that contains its id, so user messages wait until then.
    fn user_message(&mut self, update: Fields) -> Vec<Input> {
        let native = update.text("messageId").unwrap_or_default();
        if self.echoed_ids.contains(&native) {
            return Vec::new();
        }
        if self.unacknowledged > 0 {
            self.possible_echoes.push(Update::of(&update));
            return Vec::new();
        }
        vec![self.public_input(&update)]
    }

    /// Records that a prompt was sent to the agent.
    pub fn prompt_sent(&mut self, content: &Json) {
        self.expect_echo_of(content);
        match self.version {
            Version::V1 => {}
            Version::V2 => self.unacknowledged += 1,
        }
    }

    /// Handles the acknowledgement or refusal of a prompt; `native` is the agent's id for it. Returns the user messages
    /// that turned out not to be echoes.
    pub fn prompt_acknowledged(&mut self, native: Option<String>) -> Vec<Input> {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
        self.echoed_ids.extend(native);
        if self.unacknowledged > 0 {
            self.possible_echoes.retain(|update| !self.echoed_ids.contains(&update.id));
            return Vec::new();
        }
        let early = std::mem::take(&mut self.possible_echoes);
        let others: Vec<_> =
            early.into_iter().filter(|update| !self.echoed_ids.contains(&update.id)).collect();
        others.iter().map(|update| self.public_input(&update.body.fields())).collect()
    }

    fn mode_changed(&mut self, update: &Fields) -> Vec<Input> {
        let (Some(mode), Some(option)) = (update.get("currentModeId"), self.options.by_category("mode"))
        else {
            // No option of category `mode` was offered: the update is passed on unchanged.
            return vec![self.input(Update::of(update))];
        };
        self.options = self.options.with_value(&option, mode);
        if self.option_report == OptionReport::Missing {
            // The agent has reported no other options: the earlier ones stay, and the mode is set with
            // `session/set_mode`.
            self.option_report = OptionReport::Received;
            self.sources.add(option, Source::Mode);
        }
        vec![Input::Updated { update: self.options_update(), known: true }]
    }

    /// Returns the message id for a chunk: the agent's id, or a generated one when a new message begins.
    fn message_id(&mut self, kind: UpdateKind, native: Option<&str>) -> String {
        if let Some(native) = native {
            self.open_message = None;
            return self.public_id(native);
        }
        match &self.open_message {
            Some((spoken, id)) if *spoken == kind => id.clone(),
            Some(_) | None => {
                let id = ids::message_id().0;
                self.open_message = Some((kind, id.clone()));
                id
            }
        }
    }

    /// Makes an input of an update, with public ids.
    fn public_input(&mut self, body: &Fields) -> Input {
        let mut update = Update::of(body);
        if update.kind.subject() == Subject::ToolCall {
            self.open_message = None;
        }
        // The ids of the first generation are never changed.
        if !self.earlier_ids.is_empty() && !update.id.is_empty() {
            update.id = self.public_id(&update.id);
            let mut body = self.with_public_references(update.kind, body.clone());
            update.kind.meaning().id.set(&mut body, &update.id);
            update.body = body.json();
        }
        self.input(update)
    }
}

fn state(update: &Fields, at: Millis) -> Input {
    let activity = match update.text("state").as_deref() {
        Some("running") => Activity::Running,
        Some("requires_action") => Activity::RequiresAction,
        Some("idle") => Activity::Idle,
        Some(_) | None => Activity::Other,
    };
    let stop = update.text("stopReason").map(|reason| Stop { reason, error: update.get("error").cloned() });
    Input::AgentState { activity, stop, state: update.json(), at }
}

pub(super) fn fields(params: Option<&RawValue>) -> Fields {
    params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

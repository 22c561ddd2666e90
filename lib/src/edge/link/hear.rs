//! What an agent says, heard: lines become inputs, questions and relays.

use rethread_core::{
    Activity, Fields, Input, Json, Millis, QuestionKind, Stop, Subject, Update, UpdateForm, UpdateKind,
};
use serde_json::value::RawValue;

use super::run::{Run, TextLine};
use super::{Heard, Link, Offered};
use crate::edge::v1::options::Source;
use crate::edge::{Version, v1};
use crate::ids;
use crate::wire::{Id, Message, parse};

/// The plan of an agent that has only one.
pub(super) const ONLY_PLAN: &str = "plan";

impl Link {
    /// Hears several lines. Adjacent plain text of one message comes out as one chunk.
    pub fn hear<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>, at: Millis) -> Vec<Heard> {
        let mut heard = Vec::new();
        let mut run: Option<Run> = None;
        for line in lines {
            if let Some(text) = TextLine::read(line)
                && let Some(kind) = text.kind()
                && !self.children.contains_key(text.session())
            {
                match &mut run {
                    Some(run) if run.takes(kind, text.message()) => run.add(text.text()),
                    other => {
                        heard.extend(other.take().map(Run::finish));
                        *other = Some(self.start_run(kind, &text));
                    }
                }
                continue;
            }
            heard.extend(run.take().map(Run::finish));
            self.hear_line(line, at, &mut heard);
        }
        heard.extend(run.map(Run::finish));
        heard
    }

    fn start_run(&mut self, kind: UpdateKind, text: &TextLine<'_>) -> Run {
        let id = self.message_id(kind, text.message());
        let known = self.said.note(kind, &id);
        Run::start(kind, text.message(), &id, known, text.text())
    }

    fn hear_line(&mut self, line: &[u8], at: Millis, heard: &mut Vec<Heard>) {
        match parse(line) {
            Ok(Message::Request { id, method, params }) => heard.push(self.request(id, &method, params)),
            Ok(Message::Notification { method, params }) => self.notification(&method, params, at, heard),
            // Answers are matched by number before they come here, and noise was logged.
            Ok(Message::Response { .. }) | Err(_) => {}
        }
    }

    fn request(&mut self, id: Id, method: &str, params: Option<&RawValue>) -> Heard {
        match method {
            "session/request_permission" => {
                let body = self.permission(&fields(params));
                Heard::Question { request: id, kind: QuestionKind::Permission, body }
            }
            "elicitation/create" => {
                let params = fields(params);
                let mut body = params.clone();
                self.keep_child(&mut body, &params);
                Heard::Question { request: id, kind: QuestionKind::Elicitation, body: body.json() }
            }
            _ => Heard::Relay { request: Some(id), method: method.to_owned(), params: fields(params).json() },
        }
    }

    /// A question names a session only if it is not the one that is asked.
    fn keep_child(&self, body: &mut Fields, params: &Fields) {
        body.take("sessionId");
        if let Some(child) = params.text("sessionId").filter(|session| self.children.contains_key(session)) {
            body.set("sessionId", Json::of(&child));
        }
    }

    fn permission(&mut self, params: &Fields) -> Json {
        let mut body = match self.version {
            Version::V1 => v1::permission::from_v1(params.clone(), "Permission needed").fields(),
            Version::V2 => params.clone(),
        };
        self.keep_child(&mut body, params);
        let mut subject = body.get("subject").map(Json::fields).unwrap_or_default();
        if let Some(call) = subject.get("toolCall").map(Json::fields) {
            let call = self.referring(UpdateKind::ToolCallUpdate, call);
            subject.set("toolCall", self.named_here(&call));
            body.set("subject", subject.json());
        } else if subject.get("terminalId").is_some() {
            body.set("subject", self.named_here(&subject));
        }
        body.json()
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>, at: Millis, heard: &mut Vec<Heard>) {
        match method {
            "session/update" => {
                let mut params = fields(params);
                let update = params.take("update").map(|update| update.fields()).unwrap_or_default();
                let speaker = params.text("sessionId").filter(|session| self.children.contains_key(session));
                self.note_child(&update);
                match speaker {
                    Some(child) => heard.push(Heard::Input(self.of_child(child, update))),
                    None => heard.extend(self.update(update, at).into_iter().map(Heard::Input)),
                }
            }
            "$/cancel_request" => {
                let params = fields(params);
                let request = params.get("requestId").and_then(|id| Id::read(id.raw()));
                heard.extend(request.map(|request| Heard::Withdrawn { request }));
            }
            _ => heard.push(Heard::Relay {
                request: None,
                method: method.to_owned(),
                params: fields(params).json(),
            }),
        }
    }

    fn update(&mut self, mut update: Fields, at: Millis) -> Vec<Input> {
        let is_info = update.text("sessionUpdate").as_deref() == Some("session_info_update");
        if is_info && !self.without_heading(&mut update) {
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
            "user_message_chunk" if self.repeats_prompt(&update) => return Vec::new(),
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                let id = self.message_id(UpdateKind::of_tag(&tag), update.text("messageId").as_deref());
                update.set("messageId", Json::of(&id));
                return vec![self.heard(Update::of(&update))];
            }
            "plan" => v1::plan::from_v1(update, ONLY_PLAN).fields(),
            "current_mode_update" => return self.mode_changed(&update),
            "config_option_update" => {
                self.take_config(update.get("configOptions"));
                return vec![Input::Updated { update: self.options_update(), known: true }];
            }
            other => v1::to_canonical_simple(other, update).fields(),
        };
        vec![self.named(&body)]
    }

    fn update_v2(&mut self, update: Fields, at: Millis) -> Vec<Input> {
        let tag = update.text("sessionUpdate").unwrap_or_default();
        match tag.as_str() {
            "state_update" => {
                self.shows_version_2();
                vec![state(&self.with_background(update), at)]
            }
            "config_option_update" => {
                self.take_config(update.get("configOptions"));
                vec![self.heard(Update::of(&update))]
            }
            "user_message" | "user_message_chunk" => {
                let update = self.with_message_id(&tag, update);
                self.user_message(update)
            }
            "agent_message" | "agent_message_chunk" | "agent_thought" | "agent_thought_chunk" => {
                let update = self.with_message_id(&tag, update);
                vec![self.named(&update)]
            }
            _ => vec![self.named(&update)],
        }
    }

    /// Version 2 wants an id for every message; one that came without is given one, as in version 1.
    fn with_message_id(&mut self, tag: &str, mut update: Fields) -> Fields {
        let kind = UpdateKind::of_tag(tag);
        let native = update.text("messageId");
        if native.is_some() || kind.meaning().form != UpdateForm::Chunk {
            self.speaking = None;
        }
        if native.is_none() {
            let id = self.message_id(kind, None);
            update.set("messageId", Json::of(&id));
        }
        update
    }

    /// What an agent echoes of a prompt is ours already. An echo may come before the acknowledgement that
    /// tells its id, so what could be one waits for that.
    fn user_message(&mut self, update: Fields) -> Vec<Input> {
        let native = update.text("messageId").unwrap_or_default();
        if self.echoes.contains(&native) {
            return Vec::new();
        }
        if self.unacknowledged > 0 {
            self.early.push(Update::of(&update));
            return Vec::new();
        }
        vec![self.named(&update)]
    }

    /// A prompt was written to the agent.
    pub fn prompt_sent(&mut self, content: &Json) {
        self.may_repeat(content);
        match self.version {
            Version::V1 => {}
            Version::V2 => self.unacknowledged += 1,
        }
    }

    /// The agent acknowledged a prompt under its own id, or refused it.
    pub fn prompt_acknowledged(&mut self, native: Option<String>) -> Vec<Input> {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
        self.echoes.extend(native);
        if self.unacknowledged > 0 {
            self.early.retain(|update| !self.echoes.contains(&update.id));
            return Vec::new();
        }
        let early = std::mem::take(&mut self.early);
        let others: Vec<_> = early.into_iter().filter(|update| !self.echoes.contains(&update.id)).collect();
        others.iter().map(|update| self.named(&update.body.fields())).collect()
    }

    fn mode_changed(&mut self, update: &Fields) -> Vec<Input> {
        let (Some(mode), Some(option)) = (update.get("currentModeId"), self.options.by_category("mode"))
        else {
            // A mode where none was offered: kept as it is, for whoever knows it.
            return vec![self.heard(Update::of(update))];
        };
        self.options = self.options.with_value(&option, mode);
        if self.offered == Offered::Untold {
            // It says nothing else of its options: they are what they were, and the mode is set as it is told.
            self.offered = Offered::Told;
            self.sources.add(option, Source::Mode);
        }
        vec![Input::Updated { update: self.options_update(), known: true }]
    }

    /// The id of the message that a chunk belongs to: the agent's, or one minted when a new message begins.
    fn message_id(&mut self, kind: UpdateKind, native: Option<&str>) -> String {
        if let Some(native) = native {
            self.speaking = None;
            return self.public_id(native);
        }
        match &self.speaking {
            Some((spoken, id)) if *spoken == kind => id.clone(),
            Some(_) | None => {
                let id = ids::message_id().0;
                self.speaking = Some((kind, id.clone()));
                id
            }
        }
    }

    /// An update as an input, with the ids that clients know.
    fn named(&mut self, body: &Fields) -> Input {
        let mut update = Update::of(body);
        if update.kind.subject() == Subject::ToolCall {
            self.speaking = None;
        }
        // Nothing of the first generation is named anew.
        if !self.older.is_empty() && !update.id.is_empty() {
            update.id = self.public_id(&update.id);
            let mut body = self.referring(update.kind, body.clone());
            update.kind.meaning().id.set(&mut body, &update.id);
            update.body = body.json();
        }
        self.heard(update)
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

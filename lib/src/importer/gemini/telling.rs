//! The second reading of a Gemini file: says what its messages and calls mean, as updates, models and tokens.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rethread_core::{Millis, Stop, Update};
use serde_json::Value;

use super::conversation::{GeminiConversation, ReadFor};
use super::fold::{self, GeminiKey, GeminiPieceKind};
use crate::clock;
use crate::importer::genai::{self, ResponseKind, display, tools};
use crate::importer::reader::ReadError;
use crate::importer::sink::{Sink, SinkClosed, UsedTokens};
use crate::importer::updates::{self, ToolStatus};
use crate::importer::{files, updates::RecordedCall};

/// The error code of a turn that failed because of the model.
const MODEL_FAILED: i64 = -32603;

/// How many sub-agents may start one another.
const MAX_DEPTH: usize = 8;

/// Tells a conversation, and those of its sub-agents.
pub(in crate::importer) struct GeminiTelling<'a> {
    sink: &'a mut Sink,
    path: &'a Path,
    /// The files of sub-agents that are not told yet.
    subagents: Vec<PathBuf>,
    /// The sub-agents that speak, from the outside to the inside.
    speakers: Vec<String>,
    told: HashSet<GeminiKey>,
    turn: GeminiTurn,
}

/// How far the turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GeminiTurn {
    Over,
    Asked,
    Answered,
}

impl<'a> GeminiTelling<'a> {
    pub(in crate::importer) fn new(sink: &'a mut Sink, path: &'a Path, subagents: Vec<PathBuf>) -> Self {
        let (speakers, told) = (Vec::new(), HashSet::new());
        Self { sink, path, subagents, speakers, told, turn: GeminiTurn::Over }
    }

    /// Tells all of it.
    pub(in crate::importer) fn all(mut self, conversation: &mut GeminiConversation) -> Result<(), ReadError> {
        self.pieces(conversation)?;
        // Nothing says where these began.
        while let Some(path) = self.subagents.pop() {
            self.subagent(&path)?;
        }
        if self.turn == GeminiTurn::Asked {
            self.sink.unfinished()?;
        }
        Ok(())
    }

    fn pieces(&mut self, conversation: &mut GeminiConversation) -> Result<(), ReadError> {
        for place in 0..conversation.fold.pieces.len() {
            match conversation.fold.pieces[place].what {
                GeminiPieceKind::Message(place) => {
                    let message = conversation.message(place, ReadFor::Message);
                    if let Some(message) = message.map_err(ReadError::io(self.path))?.cloned() {
                        self.message(&message, conversation)?;
                    }
                }
                GeminiPieceKind::Call(key) => self.recorded_call(key, conversation)?,
            }
        }
        Ok(())
    }

    fn message(&mut self, message: &Value, conversation: &mut GeminiConversation) -> Result<(), ReadError> {
        let id = message["id"].as_str().unwrap_or_default();
        let at = time(message);
        match message["type"].as_str().unwrap_or_default() {
            "user" => self.user(id, message, at)?,
            "gemini" | "qwen" | "model" => self.model(id, message, at, conversation)?,
            "error" => {
                let words = words(&message["content"]);
                self.end(Stop::failed(MODEL_FAILED, &words), at)?;
            }
            "info" if words(&message["content"]).starts_with("Request cancelled") => {
                self.end(Stop::plain("cancelled"), at)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn user(&mut self, id: &str, message: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        for part in genai::parts(&message["content"]) {
            if part["functionResponse"].is_object() {
                self.response(&part["functionResponse"], at)?;
            }
        }
        let content = Some(&message["displayContent"]).filter(|content| !content.is_null());
        let blocks = genai::typed(content.unwrap_or(&message["content"]));
        let words = blocks.first().and_then(|block| block["text"].as_str()).unwrap_or_default();
        if words.trim_start().starts_with("<state_snapshot>") {
            self.turn = GeminiTurn::Over;
            return self.update(updates::compaction(id, words), at);
        }
        if blocks.is_empty() {
            return Ok(());
        }
        if self.turn == GeminiTurn::Asked {
            self.end(Stop::plain("cancelled"), None)?;
        }
        // Commands of the tool itself have no answer.
        let is_command = words.starts_with('/') && blocks.len() == 1;
        self.turn = if is_command { GeminiTurn::Answered } else { GeminiTurn::Asked };
        self.update(updates::user_message(id, &blocks), at)
    }

    fn model(
        &mut self,
        id: &str,
        message: &Value,
        at: Option<Millis>,
        conversation: &mut GeminiConversation,
    ) -> Result<(), ReadError> {
        self.used(message)?;
        for (number, thought) in message["thoughts"].as_array().into_iter().flatten().enumerate() {
            let part = |name: &str| thought[name].as_str().unwrap_or_default().trim();
            let words = match part("subject") {
                "" => part("description").to_owned(),
                subject => format!("**{subject}**\n{}", part("description")),
            };
            if !words.is_empty() {
                self.update(updates::thought(&format!("{id}-{number}"), words.trim()), time(thought).or(at))?;
            }
        }
        let parts = genai::parts(&message["content"]);
        let is_words = |part: &&Value| part["thought"] != true && !part["functionCall"].is_object();
        let mut blocks: Vec<Value> = parts.iter().filter(is_words).filter_map(genai::block).collect();
        trim_end(&mut blocks);
        let is_acknowledgement = blocks.len() == 1
            && blocks[0]["text"].as_str().is_some_and(|words| words.starts_with("Got it. Thanks for the"));
        let is_silent = blocks.is_empty() || is_acknowledgement && self.turn == GeminiTurn::Over;
        if !is_silent {
            self.turn = GeminiTurn::Answered;
            self.update(updates::agent_message(id, &blocks), at)?;
        }
        for call in parts.iter().map(|part| &part["functionCall"]).filter(|call| call.is_object()) {
            self.asked_call(call, at, conversation)?;
        }
        Ok(())
    }

    /// A call as the model asked for it. If it was recorded with its result, that is told.
    fn asked_call(
        &mut self,
        call: &Value,
        at: Option<Millis>,
        conversation: &mut GeminiConversation,
    ) -> Result<(), ReadError> {
        let Some(id) = call["id"].as_str() else { return Ok(()) };
        let key = fold::key(id);
        if conversation.fold.calls.contains_key(&key) {
            return self.recorded_call(key, conversation);
        }
        self.turn = GeminiTurn::Asked;
        let begun = tools::begun(id, call["name"].as_str().unwrap_or("tool"), &call["args"], None);
        Ok(self.update(begun.status(ToolStatus::InProgress).update(), at)?)
    }

    /// What the model was told of a call that was not recorded otherwise.
    fn response(&mut self, response: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let Some(id) = response["id"].as_str().filter(|id| !self.told.contains(&fold::key(id))) else {
            return Ok(());
        };
        let (content, kind) = genai::response(&response["response"]);
        let status = match kind {
            ResponseKind::Result => ToolStatus::Completed,
            ResponseKind::Failure => ToolStatus::Failed,
        };
        let call = RecordedCall::new(id).status(status).output(response["response"].clone().into());
        let call = if content.is_empty() { call } else { call.content(&content) };
        self.update(call.update(), at)
    }

    fn recorded_call(
        &mut self,
        key: GeminiKey,
        conversation: &mut GeminiConversation,
    ) -> Result<(), ReadError> {
        let Some(place) = conversation.fold.calls.get(&key).copied() else { return Ok(()) };
        if !self.told.insert(key) {
            return Ok(());
        }
        let message = conversation.message(place, ReadFor::Call).map_err(ReadError::io(self.path))?;
        let calls = message.and_then(|message| message["toolCalls"].as_array());
        let is_wanted = |call: &&Value| call["id"].as_str().is_some_and(|id| fold::key(id) == key);
        let Some(call) = calls.into_iter().flatten().find(is_wanted).cloned() else { return Ok(()) };
        self.turn = GeminiTurn::Asked;
        self.call(&call)
    }

    fn call(&mut self, call: &Value) -> Result<(), ReadError> {
        let text = |name: &str| call[name].as_str().unwrap_or_default();
        let (id, name, at) = (text("id"), text("name"), time(call));
        if let Some(entries) = tools::plan_of(name, &call["args"]) {
            return Ok(self.update(updates::plan("todos", &entries), at)?);
        }
        let begun = tools::begun(id, name, &call["args"], call["description"].as_str());
        let agent = call["agentId"].as_str().filter(|agent| !agent.is_empty());
        let file = agent.and_then(|agent| self.subagents.iter().position(|path| files::stem(path) == agent));
        let begun = match file {
            Some(file) => {
                self.update(begun.clone().status(ToolStatus::InProgress).update(), at)?;
                let path = self.subagents.remove(file);
                self.subagent(&path)?;
                RecordedCall::new(id)
            }
            None => begun,
        };
        Ok(self.update(finished(begun, call).update(), at)?)
    }

    /// Tells what a sub-agent said and did.
    fn subagent(&mut self, path: &Path) -> Result<(), ReadError> {
        if self.speakers.len() >= MAX_DEPTH {
            return Ok(());
        }
        let mut conversation = match GeminiConversation::read(path, self.sink) {
            Ok(conversation) => conversation,
            Err(error) => {
                self.sink.damaged(path, 1, error.to_string());
                return Ok(());
            }
        };
        let id = conversation.fold.session.clone().unwrap_or_else(|| files::stem(path).to_owned());
        let at = conversation.fold.started;
        let title = conversation.fold.summary.clone().unwrap_or_else(|| "Sub-agent".to_owned());
        self.sink.update(updates::subagent(&id, &title, "running"), at)?;
        let turn = self.turn;
        self.speakers.push(id.clone());
        self.pieces(&mut conversation)?;
        self.speakers.pop();
        self.turn = turn;
        Ok(self.sink.update(updates::subagent(&id, &title, "idle"), conversation.fold.updated)?)
    }

    fn used(&mut self, message: &Value) -> Result<(), SinkClosed> {
        if !self.speakers.is_empty() {
            return Ok(());
        }
        if let Some(model) = message["model"].as_str().filter(|model| !model.is_empty()) {
            self.sink.model(model)?;
        }
        let count = |name: &str| message["tokens"][name].as_u64().unwrap_or(0);
        let tokens = UsedTokens {
            input: count("input").saturating_sub(count("cached")).saturating_add(count("tool")),
            output: count("output").saturating_add(count("thoughts")),
            cached_read: count("cached"),
            cached_write: 0,
        };
        if tokens == UsedTokens::default() { Ok(()) } else { self.sink.tokens(tokens) }
    }

    fn end(&mut self, stop: Stop, at: Option<Millis>) -> Result<(), SinkClosed> {
        if !self.speakers.is_empty() {
            return Ok(());
        }
        self.turn = GeminiTurn::Over;
        self.sink.end_turn(stop, at)
    }

    fn update(&mut self, update: Update, at: Option<Millis>) -> Result<(), SinkClosed> {
        let update = match self.speakers.last() {
            Some(speaker) => updates::of_subagent(speaker, update),
            None => update,
        };
        self.sink.update(update, at)
    }
}

/// A call with its result.
fn finished(begun: RecordedCall, call: &Value) -> RecordedCall {
    let status = match call["status"].as_str().unwrap_or_default() {
        "success" => ToolStatus::Completed,
        "error" | "cancelled" => ToolStatus::Failed,
        _ => ToolStatus::InProgress,
    };
    let responses = genai::parts(&call["result"]);
    let response =
        responses.iter().map(|part| &part["functionResponse"]["response"]).find(|part| part.is_object());
    let mut content = display::content(&call["resultDisplay"]);
    if content.is_empty() {
        content = response.map(|response| genai::response(response).0).unwrap_or_default();
    }
    content.extend(
        responses
            .iter()
            .filter(|part| part["inlineData"].is_object())
            .filter_map(genai::block)
            .map(|block| updates::shown(&block)),
    );
    let call = begun.status(status);
    let call = match response {
        Some(response) => call.output(response.clone().into()),
        None => call,
    };
    if content.is_empty() { call } else { call.content(&content) }
}

fn time(record: &Value) -> Option<Millis> {
    record["timestamp"].as_str().and_then(clock::from_rfc3339)
}

fn words(content: &Value) -> String {
    genai::parts(content).iter().filter_map(|part| part["text"].as_str()).collect()
}

/// Takes the spaces off the end of an answer: the same message has them or not, depending on when it was written.
fn trim_end(blocks: &mut Vec<Value>) {
    if let Some(words) = blocks.last().and_then(|block| block["text"].as_str()) {
        let words = words.trim_end().to_owned();
        blocks.pop();
        if !words.is_empty() {
            blocks.push(updates::text(&words));
        }
    }
}

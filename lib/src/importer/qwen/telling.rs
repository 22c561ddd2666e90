//! The second reading of a Qwen file: says what its records mean, as updates, ends of turns, models and tokens.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use rethread_core::{Millis, Stop, Update};
use serde_json::Value;

use super::index;
use super::subagents::QwenAgentMeta;
use crate::clock;
use crate::importer::files;
use crate::importer::genai::{self, ResponseKind, display, tools};
use crate::importer::lines::{LinePlace, SourceLine, SourceLines};
use crate::importer::reader::ReadError;
use crate::importer::sink::{Sink, SinkClosed, UsedTokens};
use crate::importer::updates::{self, RecordedCall, ToolStatus};

/// The error code of a turn that failed.
const TURN_FAILED: i64 = -32603;

/// How many sub-agents may start one another.
const MAX_DEPTH: usize = 8;

/// Tells a conversation, and those of its sub-agents.
pub(super) struct QwenTelling<'a> {
    sink: &'a mut Sink,
    /// The sub-agents that are not told yet, by the calls that started them.
    subagents: HashMap<String, (PathBuf, QwenAgentMeta)>,
    /// The sub-agents that speak, from the outside to the inside.
    speakers: Vec<String>,
    plans: HashSet<String>,
    turn: QwenTurn,
    /// Whether answers of this session say what they cost.
    usage: UsageNotes,
}

/// How far the turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QwenTurn {
    Over,
    /// The agent is to say or do something.
    Asked,
    /// It has said something.
    Answered,
    /// It was broken off in the middle of saying something.
    BrokenOff,
}

/// Whether answers have notes of what they cost: then one without was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageNotes {
    None,
    Some,
}

impl<'a> QwenTelling<'a> {
    pub(super) fn new(sink: &'a mut Sink, subagents: HashMap<String, (PathBuf, QwenAgentMeta)>) -> Self {
        let (speakers, plans) = (Vec::new(), HashSet::new());
        Self { sink, subagents, speakers, plans, turn: QwenTurn::Over, usage: UsageNotes::None }
    }

    /// Tells the records at these places, and what is left of the sub-agents.
    pub(super) fn all(
        mut self,
        path: &Path,
        lines: &mut SourceLines<File>,
        places: &[LinePlace],
    ) -> Result<(), ReadError> {
        self.records(path, lines, places)?;
        // Nothing says where these began.
        let mut left: Vec<String> = self.subagents.keys().cloned().collect();
        left.sort();
        for call in left {
            self.subagent(&call)?;
        }
        match self.turn {
            QwenTurn::Asked => self.sink.unfinished()?,
            QwenTurn::BrokenOff => self.sink.end_turn(Stop::plain("cancelled"), None)?,
            QwenTurn::Over | QwenTurn::Answered => {}
        }
        Ok(())
    }

    fn records(
        &mut self,
        path: &Path,
        lines: &mut SourceLines<File>,
        places: &[LinePlace],
    ) -> Result<(), ReadError> {
        for place in places {
            lines.go_to(*place).map_err(ReadError::io(path))?;
            let record: Option<Value> = match lines.next_line().map_err(ReadError::io(path))? {
                Some((_, SourceLine::Text(text, _))) => serde_json::from_str(text).ok(),
                Some((_, SourceLine::Damaged(_))) | None => None,
            };
            if let Some(record) = record {
                self.record(&record)?;
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &Value) -> Result<(), ReadError> {
        let id = record["uuid"].as_str().unwrap_or_default();
        let at = record["timestamp"].as_str().and_then(clock::from_rfc3339);
        match record["type"].as_str().unwrap_or_default() {
            "user" => self.user(id, record, at)?,
            "assistant" => self.assistant(id, record, at)?,
            "tool_result" => self.result(record, at)?,
            "system" => self.system(id, record, at)?,
            _ => {}
        }
        Ok(())
    }

    fn user(&mut self, id: &str, record: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let is_of_tool = matches!(record["subtype"].as_str(), Some("notification" | "goal_runtime"))
            || matches!(record["provenance"].as_str(), Some("goal_control" | "goal_runtime" | "system"));
        if is_of_tool {
            return Ok(());
        }
        let mut blocks = genai::typed(&record["message"]["parts"]);
        if let Some(shown) = record["systemPayload"]["displayText"].as_str() {
            // What the model was told besides is no word of the user.
            blocks.retain(|block| block["type"] != "text");
            blocks.insert(0, updates::text(shown));
        }
        self.says(id, &blocks, at)
    }

    fn says(&mut self, id: &str, blocks: &[Value], at: Option<Millis>) -> Result<(), SinkClosed> {
        if blocks.is_empty() {
            return Ok(());
        }
        if self.speakers.is_empty() && matches!(self.turn, QwenTurn::BrokenOff | QwenTurn::Asked) {
            self.sink.end_turn(Stop::plain("cancelled"), None)?;
        }
        self.turn = QwenTurn::Asked;
        self.update(updates::user_message(id, blocks), at)
    }

    fn assistant(&mut self, id: &str, record: &Value, at: Option<Millis>) -> Result<(), ReadError> {
        self.used(record)?;
        for part in genai::parts(&record["message"]["parts"]) {
            let words = part["text"].as_str().unwrap_or_default();
            if part["functionCall"].is_object() {
                self.call(&part["functionCall"], at)?;
            } else if part["thought"] == true && !words.is_empty() {
                self.update(updates::thought_chunk(id, words), at)?;
            } else if part["thought"] != true
                && let Some(block) = genai::block(&part).filter(|block| block["text"] != "")
            {
                self.turn = self.answered(record);
                self.update(updates::agent_message_chunk(id, &block), at)?;
            }
        }
        Ok(())
    }

    fn answered(&self, record: &Value) -> QwenTurn {
        let has_usage = record["usageMetadata"].is_object();
        if self.usage == UsageNotes::Some && !has_usage { QwenTurn::BrokenOff } else { QwenTurn::Answered }
    }

    fn call(&mut self, call: &Value, at: Option<Millis>) -> Result<(), ReadError> {
        let (name, input) = (call["name"].as_str().unwrap_or("tool"), &call["args"]);
        let Some(id) = call["id"].as_str() else { return Ok(()) };
        if let Some(entries) = tools::plan_of(name, input) {
            self.plans.insert(id.to_owned());
            return Ok(self.update(updates::plan("todos", &entries), at)?);
        }
        self.turn = QwenTurn::Asked;
        let begun = tools::begun(id, name, input, None);
        self.update(begun.status(ToolStatus::InProgress).update(), at)?;
        self.subagent(id)
    }

    fn result(&mut self, record: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let outcome = &record["toolCallResult"];
        for part in genai::parts(&record["message"]["parts"]) {
            let response = &part["functionResponse"];
            let id = response["id"].as_str().or_else(|| outcome["callId"].as_str());
            let Some(id) = id.filter(|id| response.is_object() && !self.plans.contains(*id)) else {
                continue;
            };
            let (said, kind) = genai::response(&response["response"]);
            let status = match (outcome["status"].as_str(), kind) {
                (Some("error" | "cancelled"), _) | (_, ResponseKind::Failure) => ToolStatus::Failed,
                (_, ResponseKind::Result) => ToolStatus::Completed,
            };
            let shows = display::content(&outcome["resultDisplay"]);
            let content = if shows.is_empty() { said } else { shows };
            let call = RecordedCall::new(id).status(status).output(response["response"].clone().into());
            let call = if content.is_empty() { call } else { call.content(&content) };
            self.turn = QwenTurn::Asked;
            self.update(call.update(), at)?;
        }
        Ok(())
    }

    fn system(&mut self, id: &str, record: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let payload = &record["systemPayload"];
        match record["subtype"].as_str().unwrap_or_default() {
            "chat_compression" => {
                let parts = genai::parts(&payload["compressedHistory"][0]["parts"]);
                let words: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
                self.update(updates::compaction(id, &words), at)
            }
            "slash_command" => self.command(id, payload, at),
            "agent_launch_prompt" => {
                let words = payload["displayText"].as_str().unwrap_or_default();
                self.update(updates::user_message(id, &[updates::text(words)]), at)
            }
            "session_model" => match payload["modelId"].as_str().filter(|_| self.speakers.is_empty()) {
                Some(model) => self.sink.model(model),
                None => Ok(()),
            },
            "turn_result" if self.speakers.is_empty() => self.ended(payload, at),
            _ => Ok(()),
        }
    }

    /// A command of the tool itself. One that is sent to the model is there as a message too.
    fn command(&mut self, id: &str, payload: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        if payload["phase"] == "invocation" {
            let is_shown = payload["sentToModel"] != true && payload["hiddenInvocation"] != true;
            let command = payload["rawCommand"].as_str().filter(|_| is_shown);
            let blocks: Vec<Value> = command.map(updates::text).into_iter().collect();
            let turn = self.turn;
            self.says(id, &blocks, at)?;
            self.turn = if blocks.is_empty() { turn } else { QwenTurn::Answered };
            return Ok(());
        }
        let items = payload["outputHistoryItems"].as_array().into_iter().flatten();
        let words: Vec<&str> = items.filter_map(|item| item["text"].as_str()).collect();
        match words.join("\n") {
            words if words.is_empty() => Ok(()),
            words => self.update(updates::agent_message(id, &[updates::text(&words)]), at),
        }
    }

    fn ended(&mut self, payload: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        if self.turn == QwenTurn::Over {
            return Ok(());
        }
        self.turn = QwenTurn::Over;
        let stop = match payload["state"].as_str() {
            Some("cancelled") => Stop::plain("cancelled"),
            Some("error") => {
                Stop::failed(TURN_FAILED, payload["error"]["message"].as_str().unwrap_or_default())
            }
            Some(_) | None => Stop::plain(payload["stopReason"].as_str().unwrap_or("end_turn")),
        };
        self.sink.end_turn(stop, at)
    }

    /// Tells what a sub-agent said and did that a call started.
    fn subagent(&mut self, call: &str) -> Result<(), ReadError> {
        if self.speakers.len() >= MAX_DEPTH {
            return Ok(());
        }
        let Some((path, meta)) = self.subagents.remove(call) else { return Ok(()) };
        let (file, _) = match files::open(&path) {
            Ok(opened) => opened,
            Err(error) => {
                self.sink.damaged(&path, 1, format!("it cannot be read: {error}"));
                return Ok(());
            }
        };
        let mut lines = SourceLines::new(file);
        let index = index::index(&path, &mut lines, self.sink).map_err(ReadError::io(&path))?;
        let (places, _) = index.conversation();
        self.sink.update(updates::subagent(&meta.id, &meta.title, "running"), index.first_at)?;
        let turn = self.turn;
        self.speakers.push(meta.id.clone());
        self.records(&path, &mut lines, &places)?;
        self.speakers.pop();
        self.turn = turn;
        Ok(self.sink.update(updates::subagent(&meta.id, &meta.title, "idle"), index.last_at)?)
    }

    fn used(&mut self, record: &Value) -> Result<(), SinkClosed> {
        if !self.speakers.is_empty() {
            return Ok(());
        }
        if let Some(model) = record["model"].as_str().filter(|model| !model.is_empty()) {
            self.sink.model(model)?;
        }
        let count = |name: &str| record["usageMetadata"][name].as_u64().unwrap_or(0);
        let cached_read = count("cachedContentTokenCount");
        let tokens = UsedTokens {
            input: count("promptTokenCount").saturating_sub(cached_read),
            output: count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount")),
            cached_read,
            cached_write: 0,
        };
        if tokens == UsedTokens::default() {
            return Ok(());
        }
        self.usage = UsageNotes::Some;
        self.sink.tokens(tokens)
    }

    fn update(&mut self, update: Update, at: Option<Millis>) -> Result<(), SinkClosed> {
        let update = match self.speakers.last() {
            Some(speaker) => updates::of_subagent(speaker, update),
            None => update,
        };
        self.sink.update(update, at)
    }
}

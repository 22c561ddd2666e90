//! The second reading of a Claude file: says what each record of the conversation means, as updates, ends of turns,
//! models and tokens.

use std::collections::HashSet;
use std::fs::File;
use std::io;

use rethread_core::{Millis, Stop, Update};
use serde_json::Value;

use super::index::{Index, Node, NodeKind};
use super::prompt::{UserSays, is_human, user_says};
use super::subagents::SessionSubagents;
use super::tools;
use crate::importer::lines::{SourceLine, SourceLines};
use crate::importer::reader::ReadError;
use crate::importer::sink::{Sink, SinkClosed, UsedTokens};
use crate::importer::updates::{self, RecordedCall, ToolStatus};

/// The error code of a turn that failed because of the model.
const MODEL_FAILED: i64 = -32603;

/// Reads the record of a node; nothing if the file has changed meanwhile.
pub(super) fn record(lines: &mut SourceLines<File>, node: &Node) -> io::Result<Option<Value>> {
    lines.go_to(node.place)?;
    Ok(match lines.next_line()? {
        Some((_, SourceLine::Text(text, _))) => serde_json::from_str(text).ok(),
        Some((_, SourceLine::Damaged(_))) | None => None,
    })
}

/// Tells a conversation to a sink.
pub(super) struct Telling<'a> {
    pub(super) sink: &'a mut Sink,
    pub(super) index: &'a Index,
    pub(super) subagents: SessionSubagents,
    /// The sub-agent that speaks; empty if none does.
    pub(super) child: String,
    turn: ToldTurn,
    /// The tokens of the API message whose records are being read.
    tokens: Option<(String, UsedTokens)>,
    /// A compaction whose summary has not come yet, and when it was.
    compaction: Option<(String, Option<Millis>)>,
    /// The calls that are told as plans.
    plans: HashSet<String>,
    /// The calls that show the changes of a file, which say more than their results.
    changes: HashSet<String>,
}

/// How far the turn is.
enum ToldTurn {
    /// None runs.
    Over,
    /// It runs.
    Open,
    /// The agent has said its last word for now, and why.
    Answered(Stop),
}

impl<'a> Telling<'a> {
    pub(super) fn new(sink: &'a mut Sink, index: &'a Index, subagents: SessionSubagents) -> Self {
        Self {
            sink,
            index,
            subagents,
            child: String::new(),
            turn: ToldTurn::Over,
            tokens: None,
            compaction: None,
            plans: HashSet::new(),
            changes: HashSet::new(),
        }
    }

    /// Tells what a record says.
    pub(super) fn record(
        &mut self,
        node: &Node,
        record: &Value,
        lines: &mut SourceLines<File>,
    ) -> Result<(), ReadError> {
        if record["isCompactSummary"] != true && self.compaction.is_some() {
            self.compacted("")?;
        }
        match node.kind {
            NodeKind::User => self.user(node, record)?,
            NodeKind::Assistant => self.assistant(node, record, lines)?,
            NodeKind::System => self.system(node, record)?,
            NodeKind::Attachment => self.attachment(node, record)?,
            NodeKind::Progress => {}
        }
        Ok(())
    }

    /// Tells how it ends.
    pub(super) fn finish(mut self) -> Result<(), ReadError> {
        self.used_tokens()?;
        if self.compaction.is_some() {
            self.compacted("")?;
        }
        match &self.turn {
            _ if !self.child.is_empty() => {}
            ToldTurn::Open => self.sink.unfinished()?,
            ToldTurn::Answered(stop) => self.sink.end_turn(stop.clone(), None)?,
            ToldTurn::Over => {}
        }
        Ok(())
    }

    fn user(&mut self, node: &Node, record: &Value) -> Result<(), SinkClosed> {
        let content = &record["message"]["content"];
        if record["isCompactSummary"] == true {
            return self.summary(record, node.at);
        }
        for result in content.as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result")
        {
            self.result(result, record, node.at)?;
        }
        if !is_human(record) {
            return Ok(());
        }
        self.says(record["uuid"].as_str().unwrap_or_default(), content, node.at)
    }

    /// Tells what a person typed.
    fn says(&mut self, id: &str, content: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        match user_says(content) {
            UserSays::Prompt(blocks) => {
                self.end_answered()?;
                self.turn = ToldTurn::Open;
                self.update(updates::user_message(id, &blocks), at)
            }
            UserSays::Interrupted => self.end_turn(Stop::plain("cancelled"), at),
            UserSays::LocalOutput(output) => {
                self.turn = ToldTurn::Answered(Stop::plain("end_turn"));
                self.update(updates::agent_message(id, &[updates::text(&output)]), at)
            }
            UserSays::Nothing => Ok(()),
        }
    }

    fn result(&mut self, result: &Value, record: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let id = result["tool_use_id"].as_str().or_else(|| record["sourceToolUseID"].as_str());
        let Some(id) = id.filter(|id| !self.plans.contains(*id)) else { return Ok(()) };
        let is_failure = result["is_error"] == true || record["toolDenialKind"].is_string();
        let status = if is_failure { ToolStatus::Failed } else { ToolStatus::Completed };
        let call = RecordedCall::new(id).status(status).output(result["content"].clone().into());
        let content = tools::result_content(&result["content"]);
        let says_more = self.changes.contains(id) && !is_failure;
        let call = if content.is_empty() || says_more { call } else { call.content(&content) };
        self.update(call.update(), at)
    }

    fn assistant(
        &mut self,
        node: &Node,
        record: &Value,
        lines: &mut SourceLines<File>,
    ) -> Result<(), ReadError> {
        let message = &record["message"];
        let id = message["id"].as_str().or_else(|| record["uuid"].as_str()).unwrap_or_default();
        if record["isApiErrorMessage"] == true {
            return Ok(self.failed(message, node.at)?);
        }
        self.model_and_tokens(id, message)?;
        for block in message["content"].as_array().into_iter().flatten() {
            self.block(id, block, node.at)?;
            self.subagent(block, node.at, lines)?;
        }
        self.turn = match message["stop_reason"].as_str() {
            Some("end_turn" | "stop_sequence") => ToldTurn::Answered(Stop::plain("end_turn")),
            Some("max_tokens") => ToldTurn::Answered(Stop::plain("max_tokens")),
            Some("refusal") => ToldTurn::Answered(Stop::plain("refusal")),
            Some(_) | None => ToldTurn::Open,
        };
        Ok(())
    }

    fn block(&mut self, id: &str, block: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let field = |name: &str| block[name].as_str().unwrap_or_default();
        match field("type") {
            "text" if field("text").is_empty() => Ok(()),
            "text" => self.update(updates::agent_message_chunk(id, &updates::text(field("text"))), at),
            "thinking" if field("thinking").is_empty() => Ok(()),
            "thinking" => self.update(updates::thought_chunk(id, field("thinking")), at),
            "redacted_thinking" | "fallback" => Ok(()),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => self.call(block, at),
            other if other.ends_with("_tool_result") => self.server_result(block, at),
            other => {
                self.sink.drift(&self.index.version, &format!("block {other}"));
                Ok(())
            }
        }
    }

    fn call(&mut self, block: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let (name, input) = (block["name"].as_str().unwrap_or("tool"), &block["input"]);
        let Some(id) = block["id"].as_str() else { return Ok(()) };
        if let Some(entries) = tools::plan_of(name, input) {
            self.plans.insert(id.to_owned());
            return self.update(updates::plan("todos", &entries), at);
        }
        if tools::changes_files(name) {
            self.changes.insert(id.to_owned());
        }
        self.update(tools::begun(id, name, input).status(ToolStatus::InProgress).update(), at)
    }

    /// The result of a tool that ran at the model's provider.
    fn server_result(&mut self, block: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let Some(id) = block["tool_use_id"].as_str() else { return Ok(()) };
        let call =
            RecordedCall::new(id).status(ToolStatus::Completed).output(block["content"].clone().into());
        self.update(call.update(), at)
    }

    fn failed(&mut self, message: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let words =
            message["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
        let words = words.collect::<Vec<_>>().join("\n");
        self.end_turn(Stop::failed(MODEL_FAILED, &words), at)
    }

    /// Ends the turn. What ends in a sub-agent is no turn of the session.
    fn end_turn(&mut self, stop: Stop, at: Option<Millis>) -> Result<(), SinkClosed> {
        self.used_tokens()?;
        self.turn = ToldTurn::Over;
        if self.child.is_empty() { self.sink.end_turn(stop, at) } else { Ok(()) }
    }

    fn system(&mut self, node: &Node, record: &Value) -> Result<(), SinkClosed> {
        match record["subtype"].as_str() {
            Some("compact_boundary") => {
                let id = record["uuid"].as_str().unwrap_or_default().to_owned();
                self.compaction = Some((id, node.at));
                Ok(())
            }
            Some("local_command") if record["isMeta"] != true => {
                let id = record["uuid"].as_str().unwrap_or_default();
                self.says(id, &record["content"], node.at)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The summary of a compaction. Old versions have no record of the compaction itself.
    fn summary(&mut self, record: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        if self.compaction.is_none() {
            self.compaction = Some((record["uuid"].as_str().unwrap_or_default().to_owned(), at));
        }
        let content = &record["message"]["content"];
        let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
        let words = content.as_str().map_or_else(|| blocks.collect::<Vec<_>>().join("\n"), str::to_owned);
        self.compacted(&words)
    }

    fn compacted(&mut self, summary: &str) -> Result<(), SinkClosed> {
        let Some((id, at)) = self.compaction.take() else { return Ok(()) };
        self.update(updates::compaction(&id, summary), at)
    }

    /// A command that was typed while the agent was busy.
    fn attachment(&mut self, node: &Node, record: &Value) -> Result<(), SinkClosed> {
        let attachment = &record["attachment"];
        let mode = attachment["commandMode"].as_str().unwrap_or("prompt");
        let is_typed = attachment["type"] == "queued_command" && matches!(mode, "prompt" | "bash");
        if !is_typed || !is_human(attachment) {
            return Ok(());
        }
        self.says(record["uuid"].as_str().unwrap_or_default(), &attachment["prompt"], node.at)
    }

    fn update(&mut self, update: Update, at: Option<Millis>) -> Result<(), SinkClosed> {
        let update = match self.child.as_str() {
            "" => update,
            child => updates::of_subagent(child, update),
        };
        self.sink.update(update, at)
    }

    /// Ends the turn that the agent has answered, before the next one begins.
    fn end_answered(&mut self) -> Result<(), SinkClosed> {
        match std::mem::replace(&mut self.turn, ToldTurn::Over) {
            ToldTurn::Answered(stop) => self.end_turn(stop, None),
            ToldTurn::Open | ToldTurn::Over => self.used_tokens(),
        }
    }

    fn model_and_tokens(&mut self, id: &str, message: &Value) -> Result<(), SinkClosed> {
        let model = message["model"].as_str().filter(|model| !model.starts_with('<'));
        if let Some(model) = model.filter(|_| self.child.is_empty()) {
            self.sink.model(model)?;
        }
        if self.tokens.as_ref().is_some_and(|(counted, _)| counted != id) {
            self.used_tokens()?;
        }
        let count = |name: &str| message["usage"][name].as_u64().unwrap_or(0);
        let tokens = UsedTokens {
            input: count("input_tokens"),
            output: count("output_tokens"),
            cached_read: count("cache_read_input_tokens"),
            cached_write: count("cache_creation_input_tokens"),
        };
        // The records of one message repeat its usage; the last has all of it.
        self.tokens = Some((id.to_owned(), tokens));
        Ok(())
    }

    fn used_tokens(&mut self) -> Result<(), SinkClosed> {
        match self.tokens.take() {
            Some((_, tokens)) if tokens != UsedTokens::default() => self.sink.tokens(tokens),
            Some(_) | None => Ok(()),
        }
    }
}

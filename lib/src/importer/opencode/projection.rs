//! Says what the rows of opencode's newer table of messages mean. Sessions that have messages in the older tables are read
//! from there.

use rethread_core::Stop;
use serde_json::{Value, json};

use super::content::file_block;
use super::rows::{OpencodeNode, OpencodeSession, ProjectedMessage};
use super::telling::OpencodeTelling;
use super::tools;
use super::turn::{OpencodeTurn, finish};
use crate::importer::reader::ReadError;
use crate::importer::sink::SinkClosed;
use crate::importer::updates;

/// The error code of a turn that failed because of the model.
const MODEL_FAILED: i64 = -32603;

/// Tells the messages of a session up to the first that is undone.
pub(super) fn tell(telling: &mut OpencodeTelling<'_>, session: &OpencodeSession) -> Result<(), ReadError> {
    let undone = session.revert.as_ref().map(|revert| revert.message.as_str());
    let mut is_undone = false;
    let database = telling.database;
    database.projected(&session.id, |ProjectedMessage { node, kind, data }| {
        is_undone |= undone == Some(node.id.as_str());
        if is_undone {
            return Ok(());
        }
        match telling.parsed(&node, data.as_deref()) {
            Some(message) => Ok(telling.projected(&node, &kind, &message)?),
            None => Ok(()),
        }
    })
}

impl OpencodeTelling<'_> {
    fn projected(&mut self, node: &OpencodeNode, kind: &str, message: &Value) -> Result<(), SinkClosed> {
        match kind {
            "user" => self.projected_user(node, message),
            "assistant" => self.projected_assistant(node, message),
            "shell" => self.projected_shell(node, message),
            "compaction" => {
                if message["reason"] == "manual" {
                    self.end_turn()?;
                }
                let summary = message["summary"].as_str().unwrap_or_default();
                self.sink.update(updates::compaction(&node.id, summary), node.at)
            }
            "model-switched" => self.model(&message["model"]),
            // What opencode says to the model, and the switch to another set of instructions.
            "synthetic" | "system" | "agent-switched" => Ok(()),
            _ => {
                self.sink.drift(self.version, &format!("record {kind}"));
                Ok(())
            }
        }
    }

    fn projected_user(&mut self, node: &OpencodeNode, message: &Value) -> Result<(), SinkClosed> {
        let words = message["text"].as_str().filter(|words| !words.is_empty());
        let files = message["files"].as_array().into_iter().flatten().filter_map(file_block);
        let blocks: Vec<_> = words.map(updates::text).into_iter().chain(files).collect();
        if blocks.is_empty() { Ok(()) } else { self.prompted(&node.id, &blocks, node.at) }
    }

    fn projected_assistant(&mut self, node: &OpencodeNode, message: &Value) -> Result<(), SinkClosed> {
        self.model(&message["model"])?;
        for item in message["content"].as_array().into_iter().flatten() {
            let words = item["text"].as_str().unwrap_or_default();
            let at = item["time"]["created"].as_u64().or(node.at);
            match item["type"].as_str().unwrap_or_default() {
                "text" | "reasoning" if words.is_empty() => {}
                "text" => {
                    let update = updates::agent_message_chunk(&node.id, &updates::text(words));
                    self.sink.update(update, at)?;
                }
                "reasoning" => self.sink.update(updates::thought_chunk(&node.id, words), at)?,
                "tool" => self.projected_tool(node, item)?,
                other => self.sink.drift(self.version, &format!("block {other}")),
            }
        }
        self.spent(message)?;
        let completed = message["time"]["completed"].as_u64();
        self.turn = match (message["error"]["message"].as_str(), message["finish"].as_str()) {
            (Some(error), _) => OpencodeTurn::Answered(Stop::failed(MODEL_FAILED, error), completed),
            (None, _) if completed.is_none() => OpencodeTurn::BrokenOff,
            (None, Some("tool-calls")) => OpencodeTurn::Open,
            (None, reason) => OpencodeTurn::Answered(finish(reason.unwrap_or_default()), completed),
        };
        Ok(())
    }

    fn projected_tool(&mut self, node: &OpencodeNode, item: &Value) -> Result<(), SinkClosed> {
        let Some(id) = item["id"].as_str() else { return Ok(()) };
        let name = item["name"].as_str().unwrap_or("tool");
        let (time, state) = (&item["time"], older_state(&item["state"]));
        let start = time["ran"].as_u64().or_else(|| time["created"].as_u64()).or(node.at);
        self.sink.update(tools::begun(id, name, &state).update(), start)?;
        let end = time["completed"].as_u64();
        if let Some(call) = tools::ended(id, name, &state) {
            self.sink.update(call.update(), end)?;
            if let Some(entries) = tools::plan_of(name, &state["input"]) {
                self.sink.update(updates::plan("todos", &entries), end)?;
            }
        }
        Ok(())
    }

    /// A command that the user ran.
    fn projected_shell(&mut self, node: &OpencodeNode, message: &Value) -> Result<(), SinkClosed> {
        self.end_turn()?;
        let id = message["callID"].as_str().unwrap_or(&node.id);
        let end = message["time"]["completed"].as_u64();
        let status = if end.is_some() { "completed" } else { "running" };
        let state =
            json!({"status": status, "input": {"command": message["command"]}, "output": message["output"]});
        self.sink.update(tools::begun(id, "bash", &state).update(), node.at)?;
        if let Some(call) = tools::ended(id, "bash", &state) {
            self.sink.update(call.update(), end)?;
        }
        self.turn = match end {
            Some(_) => OpencodeTurn::Answered(Stop::plain("end_turn"), end),
            None => OpencodeTurn::BrokenOff,
        };
        Ok(())
    }
}

/// The state of a call as the older tables have it.
fn older_state(state: &Value) -> Value {
    let content = || state["content"].as_array().into_iter().flatten();
    let words: Vec<_> = content().filter_map(|item| item["text"].as_str()).collect();
    let files: Vec<_> = content().filter(|item| item["type"] == "file").cloned().collect();
    // While the model still writes the input, it is a text.
    let input =
        state["input"].as_str().map(|text| serde_json::from_str(text).unwrap_or_else(|_| text.into()));
    json!({
        "status": state["status"],
        "input": input.unwrap_or_else(|| state["input"].clone()),
        "output": words.join("\n"),
        "metadata": state["structured"],
        "error": state["error"],
        "attachments": files,
    })
}

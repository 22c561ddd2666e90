//! Says what the messages of goose mean, as updates, ends of turns and models.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rethread_core::{Millis, Stop};
use serde_json::Value;

use super::content::block;
use super::rows::GooseNode;
use super::tools::{self, CallShows};
use crate::importer::reader::ReadError;
use crate::importer::sink::{Sink, SinkClosed};
use crate::importer::updates;

/// Tells a conversation to a sink.
pub(super) struct GooseTelling<'a> {
    sink: &'a mut Sink,
    path: PathBuf,
    version: &'a str,
    turn: GooseTurn,
    /// Calls without a response, with what they show so far.
    calls: HashMap<String, CallShows>,
    /// The number of the message, for those that have no id.
    count: u64,
    /// The text of the last prompt, and whether goose may repeat it because it has compacted the conversation.
    prompt: String,
    repeat: GooseRepeat,
}

/// How far a turn is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GooseTurn {
    /// The agent has answered, or there is none.
    Settled,
    /// The agent has something left to do.
    Open,
}

/// Whether a prompt may come again in the user's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GooseRepeat {
    No,
    Possible,
}

/// Whose message it is, which, and when.
struct GooseSpoken<'a> {
    id: &'a str,
    at: Option<Millis>,
}

impl<'a> GooseTelling<'a> {
    pub(super) fn new(sink: &'a mut Sink, path: &Path, version: &'a str) -> Self {
        Self {
            sink,
            path: path.to_owned(),
            version,
            turn: GooseTurn::Settled,
            calls: HashMap::new(),
            count: 0,
            prompt: String::new(),
            repeat: GooseRepeat::No,
        }
    }

    /// Says which model is used.
    pub(super) fn model(&mut self, name: &str) -> Result<(), SinkClosed> {
        self.sink.model(name)
    }

    /// Tells a message of the database. The one after it tells a summary from what else only the model sees.
    pub(super) fn stored(
        &mut self,
        node: &GooseNode,
        next: Option<&GooseNode>,
        content: Option<&str>,
    ) -> Result<(), ReadError> {
        let content = match content.map(serde_json::from_str::<Value>) {
            Some(Ok(content)) => content,
            Some(Err(error)) => {
                self.damaged(node.row, &format!("it is not JSON: {error}"));
                return Ok(());
            }
            None => {
                self.damaged(node.row, "it is too long, or no text");
                return Ok(());
            }
        };
        if node.is_shown() {
            return self.message(node, &content);
        }
        let goes_on = next.is_some_and(|next| next.role == "assistant" && next.is_for_model());
        if node.role == "user" && node.is_for_model() && goes_on {
            self.summary(node, &content)?;
        }
        Ok(())
    }

    /// Tells a message that people see.
    pub(super) fn message(&mut self, node: &GooseNode, content: &Value) -> Result<(), ReadError> {
        self.count += 1;
        let id = node.id.clone().unwrap_or_else(|| self.count.to_string());
        let spoken = GooseSpoken { id: &id, at: node.at };
        if let Some(inference) = &node.metadata.inference {
            let model = inference.resolved_model.as_deref().unwrap_or(&inference.requested_model);
            if !model.is_empty() {
                self.sink.model(model)?;
            }
        }
        match node.role.as_str() {
            "user" => self.user(&spoken, content)?,
            "assistant" => self.assistant(&spoken, content)?,
            role => self.sink.drift(self.version, &format!("record {role}")),
        }
        Ok(())
    }

    /// Counts a message that cannot be read.
    pub(super) fn damaged(&mut self, row: u64, reason: &str) {
        self.sink.damaged(&self.path, row, reason);
    }

    /// Tells how it ends.
    pub(super) fn finish(self) -> Result<(), ReadError> {
        if self.turn == GooseTurn::Open || !self.calls.is_empty() {
            self.sink.unfinished()?;
        }
        Ok(())
    }

    fn user(&mut self, spoken: &GooseSpoken<'_>, content: &Value) -> Result<(), SinkClosed> {
        let mut blocks = Vec::new();
        let mut words = String::new();
        for item in content.as_array().into_iter().flatten() {
            match item["type"].as_str().unwrap_or_default() {
                "text" | "image" | "resource" | "resource_link" => {
                    words.push_str(item["text"].as_str().unwrap_or_default());
                    blocks.extend(block(item));
                }
                "toolResponse" => self.response(item, spoken.at)?,
                other => self.known(other, spoken, item)?,
            }
        }
        if blocks.is_empty() {
            return Ok(());
        }
        let repeat = std::mem::replace(&mut self.repeat, GooseRepeat::No);
        if repeat == GooseRepeat::Possible && words == self.prompt {
            return Ok(());
        }
        if self.turn == GooseTurn::Open {
            // goose keeps nothing of an answer that was cancelled before its end.
            self.sink.end_turn(Stop::plain("cancelled"), None)?;
        }
        self.prompt = words;
        self.turn = GooseTurn::Open;
        self.calls.clear();
        self.sink.update(updates::user_message(spoken.id, &blocks), spoken.at)
    }

    fn assistant(&mut self, spoken: &GooseSpoken<'_>, content: &Value) -> Result<(), SinkClosed> {
        for item in content.as_array().into_iter().flatten() {
            match item["type"].as_str().unwrap_or_default() {
                "text" | "image" | "resource" | "resource_link" => {
                    if let Some(block) = block(item) {
                        self.turn = GooseTurn::Settled;
                        self.sink.update(updates::agent_message_chunk(spoken.id, &block), spoken.at)?;
                    }
                }
                "toolRequest" | "frontendToolRequest" => self.request(item, spoken.at)?,
                "toolResponse" => self.response(item, spoken.at)?,
                other => self.known(other, spoken, item)?,
            }
        }
        Ok(())
    }

    /// Tells content that any message may have.
    fn known(&mut self, kind: &str, spoken: &GooseSpoken<'_>, item: &Value) -> Result<(), SinkClosed> {
        let words = |name: &str| item[name].as_str().unwrap_or_default();
        match kind {
            "thinking" | "reasoning" => {
                let thought = if kind == "thinking" { words("thinking") } else { words("text") };
                match thought.is_empty() {
                    true => Ok(()),
                    false => self.sink.update(updates::thought_chunk(spoken.id, thought), spoken.at),
                }
            }
            "conversationCompacted" => {
                self.repeat = GooseRepeat::Possible;
                self.sink.update(updates::compaction(spoken.id, ""), spoken.at)
            }
            // Questions that were answered, and what goose says of itself.
            "redactedThinking" | "toolConfirmationRequest" | "actionRequired" | "systemNotification" => {
                Ok(())
            }
            "contextLengthExceeded" | "summarizationRequested" => Ok(()),
            other => {
                self.sink.drift(self.version, &format!("block {other}"));
                Ok(())
            }
        }
    }

    fn request(&mut self, item: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let Some(id) = item["id"].as_str() else { return Ok(()) };
        self.turn = GooseTurn::Open;
        if item["toolCall"]["status"] != "error" {
            self.calls.insert(id.to_owned(), CallShows::of(item));
        }
        self.sink.update(tools::begun(id, item).update(), at)
    }

    fn response(&mut self, item: &Value, at: Option<Millis>) -> Result<(), SinkClosed> {
        let Some(id) = item["id"].as_str() else { return Ok(()) };
        let shows = self.calls.remove(id).unwrap_or(CallShows::Nothing);
        self.sink.update(tools::ended(id, item, shows).update(), at)
    }

    /// The summary that the model goes on from.
    fn summary(&mut self, node: &GooseNode, content: &Value) -> Result<(), SinkClosed> {
        let words = content.as_array().into_iter().flatten().filter_map(|item| item["text"].as_str());
        let words = words.collect::<Vec<_>>().join("\n");
        let id = node.id.clone().unwrap_or_else(|| format!("compaction {}", self.count));
        self.repeat = GooseRepeat::Possible;
        self.sink.update(updates::compaction(&id, &words), node.at)
    }
}

//! Says what the messages of a Zed thread mean, as updates, ends of turns and tokens. Zed records no times of messages.

use rethread_core::{Millis, Stop, Update};
use serde_json::Value;

use super::blob::{ZedHead, ZedMessage};
use super::content::{user_block, variant};
use super::rows::ZedRow;
use super::tools;
use crate::importer::reader::ReadError;
use crate::importer::sink::{Sink, SinkClosed, UsedTokens};
use crate::importer::updates;

/// The newest format that is known.
const FORMAT: &str = "0.3.0";

/// Tells the messages of one thread.
pub(super) struct ZedTelling<'a> {
    head: &'a ZedHead,
    /// The sub-agent whose thread it is; empty for that of the user.
    child: &'a str,
    turn: ZedTurn,
    tokens: Option<UsedTokens>,
}

/// How far a turn is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ZedTurn {
    /// None runs.
    Over,
    /// The agent has something left to do.
    Open,
    /// The agent has answered.
    Answered,
    /// The user stopped it.
    Canceled,
}

/// Tells of a sub-agent that begins or has ended.
pub(super) fn announce(
    sink: &mut Sink,
    parent: &str,
    thread: &ZedRow,
    state: &str,
) -> Result<(), SinkClosed> {
    give(sink, parent, updates::subagent(&thread.id, &thread.summary, state))
}

fn give(sink: &mut Sink, child: &str, update: Update) -> Result<(), SinkClosed> {
    let update = if child.is_empty() { update } else { updates::of_subagent(child, update) };
    sink.update(update, None)
}

impl<'a> ZedTelling<'a> {
    pub(super) fn new(head: &'a ZedHead, child: &'a str) -> Self {
        Self { head, child, turn: ZedTurn::Over, tokens: None }
    }

    /// Tells what holds for the whole thread. The model is the one that was chosen last: others are not recorded.
    pub(super) fn begin(&mut self, sink: &mut Sink) -> Result<(), SinkClosed> {
        if !self.head.is_older() && self.head.version != FORMAT {
            sink.drift(&self.head.version, "layout");
        }
        match self.head.model.as_deref().filter(|_| self.child.is_empty()) {
            Some(model) => sink.model(model),
            None => Ok(()),
        }
    }

    /// Tells a message. Returns the threads of the sub-agents that it started; they are told before its results.
    pub(super) fn message(
        &mut self,
        sink: &mut Sink,
        message: &ZedMessage,
    ) -> Result<Vec<String>, ReadError> {
        let (kind, body) = variant(&message.body).unwrap_or(("", &Value::Null));
        match kind {
            "User" => self.user(sink, message.place, body)?,
            "Agent" => return Ok(self.agent(sink, message.place, body)?),
            "Compaction" => {
                let summary = body["Summary"].as_str().unwrap_or_default();
                let id = format!("compaction {}", message.place);
                give(sink, self.child, updates::compaction(&id, summary))?;
            }
            // The user let the agent go on.
            "Resume" => {}
            other => sink.drift(&self.head.version, &format!("record {other}")),
        }
        Ok(Vec::new())
    }

    /// Tells the results of the tools of a message.
    pub(super) fn results(&mut self, sink: &mut Sink, message: &ZedMessage) -> Result<(), ReadError> {
        let agent = &message.body["Agent"];
        let calls = agent["content"].as_array().into_iter().flatten().filter_map(|item| item.get("ToolUse"));
        for id in calls.filter_map(|call| call["id"].as_str()) {
            let result = &agent["tool_results"][id];
            if !result.is_null() {
                give(sink, self.child, tools::ended(id, result).update())?;
            }
        }
        Ok(())
    }

    /// Tells how it ends.
    pub(super) fn finish(mut self, sink: &mut Sink, updated: Option<Millis>) -> Result<(), SinkClosed> {
        match self.turn {
            ZedTurn::Open if self.child.is_empty() => {
                self.used_tokens(sink)?;
                sink.unfinished()
            }
            ZedTurn::Open | ZedTurn::Canceled | ZedTurn::Answered | ZedTurn::Over => {
                self.end_turn(sink, updated)
            }
        }
    }

    /// Ends the turn that the agent has answered, or that the user stopped.
    fn end_turn(&mut self, sink: &mut Sink, at: Option<Millis>) -> Result<(), SinkClosed> {
        if !self.child.is_empty() {
            return Ok(());
        }
        self.used_tokens(sink)?;
        match self.turn {
            ZedTurn::Canceled => sink.end_turn(Stop::plain("cancelled"), at),
            ZedTurn::Answered => sink.end_turn(Stop::plain("end_turn"), at),
            ZedTurn::Open | ZedTurn::Over => Ok(()),
        }
    }

    fn user(&mut self, sink: &mut Sink, place: usize, body: &Value) -> Result<(), SinkClosed> {
        let mut blocks = Vec::new();
        for item in body["content"].as_array().into_iter().flatten() {
            match user_block(item) {
                Ok(block) => blocks.extend(block),
                Err(unknown) => sink.drift(&self.head.version, &format!("block {unknown}")),
            }
        }
        if blocks.is_empty() {
            return Ok(());
        }
        let id =
            body["id"].as_str().filter(|id| !id.is_empty()).map_or_else(|| place.to_string(), str::to_owned);
        if self.child.is_empty() {
            self.end_turn(sink, None)?;
            self.turn = ZedTurn::Open;
            self.tokens = self.head.tokens.get(&id).copied();
        }
        give(sink, self.child, updates::user_message(&id, &blocks))
    }

    fn agent(&mut self, sink: &mut Sink, place: usize, body: &Value) -> Result<Vec<String>, SinkClosed> {
        let id = place.to_string();
        let mut subagents = Vec::new();
        self.turn = ZedTurn::Answered;
        if let Some(tokens) = self.head.older_tokens.get(place).filter(|_| self.child.is_empty()) {
            self.tokens = Some(*tokens);
        }
        for item in body["content"].as_array().into_iter().flatten() {
            let (kind, content) = variant(item).unwrap_or(("", &Value::Null));
            let words = content.as_str().or_else(|| content["text"].as_str()).unwrap_or_default();
            match kind {
                "Text" | "Thinking" if words.is_empty() => {}
                "Text" => give(sink, self.child, updates::agent_message_chunk(&id, &updates::text(words)))?,
                "Thinking" => give(sink, self.child, updates::thought_chunk(&id, words))?,
                "RedactedThinking" => {}
                "ToolUse" => {
                    let Some(call) = content["id"].as_str() else { continue };
                    give(sink, self.child, tools::begun(call, content).update())?;
                    let result = &body["tool_results"][call];
                    let name = content["name"].as_str().unwrap_or_default();
                    subagents.extend(tools::subagent(name, result).map(str::to_owned));
                    self.turn =
                        if tools::is_canceled(result) { ZedTurn::Canceled } else { self.after_call() };
                }
                other => sink.drift(&self.head.version, &format!("block {other}")),
            }
        }
        Ok(subagents)
    }

    /// How far the turn is after a call that was not stopped: the agent goes on with the result.
    fn after_call(&self) -> ZedTurn {
        if self.turn == ZedTurn::Canceled { ZedTurn::Canceled } else { ZedTurn::Open }
    }

    fn used_tokens(&mut self, sink: &mut Sink) -> Result<(), SinkClosed> {
        match self.tokens.take() {
            Some(tokens) if tokens != UsedTokens::default() => sink.tokens(tokens),
            Some(_) | None => Ok(()),
        }
    }
}

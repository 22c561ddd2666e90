//! Says what the messages of opencode mean, as updates, ends of turns, models and tokens. What sub-agents say is told at the
//! time when they said it.

use rethread_core::{Millis, Stop, Update};
use serde_json::Value;

use super::conversation::{ConversationSpeaker, OpencodeConversation, PendingCompaction};
use super::prompt::UserParts;
use super::rows::{OpencodeDatabase, OpencodeNode};
use super::turn::OpencodeTurn;
use super::{content, known, tools};
use crate::importer::reader::ReadError;
use crate::importer::sink::{Sink, SinkClosed, UsedTokens};
use crate::importer::updates;

/// The beginning of the error of a call that the user did not allow: it ends the turn.
const REJECTED: &str = "The user rejected permission to use this specific tool call.";

/// Tells a conversation to a sink.
pub(super) struct OpencodeTelling<'a> {
    pub(super) database: &'a OpencodeDatabase,
    pub(super) sink: &'a mut Sink,
    pub(super) version: &'a str,
    pub(super) turn: OpencodeTurn,
    /// What the session has cost so far, in dollars.
    cost: f64,
    /// The text of the last prompt, and whether opencode may repeat it because the context was too long.
    prompt: (String, PromptRepeat),
}

/// Whether a prompt may come again in the user's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PromptRepeat {
    No,
    Possible,
}

impl<'a> OpencodeTelling<'a> {
    pub(super) fn new(database: &'a OpencodeDatabase, sink: &'a mut Sink, version: &'a str) -> Self {
        let prompt = (String::new(), PromptRepeat::No);
        Self { database, sink, version, turn: OpencodeTurn::Over, cost: 0.0, prompt }
    }

    /// Tells a conversation with its sub-agents.
    pub(super) fn tell(&mut self, conversation: &mut OpencodeConversation) -> Result<(), ReadError> {
        self.messages(conversation, None)?;
        self.children(conversation, None, "idle")
    }

    /// Tells how it ends.
    pub(super) fn finish(mut self) -> Result<(), ReadError> {
        match std::mem::replace(&mut self.turn, OpencodeTurn::Over) {
            OpencodeTurn::Answered(stop, at) => self.sink.end_turn(stop, at)?,
            OpencodeTurn::Open | OpencodeTurn::BrokenOff => self.sink.unfinished()?,
            OpencodeTurn::Over => {}
        }
        Ok(())
    }

    /// Tells the messages up to a time.
    fn messages(
        &mut self,
        conversation: &mut OpencodeConversation,
        until: Option<Millis>,
    ) -> Result<(), ReadError> {
        while let Some(node) = conversation.due(until) {
            if node.at.is_some() {
                self.children(conversation, node.at, "idle")?;
            }
            let Some(message) = self.parsed(&node, self.database.message(&node.id)?.as_deref()) else {
                continue;
            };
            let role = message["role"].as_str().unwrap_or_default();
            match role {
                "user" => self.user(conversation, &node, &message)?,
                "assistant" => self.assistant(conversation, &node, &message)?,
                _ => {
                    self.sink.drift(self.version, &format!("record {role}"));
                    continue;
                }
            }
            known::count_message(role, &message, self.version, self.sink);
        }
        Ok(())
    }

    /// Tells what sub-agents said up to a time.
    fn children(
        &mut self,
        conversation: &mut OpencodeConversation,
        until: Option<Millis>,
        state: &str,
    ) -> Result<(), ReadError> {
        let mut children = std::mem::take(&mut conversation.children);
        for child in &mut children {
            if until.is_some_and(|until| child.created.is_some_and(|created| created > until)) {
                continue;
            }
            if child.speaker == ConversationSpeaker::NewSubagent {
                child.speaker = ConversationSpeaker::Subagent;
                let announced = updates::subagent(&child.session, &child.title, state);
                self.update(conversation, announced, child.created)?;
            }
            self.messages(child, until)?;
            self.children(child, until, state)?;
        }
        conversation.children = children;
        Ok(())
    }

    fn user(
        &mut self,
        conversation: &mut OpencodeConversation,
        node: &OpencodeNode,
        message: &Value,
    ) -> Result<(), ReadError> {
        let parts = self.user_parts(conversation, node)?;
        if let Some(compaction) = parts.compaction {
            let is_main = conversation.speaker == ConversationSpeaker::Main;
            if is_main && compaction["auto"] != true {
                self.end_turn()?;
            }
            if compaction["overflow"] == true {
                self.prompt.1 = PromptRepeat::Possible;
            }
            conversation.compaction = Some(PendingCompaction { id: node.id.clone(), at: node.at });
            return Ok(());
        }
        if conversation.speaker != ConversationSpeaker::Main {
            return match parts.blocks.is_empty() {
                true => Ok(()),
                false => self.update(conversation, updates::user_message(&node.id, &parts.blocks), node.at),
            };
        }
        if parts.blocks.is_empty() {
            if parts.is_command {
                self.end_turn()?;
            }
            return Ok(());
        }
        let repeat = std::mem::replace(&mut self.prompt.1, PromptRepeat::No);
        let is_repeated = repeat == PromptRepeat::Possible && parts.words.starts_with(&self.prompt.0);
        if is_repeated && !self.prompt.0.is_empty() {
            return Ok(());
        }
        self.prompt.0 = parts.words;
        // The end of the turn before comes first, as it does when nothing follows it yet.
        self.end_turn()?;
        self.model(&message["model"])?;
        Ok(self.prompted(&node.id, &parts.blocks, node.at)?)
    }

    /// Tells a prompt, which begins a turn.
    pub(super) fn prompted(
        &mut self,
        id: &str,
        blocks: &[Value],
        at: Option<Millis>,
    ) -> Result<(), SinkClosed> {
        self.end_turn()?;
        self.turn = OpencodeTurn::Open;
        self.sink.update(updates::user_message(id, blocks), at)
    }

    /// Ends the turn that came before something new.
    pub(super) fn end_turn(&mut self) -> Result<(), SinkClosed> {
        match std::mem::replace(&mut self.turn, OpencodeTurn::Over) {
            OpencodeTurn::Answered(stop, at) => self.sink.end_turn(stop, at),
            OpencodeTurn::BrokenOff => self.sink.end_turn(Stop::plain("cancelled"), None),
            OpencodeTurn::Open | OpencodeTurn::Over => Ok(()),
        }
    }

    fn user_parts(
        &mut self,
        conversation: &OpencodeConversation,
        node: &OpencodeNode,
    ) -> Result<UserParts, ReadError> {
        let mut parts = UserParts::default();
        let database = self.database;
        database.parts(&node.id, |place, data| {
            let part = self.parsed(place, data);
            if let Some(part) = part.filter(|_| !conversation.is_undone(&node.id, &place.id)) {
                known::count_part(&part, self.version, self.sink);
                parts.add(&part);
            }
            Ok(())
        })?;
        Ok(parts)
    }

    fn assistant(
        &mut self,
        conversation: &mut OpencodeConversation,
        node: &OpencodeNode,
        message: &Value,
    ) -> Result<(), ReadError> {
        let is_main = conversation.speaker == ConversationSpeaker::Main;
        if is_main {
            self.model(message)?;
        }
        let is_summary = message["summary"] == true;
        let mut summary = String::new();
        let mut is_rejected = false;
        let database = self.database;
        database.parts(&node.id, |place, data| {
            let Some(part) = self.parsed(place, data) else { return Ok(()) };
            if conversation.is_undone(&node.id, &place.id) {
                return Ok(());
            }
            known::count_part(&part, self.version, self.sink);
            if is_summary {
                summary
                    .push_str(part["text"].as_str().filter(|_| part["type"] == "text").unwrap_or_default());
                return Ok(());
            }
            is_rejected |= part["state"]["error"].as_str().is_some_and(|error| error == REJECTED);
            self.part(conversation, node, &part)
        })?;
        if is_summary {
            self.summary(conversation, node, message, &summary)?;
        }
        if is_main {
            self.spent(message)?;
            self.turn = OpencodeTurn::after(message);
            if is_rejected && matches!(self.turn, OpencodeTurn::Open) {
                let at = message["time"]["completed"].as_u64();
                self.turn = OpencodeTurn::Answered(Stop::plain("end_turn"), at);
            }
        }
        Ok(())
    }

    /// Tells a part of a message of the agent.
    fn part(
        &mut self,
        conversation: &mut OpencodeConversation,
        node: &OpencodeNode,
        part: &Value,
    ) -> Result<(), ReadError> {
        let words = part["text"].as_str().unwrap_or_default();
        let at = part["time"]["start"].as_u64().or(node.at);
        let update = match part["type"].as_str().unwrap_or_default() {
            "text" if words.is_empty() || part["ignored"] == true => return Ok(()),
            "text" => updates::agent_message_chunk(&node.id, &updates::text(words)),
            "reasoning" if words.is_empty() => return Ok(()),
            "reasoning" => updates::thought_chunk(&node.id, words),
            "tool" => return self.tool(conversation, node, part),
            "file" => match content::file_block(part) {
                Some(block) => updates::agent_message_chunk(&node.id, &block),
                None => return Ok(()),
            },
            // Steps, snapshots and the like; those that are not known are counted.
            _ => return Ok(()),
        };
        self.update(conversation, update, at)
    }

    fn tool(
        &mut self,
        conversation: &mut OpencodeConversation,
        node: &OpencodeNode,
        part: &Value,
    ) -> Result<(), ReadError> {
        let (tool, state) = (part["tool"].as_str().unwrap_or("tool"), &part["state"]);
        let Some(id) = part["callID"].as_str().or_else(|| part["id"].as_str()) else { return Ok(()) };
        let (start, end) = (state["time"]["start"].as_u64().or(node.at), state["time"]["end"].as_u64());
        self.update(conversation, tools::begun(id, tool, state).update(), start)?;
        if let Some(end) = end {
            self.children(conversation, Some(end), if tool == "task" { "running" } else { "idle" })?;
        }
        if let Some(call) = tools::ended(id, tool, state) {
            if let Some(child) = state["metadata"]["sessionId"].as_str().filter(|_| tool == "task") {
                let title = conversation.children.iter().find(|known| known.session == child);
                if let Some(title) = title.map(|known| known.title.clone()) {
                    self.update(conversation, updates::subagent(child, &title, "idle"), end)?;
                }
            }
            self.update(conversation, call.update(), end)?;
            if let Some(entries) = tools::plan_of(tool, &state["input"]) {
                self.update(conversation, updates::plan("todos", &entries), end)?;
            }
        }
        Ok(())
    }

    /// The summary of a compaction, unless it failed.
    fn summary(
        &mut self,
        conversation: &mut OpencodeConversation,
        node: &OpencodeNode,
        message: &Value,
        words: &str,
    ) -> Result<(), ReadError> {
        let asked = conversation.compaction.take();
        if !message["error"].is_null() || message["time"]["completed"].is_null() {
            return Ok(());
        }
        let asked = asked.unwrap_or_else(|| PendingCompaction { id: node.id.clone(), at: node.at });
        self.update(conversation, updates::compaction(&asked.id, words), asked.at)
    }

    fn update(
        &mut self,
        conversation: &OpencodeConversation,
        update: Update,
        at: Option<Millis>,
    ) -> Result<(), ReadError> {
        let update = match conversation.speaker {
            ConversationSpeaker::Main => update,
            ConversationSpeaker::NewSubagent | ConversationSpeaker::Subagent => {
                updates::of_subagent(&conversation.session, update)
            }
        };
        Ok(self.sink.update(update, at)?)
    }

    /// Says which model is used: as `provider/model`, which is how opencode names models to clients.
    pub(super) fn model(&mut self, named: &Value) -> Result<(), SinkClosed> {
        let model = named["modelID"].as_str().or_else(|| named["id"].as_str());
        match (named["providerID"].as_str(), model) {
            (Some(provider), Some(model)) => self.sink.model(&format!("{provider}/{model}")),
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Adds up the tokens and the cost of a message.
    pub(super) fn spent(&mut self, message: &Value) -> Result<(), SinkClosed> {
        let tokens = &message["tokens"];
        let count =
            |value: &Value| value.as_f64().filter(|count| *count > 0.0).map_or(0, |count| count as u64);
        let used = UsedTokens {
            input: count(&tokens["input"]),
            // Those of thoughts are counted apart from the others.
            output: count(&tokens["output"]).saturating_add(count(&tokens["reasoning"])),
            cached_read: count(&tokens["cache"]["read"]),
            cached_write: count(&tokens["cache"]["write"]),
        };
        if let Some(cost) = message["cost"].as_f64().filter(|cost| cost.is_finite() && *cost > 0.0) {
            // Sums of such amounts have no more digits than this.
            self.cost = ((self.cost + cost) * 1e9).round() / 1e9;
            let context = [used.input, used.cached_read, used.cached_write];
            let context = context.into_iter().fold(0, u64::saturating_add);
            self.sink.update(updates::spent(context, self.cost), None)?;
        }
        if used != UsedTokens::default() { self.sink.tokens(used) } else { Ok(()) }
    }

    /// The JSON of a row; nothing, and a report, if it cannot be read.
    pub(super) fn parsed(&mut self, node: &OpencodeNode, data: Option<&str>) -> Option<Value> {
        let reason = match data.map(serde_json::from_str::<Value>) {
            Some(Ok(value)) if value.is_object() => return Some(value),
            Some(Ok(_)) => "it is not a JSON object".to_owned(),
            Some(Err(error)) => format!("it is not JSON: {error}"),
            None => "it is too long, or no text".to_owned(),
        };
        self.sink.damaged(&self.database.path, node.row, format!("{}: {reason}", node.id));
        None
    }
}

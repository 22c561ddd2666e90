//! A tool call as an agent tells of it: announced, under way, over.

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::terminal::Terminal;
use super::voice::{self, Voice};
use crate::edge;
use crate::ids;

/// What sort of work a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads.
    Read,
    /// Changes files.
    Edit,
    /// Deletes.
    Delete,
    /// Moves.
    Move,
    /// Looks for something.
    Search,
    /// Runs a command.
    Execute,
    /// Thinks.
    Think,
    /// Gets something from elsewhere.
    Fetch,
    /// Anything else.
    Other,
}

impl ToolKind {
    /// The word of the protocol.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::Other => "other",
        }
    }
}

/// A tool call that is to be announced.
#[derive(Clone, Debug)]
pub struct ToolCall {
    id: String,
    body: Value,
    cancellable: bool,
}

impl ToolCall {
    /// A tool call with a title for people.
    #[must_use]
    pub fn new(title: &str, kind: ToolKind) -> Self {
        let body = json!({"title": title, "kind": kind.word(), "status": "pending"});
        Self { id: format!("call-{}", ids::unique()), body, cancellable: false }
    }

    /// The same call under an id of the agent's choice.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        self.id = id.to_owned();
        self
    }

    /// The same call with what the tool is given.
    #[must_use]
    pub fn input(mut self, input: Value) -> Self {
        self.body["rawInput"] = input;
        self
    }

    /// The same call with a place in a file.
    #[must_use]
    pub fn at(mut self, path: &str, line: Option<u64>) -> Self {
        let mut place = json!({"path": path});
        if let Some(line) = line {
            place["line"] = json!(line);
        }
        match self.body["locations"].as_array_mut() {
            Some(places) => places.push(place),
            None => self.body["locations"] = json!([place]),
        }
        self
    }

    /// The same call with one more member, whatever the protocol has or will have.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.body[name] = value;
        self
    }

    /// The same call, which can be cancelled by itself; the agent has to be able to [`Ability::CancelOne`](super::Ability::CancelOne).
    #[must_use]
    pub fn cancellable(mut self) -> Self {
        self.cancellable = true;
        self
    }
}

/// A tool call that was announced.
pub struct Tool {
    voice: Voice,
    id: String,
    cancelled: Option<watch::Receiver<bool>>,
}

impl Tool {
    pub(super) async fn announce(voice: Voice, call: ToolCall) -> Self {
        let cancelled = if call.cancellable { voice.cancellable(&call.id) } else { None };
        let mut body = call.body;
        if cancelled.is_some() {
            body["capabilities"] = json!({"cancel": {}});
        }
        let tool = Self { voice, id: call.id, cancelled };
        tool.update(body).await;
        tool
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Patches it with these members.
    pub async fn update(&self, members: Value) {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": self.id});
        if let (Value::Object(update), Value::Object(members)) = (&mut update, members) {
            update.extend(members);
        }
        self.voice.update(update).await;
    }

    /// It is under way.
    pub async fn runs(&self) {
        self.update(json!({"status": "in_progress"})).await;
    }

    /// Shows text.
    pub async fn text(&self, text: &str) {
        self.show(json!({"type": "content", "content": {"type": "text", "text": text}})).await;
    }

    /// Shows how a file changes; `old` is nothing for a new one.
    pub async fn diff(&self, path: &str, old: Option<&str>, new: &str) {
        self.show(Self::diff_of(path, old, new)).await;
    }

    /// Shows a terminal.
    pub async fn terminal(&self, terminal: &Terminal) {
        self.show(json!({"type": "terminal", "terminalId": terminal.id()})).await;
    }

    /// Shows one more item of content.
    pub async fn show(&self, content: Value) {
        let update =
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": self.id, "content": content});
        self.voice.update(update).await;
    }

    /// It is done; `output` is for machines.
    pub async fn done(&self, output: Value) {
        self.over("completed", output).await;
    }

    /// It failed; `output` is for machines.
    pub async fn failed(&self, output: Value) {
        self.over("failed", output).await;
    }

    /// It was cancelled.
    pub async fn stopped(&self) {
        self.over("cancelled", Value::Null).await;
    }

    /// It was cancelled after it had come to this; `output` is for machines.
    pub async fn stopped_with(&self, output: Value) {
        self.over("cancelled", output).await;
    }

    async fn over(&self, status: &str, output: Value) {
        let mut members = json!({"status": status});
        if !output.is_null() {
            members["rawOutput"] = output;
        }
        self.update(members).await;
    }

    /// Waits until it alone is cancelled; for ever if it cannot be.
    pub async fn cancelled(&self) {
        voice::cancelled(self.cancelled.as_ref()).await;
    }

    /// How a file changes, as content of a tool call.
    #[must_use]
    pub fn diff_of(path: &str, old: Option<&str>, new: &str) -> Value {
        let mut diff = json!({"type": "diff", "path": path, "newText": new});
        if let Some(old) = old {
            diff["oldText"] = json!(old);
        }
        edge::v1::diff::from_v1(Json::from(diff).fields()).value()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.voice.not_cancellable(&self.id);
    }
}

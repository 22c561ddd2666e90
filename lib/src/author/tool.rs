//! Tool calls of an agent, as reported to clients: announced, in progress, finished.

use rethread_core::Json;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::emitter::{self, Emitter};
use super::terminal::Terminal;
use crate::edge;
use crate::ids;

/// The kind of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads data.
    Read,
    /// Changes files.
    Edit,
    /// Deletes files or data.
    Delete,
    /// Moves or renames files.
    Move,
    /// Searches for data.
    Search,
    /// Runs a command.
    Execute,
    /// Reasons or plans.
    Think,
    /// Fetches external data.
    Fetch,
    /// Any other kind.
    Other,
}

impl ToolKind {
    /// The value in the protocol.
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

/// A tool call to announce.
#[derive(Clone, Debug)]
pub struct ToolCall {
    id: String,
    body: Value,
    cancellable: bool,
}

impl ToolCall {
    /// Makes a tool call with a title.
    #[must_use]
    pub fn new(title: &str, kind: ToolKind) -> Self {
        let body = json!({"title": title, "kind": kind.word(), "status": "pending"});
        Self { id: format!("call-{}", ids::unique()), body, cancellable: false }
    }

    /// Sets the id instead of generating one.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        self.id = id.to_owned();
        self
    }

    /// Sets the raw input of the tool.
    #[must_use]
    pub fn input(mut self, input: Value) -> Self {
        self.body["rawInput"] = input;
        self
    }

    /// Adds a file location.
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

    /// Sets any other member of the protocol.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.body[name] = value;
        self
    }

    /// Makes the call cancellable by itself; requires [`Ability::CancelOne`](super::Ability::CancelOne).
    #[must_use]
    pub fn cancellable(mut self) -> Self {
        self.cancellable = true;
        self
    }
}

/// A tool call that was announced to clients.
pub struct Tool {
    emitter: Emitter,
    id: String,
    cancelled: Option<watch::Receiver<bool>>,
}

impl Tool {
    pub(super) async fn announce(emitter: Emitter, call: ToolCall) -> Self {
        let cancelled = if call.cancellable { emitter.cancellable(&call.id) } else { None };
        let mut body = call.body;
        if cancelled.is_some() {
            body["capabilities"] = json!({"cancel": {}});
        }
        let tool = Self { emitter, id: call.id, cancelled };
        tool.update(body).await;
        tool
    }

    /// The id of the call.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Updates members of the call.
    pub async fn update(&self, members: Value) {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": self.id});
        if let (Value::Object(update), Value::Object(members)) = (&mut update, members) {
            update.extend(members);
        }
        self.emitter.update(update).await;
    }

    /// Reports that it is in progress.
    pub async fn runs(&self) {
        self.update(json!({"status": "in_progress"})).await;
    }

    /// Appends text.
    pub async fn text(&self, text: &str) {
        self.show(json!({"type": "content", "content": {"type": "text", "text": text}})).await;
    }

    /// Appends a file change; `old` is `None` for a new file.
    pub async fn diff(&self, path: &str, old: Option<&str>, new: &str) {
        self.show(Self::diff_of(path, old, new)).await;
    }

    /// Appends a terminal.
    pub async fn terminal(&self, terminal: &Terminal) {
        self.show(json!({"type": "terminal", "terminalId": terminal.id()})).await;
    }

    /// Appends an item of content.
    pub async fn show(&self, content: Value) {
        let update =
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": self.id, "content": content});
        self.emitter.update(update).await;
    }

    /// Reports success; `output` is the raw output.
    pub async fn done(&self, output: Value) {
        self.over("completed", output).await;
    }

    /// Reports a failure; `output` is the raw output.
    pub async fn failed(&self, output: Value) {
        self.over("failed", output).await;
    }

    /// Reports that it was cancelled.
    pub async fn stopped(&self) {
        self.over("cancelled", Value::Null).await;
    }

    /// Reports that it was cancelled, with the raw output so far.
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

    /// Waits until this call is cancelled by itself; forever if it is not cancellable.
    pub async fn cancelled(&self) {
        emitter::cancelled(self.cancelled.as_ref()).await;
    }

    /// A file change as content of a tool call.
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
        self.emitter.not_cancellable(&self.id);
    }
}

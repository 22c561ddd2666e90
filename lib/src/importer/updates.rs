//! Updates in canonical shape, as an agent would have sent them: what readers make of the records of other tools.

use rethread_core::{Fields, Json, Update, UpdateKind};
use serde_json::{Value, json};

use crate::edge::v1::diff;

/// A text block.
#[must_use]
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// An image block.
#[must_use]
pub fn image(mime: &str, base64: &str) -> Value {
    json!({"type": "image", "mimeType": mime, "data": base64})
}

/// A link to something that is not included.
#[must_use]
pub fn link(uri: &str, name: &str) -> Value {
    json!({"type": "resource_link", "uri": uri, "name": name})
}

/// The content of a file: text as it is, other content in base64.
#[must_use]
pub fn resource(uri: &str, mime: &str, content: ResourceContent<'_>) -> Value {
    let (name, content) = match content {
        ResourceContent::Text(text) => ("text", text),
        ResourceContent::Base64(data) => ("blob", data),
    };
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, name: content}})
}

/// The content of a resource block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceContent<'a> {
    /// Text.
    Text(&'a str),
    /// Bytes in base64.
    Base64(&'a str),
}

/// A whole message of the user, which begins a turn.
#[must_use]
pub fn user_message(id: &str, blocks: &[Value]) -> Update {
    message("user_message", id, blocks)
}

/// A whole message of the agent.
#[must_use]
pub fn agent_message(id: &str, blocks: &[Value]) -> Update {
    message("agent_message", id, blocks)
}

/// A block that is appended to a message of the agent: for tools that record one message in several places.
#[must_use]
pub fn agent_message_chunk(id: &str, block: &Value) -> Update {
    Update::read(json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": block}).into())
}

/// A whole thought of the agent.
#[must_use]
pub fn thought(id: &str, words: &str) -> Update {
    message("agent_thought", id, &[text(words)])
}

/// Words that are appended to a thought of the agent.
#[must_use]
pub fn thought_chunk(id: &str, words: &str) -> Update {
    let body = json!({"sessionUpdate": "agent_thought_chunk", "messageId": id, "content": text(words)});
    Update::read(body.into())
}

/// The plan as a list of entries: content, status (`pending`, `in_progress`, `completed`) and perhaps priority.
#[must_use]
pub fn plan(id: &str, entries: &[PlanEntry]) -> Update {
    let entry = |entry: &PlanEntry| json!({"content": entry.content, "status": entry.status.as_str(), "priority": "medium"});
    let entries: Vec<_> = entries.iter().map(entry).collect();
    let plan = json!({"type": "items", "planId": id, "entries": entries});
    Update::read(json!({"sessionUpdate": "plan_update", "plan": plan}).into())
}

/// An entry of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: PlanStatus,
}

/// How far an entry of a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
}

impl PlanStatus {
    /// Reads the words that tools use for it.
    #[must_use]
    pub fn of(word: &str) -> Self {
        match word {
            "in_progress" | "active" => Self::InProgress,
            "completed" | "done" => Self::Completed,
            _ => Self::Pending,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// The conversation was compacted to a summary.
#[must_use]
pub fn compaction(id: &str, summary: &str) -> Update {
    let summary = if summary.is_empty() { json!([]) } else { json!([text(summary)]) };
    let body = json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": "completed",
        "summary": summary});
    Update::read(body.into())
}

/// What the session has cost so far, and how many tokens its context has. How many it may have is not known.
#[must_use]
pub fn spent(used: u64, dollars: f64) -> Update {
    let cost = json!({"amount": dollars, "currency": "USD"});
    Update::read(json!({"sessionUpdate": "usage_update", "used": used, "size": 0, "cost": cost}).into())
}

/// A sub-agent with a session of its own begins, or has ended (`state` is `running`, `idle` or another).
#[must_use]
pub fn subagent(session: &str, title: &str, state: &str) -> Update {
    let body = json!({"sessionUpdate": "subagent_update", "sessionId": session, "title": title,
        "state": {"state": state}});
    Update::read(body.into())
}

/// What a sub-agent said or did. It must have been announced with [`subagent`].
#[must_use]
pub fn of_subagent(session: &str, update: Update) -> Update {
    Update { kind: UpdateKind::Other, id: session.to_owned(), body: update.body }
}

/// A tool call in the making: what is set is what is known. Several updates of one id add up.
#[derive(Clone, Debug)]
pub struct RecordedCall(Fields);

/// How a tool call ended, or that it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStatus {
    /// It is under way. What is still so when the turn ends was cut off.
    InProgress,
    /// It ended well.
    Completed,
    /// It failed, or the user did not allow it.
    Failed,
}

impl RecordedCall {
    /// A tool call with the id that the tool has for it.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let tag = ("sessionUpdate", Json::of("tool_call_update"));
        Self([tag, ("toolCallId", Json::of(id))].into_iter().collect())
    }

    /// Sets what people read: what is done, and to what.
    #[must_use]
    pub fn title(self, title: &str) -> Self {
        self.with("title", Json::of(title))
    }

    /// Sets the sort of call: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `other`.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        self.with("kind", Json::of(kind))
    }

    /// Sets the name of the tool.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.with("name", Json::of(name))
    }

    /// Sets how far it is.
    #[must_use]
    pub fn status(self, status: ToolStatus) -> Self {
        let word = match status {
            ToolStatus::InProgress => "in_progress",
            ToolStatus::Completed => "completed",
            ToolStatus::Failed => "failed",
        };
        self.with("status", Json::of(word))
    }

    /// Sets the input as the tool got it.
    #[must_use]
    pub fn input(self, input: Json) -> Self {
        self.with("rawInput", input)
    }

    /// Sets the output as the tool gave it.
    #[must_use]
    pub fn output(self, output: Json) -> Self {
        self.with("rawOutput", output)
    }

    /// Sets the content that is shown: see [`shown`] and [`changed_file`].
    #[must_use]
    pub fn content(self, items: &[Json]) -> Self {
        self.with("content", Json::of(items))
    }

    /// Sets the files that it is about.
    #[must_use]
    pub fn paths(self, paths: &[&str]) -> Self {
        let locations: Vec<_> = paths.iter().map(|path| json!({"path": path})).collect();
        self.with("locations", Json::of(&locations))
    }

    /// The update.
    #[must_use]
    pub fn update(self) -> Update {
        Update::of(&self.0)
    }

    fn with(mut self, name: &str, value: Json) -> Self {
        self.0.set(name, value);
        self
    }
}

/// A content block as an item of a tool call.
#[must_use]
pub fn shown(block: &Value) -> Json {
    json!({"type": "content", "content": block}).into()
}

/// A changed file as an item of a tool call. Without an old text the file is new.
#[must_use]
pub fn changed_file(path: &str, old: Option<&str>, new: &str) -> Json {
    let item = json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    diff::from_v1(Json::from(item).fields())
}

/// A file that a unified diff changes, as an item of a tool call. What is before the first hunk is replaced.
#[must_use]
pub fn patched_file(path: &str, operation: FileOperation<'_>, diff: &str) -> Json {
    let hunks = if diff.starts_with("@@") { Some(0) } else { diff.find("\n@@").map(|place| place + 1) };
    let hunks = hunks.map_or("", |place| &diff[place..]);
    let end = if hunks.ends_with('\n') || hunks.is_empty() { "" } else { "\n" };
    let (from, none) = (quoted(path), "/dev/null");
    let target = match operation {
        FileOperation::MoveTo(target) => quoted(target),
        FileOperation::Add | FileOperation::Modify | FileOperation::Delete => from.clone(),
    };
    let (word, mode, old, new) = match operation {
        FileOperation::Add => ("add", "new file mode 100644\n".to_owned(), none, target.as_str()),
        FileOperation::Modify => ("modify", String::new(), from.as_str(), target.as_str()),
        FileOperation::Delete => ("delete", "deleted file mode 100644\n".to_owned(), from.as_str(), none),
        FileOperation::MoveTo(_) => {
            ("move", format!("rename from {from}\nrename to {target}\n"), from.as_str(), target.as_str())
        }
    };
    let text = format!("diff --git {from} {target}\n{mode}--- {old}\n+++ {new}\n{hunks}{end}");
    let change = match operation {
        FileOperation::MoveTo(target) => {
            json!({"operation": word, "path": target, "oldPath": path, "fileType": "text"})
        }
        FileOperation::Add | FileOperation::Modify | FileOperation::Delete => {
            json!({"operation": word, "path": path, "fileType": "text"})
        }
    };
    json!({"type": "diff", "changes": [change], "patch": {"format": "git_patch", "text": text}}).into()
}

/// A path as it is written in a patch.
fn quoted(path: &str) -> String {
    let is_odd = path.contains(|c: char| c.is_control() || matches!(c, '"' | '\\'));
    if is_odd { format!("{path:?}") } else { path.to_owned() }
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation<'a> {
    /// It is new.
    Add,
    /// It is changed.
    Modify,
    /// It is removed.
    Delete,
    /// It is moved to another path, and may be changed.
    MoveTo(&'a str),
}

/// A deleted file as an item of a tool call.
#[must_use]
pub fn deleted_file(path: &str, old: &str) -> Json {
    let lines: String = old.lines().map(|line| format!("-{line}\n")).collect();
    patched_file(path, FileOperation::Delete, &format!("@@ -1,{} +0,0 @@\n{lines}", old.lines().count()))
}

fn message(tag: &str, id: &str, blocks: &[Value]) -> Update {
    Update::read(json!({"sessionUpdate": tag, "messageId": id, "content": blocks}).into())
}

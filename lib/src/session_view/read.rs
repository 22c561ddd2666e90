//! Reads the items of a view: texts, titles, statuses, locations, commands, plan steps. How they are laid out is decided
//! by whoever shows them.

use std::borrow::Cow;

use rethread_core::{Speaker, Subject, TextPart};
use serde::Serialize;
use serde_json::Value;

use super::item::{ItemContent, ViewItem};
use super::json;

/// A place in a file that a tool call is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileLocation {
    /// The path.
    pub path: String,
    /// The line, counted from 1.
    pub line: Option<u64>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanStep {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
    /// `high`, `medium` or `low`.
    pub priority: Option<String>,
}

/// How a command in a terminal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalExit {
    /// The exit code.
    pub code: Option<i64>,
    /// The signal that ended it.
    pub signal: Option<String>,
}

impl ViewItem {
    /// Who speaks; nobody in an item that has nothing to read.
    #[must_use]
    pub fn speaker(&self) -> Option<Speaker> {
        match self.subject {
            Subject::UserMessage => Some(Speaker::User),
            Subject::AgentMessage => Some(Speaker::Agent),
            Subject::Thought => Some(Speaker::Thought),
            Subject::ToolCall => Some(Speaker::Tool),
            Subject::Terminal => Some(Speaker::Terminal),
            Subject::Plan => Some(Speaker::Plan),
            Subject::Compaction => Some(Speaker::Compaction),
            Subject::Notice => Some(Speaker::Notice),
            Subject::Commands | Subject::Options | Subject::SessionInfo | Subject::Usage | Subject::Other => {
                None
            }
        }
    }

    /// The content of a message or a tool call, part by part.
    #[must_use]
    pub fn parts(&self) -> Vec<TextPart> {
        self.content.iter().filter_map(part).collect()
    }

    /// The content of a message as one text; what is no text is shown by its type.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts().iter().map(TextPart::text).collect()
    }

    /// A member that is a string.
    #[must_use]
    pub fn text_member(&self, name: &str) -> Option<&str> {
        self.members.get(name).and_then(Value::as_str)
    }

    /// The title of a tool call.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.text_member("title")
    }

    /// The status of a tool call or a compaction.
    #[must_use]
    pub fn status(&self) -> Option<&str> {
        self.text_member("status")
    }

    /// The kind of a tool call: `read`, `edit`, `execute`, …
    #[must_use]
    pub fn tool_kind(&self) -> Option<&str> {
        self.text_member("kind")
    }

    /// The files that a tool call is about.
    #[must_use]
    pub fn locations(&self) -> Vec<FileLocation> {
        let list = self.members.get("locations").and_then(Value::as_array);
        let location = |value: &Value| {
            let path = value["path"].as_str()?.to_owned();
            Some(FileLocation { path, line: value["line"].as_u64() })
        };
        list.into_iter().flatten().filter_map(location).collect()
    }

    /// The command of a terminal.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        self.text_member("command")
    }

    /// The output of a terminal, or its end if it is long.
    #[must_use]
    pub fn output(&self) -> Cow<'_, [u8]> {
        match self.content.as_slice() {
            [ItemContent::Bytes(bytes)] => bytes.into(),
            parts => parts
                .iter()
                .flat_map(|part| match part {
                    ItemContent::Bytes(bytes) => bytes.clone(),
                    ItemContent::Chunk(body) => chunk_bytes(body),
                    ItemContent::Text(_) | ItemContent::Block(_) => Vec::new(),
                })
                .collect(),
        }
    }

    /// How the command of a terminal ended; `None` while it runs.
    #[must_use]
    pub fn exit(&self) -> Option<TerminalExit> {
        let status = self.members.get("exitStatus")?;
        let signal = status["signal"].as_str().map(str::to_owned);
        Some(TerminalExit { code: status["exitCode"].as_i64(), signal })
    }

    /// The steps of a plan.
    #[must_use]
    pub fn plan_steps(&self) -> Vec<PlanStep> {
        let Some(ItemContent::Block(body)) = self.content.first() else { return Vec::new() };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let step = |step: &Value| PlanStep {
            content: text(&step["content"]).unwrap_or_default(),
            status: text(&step["status"]).unwrap_or_default(),
            priority: text(&step["priority"]),
        };
        body["plan"]["entries"].as_array().into_iter().flatten().map(step).collect()
    }

    /// The text of a plan that is not a list of steps: prose, or the address of a file.
    #[must_use]
    pub fn plan_text(&self) -> Option<String> {
        let Some(ItemContent::Block(body)) = self.content.first() else { return None };
        let plan = &body["plan"];
        plan["content"].as_str().or_else(|| plan["uri"].as_str()).map(str::to_owned)
    }

    /// The tag of an update that is not known here.
    #[must_use]
    pub fn other_tag(&self) -> Option<&str> {
        match (self.subject, self.content.first()) {
            (Subject::Other, Some(ItemContent::Block(body))) => body["sessionUpdate"].as_str(),
            (_, _) => None,
        }
    }
}

fn part(content: &ItemContent) -> Option<TextPart> {
    match content {
        ItemContent::Text(text) => Some(TextPart::Text(text.clone())),
        ItemContent::Block(block) => TextPart::read(&json(block)),
        ItemContent::Chunk(body) => TextPart::read(&json(&body["content"])),
        ItemContent::Bytes(bytes) => Some(TextPart::Text(String::from_utf8_lossy(bytes).into_owned())),
    }
}

fn chunk_bytes(body: &Value) -> Vec<u8> {
    use base64::Engine;
    let data = body["data"].as_str().unwrap_or_default();
    base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default()
}

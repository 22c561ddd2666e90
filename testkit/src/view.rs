//! What a user sees of a session, so that clients of two versions, or a live client and a replay, can be compared: a
//! summary of the view that the library's client folds from the messages of a test client.

use std::collections::BTreeMap;
use std::fmt;

use rethread::client::view::{SessionView, ViewItem};
use rethread::client::{Decoded, SessionDecoder, SessionEvent};
use rethread::edge::Version;
use rethread_core::{Json, PromptStyle, Subject, TextPart};
use serde_json::Value;

use crate::client::{From, RecordedMessage};

/// The visible state of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Messages, tool calls and the rest, in order of first appearance.
    pub items: Vec<Item>,
    /// The plan entries with their status.
    pub plan: Vec<String>,
    /// Used tokens and context size.
    pub usage: Option<(u64, u64)>,
    /// The names of the slash commands.
    pub commands: Vec<String>,
    /// The current values by option id.
    pub options: BTreeMap<String, String>,
    /// The title.
    pub title: Option<String>,
}

/// One item of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A message: `user`, `agent` or `thought`.
    Message {
        /// Whose.
        who: &'static str,
        /// Its id.
        id: Name,
        /// Its text.
        text: String,
    },
    /// A tool call.
    Tool {
        /// Its id.
        id: Name,
        /// Its title.
        title: String,
        /// Its status.
        status: String,
        /// Its content, one line for each item.
        content: Vec<String>,
    },
    /// Any other lasting update, by its tag.
    Other(String),
}

/// An id. An id that the client was not sent equals any other.
#[derive(Clone, Debug)]
pub struct Name(pub Option<String>);

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_none() || other.0.is_none() || self.0 == other.0
    }
}

impl Eq for Name {}

impl View {
    /// Folds a conversation.
    #[must_use]
    pub fn of(version: Version, session: &str, said: &[RecordedMessage]) -> Self {
        let decoder = SessionDecoder::new(version);
        let mut fold = Fold { decoder, session, view: SessionView::default(), asked: Vec::new() };
        for said in said {
            fold.add(said);
        }
        summary(&fold.view)
    }

    /// The texts of all messages of this kind.
    #[must_use]
    pub fn texts(&self, of: &str) -> Vec<String> {
        let text = |item: &Item| match item {
            Item::Message { who, text, .. } if *who == of => Some(text.clone()),
            Item::Message { .. } | Item::Tool { .. } | Item::Other(_) => None,
        };
        self.items.iter().filter_map(text).collect()
    }

    /// The texts of the agent's messages.
    #[must_use]
    pub fn agent(&self) -> Vec<String> {
        self.texts("agent")
    }

    /// The texts of the user's messages.
    #[must_use]
    pub fn user(&self) -> Vec<String> {
        self.texts("user")
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(title) = &self.title {
            writeln!(f, "title: {title}")?;
        }
        for item in &self.items {
            match item {
                Item::Message { who, text, .. } => writeln!(f, "{who}: {text}")?,
                Item::Tool { title, status, content, .. } => {
                    writeln!(f, "tool: {title} ({status})")?;
                    for line in content {
                        writeln!(f, "    {line}")?;
                    }
                }
                Item::Other(tag) => writeln!(f, "other: {tag}")?,
            }
        }
        for entry in &self.plan {
            writeln!(f, "plan: {entry}")?;
        }
        if let Some((used, size)) = self.usage {
            writeln!(f, "usage: {used}/{size}")?;
        }
        if !self.commands.is_empty() {
            writeln!(f, "commands: {}", self.commands.join(", "))?;
        }
        for (option, value) in &self.options {
            writeln!(f, "option: {option} = {value}")?;
        }
        Ok(())
    }
}

struct Fold<'a> {
    decoder: SessionDecoder,
    session: &'a str,
    view: SessionView,
    /// The client's requests, to interpret their answers.
    asked: Vec<&'a Value>,
}

impl<'a> Fold<'a> {
    fn add(&mut self, said: &'a RecordedMessage) {
        let message = &said.message;
        match (said.from, message.get("method").and_then(Value::as_str)) {
            (From::Client, Some(method)) => {
                self.asked.push(message);
                if method == "session/prompt" && self.is_ours(message) {
                    self.own_prompt(&message["params"]["prompt"]);
                }
            }
            (From::Server, Some("session/update")) if self.is_ours(message) => self.update(message),
            (From::Server, None) => self.answer(message),
            (From::Server, Some(_)) | (From::Client, None) => {}
        }
    }

    fn is_ours(&self, message: &Value) -> bool {
        message["params"]["sessionId"] == self.session
    }

    /// Not by way of the decoder, which would hide it if the server sent the prompt back.
    fn own_prompt(&mut self, content: &Value) {
        if self.decoder.dialect().prompts == PromptStyle::OneAtATime {
            self.view.apply(&SessionEvent::Prompted { content: content.clone().into() });
        }
    }

    fn update(&mut self, message: &Value) {
        let line = message.to_string();
        for decoded in self.decoder.lines(std::iter::once(line.as_bytes())) {
            if let Decoded::Event(event) = decoded {
                self.view.apply(&event);
            }
        }
    }

    fn answer(&mut self, message: &Value) {
        let Some(request) = self.asked.iter().rfind(|request| request["id"] == message["id"]) else { return };
        let result = Json::from(message["result"].clone());
        let ours = message["result"]["sessionId"] == self.session || self.is_ours(request);
        let events = match request["method"].as_str() {
            Some("session/new" | "session/load" | "session/resume") if ours => self.decoder.opened(&result),
            Some("session/set_config_option") if ours && message.get("result").is_some() => {
                let (option, value) = (&request["params"]["configId"], &request["params"]["value"]);
                let option = option.as_str().unwrap_or_default();
                vec![self.decoder.option_set(option, &value.clone().into(), &result)]
            }
            Some(_) | None => return,
        };
        for event in events {
            self.view.apply(&event);
        }
    }
}

fn summary(view: &SessionView) -> View {
    let mut items = Vec::new();
    for item in view.items() {
        match shown(view, item) {
            Some(other @ Item::Other(_)) if items.contains(&other) => {}
            Some(item) => items.push(item),
            None => {}
        }
    }
    let steps = view.plan().map(ViewItem::plan_steps).unwrap_or_default();
    View {
        items,
        plan: steps.iter().map(|step| format!("{} ({})", step.content, step.status)).collect(),
        usage: view.usage().map(|usage| (usage.used, usage.size)),
        commands: view.commands().into_iter().map(|command| command.name).collect(),
        options: view.options().into_iter().map(|option| (option.id.clone(), option.value_text())).collect(),
        title: view.title().map(str::to_owned),
    }
}

fn shown(view: &SessionView, item: &ViewItem) -> Option<Item> {
    let id = Name(Some(item.id.clone()).filter(|id| !id.is_empty()));
    let message = |who, id| Some(Item::Message { who, id, text: message_text(item) });
    match item.subject {
        Subject::UserMessage => message("user", id),
        Subject::AgentMessage => message("agent", id),
        Subject::Thought => message("thought", id),
        Subject::ToolCall => Some(Item::Tool {
            id,
            title: item.title().unwrap_or_default().to_owned(),
            status: item.status().unwrap_or("pending").to_owned(),
            content: item.parts().iter().flat_map(|part| tool_lines(view, part)).collect(),
        }),
        Subject::Compaction => Some(Item::Other("compaction_update".to_owned())),
        Subject::Other => Some(Item::Other(item.other_tag().unwrap_or_default().to_owned())),
        // Terminals are shown in their tool calls, the rest apart from the items.
        Subject::Terminal
        | Subject::Plan
        | Subject::Commands
        | Subject::Options
        | Subject::SessionInfo
        | Subject::Usage
        | Subject::Notice => None,
    }
}

fn message_text(item: &ViewItem) -> String {
    item.parts().iter().map(block_text).collect()
}

fn block_text(part: &TextPart) -> String {
    match part {
        TextPart::Text(text) => text.clone(),
        TextPart::Link(_) => "[resource_link]".to_owned(),
        TextPart::Resource { .. } => "[resource]".to_owned(),
        TextPart::Diff { .. } => "[diff]".to_owned(),
        TextPart::Terminal(_) => "[terminal]".to_owned(),
        TextPart::Opaque(kind) => format!("[{kind}]"),
    }
}

fn tool_lines(view: &SessionView, part: &TextPart) -> Vec<String> {
    match part {
        TextPart::Diff { changes, .. } => changes.iter().map(|(_, path)| format!("diff {path}")).collect(),
        TextPart::Terminal(id) => match view.item(Subject::Terminal, id) {
            Some(terminal) => {
                let output = terminal.output();
                vec![format!("terminal: {}", String::from_utf8_lossy(&output).trim_end())]
            }
            None => vec![format!("terminal {id}")],
        },
        TextPart::Text(_) | TextPart::Link(_) | TextPart::Resource { .. } | TextPart::Opaque(_) => {
            vec![block_text(part)]
        }
    }
}

//! What a user sees of a session, folded from the updates of either version, so that clients of two versions, or a live
//! client and a replay, can be compared. Independent of Rethread's own model.

use std::collections::BTreeMap;
use std::fmt;

use rethread::edge::Version;
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
        let mut fold =
            Fold { version, session, view: Self::default(), asked: Vec::new(), screens: BTreeMap::new() };
        for said in said {
            fold.add(said);
        }
        fold.finish()
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
    version: Version,
    session: &'a str,
    view: View,
    /// The client's requests, to interpret their answers.
    asked: Vec<&'a Value>,
    /// The output of terminals as bytes, since a character may be split.
    screens: BTreeMap<String, Vec<u8>>,
}

impl<'a> Fold<'a> {
    fn add(&mut self, said: &'a RecordedMessage) {
        let message = &said.message;
        match (said.from, message.get("method").and_then(Value::as_str)) {
            (From::Client, Some(method)) => {
                self.asked.push(message);
                if method == "session/prompt" && self.version == Version::V1 && self.is_ours(message) {
                    self.own_prompt(&message["params"]["prompt"]);
                }
            }
            (From::Server, Some("session/update")) if self.is_ours(message) => {
                self.update(&message["params"]["update"]);
            }
            (From::Server, None) => self.answer(message),
            (From::Server, Some(_)) | (From::Client, None) => {}
        }
    }

    fn is_ours(&self, message: &Value) -> bool {
        message["params"]["sessionId"] == self.session
    }

    fn own_prompt(&mut self, content: &Value) {
        let text = blocks(content);
        self.view.items.push(Item::Message { who: "user", id: Name(None), text });
    }

    fn answer(&mut self, message: &Value) {
        let result = &message["result"];
        let Some(request) = self.asked.iter().rfind(|request| request["id"] == message["id"]) else { return };
        let tells = matches!(
            request["method"].as_str(),
            Some("session/new" | "session/load" | "session/resume" | "session/set_config_option")
        );
        if tells && (result["sessionId"] == self.session || self.is_ours(request)) {
            self.options(result);
            self.commands(result);
        }
    }

    fn options(&mut self, body: &Value) {
        if let Some(list) = body["configOptions"].as_array() {
            let id = |option: &Value| {
                let id = option.get("configId").or_else(|| option.get("id"));
                id.and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            self.view.options =
                list.iter().map(|option| (id(option), text(&option["currentValue"]))).collect();
        }
        for (view, current, option) in
            [("modes", "currentModeId", "mode"), ("models", "currentModelId", "model")]
        {
            if let Some(value) = body[view][current].as_str() {
                self.view.options.insert(option.to_owned(), value.to_owned());
            }
        }
    }

    fn commands(&mut self, body: &Value) {
        if let Some(list) = body["availableCommands"].as_array() {
            self.view.commands = list.iter().map(|command| text(&command["name"])).collect();
        }
    }

    fn update(&mut self, update: &Value) {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default();
        match tag {
            "user_message_chunk" | "user_message" => self.message("user", tag, update),
            "agent_message_chunk" | "agent_message" => self.message("agent", tag, update),
            "agent_thought_chunk" | "agent_thought" => self.message("thought", tag, update),
            "tool_call" | "tool_call_update" | "tool_call_content_chunk" => self.tool(tag, update),
            "plan" => self.view.plan = plan(&update["entries"]),
            "plan_update" => self.view.plan = plan(&update["plan"]["entries"]),
            "plan_removed" => self.view.plan.clear(),
            "usage_update" => {
                self.view.usage = update["used"].as_u64().zip(update["size"].as_u64());
            }
            "available_commands_update" => self.commands(update),
            "config_option_update" => self.options(update),
            "current_mode_update" => {
                self.view.options.insert("mode".to_owned(), text(&update["currentModeId"]));
            }
            "session_info_update" => self.title(update),
            "terminal_update" | "terminal_output_chunk" => self.screen(update),
            // Current state, not part of the conversation.
            "state_update" | "notice" => {}
            other => {
                let other = Item::Other(other.to_owned());
                if !self.view.items.contains(&other) {
                    self.view.items.push(other);
                }
            }
        }
    }

    fn title(&mut self, update: &Value) {
        match update.get("title") {
            Some(Value::String(title)) => self.view.title = Some(title.clone()),
            Some(_) => self.view.title = None,
            None => {}
        }
    }

    fn message(&mut self, who: &'static str, tag: &str, update: &Value) {
        let id = update["messageId"].as_str().map(str::to_owned);
        let piece = blocks(&update["content"]);
        let last = self.view.items.len().wrapping_sub(1);
        let found = self.view.items.iter().enumerate().position(|(at, item)| match item {
            Item::Message { who: of, id: known, .. } if *of == who => match &id {
                Some(_) => known.0 == id,
                None => at == last && known.0.is_none(),
            },
            Item::Message { .. } | Item::Tool { .. } | Item::Other(_) => false,
        });
        let found = found.and_then(|at| match &mut self.view.items[at] {
            Item::Message { text, .. } => Some(text),
            Item::Tool { .. } | Item::Other(_) => None,
        });
        match (found, tag.ends_with("_chunk")) {
            (Some(text), true) => text.push_str(&piece),
            (Some(text), false) if update.get("content").is_some() => *text = piece,
            (Some(_), false) => {}
            (None, _) => self.view.items.push(Item::Message { who, id: Name(id), text: piece }),
        }
    }

    fn tool(&mut self, tag: &str, update: &Value) {
        let name = update["toolCallId"].as_str().map(str::to_owned);
        let known = self.view.items.iter().position(|item| match item {
            Item::Tool { id, .. } => id.0 == name,
            Item::Message { .. } | Item::Other(_) => false,
        });
        let at = known.unwrap_or_else(|| {
            let (title, status) = (String::new(), "pending".to_owned());
            self.view.items.push(Item::Tool { id: Name(name), title, status, content: Vec::new() });
            self.view.items.len() - 1
        });
        let Item::Tool { title, status, content, .. } = &mut self.view.items[at] else { return };
        if let Some(new) = update["title"].as_str() {
            new.clone_into(title);
        }
        if let Some(new) = update["status"].as_str() {
            new.clone_into(status);
        }
        match (tag, &update["content"]) {
            ("tool_call_content_chunk", item) => content.extend(tool_content(item)),
            (_, Value::Array(items)) => *content = items.iter().flat_map(tool_content).collect(),
            (_, _) => {}
        }
    }

    fn screen(&mut self, update: &Value) {
        let screen = self.screens.entry(text(&update["terminalId"])).or_default();
        if let Some(whole) = update["output"]["data"].as_str() {
            *screen = decoded(whole);
        }
        if let Some(data) = update["data"].as_str() {
            screen.extend(decoded(data));
        }
    }

    /// The text of terminals is only complete at the end.
    fn finish(mut self) -> View {
        for item in &mut self.view.items {
            let Item::Tool { content, .. } = item else { continue };
            for line in content {
                if let Some(id) = line.strip_prefix("terminal ")
                    && let Some(screen) = self.screens.get(id)
                {
                    *line = format!("terminal: {}", String::from_utf8_lossy(screen).trim_end());
                }
            }
        }
        self.view
    }
}

fn blocks(content: &Value) -> String {
    let block = |block: &Value| match block["type"].as_str() {
        Some("text") => text(&block["text"]),
        Some(other) => format!("[{other}]"),
        None => String::new(),
    };
    match content.as_array() {
        Some(list) => list.iter().map(block).collect(),
        None => block(content),
    }
}

fn tool_content(item: &Value) -> Vec<String> {
    match item["type"].as_str() {
        Some("content") => vec![blocks(&item["content"])],
        Some("diff") => match item["changes"].as_array() {
            Some(changes) => changes.iter().map(|change| format!("diff {}", text(&change["path"]))).collect(),
            None => vec![format!("diff {}", text(&item["path"]))],
        },
        Some("terminal") => vec![format!("terminal {}", text(&item["terminalId"]))],
        other => vec![format!("[{}]", other.unwrap_or_default())],
    }
}

fn plan(entries: &Value) -> Vec<String> {
    let entries = entries.as_array().into_iter().flatten();
    entries.map(|entry| format!("{} ({})", text(&entry["content"]), text(&entry["status"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A minimal base64 decoder.
fn decoded(data: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for byte in data.bytes() {
        let Some(digit) = DIGITS.iter().position(|digit| *digit == byte) else { continue };
        bits = (bits << 6) | u32::try_from(digit).unwrap_or_default();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).unwrap_or_default());
        }
    }
    bytes
}

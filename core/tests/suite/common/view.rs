//! What a client of the second protocol version sees after some entries: the things, in the order in which they
//! appeared. Written from the protocol's words alone and on parsed JSON, so that it owes nothing to the fold.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rethread_core::{Entry, Folded, Update, UpdateKind};
use serde_json::{Map, Value, json};

/// The members of an object.
pub type Members = Map<String, Value>;

/// All that is on the screen.
#[derive(Debug, Default, PartialEq)]
pub struct View {
    pub things: Vec<(Key, Thing)>,
    pub info: Thing,
    pub options: Value,
    pub commands: Value,
    pub usage: Value,
    pub state: Value,
    pub questions: Vec<String>,
}

/// What sort of thing, and its id.
pub type Key = (&'static str, String);

/// One thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thing {
    pub members: Members,
    pub meta: Members,
    pub content: Vec<Bit>,
    /// What the snapshot of a terminal's output says beside its bytes.
    pub snapshot: Members,
}

/// A bit of content.
#[derive(Clone, Debug, PartialEq)]
pub enum Bit {
    /// Plain text that came in any number of blocks.
    Text(String),
    /// Another block or item.
    Value(Value),
    /// Bytes that came in any number of chunks.
    Bytes(Vec<u8>),
    /// A chunk that says more than its content, or that makes no sense.
    Noted(Value),
}

impl View {
    /// What is seen after these items.
    pub fn of(items: &[Folded]) -> Self {
        let mut view = Self::default();
        for item in items {
            view.apply(&item.entry);
        }
        view
    }

    fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::PromptInserted { message, content, .. } => {
                let thing = thing(&mut self.things, ("user_message", message.to_string()));
                thing.content = content.value().as_array().into_iter().flatten().fold(Vec::new(), with_block);
            }
            Entry::TurnStarted { turn, state, .. } => {
                thing(&mut self.things, ("turn started", turn.to_string()));
                self.state = state.value();
            }
            Entry::TurnEnded { turn, state, .. } => {
                thing(&mut self.things, ("turn ended", turn.to_string()));
                self.state = state.value();
            }
            Entry::StateChanged { state, .. } => self.state = state.value(),
            Entry::TitleSet { title, .. } => {
                self.info.members.insert("title".to_owned(), json!(title));
            }
            Entry::QuestionAsked { question, .. } => self.questions.push(question.to_string()),
            Entry::QuestionAnswered { question, .. } | Entry::QuestionWithdrawn { question } => {
                self.questions.retain(|open| open != question.as_str());
            }
            Entry::Updated { update, .. } => self.updated(update),
            _ => {}
        }
    }

    fn updated(&mut self, update: &Update) {
        let body = update.body.value();
        match update.kind.whole() {
            UpdateKind::PlanRemoved => self.things.retain(|(key, _)| *key != ("plan", update.id.clone())),
            UpdateKind::PlanUpdate => {
                let plan = thing(&mut self.things, ("plan", update.id.clone()));
                plan.content = vec![Bit::Value(body)];
            }
            UpdateKind::ConfigOptionUpdate => self.options = body,
            UpdateKind::AvailableCommandsUpdate => self.commands = body,
            UpdateKind::UsageUpdate => self.usage = body,
            UpdateKind::SessionInfoUpdate => self.info.update(update, &body),
            UpdateKind::Notice => {}
            UpdateKind::Other => {
                let nth = self.things.iter().filter(|(key, _)| key.0 == "other").count().to_string();
                thing(&mut self.things, ("other", nth)).content = vec![Bit::Value(body)];
            }
            kind => thing(&mut self.things, (name(kind), update.id.clone())).update(update, &body),
        }
    }
}

/// The thing of this name, new at the end if it is not there.
pub fn thing(things: &mut Vec<(Key, Thing)>, key: Key) -> &mut Thing {
    let at = things.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        things.push((key, Thing::default()));
        things.len() - 1
    });
    &mut things[at].1
}

/// A word for a kind of thing that has content.
pub fn name(kind: UpdateKind) -> &'static str {
    match kind {
        UpdateKind::UserMessage => "user_message",
        UpdateKind::AgentMessage => "agent_message",
        UpdateKind::AgentThought => "agent_thought",
        UpdateKind::ToolCallUpdate => "tool_call",
        UpdateKind::TerminalUpdate => "terminal",
        UpdateKind::CompactionUpdate => "compaction",
        other => panic!("{other:?} has no content"),
    }
}

impl Thing {
    /// Takes an upsert or a chunk.
    pub fn update(&mut self, update: &Update, body: &Value) {
        let Some(body) = body.as_object() else { return };
        if update.kind == update.kind.whole() {
            self.upsert(update.kind, body);
        } else {
            self.chunk(update.kind, body);
        }
    }

    fn upsert(&mut self, kind: UpdateKind, body: &Members) {
        for (name, value) in body {
            match name.as_str() {
                "sessionUpdate" => {}
                name if Some(name) == kind.meaning().id.name() => {}
                "_meta" => self.patch_meta(value),
                "output" if kind == UpdateKind::TerminalUpdate => self.output(value),
                "summary" if kind == UpdateKind::CompactionUpdate => self.blocks(value),
                "content" if kind == UpdateKind::ToolCallUpdate => self.items(value),
                "content" if kind.subject().is_message() => self.blocks(value),
                name => patch(&mut self.members, name, value),
            }
        }
    }

    fn patch_meta(&mut self, value: &Value) {
        match value {
            Value::Null => self.meta.clear(),
            Value::Object(changes) => {
                for (name, value) in changes {
                    patch(&mut self.meta, name, value);
                }
            }
            _ => {}
        }
    }

    fn blocks(&mut self, value: &Value) {
        match value {
            Value::Null => self.content.clear(),
            Value::Array(blocks) => self.content = blocks.iter().fold(Vec::new(), with_block),
            _ => {}
        }
    }

    fn items(&mut self, value: &Value) {
        match value {
            Value::Null => self.content.clear(),
            Value::Array(items) => self.content = items.iter().cloned().map(Bit::Value).collect(),
            _ => {}
        }
    }

    fn output(&mut self, value: &Value) {
        match value {
            Value::Null => {
                self.content.clear();
                self.snapshot.clear();
            }
            Value::Object(output) => {
                self.snapshot = output.clone();
                let data = self.snapshot.shift_remove("data");
                self.content = match data.as_ref().and_then(decoded) {
                    Some(bytes) if bytes.is_empty() => Vec::new(),
                    Some(bytes) => vec![Bit::Bytes(bytes)],
                    None => vec![Bit::Noted(data.unwrap_or_default())],
                };
            }
            _ => {}
        }
    }

    fn chunk(&mut self, kind: UpdateKind, body: &Members) {
        let name = if kind == UpdateKind::TerminalOutputChunk { "data" } else { "content" };
        let plain = |member: &String| {
            ["sessionUpdate", name].contains(&member.as_str())
                || Some(member.as_str()) == kind.meaning().id.name()
                || (member == "_meta" && body["_meta"].is_null())
        };
        let content = body.get(name).filter(|_| body.keys().all(plain));
        let named = kind.meaning().id.name().is_some_and(|field| body.contains_key(field));
        let Some(content) = content.filter(|_| named) else {
            return self.content.push(Bit::Noted(Value::Object(body.clone())));
        };
        let before = std::mem::take(&mut self.content);
        self.content = match kind {
            UpdateKind::ToolCallContentChunk => with(before, Bit::Value(content.clone())),
            UpdateKind::TerminalOutputChunk => match decoded(content) {
                Some(bytes) => with(before, Bit::Bytes(bytes)),
                None => with(before, Bit::Noted(Value::Object(body.clone()))),
            },
            _ => with_block(before, content),
        };
    }
}

fn patch(members: &mut Members, name: &str, value: &Value) {
    if value.is_null() {
        members.shift_remove(name);
    } else {
        members.insert(name.to_owned(), value.clone());
    }
}

fn decoded(data: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(data.as_str()?).ok()
}

/// Adds a content block.
pub fn with_block(content: Vec<Bit>, block: &Value) -> Vec<Bit> {
    let plain = block.as_object().is_some_and(|block| block.len() == 2) && block["type"] == "text";
    match block["text"].as_str().filter(|_| plain) {
        Some(text) => with(content, Bit::Text(text.to_owned())),
        None => with(content, Bit::Value(block.clone())),
    }
}

/// Adds a bit: texts and bytes flow together.
fn with(mut content: Vec<Bit>, bit: Bit) -> Vec<Bit> {
    match (content.last_mut(), bit) {
        (Some(Bit::Text(text)), Bit::Text(more)) => text.push_str(&more),
        (Some(Bit::Bytes(bytes)), Bit::Bytes(more)) => bytes.extend(more),
        (_, Bit::Bytes(none)) if none.is_empty() => {}
        (_, bit) => content.push(bit),
    }
    content
}

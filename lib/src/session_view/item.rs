//! One item of a view: a message, tool call, terminal, plan or compaction. Keeps all members and metadata, also those
//! that nothing here understands, and folds upserts and chunks into its content.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rethread_core::{ContentPlace, ContentStyle, Subject, UpdateForm, UpdateKind};
use serde_json::{Map, Value};

/// The members of an object.
pub type Members = Map<String, Value>;

/// How much of a terminal's output is kept: its end.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// One item.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewItem {
    /// What it is.
    pub subject: Subject,
    /// Its id; empty if it has none.
    pub id: String,
    /// Its members besides id, content and metadata.
    pub members: Members,
    /// Its metadata.
    pub meta: Members,
    /// Its content, in order.
    pub content: Vec<ItemContent>,
    /// What the last snapshot of a terminal's output has besides the bytes.
    pub snapshot: Members,
}

/// A part of an item's content.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemContent {
    /// Plain text, which came in any number of blocks.
    Text(String),
    /// Another content block, an item of a tool call, or all of a plan.
    Block(Value),
    /// Bytes, which came in any number of chunks.
    Bytes(Vec<u8>),
    /// A chunk that has more members than its content, or that is malformed.
    Chunk(Value),
}

impl Default for ViewItem {
    fn default() -> Self {
        Self::new(Subject::SessionInfo, "")
    }
}

impl ViewItem {
    pub(super) fn new(subject: Subject, id: &str) -> Self {
        Self {
            subject,
            id: id.to_owned(),
            members: Members::new(),
            meta: Members::new(),
            content: Vec::new(),
            snapshot: Members::new(),
        }
    }

    /// Makes a user message without an id.
    pub(super) fn prompt(content: &Value) -> Self {
        let mut item = Self::new(Subject::UserMessage, "");
        item.set_blocks(content);
        item
    }

    /// Replaces the content with one value.
    pub(super) fn replace(&mut self, body: Value) {
        self.content = vec![ItemContent::Block(body)];
    }

    /// Applies an upsert or a chunk. Returns the text if it only appended some to a message.
    pub(super) fn update(&mut self, kind: UpdateKind, body: &Value) -> Option<String> {
        let body = body.as_object()?;
        match kind.meaning().form {
            UpdateForm::Chunk => self.chunk(kind, body),
            UpdateForm::Upsert | UpdateForm::Complete | UpdateForm::Removal | UpdateForm::Event => {
                self.upsert(kind, body);
                None
            }
        }
    }

    fn upsert(&mut self, kind: UpdateKind, body: &Members) {
        let place = kind.meaning().content;
        for (name, value) in body {
            match (name.as_str(), place) {
                ("sessionUpdate", _) => {}
                (name, _) if Some(name) == kind.meaning().id.name() => {}
                ("_meta", _) => self.patch_meta(value),
                (name, Some(place)) if name == place.whole => self.set_content(place.style, value),
                (name, _) => patch(&mut self.members, name, value),
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
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
        }
    }

    fn set_content(&mut self, style: ContentStyle, value: &Value) {
        match style {
            ContentStyle::Blocks => self.set_blocks(value),
            ContentStyle::Items => self.set_items(value),
            ContentStyle::Bytes => self.set_output(value),
        }
    }

    fn set_blocks(&mut self, value: &Value) {
        if let Value::Null | Value::Array(_) = value {
            self.content.clear();
            value.as_array().into_iter().flatten().for_each(|block| self.push_block(block));
        }
    }

    fn set_items(&mut self, value: &Value) {
        if let Value::Null | Value::Array(_) = value {
            self.content = value.as_array().into_iter().flatten().cloned().map(ItemContent::Block).collect();
        }
    }

    fn set_output(&mut self, value: &Value) {
        match value {
            Value::Null => {
                self.content.clear();
                self.snapshot.clear();
            }
            Value::Object(output) => {
                self.snapshot = output.clone();
                let data = self.snapshot.shift_remove("data");
                self.content.clear();
                self.push(match data.as_ref().and_then(decoded) {
                    Some(bytes) => ItemContent::Bytes(bytes),
                    None => ItemContent::Chunk(data.unwrap_or_default()),
                });
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
        }
    }

    fn chunk(&mut self, kind: UpdateKind, body: &Members) -> Option<String> {
        let place = kind.meaning().content?;
        let Some(content) = plain_content(kind, place, body) else {
            self.content.push(ItemContent::Chunk(Value::Object(body.clone())));
            return None;
        };
        match place.style {
            ContentStyle::Items => self.push(ItemContent::Block(content.clone())),
            ContentStyle::Bytes => self.push(match decoded(content) {
                Some(bytes) => ItemContent::Bytes(bytes),
                None => ItemContent::Chunk(Value::Object(body.clone())),
            }),
            ContentStyle::Blocks => {
                self.push_block(content);
                return plain_text(content).map(str::to_owned);
            }
        }
        None
    }

    fn push_block(&mut self, block: &Value) {
        self.push(match plain_text(block) {
            Some(text) => ItemContent::Text(text.to_owned()),
            None => ItemContent::Block(block.clone()),
        });
    }

    /// Adjacent texts become one text, adjacent bytes one string of bytes.
    fn push(&mut self, content: ItemContent) {
        match (self.content.last_mut(), content) {
            (Some(ItemContent::Text(text)), ItemContent::Text(more)) => text.push_str(&more),
            (Some(ItemContent::Bytes(bytes)), ItemContent::Bytes(more)) => {
                bytes.extend(more);
                keep_end(bytes);
            }
            (_, ItemContent::Bytes(bytes)) if bytes.is_empty() => {}
            (_, ItemContent::Bytes(mut bytes)) => {
                keep_end(&mut bytes);
                self.content.push(ItemContent::Bytes(bytes));
            }
            (_, content) => self.content.push(content),
        }
    }
}

fn keep_end(bytes: &mut Vec<u8>) {
    if bytes.len() > MAX_OUTPUT_BYTES {
        bytes.drain(..bytes.len() - MAX_OUTPUT_BYTES);
    }
}

/// The content of a chunk that has an id and nothing else besides.
fn plain_content(kind: UpdateKind, place: ContentPlace, body: &Members) -> Option<&Value> {
    let id = kind.meaning().id.name()?;
    let is_expected = |(name, value): (&String, &Value)| {
        ["sessionUpdate", place.chunk, id].contains(&name.as_str()) || (name == "_meta" && value.is_null())
    };
    let is_plain = body.contains_key(id) && body.iter().all(is_expected);
    body.get(place.chunk).filter(|_| is_plain)
}

/// The text of a block that has a text and nothing else.
fn plain_text(block: &Value) -> Option<&str> {
    let is_plain = block.as_object().is_some_and(|block| block.len() == 2) && block["type"] == "text";
    block["text"].as_str().filter(|_| is_plain)
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

//! Fast decoding of streamed text: recognizes plain-text chunk lines with a specialized parser and joins adjacent
//! chunks of one message.

use std::borrow::Cow;

use rethread_core::{Input, Json, Update, UpdateKind};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::AgentEvent;

/// A longer run is split, so that the size of an entry is bounded.
const MAX_RUN_BYTES: usize = 256 * 1024;

/// A line that is a plain-text chunk and nothing else. Any unknown member makes the parse fail; the line then takes the
/// general path, which preserves it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextLine<'a> {
    #[serde(rename = "jsonrpc")]
    _jsonrpc: &'a str,
    method: &'a str,
    #[serde(borrow)]
    params: TextParams<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextParams<'a> {
    #[serde(borrow, rename = "sessionId")]
    session: Cow<'a, str>,
    #[serde(borrow)]
    update: TextUpdate<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextUpdate<'a> {
    #[serde(rename = "sessionUpdate")]
    tag: &'a str,
    #[serde(rename = "messageId", default)]
    message: Option<&'a str>,
    #[serde(borrow)]
    content: TextContent<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextContent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    text: &'a RawValue,
}

impl<'a> TextLine<'a> {
    /// Parses the line if it has exactly this shape.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let line: Self = serde_json::from_slice(line).ok()?;
        let plain = line.method == "session/update"
            && line.params.update.content.kind == "text"
            && line.params.update.content.text.get().starts_with('"');
        plain.then_some(line)
    }

    /// The kind of chunk, if it is an agent message or a thought.
    pub(super) fn kind(&self) -> Option<UpdateKind> {
        match self.params.update.tag {
            "agent_message_chunk" => Some(UpdateKind::AgentMessageChunk),
            "agent_thought_chunk" => Some(UpdateKind::AgentThoughtChunk),
            _ => None,
        }
    }

    /// The session id in the line.
    pub(super) fn session(&self) -> &str {
        &self.params.session
    }

    /// The message id, if the agent sent one.
    pub(super) fn message(&self) -> Option<&'a str> {
        self.params.update.message
    }

    /// The text without its quotes, still JSON-escaped.
    pub(super) fn text(&self) -> &'a str {
        let quoted = self.params.update.content.text.get();
        &quoted[1..quoted.len() - 1]
    }
}

/// A chunk that is being joined from adjacent lines of one message.
pub(super) struct TextRun {
    kind: UpdateKind,
    /// The agent's own message id, if it sent one.
    native: Option<String>,
    id: String,
    known: bool,
    body: String,
}

impl TextRun {
    /// Starts a run with one JSON-escaped text.
    pub(super) fn start(kind: UpdateKind, native: Option<&str>, id: &str, known: bool, text: &str) -> Self {
        let mut body = String::with_capacity(256 + text.len());
        body.push_str("{\"sessionUpdate\":\"");
        body.push_str(kind.meaning().tag);
        body.push_str("\",\"messageId\":");
        body.push_str(Json::of(id).text());
        body.push_str(",\"content\":{\"type\":\"text\",\"text\":\"");
        body.push_str(text);
        Self { kind, native: native.map(str::to_owned), id: id.to_owned(), known, body }
    }

    /// Returns whether a chunk of this message can be appended.
    pub(super) fn accepts(&self, kind: UpdateKind, native: Option<&str>) -> bool {
        self.kind == kind && self.native.as_deref() == native && self.body.len() < MAX_RUN_BYTES
    }

    /// Appends a JSON-escaped text.
    pub(super) fn add(&mut self, text: &str) {
        self.body.push_str(text);
    }

    /// Makes the joined chunk.
    pub(super) fn finish(mut self) -> AgentEvent {
        self.body.push_str("\"}}");
        let body = Json::parse(self.body).expect("strings that were parsed, joined inside one string");
        let update = Update { kind: self.kind, id: self.id, body };
        AgentEvent::Input(Input::Updated { update, known: self.known })
    }
}

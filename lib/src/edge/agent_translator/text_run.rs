//! Fast decoding of streamed text: recognizes plain-text chunk lines with a specialized parser and joins adjacent
//! chunks of one message.

use std::borrow::Cow;

use rethread_core::{Input, Json, Update, UpdateKind};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::AgentEvent;
use crate::wire::LineTemplate;

/// A longer run is split, so that the size of an entry is bounded.
const MAX_RUN_BYTES: usize = 256 * 1024;

/// A line that is a plain-text chunk and nothing else. Any unknown member makes the parse fail; the line then takes the
/// general path, which preserves it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextLine<'a> {
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

/// The members of a plain-text chunk apart from its text.
pub(super) struct TextChunk {
    /// The kind of message.
    pub(super) kind: UpdateKind,
    /// The session id in the line.
    pub(super) session: String,
    /// The agent's own message id, if it sent one.
    pub(super) message: Option<String>,
    /// Recognizes lines that differ only in the text.
    pub(super) template: LineTemplate,
}

impl TextChunk {
    /// Parses a line if it is a chunk of a message or a thought of the agent. Also returns the text without its quotes,
    /// still JSON-escaped.
    pub(super) fn read(line: &[u8]) -> Option<(Self, &str)> {
        let parsed: TextLine<'_> = serde_json::from_slice(line).ok()?;
        let TextParams { session, update } = parsed.params;
        let kind = match update.tag {
            "agent_message_chunk" => UpdateKind::AgentMessageChunk,
            "agent_thought_chunk" => UpdateKind::AgentThoughtChunk,
            _ => return None,
        };
        let plain = parsed.method == "session/update" && update.content.kind == "text";
        let text = update.content.text.get().strip_prefix('"')?.strip_suffix('"')?;
        let (session, message) = (session.into_owned(), update.message.map(str::to_owned));
        plain.then_some((Self { kind, session, message, template: LineTemplate::of(line)? }, text))
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
    pub(super) fn start(chunk: &TextChunk, id: String, known: bool, text: &str) -> Self {
        let mut body = String::with_capacity(256 + text.len());
        body.push_str("{\"sessionUpdate\":\"");
        body.push_str(chunk.kind.meaning().tag);
        body.push_str("\",\"messageId\":");
        body.push_str(Json::of(&id).text());
        body.push_str(",\"content\":{\"type\":\"text\",\"text\":\"");
        body.push_str(text);
        Self { kind: chunk.kind, native: chunk.message.clone(), id, known, body }
    }

    /// Returns whether a chunk of this message can be appended.
    pub(super) fn accepts(&self, chunk: &TextChunk) -> bool {
        self.kind == chunk.kind && self.native == chunk.message && self.body.len() < MAX_RUN_BYTES
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

//! Runs of text: an agent that streams writes thousands of lines that differ in one string. They are read with
//! a parser for just that shape, and adjacent ones of one message become one chunk.

use std::borrow::Cow;

use rethread_core::{Input, Json, Update, UpdateKind};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Heard;

/// A run longer than this is cut, so that no single entry grows without bound.
const LONGEST: usize = 256 * 1024;

/// A line that is a plain text chunk and nothing else. Anything unknown in it makes the parse fail: then the
/// line takes the long way, where nothing is lost.
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
    /// Reads the line if it has exactly this shape.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let line: Self = serde_json::from_slice(line).ok()?;
        let plain = line.method == "session/update"
            && line.params.update.content.kind == "text"
            && line.params.update.content.text.get().starts_with('"');
        plain.then_some(line)
    }

    /// The kind of chunk, if it is one that the agent itself speaks.
    pub(super) fn kind(&self) -> Option<UpdateKind> {
        match self.params.update.tag {
            "agent_message_chunk" => Some(UpdateKind::AgentMessageChunk),
            "agent_thought_chunk" => Some(UpdateKind::AgentThoughtChunk),
            _ => None,
        }
    }

    /// The session that speaks.
    pub(super) fn session(&self) -> &str {
        &self.params.session
    }

    /// The id of the message, if the agent names it.
    pub(super) fn message(&self) -> Option<&'a str> {
        self.params.update.message
    }

    /// The text, still escaped, without its quotes.
    pub(super) fn text(&self) -> &'a str {
        let quoted = self.params.update.content.text.get();
        &quoted[1..quoted.len() - 1]
    }
}

/// A chunk that grows while lines of the same message follow each other.
pub(super) struct Run {
    kind: UpdateKind,
    /// The agent's own id for the message, if it names it.
    native: Option<String>,
    id: String,
    known: bool,
    body: String,
}

impl Run {
    /// Starts a run with one text, still escaped.
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

    /// Says whether a text of this message may join.
    pub(super) fn takes(&self, kind: UpdateKind, native: Option<&str>) -> bool {
        self.kind == kind && self.native.as_deref() == native && self.body.len() < LONGEST
    }

    /// Adds a text, still escaped.
    pub(super) fn add(&mut self, text: &str) {
        self.body.push_str(text);
    }

    /// The one chunk that the run comes to.
    pub(super) fn finish(mut self) -> Heard {
        self.body.push_str("\"}}");
        let body = Json::parse(self.body).expect("strings that were parsed, joined inside one string");
        let update = Update { kind: self.kind, id: self.id, body };
        Heard::Input(Input::Updated { update, known: self.known })
    }
}

//! Normalizes conversations for snapshots: ids get stable names in order of appearance, times are removed.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::client::{From, RecordedMessage};

/// The names given to ids so far.
#[derive(Default)]
pub struct Normal {
    names: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

/// The members that contain ids, with the kind of object.
const IDS: [(&str, &str); 10] = [
    ("sessionId", "session"),
    ("messageId", "message"),
    ("toolCallId", "call"),
    ("planId", "plan"),
    ("terminalId", "terminal"),
    ("compactionId", "compaction"),
    ("cursor", "cursor"),
    ("nextCursor", "cursor"),
    ("currentModeId", ""),
    ("modeId", ""),
];

impl Normal {
    /// Makes a normalizer without names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the ids in a message by stable names.
    #[must_use]
    pub fn value(&mut self, value: &Value) -> Value {
        self.walk("", value)
    }

    fn walk(&mut self, name: &str, value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let kept =
                    members.iter().filter(|(name, _)| !matches!(name.as_str(), "jsonrpc" | "updatedAt"));
                kept.map(|(name, value)| (name.clone(), self.walk(name, value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.walk(name, item)).collect(),
            Value::String(text) => json!(self.text(name, text)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn text(&mut self, name: &str, text: &str) -> String {
        if let Some(known) = self.names.get(text) {
            return known.clone();
        }
        let kind = IDS.iter().find(|(field, _)| *field == name).map(|(_, kind)| *kind);
        match kind {
            Some("") => text.to_owned(),
            Some(kind) => self.mint(kind, text),
            None if is_uuid(text) => self.mint("id", text),
            None if name == "version" && text == env!("CARGO_PKG_VERSION") => "ours".to_owned(),
            None => text.to_owned(),
        }
    }

    fn mint(&mut self, kind: &'static str, text: &str) -> String {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("{kind}#{count}");
        self.names.insert(text.to_owned(), name.clone());
        name
    }
}

/// Formats a conversation with one message per line: `>` from the client, `<` from the server.
#[must_use]
pub fn transcript(said: &[RecordedMessage]) -> String {
    let mut normal = Normal::new();
    let line = |said: &RecordedMessage| {
        let arrow = match said.from {
            From::Client => '>',
            From::Server => '<',
        };
        format!("{arrow} {}\n", normal.value(&said.message))
    };
    said.iter().map(line).collect()
}

fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match dashes.contains(&at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

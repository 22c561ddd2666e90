//! The fields that Gemini CLI is known to write, up to version 0.61. Others are counted.

use rethread_core::RawMembers;

use crate::importer::sink::Sink;

/// The files do not say which version wrote them.
pub(super) const VERSION: &str = "unknown";

const KINDS: [&str; 7] = ["error", "gemini", "info", "model", "qwen", "user", "warning"];

const MESSAGE_FIELDS: [&str; 9] =
    ["content", "displayContent", "id", "model", "thoughts", "timestamp", "tokens", "toolCalls", "type"];

const SESSION_FIELDS: [&str; 9] = [
    "directories",
    "kind",
    "lastUpdated",
    "memoryScratchpad",
    "messages",
    "projectHash",
    "sessionId",
    "startTime",
    "summary",
];

/// Counts what is not known of the facts of a session.
pub(super) fn count_unknown(what: &str, facts: &RawMembers<'_>, sink: &mut Sink) {
    for (name, _) in facts.iter().filter(|(name, _)| !SESSION_FIELDS.contains(name)) {
        sink.drift(VERSION, &format!("field {what}.{name}"));
    }
}

/// Counts what is not known of a message.
pub(super) fn count_message(kind: &str, message: &RawMembers<'_>, sink: &mut Sink) {
    if !KINDS.contains(&kind) {
        return sink.drift(VERSION, &format!("record {kind}"));
    }
    for (name, _) in message.iter().filter(|(name, _)| !MESSAGE_FIELDS.contains(name)) {
        sink.drift(VERSION, &format!("field {kind}.{name}"));
    }
}

//! The columns and fields that opencode is known to write, up to version 1.18. Others are counted.

use serde_json::Value;

use crate::importer::sink::Sink;

/// The columns of the table of sessions.
pub(super) const SESSION_COLUMNS: [&str; 29] = [
    "agent",
    "cost",
    "directory",
    "id",
    "metadata",
    "model",
    "parent_id",
    "path",
    "permission",
    "project_id",
    "revert",
    "share_url",
    "slug",
    "summary_additions",
    "summary_deletions",
    "summary_diffs",
    "summary_files",
    "time_archived",
    "time_compacting",
    "time_created",
    "time_updated",
    "title",
    "tokens_cache_read",
    "tokens_cache_write",
    "tokens_input",
    "tokens_output",
    "tokens_reasoning",
    "version",
    "workspace_id",
];

/// The columns of the table of messages.
pub(super) const MESSAGE_COLUMNS: [&str; 5] = ["data", "id", "session_id", "time_created", "time_updated"];

/// The columns of the table of parts.
pub(super) const PART_COLUMNS: [&str; 6] =
    ["data", "id", "message_id", "session_id", "time_created", "time_updated"];

/// Counts the fields of a message that are not known.
pub(super) fn count_message(role: &str, message: &Value, version: &str, sink: &mut Sink) {
    let fields: &[&str] = match role {
        "user" => &["role", "time", "format", "summary", "agent", "model", "system", "tools", "variant"],
        _ => &[
            "role",
            "time",
            "error",
            "parentID",
            "modelID",
            "providerID",
            "mode",
            "agent",
            "path",
            "summary",
            "cost",
            "tokens",
            "structured",
            "variant",
            "finish",
            "system",
        ],
    };
    count(role, fields, message, version, sink);
}

/// Counts a part of a kind that is not known, or its fields that are not.
pub(super) fn count_part(part: &Value, version: &str, sink: &mut Sink) {
    let kind = part["type"].as_str().unwrap_or_default();
    let fields: &[&str] = match kind {
        "text" => &["text", "synthetic", "ignored", "time", "metadata"],
        "reasoning" => &["text", "time", "metadata"],
        "tool" => &["callID", "tool", "state", "metadata"],
        "file" => &["mime", "filename", "url", "source"],
        "step-start" => &["snapshot"],
        "step-finish" => &["reason", "snapshot", "cost", "tokens"],
        "patch" => &["hash", "files"],
        "snapshot" => &["snapshot"],
        "agent" => &["name", "source"],
        "subtask" => &["prompt", "description", "agent", "model", "command"],
        "retry" => &["attempt", "error", "time"],
        "compaction" => &["auto", "overflow", "tail_start_id"],
        _ => return sink.drift(version, &format!("block {kind}")),
    };
    count(kind, fields, part, version, sink);
}

fn count(of: &str, known: &[&str], value: &Value, version: &str, sink: &mut Sink) {
    let ids = ["type", "id", "sessionID", "messageID"];
    let fields = value.as_object().into_iter().flat_map(|fields| fields.keys());
    for field in fields.filter(|field| !known.contains(&field.as_str()) && !ids.contains(&field.as_str())) {
        sink.drift(version, &format!("field {of}.{field}"));
    }
}

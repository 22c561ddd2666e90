//! The kinds of record and the fields that Qwen Code is known to write, up to version 0.24. Others are counted.

use rethread_core::RawMembers;

use crate::importer::sink::Sink;

const KINDS: [&str; 4] = ["assistant", "system", "tool_result", "user"];

const SUBTYPES: [&str; 25] = [
    "agent_bootstrap",
    "agent_launch_prompt",
    "agent_retry",
    "at_command",
    "attribution_snapshot",
    "branch_checkpoint",
    "chat_compression",
    "cron",
    "custom_title",
    "file_history_snapshot",
    "goal_runtime",
    "goal_state",
    "mid_turn_user_message",
    "notification",
    "parent_session",
    "realtime_message",
    "rewind",
    "session_artifact_event",
    "session_artifact_snapshot",
    "session_model",
    "session_source",
    "slash_command",
    "turn_result",
    "ui_telemetry",
    "user_text_elements",
];

const FIELDS: [&str; 25] = [
    "agentColor",
    "agentId",
    "agentName",
    "contextWindowSize",
    "cwd",
    "daemonPromptId",
    "forkedFrom",
    "gitBranch",
    "goalContext",
    "isSidechain",
    "message",
    "model",
    "parentUuid",
    "promptId",
    "provenance",
    "sessionId",
    "subtype",
    "systemPayload",
    "timestamp",
    "toolCallResult",
    "type",
    "usageMetadata",
    "userType",
    "uuid",
    "version",
];

/// Counts what is not known of a record.
pub(super) fn count_unknown(record: &RawMembers<'_>, version: &str, sink: &mut Sink) {
    let kind = record.text("type").unwrap_or_default();
    if !KINDS.contains(&&*kind) {
        return sink.drift(version, &format!("record {kind}"));
    }
    if let Some(subtype) = record.text("subtype").filter(|subtype| !SUBTYPES.contains(&&**subtype)) {
        sink.drift(version, &format!("record {kind} {subtype}"));
    }
    for (name, _) in record.iter().filter(|(name, _)| !FIELDS.contains(name)) {
        sink.drift(version, &format!("field {kind}.{name}"));
    }
}

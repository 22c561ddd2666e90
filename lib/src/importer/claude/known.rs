//! The kinds of record and the fields that Claude Code is known to write, up to version 2.1.312. Others are counted.

use rethread_core::RawMembers;

use crate::importer::sink::Sink;

/// The kinds of record, in alphabetical order.
const KINDS: [&str; 31] = [
    "agent-name",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "assistant",
    "atis-latch",
    "attachment",
    "bridge-session",
    "content-replacement",
    "cost-state",
    "custom-title",
    "file-history-snapshot",
    "frame-link",
    "history-suppression",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "relocated",
    "result",
    "speculation-accept",
    "started",
    "summary",
    "system",
    "tag",
    "tools-used",
    "user",
    "worktree-state",
];

/// The fields of messages, in alphabetical order.
const MESSAGE_FIELDS: [&str; 65] = [
    "agentId",
    "agentName",
    "apiBlockIndex",
    "attributionAgent",
    "attributionPlugin",
    "attributionSkill",
    "cause",
    "classifierMetaLines",
    "cwd",
    "effort",
    "entrypoint",
    "error",
    "errorDetails",
    "forkedFrom",
    "gitBranch",
    "imagePasteIds",
    "interruptedByShutdown",
    "interruptedMessageId",
    "isAbortedMidStream",
    "isApiErrorMessage",
    "isCompactSummary",
    "isMeta",
    "isSidechain",
    "isVisibleInTranscriptOnly",
    "level",
    "logicalParentUuid",
    "mcpMeta",
    "message",
    "messageId",
    "origin",
    "parentToolUseID",
    "parentUuid",
    "perTurnEffort",
    "permissionDecision",
    "permissionMode",
    "promptId",
    "promptSource",
    "requestId",
    "requestRef",
    "requestedModel",
    "sandboxed",
    "sessionId",
    "sessionKind",
    "session_id",
    "slug",
    "sourceToolAssistantUUID",
    "sourceToolUseID",
    "subtype",
    "supersedesUuids",
    "teamName",
    "thinkingMetadata",
    "timestamp",
    "todos",
    "toolDenialKind",
    "toolEndsTurn",
    "toolUseID",
    "toolUseResult",
    "turnAttributionKey",
    "turnCompanion",
    "turnOrigin",
    "turnPosition",
    "type",
    "userType",
    "uuid",
    "version",
];

/// Counts what is not known of a record.
pub(super) fn count_unknown(kind: &str, record: &RawMembers<'_>, version: &str, sink: &mut Sink) {
    if !KINDS.contains(&kind) {
        sink.drift(version, &format!("record {kind}"));
        return;
    }
    // Of other kinds little is used: what they have besides does not matter.
    if matches!(kind, "user" | "assistant") {
        for (name, _) in record.iter().filter(|(name, _)| !MESSAGE_FIELDS.contains(name)) {
            sink.drift(version, &format!("field {kind}.{name}"));
        }
    }
}

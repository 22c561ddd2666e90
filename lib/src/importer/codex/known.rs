//! The kinds of record and the fields that Codex is known to write, up to version 0.166. Others are counted.

use rethread_core::RawMembers;

use crate::importer::sink::Sink;

const LINE_FIELDS: [&str; 5] = ["metadata", "ordinal", "payload", "timestamp", "type"];

const KINDS: [&str; 10] = [
    "compacted",
    "event_msg",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "response_item",
    "security_risk_score",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
];

/// Items for the model.
const ITEMS: [&str; 18] = [
    "agent_message",
    "additional_tools",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "context_compaction",
    "custom_tool_call",
    "custom_tool_call_output",
    "function_call",
    "function_call_output",
    "ghost_snapshot",
    "image_generation_call",
    "local_shell_call",
    "message",
    "reasoning",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];

/// Events, also those that only some versions kept.
const EVENTS: [&str; 51] = [
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "agent_reasoning_section_break",
    "apply_patch_approval_request",
    "background_event",
    "collab_agent_interaction_begin",
    "collab_agent_interaction_end",
    "collab_agent_spawn_begin",
    "collab_agent_spawn_end",
    "collab_close_begin",
    "collab_close_end",
    "collab_resume_begin",
    "collab_resume_end",
    "collab_waiting_begin",
    "collab_waiting_end",
    "context_compacted",
    "deprecation_notice",
    "dynamic_tool_call_request",
    "dynamic_tool_call_response",
    "entered_review_mode",
    "error",
    "exec_approval_request",
    "exec_command_begin",
    "exec_command_end",
    "exited_review_mode",
    "guardian_assessment",
    "image_generation_begin",
    "image_generation_end",
    "item_completed",
    "item_started",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "model_reroute",
    "patch_apply_begin",
    "patch_apply_end",
    "plan_update",
    "stream_error",
    "sub_agent_activity",
    "task_complete",
    "task_started",
    "thread_goal_updated",
    "thread_name_updated",
    "thread_rolled_back",
    "thread_settings_applied",
    "token_count",
    "turn_aborted",
    "turn_complete",
    "turn_diff",
    "turn_started",
    "undo_completed",
];

const MORE_EVENTS: [&str; 5] =
    ["undo_started", "user_message", "view_image_tool_call", "warning", "web_search_end"];

/// Items of turns.
const TURN_ITEMS: [&str; 18] = [
    "AgentMessage",
    "CollabAgentToolCall",
    "CommandExecution",
    "ContextCompaction",
    "DynamicToolCall",
    "EnteredReviewMode",
    "ExitedReviewMode",
    "Extension",
    "FileChange",
    "HookPrompt",
    "ImageGeneration",
    "ImageView",
    "McpToolCall",
    "Plan",
    "Reasoning",
    "SubAgentActivity",
    "UserMessage",
    "WebSearch",
];

/// The fields of messages, where something that people should see might be added.
const MESSAGE_FIELDS: [&str; 8] = [
    "content",
    "id",
    "internal_chat_message_metadata_passthrough",
    "metadata",
    "phase",
    "role",
    "status",
    "type",
];
const USER_MESSAGE_FIELDS: [&str; 11] = [
    "audio",
    "client_id",
    "image_details",
    "images",
    "kind",
    "local_audio",
    "local_image_details",
    "local_images",
    "message",
    "text_elements",
    "type",
];
const AGENT_MESSAGE_FIELDS: [&str; 5] = ["delivery", "memory_citation", "message", "phase", "type"];
const USER_ITEM_FIELDS: [&str; 4] = ["client_id", "content", "id", "type"];
const AGENT_ITEM_FIELDS: [&str; 6] = ["content", "delivery", "id", "memory_citation", "phase", "type"];

/// Counts what is not known of a record.
pub(super) fn count_unknown(
    kind: &str,
    record: &RawMembers<'_>,
    payload: Option<&RawMembers<'_>>,
    version: &str,
    sink: &mut Sink,
) {
    let Some(payload) = payload else {
        // Versions before 0.32 wrote items without an envelope, a first record with no type, and states.
        let is_old = kind.is_empty() || ITEMS.contains(&kind);
        if !is_old {
            sink.drift(version, &format!("record {kind}"));
        }
        return;
    };
    for (name, _) in record.iter().filter(|(name, _)| !LINE_FIELDS.contains(name)) {
        sink.drift(version, &format!("field {kind}.{name}"));
    }
    let what = payload.text("type").unwrap_or_default();
    match kind {
        "response_item" if ITEMS.contains(&&*what) => {
            if &*what == "message" {
                fields("message", payload, &MESSAGE_FIELDS, version, sink);
            }
        }
        "response_item" => sink.drift(version, &format!("record response_item {what}")),
        "event_msg" => event(&what, payload, version, sink),
        kind if KINDS.contains(&kind) => {}
        kind => sink.drift(version, &format!("record {kind}")),
    }
}

fn event(what: &str, payload: &RawMembers<'_>, version: &str, sink: &mut Sink) {
    match what {
        "user_message" => fields(what, payload, &USER_MESSAGE_FIELDS, version, sink),
        "agent_message" => fields(what, payload, &AGENT_MESSAGE_FIELDS, version, sink),
        "item_completed" => {
            let item = payload.get("item").map(RawMembers::of).unwrap_or_default();
            let kind = item.text("type").unwrap_or_default();
            match &*kind {
                "UserMessage" => fields(&kind, &item, &USER_ITEM_FIELDS, version, sink),
                "AgentMessage" => fields(&kind, &item, &AGENT_ITEM_FIELDS, version, sink),
                kind if TURN_ITEMS.contains(&kind) => {}
                kind => sink.drift(version, &format!("record item {kind}")),
            }
        }
        what if EVENTS.contains(&what) || MORE_EVENTS.contains(&what) => {}
        what => sink.drift(version, &format!("record event_msg {what}")),
    }
}

fn fields(what: &str, found: &RawMembers<'_>, known: &[&str], version: &str, sink: &mut Sink) {
    for (name, _) in found.iter().filter(|(name, _)| !known.contains(name)) {
        sink.drift(version, &format!("field {what}.{name}"));
    }
}

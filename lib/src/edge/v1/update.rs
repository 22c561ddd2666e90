//! Converts session updates by kind, with the modules beside this one. What depends on earlier updates (ids, current
//! mode, options) is supplied by the caller.

use rethread_core::{Fields, Json, Update, UpdateKind};

use super::meta::drop_nulls;
use super::options::{BooleanOptions, Options};
use super::plan::{self, PlanForm};
use super::sent_messages::SentMessages;
use super::side_updates::{self, Compaction, Notices, Subagents};
use super::tool_call::{self, Announced, TerminalText};
use super::{commands, message};

/// What a v1 client supports, and how its terminals and tool calls are rendered.
#[derive(Clone, Copy)]
pub struct V1Context<'a> {
    /// How it receives plans.
    pub plan: PlanForm,
    /// Whether it supports boolean options.
    pub booleans: BooleanOptions,
    /// How it receives notices.
    pub notices: Notices,
    /// How it receives compactions.
    pub compaction: Compaction,
    /// How it receives updates of sub-agents.
    pub subagents: Subagents,
    /// Renders terminals.
    pub terminals: &'a dyn TerminalText,
    /// Provides the content of tool calls.
    pub calls: &'a dyn CallContent,
    /// The message id for text that replaces an unsupported update.
    pub note_id: &'a str,
}

/// Provides all content items of a tool call, since version 1 cannot append one.
pub trait CallContent {
    /// The canonical items up to and including the current update; `None` if unknown.
    fn content(&self, tool_call_id: &str) -> Option<Json>;
}

/// Converts a v1 update that does not depend on earlier ones.
///
/// The caller must also handle chunks without an id, `plan`, `current_mode_update` and `config_option_update`.
#[must_use]
pub fn to_canonical_simple(tag: &str, mut body: Fields) -> Json {
    match tag {
        "tool_call" | "tool_call_update" => return tool_call::from_v1(body),
        "available_commands_update" => return commands::from_v1(body),
        // Null clears the cost in the canonical form, and has no meaning in version 1.
        "usage_update" => drop_nulls(&mut body, &["cost", "_meta"]),
        "session_info_update" => drop_nulls(&mut body, &["_meta"]),
        _ => {}
    }
    body.json()
}

/// Converts one canonical update to v1 updates.
#[must_use]
pub fn to_v1(update: &Update, announced: Announced, view: &V1Context<'_>) -> Vec<Json> {
    let body = &update.body;
    match update.kind {
        UpdateKind::UserMessageChunk | UpdateKind::AgentMessageChunk | UpdateKind::AgentThoughtChunk => {
            vec![message::chunk_to_v1(body)]
        }
        // Nothing of the message was sent before.
        UpdateKind::UserMessage | UpdateKind::AgentMessage | UpdateKind::AgentThought => {
            SentMessages::default().show(update)
        }
        UpdateKind::ToolCallUpdate => vec![tool_call::to_v1(body, announced, view.terminals)],
        UpdateKind::ToolCallContentChunk => vec![call_chunk(update, announced, view)],
        UpdateKind::TerminalUpdate | UpdateKind::TerminalOutputChunk => Vec::new(),
        UpdateKind::PlanUpdate | UpdateKind::PlanRemoved => vec![plan::to_v1(body, view.plan)],
        UpdateKind::AvailableCommandsUpdate => vec![commands::to_v1(body)],
        UpdateKind::ConfigOptionUpdate => vec![options(body, view.booleans)],
        UpdateKind::SessionInfoUpdate => vec![without_nulls(body, &["_meta"])],
        UpdateKind::UsageUpdate => vec![without_nulls(body, &["cost", "_meta"])],
        UpdateKind::CompactionUpdate | UpdateKind::CompactionSummaryChunk => {
            side_updates::compaction_to_v1(body, view.compaction, view.note_id)
        }
        UpdateKind::Notice => vec![side_updates::notice_to_v1(body, view.notices, view.note_id)],
        UpdateKind::Other => other(body, view),
    }
}

fn call_chunk(update: &Update, announced: Announced, view: &V1Context<'_>) -> Json {
    match view.calls.content(&update.id) {
        Some(items) => {
            tool_call::to_v1(&tool_call::with_content(&update.body, &items), announced, view.terminals)
        }
        None => tool_call::to_v1(&update.body, announced, view.terminals),
    }
}

fn options(body: &Json, booleans: BooleanOptions) -> Json {
    let mut fields = body.fields();
    let list = fields.take("configOptions").unwrap_or_else(|| Json::of::<[Json]>(&[]));
    Options::from_v2(&list).to_v1(booleans).write_config(&mut fields);
    fields.json()
}

fn without_nulls(body: &Json, names: &[&str]) -> Json {
    let mut fields = body.fields();
    drop_nulls(&mut fields, names);
    fields.json()
}

/// Unknown updates stay unchanged: clients must skip what they do not know.
fn other(body: &Json, view: &V1Context<'_>) -> Vec<Json> {
    match body.fields().text("sessionUpdate").as_deref() {
        Some("subagent_update" | "session_message" | "session_message_chunk") => {
            side_updates::subagent_to_v1(body, view.subagents, view.note_id)
        }
        // Version 1 expresses the state by its requests and answers.
        Some("state_update") => Vec::new(),
        Some(_) | None => vec![body.clone()],
    }
}

//! Session updates as a whole: which of the conversions beside this file an update goes through. What depends on
//! earlier updates (ids, the current mode, the options so far) is put in by the caller.

use rethread_core::{Fields, Json, Update, UpdateKind};

use super::aside::{self, Compaction, Notices, Subagents};
use super::meta::drop_nulls;
use super::options::{BooleanOptions, Options};
use super::plan::{self, PlanForm};
use super::told::Messages;
use super::tool_call::{self, Announced, TerminalText};
use super::{commands, message};

/// What a client of the first version said it takes, and what it can be shown of terminals and tool calls.
#[derive(Clone, Copy)]
pub struct ClientView<'a> {
    /// Its form of plans.
    pub plan: PlanForm,
    /// Whether it takes options that are on or off.
    pub booleans: BooleanOptions,
    /// Whether it takes notices.
    pub notices: Notices,
    /// Whether it takes news of compactions.
    pub compaction: Compaction,
    /// Whether it takes news of sub-agents.
    pub subagents: Subagents,
    /// Shows a terminal.
    pub terminals: &'a dyn TerminalText,
    /// Knows the content of tool calls.
    pub calls: &'a dyn CallContent,
    /// Names a message that says in words what the client does not take.
    pub note_id: &'a str,
}

/// Knows all content items of a tool call, since the first version cannot be sent one more.
pub trait CallContent {
    /// The canonical items up to and with the update at hand; nothing if they are not known.
    fn content(&self, tool_call_id: &str) -> Option<Json>;
}

/// The canonical form of an update of the first version that needs no memory of earlier ones.
///
/// For chunks without an id, `plan`, `current_mode_update` and `config_option_update` the caller has more to do.
#[must_use]
pub fn to_canonical_simple(tag: &str, mut body: Fields) -> Json {
    match tag {
        "tool_call" | "tool_call_update" => return tool_call::from_v1(body),
        "available_commands_update" => return commands::from_v1(body),
        // Null clears the cost in the canonical shape, and says nothing in the first version.
        "usage_update" => drop_nulls(&mut body, &["cost", "_meta"]),
        "session_info_update" => drop_nulls(&mut body, &["_meta"]),
        _ => {}
    }
    body.json()
}

/// The updates of the first version for one canonical update.
#[must_use]
pub fn to_v1(update: &Update, announced: Announced, view: &ClientView<'_>) -> Vec<Json> {
    let body = &update.body;
    match update.kind {
        UpdateKind::UserMessageChunk | UpdateKind::AgentMessageChunk | UpdateKind::AgentThoughtChunk => {
            vec![message::chunk_to_v1(body)]
        }
        // As to a client that was told nothing of it yet.
        UpdateKind::UserMessage | UpdateKind::AgentMessage | UpdateKind::AgentThought => {
            Messages::default().show(update)
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
            aside::compaction_to_v1(body, view.compaction, view.note_id)
        }
        UpdateKind::Notice => vec![aside::notice_to_v1(body, view.notices, view.note_id)],
        UpdateKind::Other => other(body, view),
    }
}

fn call_chunk(update: &Update, announced: Announced, view: &ClientView<'_>) -> Json {
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

/// Unknown updates travel as they are: a client that asked for them knows them, and others must skip them.
fn other(body: &Json, view: &ClientView<'_>) -> Vec<Json> {
    match body.fields().text("sessionUpdate").as_deref() {
        Some("subagent_update" | "session_message" | "session_message_chunk") => {
            aside::subagent_to_v1(body, view.subagents, view.note_id)
        }
        // The first version has no word for it; its requests and answers say the same.
        Some("state_update") => Vec::new(),
        Some(_) | None => vec![body.clone()],
    }
}

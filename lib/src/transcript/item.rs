//! The items of a turn: messages, thoughts, tool calls, terminals, plans, compactions and sub-agents, made of the view of a
//! session.

use std::collections::BTreeSet;

use rethread_core::Subject;
use serde::Serialize;
use serde_json::Value;

use super::content::ContentPart;
use super::event::TranscriptEvent;
use crate::session_view::{FileLocation, ItemContent, PlanStep, SessionView, ViewItem};

/// How deep sub-agents of sub-agents are shown.
const MAX_DEPTH: usize = 8;

/// One item of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TranscriptItem {
    /// A message of the user.
    User {
        /// The id of the message.
        id: String,
        /// The content.
        content: Vec<ContentPart>,
    },
    /// A message of the agent.
    Agent {
        /// The id of the message.
        id: String,
        /// The content.
        content: Vec<ContentPart>,
    },
    /// A thought of the agent.
    Thought {
        /// The id of the message.
        id: String,
        /// The content.
        content: Vec<ContentPart>,
    },
    /// A tool call.
    Tool(ToolItem),
    /// A terminal that belongs to no tool call of the turn.
    Terminal(TerminalItem),
    /// A plan.
    Plan(PlanItem),
    /// A compaction of the conversation.
    Compaction {
        /// `in_progress`, `completed`, …
        status: Option<String>,
        /// The summary.
        content: Vec<ContentPart>,
    },
    /// A sub-agent.
    Subagent(SubagentItem),
    /// Something that happened to the session.
    Event(TranscriptEvent),
}

impl TranscriptItem {
    /// Whether it is neither a message of the user nor something that happened to the session.
    pub(crate) fn is_said_by_agent(&self) -> bool {
        match self {
            Self::User { .. } | Self::Event(_) => false,
            Self::Agent { .. }
            | Self::Thought { .. }
            | Self::Tool(_)
            | Self::Terminal(_)
            | Self::Plan(_)
            | Self::Compaction { .. }
            | Self::Subagent(_) => true,
        }
    }
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolItem {
    /// The id.
    pub id: String,
    /// The title; empty if it has none.
    pub title: String,
    /// `read`, `edit`, `execute`, …
    pub kind: Option<String>,
    /// `pending`, `in_progress`, `completed`, `failed` or `cancelled`.
    pub status: Option<String>,
    /// The files that it is about.
    pub locations: Vec<FileLocation>,
    /// The content.
    pub content: Vec<ContentPart>,
}

/// A terminal.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalItem {
    /// The id.
    pub id: String,
    /// The command, if it is known.
    pub command: Option<String>,
    /// The output, or its end.
    pub output: String,
    /// The exit code.
    pub exit_code: Option<i64>,
    /// The signal that ended the command.
    pub signal: Option<String>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanItem {
    /// The steps.
    pub steps: Vec<PlanStep>,
    /// The text of a plan that has no steps.
    pub text: Option<String>,
}

/// A sub-agent and what it did in this turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubagentItem {
    /// Its own session.
    pub session: String,
    /// Its name or task; empty if it has none.
    pub title: String,
    /// `running`, `completed`, …
    pub state: Option<String>,
    /// What it said and did.
    pub items: Vec<TranscriptItem>,
}

/// The items of a view in order.
pub(super) fn items_of(view: &SessionView) -> Vec<TranscriptItem> {
    let mut reader = ItemReader { root: view, shown: BTreeSet::new() };
    let mut items = reader.items(view, 0);
    // Sub-agents that were announced in an earlier turn.
    for (session, child) in view.children() {
        items.extend(reader.subagent(child, session, &Value::Null, 0));
    }
    items
}

/// Reads the items of a view and of its sub-agents, which are all children of one view.
struct ItemReader<'a> {
    root: &'a SessionView,
    /// The sub-agents that have their place.
    shown: BTreeSet<String>,
}

impl ItemReader<'_> {
    fn items(&mut self, view: &SessionView, depth: usize) -> Vec<TranscriptItem> {
        let embedded = embedded_terminals(view);
        let has_own_place =
            |item: &&ViewItem| item.subject != Subject::Terminal || !embedded.contains(item.id.as_str());
        view.items().iter().filter(has_own_place).filter_map(|item| self.item(view, item, depth)).collect()
    }

    fn item(&mut self, view: &SessionView, item: &ViewItem, depth: usize) -> Option<TranscriptItem> {
        let (id, content) = (item.id.clone(), || ContentPart::list(&item.content));
        Some(match item.subject {
            Subject::UserMessage => TranscriptItem::User { id, content: content() },
            Subject::AgentMessage => TranscriptItem::Agent { id, content: content() },
            Subject::Thought => TranscriptItem::Thought { id, content: content() },
            Subject::ToolCall => TranscriptItem::Tool(tool(view, item)),
            Subject::Terminal => TranscriptItem::Terminal(terminal(item)),
            Subject::Plan => {
                TranscriptItem::Plan(PlanItem { steps: item.plan_steps(), text: item.plan_text() })
            }
            Subject::Compaction => {
                TranscriptItem::Compaction { status: item.status().map(str::to_owned), content: content() }
            }
            Subject::Other => return self.announced(item, depth),
            Subject::Commands
            | Subject::Options
            | Subject::SessionInfo
            | Subject::Usage
            | Subject::Notice => return None,
        })
    }

    /// A sub-agent at the place where it was announced.
    fn announced(&mut self, item: &ViewItem, depth: usize) -> Option<TranscriptItem> {
        let Some(ItemContent::Block(body)) = item.content.first() else { return None };
        let session = body["sessionId"].as_str().filter(|_| body["sessionUpdate"] == "subagent_update")?;
        let (root, nothing) = (self.root, SessionView::default());
        let child = root.children().iter().find(|(id, _)| id == session).map_or(&nothing, |(_, child)| child);
        self.subagent(child, session, body, depth)
    }

    /// A sub-agent, unless it was shown already.
    fn subagent(
        &mut self,
        child: &SessionView,
        session: &str,
        body: &Value,
        depth: usize,
    ) -> Option<TranscriptItem> {
        if depth >= MAX_DEPTH || !self.shown.insert(session.to_owned()) {
            return None;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(TranscriptItem::Subagent(SubagentItem {
            session: session.to_owned(),
            title: text(&body["title"]).or_else(|| text(&body["description"])).unwrap_or_default(),
            state: text(&body["state"]["state"]).or_else(|| text(&body["state"])),
            items: self.items(child, depth + 1),
        }))
    }
}

fn tool(view: &SessionView, call: &ViewItem) -> ToolItem {
    let mut content = ContentPart::list(&call.content);
    for part in &mut content {
        if let ContentPart::Terminal(place) = part
            && let Some(found) = view.item(Subject::Terminal, &place.id)
        {
            *place = terminal(found);
        }
    }
    ToolItem {
        id: call.id.clone(),
        title: call.title().unwrap_or_default().to_owned(),
        kind: call.tool_kind().map(str::to_owned),
        status: call.status().map(str::to_owned),
        locations: call.locations(),
        content,
    }
}

fn terminal(item: &ViewItem) -> TerminalItem {
    let exit = item.exit();
    TerminalItem {
        id: item.id.clone(),
        command: item.command().map(str::to_owned),
        output: String::from_utf8_lossy(&item.output()).into_owned(),
        exit_code: exit.as_ref().and_then(|exit| exit.code),
        signal: exit.and_then(|exit| exit.signal),
    }
}

/// The terminals that tool calls show.
fn embedded_terminals(view: &SessionView) -> BTreeSet<&str> {
    let calls = view.items().iter().filter(|item| item.subject == Subject::ToolCall);
    let shown = calls.flat_map(|call| &call.content).filter_map(|content| match content {
        ItemContent::Block(block) if block["type"] == "terminal" => block["terminalId"].as_str(),
        ItemContent::Block(_) | ItemContent::Text(_) | ItemContent::Bytes(_) | ItemContent::Chunk(_) => None,
    });
    shown.collect()
}

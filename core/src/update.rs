//! What an agent says of its work, in one canonical shape: an upsert of something that has an id.
//! The body is the whole update as the second protocol version writes it, with ids that are ours.

use serde::{Deserialize, Serialize};

use crate::Json;

/// One update: its kind, the id of the thing it speaks of (empty where there is none), and its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// What it speaks of.
    pub kind: UpdateKind,
    /// The id of that thing: message, tool call, terminal, plan or compaction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The whole update, `sessionUpdate` included.
    pub body: Json,
}

/// The kinds of update that the fold tells apart. Everything else is `Other` and is kept as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateKind {
    /// One more content block of a user message.
    UserMessageChunk,
    /// A user message as a whole, or a patch of it.
    UserMessage,
    /// One more content block of an agent message.
    AgentMessageChunk,
    /// An agent message as a whole, or a patch of it.
    AgentMessage,
    /// One more content block of a thought.
    AgentThoughtChunk,
    /// A thought as a whole, or a patch of it.
    AgentThought,
    /// A tool call, or a patch of it.
    ToolCallUpdate,
    /// One more content item of a tool call.
    ToolCallContentChunk,
    /// A terminal, or a patch of it.
    TerminalUpdate,
    /// More bytes of a terminal's output.
    TerminalOutputChunk,
    /// A plan, complete.
    PlanUpdate,
    /// A plan is gone.
    PlanRemoved,
    /// The commands on offer, complete.
    AvailableCommandsUpdate,
    /// The options of the session, complete.
    ConfigOptionUpdate,
    /// A patch of the session's title and times.
    SessionInfoUpdate,
    /// Tokens and cost so far.
    UsageUpdate,
    /// A compaction, or a patch of it.
    CompactionUpdate,
    /// One more content block of a compaction's summary.
    CompactionSummaryChunk,
    /// Something to show once and never again.
    Notice,
    /// Anything else.
    Other,
}

impl UpdateKind {
    /// The kind that the `sessionUpdate` tag of a canonical body names.
    #[must_use]
    pub fn of_tag(tag: &str) -> Self {
        serde_json::from_value(serde_json::Value::String(tag.to_owned())).unwrap_or(Self::Other)
    }

    /// The name of the member that carries the id of the thing.
    #[must_use]
    pub fn id_field(self) -> Option<&'static str> {
        match self {
            Self::UserMessageChunk
            | Self::UserMessage
            | Self::AgentMessageChunk
            | Self::AgentMessage
            | Self::AgentThoughtChunk
            | Self::AgentThought => Some("messageId"),
            Self::ToolCallUpdate | Self::ToolCallContentChunk => Some("toolCallId"),
            Self::TerminalUpdate | Self::TerminalOutputChunk => Some("terminalId"),
            Self::PlanUpdate | Self::PlanRemoved => Some("planId"),
            Self::CompactionUpdate | Self::CompactionSummaryChunk => Some("compactionId"),
            Self::AvailableCommandsUpdate
            | Self::ConfigOptionUpdate
            | Self::SessionInfoUpdate
            | Self::UsageUpdate
            | Self::Notice
            | Self::Other => None,
        }
    }

    /// The kind of the whole that this kind adds to, or itself.
    #[must_use]
    pub fn whole(self) -> Self {
        match self {
            Self::UserMessageChunk => Self::UserMessage,
            Self::AgentMessageChunk => Self::AgentMessage,
            Self::AgentThoughtChunk => Self::AgentThought,
            Self::ToolCallContentChunk => Self::ToolCallUpdate,
            Self::TerminalOutputChunk => Self::TerminalUpdate,
            Self::CompactionSummaryChunk => Self::CompactionUpdate,
            Self::UserMessage
            | Self::AgentMessage
            | Self::AgentThought
            | Self::ToolCallUpdate
            | Self::TerminalUpdate
            | Self::PlanUpdate
            | Self::PlanRemoved
            | Self::AvailableCommandsUpdate
            | Self::ConfigOptionUpdate
            | Self::SessionInfoUpdate
            | Self::UsageUpdate
            | Self::CompactionUpdate
            | Self::Notice
            | Self::Other => self,
        }
    }
}

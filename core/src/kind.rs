//! The kinds of update, and the table of what each of them means: its tag, its stored byte, what it is about, where its
//! id is, and how the fold, replays, histories and transcripts treat it. Everything that treats kinds differently asks
//! this table; a new kind does not compile before it has a row.

mod table;

use serde::{Deserialize, Serialize};

use crate::{Fields, Json, Speaker};
pub(crate) use table::BY_STORED;

/// The kinds of update that the fold tells apart. Everything else is `Other`, the last one, and is kept as it is.
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

/// One row of the table: what an update kind means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The value of `sessionUpdate`; that of `Other` stands for all values that no other row has.
    pub tag: &'static str,
    /// The byte in stored segments: never changed, never used again.
    pub(crate) stored: u8,
    /// The kind of the upserts that chunks of this kind append to; any other kind itself.
    pub whole: UpdateKind,
    /// What the update is about.
    pub subject: Subject,
    /// How it says it.
    pub form: UpdateForm,
    /// Where the id of its subject is.
    pub id: IdPlace,
    /// What it is to the conversation.
    pub conversation: ConversationRole,
    /// How it is replayed.
    pub replay: ReplayRule,
    /// Whether an agent that keeps no history is given it.
    pub history: HistoryRule,
    /// As whose words a person reads it, if there is anything to read.
    pub speaker: Option<Speaker>,
    /// How it is folded.
    pub(crate) fold: FoldRule,
    /// Where the content is that chunks append to.
    pub content: Option<ContentPlace>,
}

/// What an update is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A message of the user.
    UserMessage,
    /// A message of the agent.
    AgentMessage,
    /// A thought of the agent.
    Thought,
    /// A tool call.
    ToolCall,
    /// A terminal of the agent.
    Terminal,
    /// A plan.
    Plan,
    /// The commands of the session.
    Commands,
    /// The options of the session.
    Options,
    /// The title and times of the session.
    SessionInfo,
    /// The tokens and the cost of the session.
    Usage,
    /// A compaction of the conversation.
    Compaction,
    /// A notice.
    Notice,
    /// A sub-agent, or anything that is not known here.
    Other,
}

/// How an update says what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateForm {
    /// It appends to the content of its subject.
    Chunk,
    /// It is an upsert: its members replace those of its subject.
    Upsert,
    /// It replaces its subject.
    Complete,
    /// Its subject is gone.
    Removal,
    /// It stands alone.
    Event,
}

/// Where an update carries the id of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdPlace {
    /// Nowhere: there is one subject of the kind in a session, or none.
    None,
    /// In this member.
    Member(&'static str),
    /// In the second member of the object that is the first one.
    Nested(&'static str, &'static str),
}

/// What an update is to the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationRole {
    /// It is a message or a tool call: a session without any is empty, and another agent needs it to go on.
    Essential,
    /// It belongs to the conversation, but what comes next does not depend on it.
    Accompanying,
    /// It is no part of the conversation.
    Outside,
}

/// How a client that was not there is shown an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayRule {
    /// At its place in the conversation.
    InPlace,
    /// Only if it is the last of its kind, after the conversation.
    LastWord,
    /// Never.
    LiveOnly,
}

/// Whether an agent that keeps no history is given an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryRule {
    /// It is.
    Given,
    /// It is not.
    Omitted,
}

/// What the fold makes of the updates of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldRule {
    /// Those of one id become one; entries say whether the id was there before the turn.
    Merge,
    /// Those of one id become one; whether the id was there before the turn is not recorded.
    MergeUnknown,
    /// The last one of each id stays, and the last removal before it.
    LastOfId,
    /// The last one stays.
    LastOfKind,
    /// All stay.
    Keep,
    /// None stays.
    Drop,
}

/// Where the content is that chunks append to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentPlace {
    /// The member of an upsert.
    pub whole: &'static str,
    /// The member of a chunk.
    pub chunk: &'static str,
    /// What the content is made of.
    pub style: ContentStyle,
}

/// What content is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentStyle {
    /// Content blocks; neighbouring plain texts are one text.
    Blocks,
    /// Items that stay apart.
    Items,
    /// Bytes in base64, inside an object.
    Bytes,
}

impl IdPlace {
    /// The name of the member that is the id.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Member(name) | Self::Nested(_, name) => Some(name),
        }
    }

    /// The id in a body.
    #[must_use]
    pub fn get(self, body: &Fields) -> Option<String> {
        match self {
            Self::None => None,
            Self::Member(name) => body.text(name),
            Self::Nested(object, name) => body.get(object)?.fields().text(name),
        }
    }

    /// Sets the id in a body, where there is one.
    pub fn set(self, body: &mut Fields, id: &str) {
        match self {
            Self::None => {}
            Self::Member(name) => body.set(name, Json::of(id)),
            Self::Nested(object, name) => {
                let mut inner = body.get(object).map(Json::fields).unwrap_or_default();
                inner.set(name, Json::of(id));
                body.set(object, inner.json());
            }
        }
    }
}

impl Subject {
    /// Says whether it is a message: something that has a message id.
    #[must_use]
    pub fn is_message(self) -> bool {
        match self {
            Self::UserMessage | Self::AgentMessage | Self::Thought => true,
            Self::ToolCall
            | Self::Terminal
            | Self::Plan
            | Self::Commands
            | Self::Options
            | Self::SessionInfo
            | Self::Usage
            | Self::Compaction
            | Self::Notice
            | Self::Other => false,
        }
    }
}

impl UpdateKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; Self::Other as usize + 1] = [
        Self::UserMessageChunk,
        Self::UserMessage,
        Self::AgentMessageChunk,
        Self::AgentMessage,
        Self::AgentThoughtChunk,
        Self::AgentThought,
        Self::ToolCallUpdate,
        Self::ToolCallContentChunk,
        Self::TerminalUpdate,
        Self::TerminalOutputChunk,
        Self::PlanUpdate,
        Self::PlanRemoved,
        Self::AvailableCommandsUpdate,
        Self::ConfigOptionUpdate,
        Self::SessionInfoUpdate,
        Self::UsageUpdate,
        Self::CompactionUpdate,
        Self::CompactionSummaryChunk,
        Self::Notice,
        Self::Other,
    ];

    /// The row of this kind.
    #[must_use]
    pub fn meaning(self) -> &'static Meaning {
        &table::ROWS[self as usize]
    }

    /// The kind that the `sessionUpdate` tag of a canonical body names.
    #[must_use]
    pub fn of_tag(tag: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.meaning().tag == tag).unwrap_or(Self::Other)
    }

    /// What updates of this kind are about.
    #[must_use]
    pub fn subject(self) -> Subject {
        self.meaning().subject
    }

    /// The kind of the upserts that chunks of this kind append to; any other kind itself.
    #[must_use]
    pub fn whole(self) -> Self {
        self.meaning().whole
    }
}

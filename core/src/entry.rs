//! The facts of a session, as its journal keeps them. An entry is past: nothing here can be refused.

use serde::{Deserialize, Serialize};

use crate::{AskId, Json, MessageId, QuestionId, TurnNo, Update};

/// Milliseconds since 1970, read by whoever made the input.
pub type Millis = u64;

/// One fact of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// The session exists, as a new one, as a fork, or in another directory. The agent's side of it begins anew.
    Opened {
        /// Its working directory from here on.
        cwd: String,
        /// Its additional roots.
        roots: Vec<String>,
        /// The agent it was made with, as a person would name it.
        agent: String,
        /// When.
        at: Millis,
        /// Its working directory before, if it was moved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved_from: Option<String>,
    },
    /// A client said anew which roots and servers the session has.
    RootsSet {
        /// The additional roots, complete.
        roots: Vec<String>,
        /// The servers, complete, without their secrets.
        servers: Vec<ServerNote>,
    },
    /// An agent session stands behind this one from here on.
    AgentBound {
        /// Counts the agent processes that have served this session.
        generation: u32,
        /// The agent, by the name it has for itself.
        agent: String,
        /// The agent's own id for the session.
        native: String,
        /// How much the agent knows of what came before.
        binding: Binding,
        /// How the agent takes prompts.
        style: PromptStyle,
        /// Where the agent runs; it decides whose `_meta.rethread` can be trusted later.
        #[serde(default, skip_serializing_if = "AgentKind::is_external")]
        kind: AgentKind,
    },
    /// The agent is gone.
    AgentLost {
        /// Which one.
        generation: u32,
        /// Why, in words for a person.
        reason: String,
    },
    /// A prompt waits for its turn, or for the agent to take it.
    PromptHeld {
        /// The id its message will have.
        message: MessageId,
        /// Its content blocks.
        content: Json,
    },
    /// A prompt is about to be written to the agent; it is never sent again.
    PromptSent {
        /// Which one.
        message: MessageId,
    },
    /// A prompt is part of the conversation.
    PromptInserted {
        /// The id of the user message.
        message: MessageId,
        /// The turn that works on it.
        turn: TurnNo,
        /// Its content blocks.
        content: Json,
        /// When.
        at: Millis,
    },
    /// A prompt did not become part of the conversation.
    PromptDropped {
        /// Which one.
        message: MessageId,
        /// Why.
        why: Dropped,
    },
    /// Foreground work began.
    TurnStarted {
        /// Its number.
        turn: TurnNo,
        /// When.
        at: Millis,
        /// The state as shown to clients.
        state: Json,
    },
    /// Foreground work goes on in another way, or there was none and there still is none.
    StateChanged {
        /// The new activity.
        activity: Activity,
        /// The state as shown to clients.
        state: Json,
    },
    /// Foreground work is over.
    TurnEnded {
        /// Its number.
        turn: TurnNo,
        /// Why it ended.
        stop: Stop,
        /// When.
        at: Millis,
        /// The state as shown to clients.
        state: Json,
    },
    /// The agent said something of its work.
    Updated {
        /// What it said.
        update: Update,
        /// Whether the thing it speaks of was there already.
        known: bool,
    },
    /// The agent asks the user.
    QuestionAsked {
        /// Names the question.
        question: QuestionId,
        /// What sort of question.
        kind: QuestionKind,
        /// The question in canonical shape, without the session id.
        body: Json,
    },
    /// The user answered.
    QuestionAnswered {
        /// Which question.
        question: QuestionId,
        /// The result for the agent.
        answer: Json,
    },
    /// Nobody needs to answer any more.
    QuestionWithdrawn {
        /// Which question.
        question: QuestionId,
    },
    /// An option is about to be changed at the agent.
    OptionAsked {
        /// Names the request.
        ask: AskId,
        /// The option.
        option: String,
        /// The wanted value: a string or a boolean.
        value: Json,
    },
    /// The agent answered a change of option.
    OptionSettled {
        /// Which request.
        ask: AskId,
        /// The agent's error, if it refused.
        error: Option<Json>,
    },
    /// A client wants the foreground work to stop.
    CancelAsked {
        /// The turn.
        turn: TurnNo,
    },
    /// The session has a title, or none any more.
    TitleSet {
        /// The title; empty for none.
        title: String,
        /// Who says so.
        by: TitleSource,
    },
}

impl Entry {
    /// The length of the text that an entry carries for others, in bytes: a prompt, an update or a question. What else it
    /// has is short.
    #[must_use]
    pub fn text_len(&self) -> usize {
        match self {
            Self::Updated { update, .. } => update.body.text().len(),
            Self::PromptInserted { content, .. } | Self::PromptHeld { content, .. } => content.text().len(),
            Self::QuestionAsked { body, .. } => body.text().len(),
            Self::Opened { .. }
            | Self::RootsSet { .. }
            | Self::AgentBound { .. }
            | Self::AgentLost { .. }
            | Self::PromptSent { .. }
            | Self::PromptDropped { .. }
            | Self::TurnStarted { .. }
            | Self::StateChanged { .. }
            | Self::TurnEnded { .. }
            | Self::QuestionAnswered { .. }
            | Self::QuestionWithdrawn { .. }
            | Self::OptionAsked { .. }
            | Self::OptionSettled { .. }
            | Self::CancelAsked { .. }
            | Self::TitleSet { .. } => 0,
        }
    }
}

/// An MCP server as it may be written down: no arguments, environment, headers or address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerNote {
    /// Its name.
    pub name: String,
    /// Its transport.
    pub transport: String,
}

/// How much a newly bound agent knows of the conversation so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// There was nothing to know.
    Fresh,
    /// It restored its own session without a replay.
    Resumed,
    /// It restored its own session and replayed it; the replay was swallowed.
    Loaded,
    /// It has a fresh session of its own, and is given the transcript with the next prompt.
    Reseeded,
}

/// How an agent takes prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptStyle {
    /// One at a time; its answer ends the turn.
    OneAtATime,
    /// Any time; its answer says that the prompt was inserted, and the agent reports its own state.
    Acknowledged,
}

/// Where an agent runs, known by how it was started and never by what it says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    /// Outside this process. Entries from before this was recorded count as external too.
    #[default]
    External,
    /// In this process, as a part of the program.
    InProcess,
}

impl AgentKind {
    /// Says whether the agent runs outside this process.
    #[must_use]
    pub fn is_external(&self) -> bool {
        match self {
            Self::External => true,
            Self::InProcess => false,
        }
    }
}

/// Why a prompt was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// The client withdrew it, or the session was cancelled or closed.
    Cancelled,
    /// The agent refused it or could not be reached: an error with code and message.
    Refused(Json),
}

/// What the session is doing, as far as a decision needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Nothing in the foreground.
    #[default]
    Idle,
    /// Foreground work runs.
    Running,
    /// Foreground work waits for the user.
    RequiresAction,
    /// The agent reports a state of its own.
    Other,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// `end_turn`, `cancelled`, `error`, …
    pub reason: String,
    /// The error, where the reason is `error`: code, message and data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Json>,
}

impl Stop {
    /// A stop without an error.
    #[must_use]
    pub fn plain(reason: &str) -> Self {
        Self { reason: reason.to_owned(), error: None }
    }

    /// A stop because of an error with this code and message.
    #[must_use]
    pub fn failed(code: i64, message: &str) -> Self {
        let error = serde_json::json!({"code": code, "message": message});
        Self { reason: "error".to_owned(), error: Some(error.into()) }
    }
}

/// What sort of question the agent asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// May it do something.
    Permission,
    /// Some information it lacks.
    Elicitation,
}

/// Who gave a title. A later source never overwrites an earlier one of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TitleSource {
    /// The user, on purpose.
    User,
    /// The agent.
    Agent,
    /// The first prompt.
    Prompt,
}

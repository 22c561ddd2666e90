//! What depends on the protocol version outside the edge, as values: what a client expects of us, and what an agent does and
//! expects. Computed from the version in one place.

use rethread_core::PromptStyle;

use super::Version;

/// What a client expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientDialect {
    /// When its prompts are answered.
    pub prompt_answer: PromptAnswer,
    /// Whether it gets the states of a session as updates.
    pub states: StateUpdates,
    /// Where it gets the available commands when it opens a session.
    pub commands: CommandsIn,
    /// What it gets for closing a session that does not exist.
    pub unknown_close: UnknownClose,
}

/// When a prompt is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptAnswer {
    /// At the end of its turn, with the stop reason. A withdrawn prompt has the stop reason `cancelled`.
    AtTurnEnd,
    /// When it was accepted, with the message id. A withdrawn prompt is an error.
    WhenAccepted,
}

/// Whether states are sent as updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateUpdates {
    /// They are.
    Sent,
    /// The client learns of them from answers.
    NotSent,
}

/// Where a client gets the available commands of a session that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandsIn {
    /// In the answer.
    Answer,
    /// In an update.
    Update,
}

/// What a client gets for closing a session that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownClose {
    /// An error.
    Refused,
    /// Success.
    Accepted,
}

/// What an agent does and expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentDialect {
    /// How it takes prompts.
    pub prompts: PromptStyle,
    /// Whether it expects files and terminals of its client.
    pub client_services: ClientServices,
    /// Whether single tool calls and terminals can be cancelled.
    pub cancels_parts: CancelParts,
    /// How it is asked to replay a session of its own.
    pub replay: ReplayRequest,
    /// What becomes of its open questions when the turn is cancelled.
    pub open_questions: OpenQuestions,
}

/// Whether an agent expects files and terminals of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientServices {
    /// It requests them.
    Expected,
    /// It has its own.
    NotExpected,
}

/// Whether single tool calls and terminals of an agent can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelParts {
    /// By a request that the agent answers.
    ByRequest,
    /// Only whole turns can be cancelled.
    Never,
}

/// The request for a replay of a session that the agent keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayRequest {
    /// `session/load`, which replays everything.
    Load,
    /// `session/resume` with `replayFrom`.
    Resume,
}

/// What becomes of the open questions of an agent when its client cancels the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenQuestions {
    /// The client answers each of them as cancelled.
    AnsweredByClient,
    /// The agent withdraws them.
    WithdrawnByAgent,
}

impl Version {
    /// What a client of this version expects.
    #[must_use]
    pub fn client_dialect(self) -> ClientDialect {
        match self {
            Self::V1 => ClientDialect {
                prompt_answer: PromptAnswer::AtTurnEnd,
                states: StateUpdates::NotSent,
                commands: CommandsIn::Update,
                unknown_close: UnknownClose::Refused,
            },
            Self::V2 => ClientDialect {
                prompt_answer: PromptAnswer::WhenAccepted,
                states: StateUpdates::Sent,
                commands: CommandsIn::Answer,
                unknown_close: UnknownClose::Accepted,
            },
        }
    }

    /// What an agent of this version does and expects.
    #[must_use]
    pub fn agent_dialect(self) -> AgentDialect {
        match self {
            Self::V1 => AgentDialect {
                prompts: PromptStyle::OneAtATime,
                client_services: ClientServices::Expected,
                cancels_parts: CancelParts::Never,
                replay: ReplayRequest::Load,
                open_questions: OpenQuestions::AnsweredByClient,
            },
            Self::V2 => AgentDialect {
                prompts: PromptStyle::Acknowledged,
                client_services: ClientServices::NotExpected,
                cancels_parts: CancelParts::ByRequest,
                replay: ReplayRequest::Resume,
                open_questions: OpenQuestions::WithdrawnByAgent,
            },
        }
    }

    /// This version and then the other one: the order in which an agent is offered them.
    #[must_use]
    pub fn then_the_other(self) -> [Self; 2] {
        match self {
            Self::V1 => [Self::V1, Self::V2],
            Self::V2 => [Self::V2, Self::V1],
        }
    }

    /// The name that an agent of this version has for a method about logins.
    #[must_use]
    pub fn login_method(self, method: &str) -> &str {
        match (self, method) {
            (Self::V2, "authenticate") => "auth/login",
            (Self::V2, "logout") => "auth/logout",
            (Self::V1, "auth/login") => "authenticate",
            (Self::V1, "auth/logout") => "logout",
            (_, other) => other,
        }
    }
}

//! What happens to a session besides its conversation: agents that come and go, forks, cancelled turns, questions.

use rethread_core::{Binding, Entry};
use serde::Serialize;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TranscriptEvent {
    /// An agent took over.
    #[serde(rename_all = "camelCase")]
    AgentBound {
        /// The agent's name.
        agent: String,
        /// The agent's own id for the session.
        native_id: String,
        /// How much it knew of the conversation.
        binding: Binding,
    },
    /// The agent ended.
    AgentLost {
        /// The reason.
        reason: String,
    },
    /// The session was forked here from the one before.
    Forked,
    /// A prompt did not become part of the conversation.
    PromptDropped,
    /// A client asked to cancel the turn.
    CancelAsked,
    /// The agent asks the user, who has not answered.
    QuestionOpen {
        /// What it asks.
        title: String,
    },
}

impl TranscriptEvent {
    /// Reads an entry; nothing if it is no such event. The first entry of a session reads as a fork.
    pub(crate) fn read(entry: &Entry) -> Option<Self> {
        match entry {
            Entry::AgentBound { agent, native, binding, .. } => {
                let (agent, native_id) = (agent.clone(), native.clone());
                Some(Self::AgentBound { agent, native_id, binding: *binding })
            }
            Entry::AgentLost { reason, .. } => Some(Self::AgentLost { reason: reason.clone() }),
            Entry::Opened { .. } => Some(Self::Forked),
            Entry::PromptDropped { .. } => Some(Self::PromptDropped),
            Entry::CancelAsked { .. } => Some(Self::CancelAsked),
            Entry::RootsSet { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptInserted { .. }
            | Entry::TurnStarted { .. }
            | Entry::StateChanged { .. }
            | Entry::TurnEnded { .. }
            | Entry::Updated { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::TitleSet { .. } => None,
        }
    }

    /// The event as a sentence for people, without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::AgentBound { agent, binding, .. } => format!("{agent} {}", binding_words(*binding)),
            Self::AgentLost { reason } => format!("the agent ended: {reason}"),
            Self::Forked => "the session was forked here".to_owned(),
            Self::PromptDropped => "a prompt was withdrawn or refused".to_owned(),
            Self::CancelAsked => "the user cancelled the turn".to_owned(),
            Self::QuestionOpen { title } => format!("the agent's question has no answer: {title}"),
        }
    }
}

/// How an agent came to a session, for people.
#[must_use]
pub(super) fn binding_words(binding: Binding) -> &'static str {
    match binding {
        Binding::Fresh => "started a new session",
        Binding::Resumed => "resumed its own session",
        Binding::Loaded => "loaded its own session",
        Binding::Reseeded => "continued from the transcript",
    }
}

//! What happens in a session, as a client learns of it: in canonical form, whatever version the agent speaks.

use rethread_core::{Activity, Json, QuestionId, QuestionKind, Stop, Update};

/// One occurrence in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEvent {
    /// This client sent a prompt that the agent will not repeat.
    Prompted {
        /// The content blocks.
        content: Json,
    },
    /// The agent sent an update, or answered a request with the current options or commands.
    Updated(Update),
    /// The agent started to work, waits for the user, or is done.
    StateChanged {
        /// What the agent does now.
        activity: Activity,
        /// Why it stopped, if it did.
        stop: Option<Stop>,
        /// All that is known of the state, as a `state_update`.
        body: Json,
    },
    /// The agent asks the user.
    Asked {
        /// The id of the question, unique in this connection.
        question: QuestionId,
        /// A permission or an elicitation.
        kind: QuestionKind,
        /// The question.
        body: Json,
    },
    /// A question was answered or withdrawn.
    Settled {
        /// Which one.
        question: QuestionId,
    },
}

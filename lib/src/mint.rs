//! Mints ids and reads the clock, for the parts that feed the core: the core itself does neither.

use std::time::{SystemTime, UNIX_EPOCH};

use rethread_core::{AskId, MessageId, Millis, QuestionId, SessionId};
use uuid::Uuid;

/// A new session id, sortable by time.
#[must_use]
pub fn session_id() -> SessionId {
    SessionId(Uuid::now_v7().to_string())
}

/// A new message id.
#[must_use]
pub fn message_id() -> MessageId {
    MessageId(Uuid::now_v7().to_string())
}

/// A new question id.
#[must_use]
pub fn question_id() -> QuestionId {
    QuestionId(Uuid::now_v7().to_string())
}

/// A new id for a request to the agent.
#[must_use]
pub fn ask_id() -> AskId {
    AskId(Uuid::now_v7().to_string())
}

/// Now.
#[must_use]
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

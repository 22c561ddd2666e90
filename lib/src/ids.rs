//! Makes ids for sessions, messages, questions, requests and terminals: UUIDs that sort by time. The core makes none.

use std::sync::Mutex;
use std::time::SystemTime;

use rethread_core::{AskId, MessageId, QuestionId, SessionId};
use uuid::{ContextV7, Timestamp, Uuid};

use crate::clock::since_1970;

/// A new session id, sortable by time.
#[must_use]
pub fn session_id() -> SessionId {
    SessionId(unique().to_string())
}

/// A new message id.
#[must_use]
pub fn message_id() -> MessageId {
    MessageId(unique().to_string())
}

/// A new question id.
#[must_use]
pub fn question_id() -> QuestionId {
    QuestionId(unique().to_string())
}

/// A new id for a request to the agent.
#[must_use]
pub fn ask_id() -> AskId {
    AskId(unique().to_string())
}

/// A new terminal id.
#[must_use]
pub fn terminal_id() -> String {
    format!("term-{}", unique())
}

/// A new UUID, sortable by time.
#[must_use]
pub fn unique() -> Uuid {
    unique_at(SystemTime::now())
}

// Not `Uuid::now_v7`, which panics on a clock before 1970.
fn unique_at(time: SystemTime) -> Uuid {
    static COUNTER: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    let since = since_1970(time);
    Uuid::new_v7(Timestamp::from_unix(&COUNTER, since.as_secs(), since.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn ids_are_unique_and_in_order_at_any_time() {
        let times = [UNIX_EPOCH - Duration::from_secs(1), UNIX_EPOCH, SystemTime::now()];
        for time in times {
            let ids: Vec<_> = (0..1000).map(|_| unique_at(time)).collect();
            assert!(ids.is_sorted_by(|one, next| one < next), "{time:?}");
        }
    }
}

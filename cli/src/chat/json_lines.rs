//! The events of a chat as JSON lines. `docs/cli.md` has their shape.

use rethread::client::SessionEvent;
use rethread_core::{QuestionKind, Stop};
use serde_json::{Value, json};

use super::permission::Answered;

/// The line for an event; nothing if it is told in another line.
pub(crate) fn event_line(event: &SessionEvent) -> Option<Value> {
    match event {
        SessionEvent::Updated(update) => Some(json!({"type": "update", "update": update.body.value()})),
        SessionEvent::StateChanged { body, .. } => Some(json!({"type": "update", "update": body.value()})),
        // Only sent by agents of version 1; the server is one of version 2.
        SessionEvent::Prompted { content } => Some(json!({"type": "prompt", "content": content.value()})),
        SessionEvent::Asked { .. } | SessionEvent::Settled { .. } => None,
    }
}

/// The line for a question and its answer.
pub(crate) fn question_line(kind: QuestionKind, body: &Value, answered: &Answered) -> Value {
    let kind = match kind {
        QuestionKind::Permission => "permission",
        QuestionKind::Elicitation => "elicitation",
    };
    let answer = match answered {
        Answered::Option(choice) => json!({"optionId": choice.id, "kind": choice.kind}),
        Answered::Nothing => Value::Null,
    };
    json!({"type": "question", "kind": kind, "question": body, "answer": answer})
}

/// The last line.
pub(crate) fn end_line(stop: &Stop) -> Value {
    let mut line = json!({"type": "end", "stopReason": stop.reason});
    if let Some(error) = &stop.error {
        line["error"] = error.value();
    }
    line
}

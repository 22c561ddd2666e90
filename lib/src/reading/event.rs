//! What happens to a session and is no update, as clients read it: turns that begin and end, agents that come and go, forks
//! and moves.

use rethread_core::{Binding, Entry, Json, Seq, Stop};
use serde_json::{Value, json};

use crate::transcript::TranscriptEvent;

/// The event of an entry; nothing if it has none. `turn` is the turn that runs.
pub(super) fn event_of(entry: &Entry, seq: Seq, turn: Option<u64>) -> Option<Json> {
    let mut event = match entry {
        Entry::TurnStarted { turn, .. } => {
            json!({"type": "turn_started", "text": format!("turn {turn} started")})
        }
        Entry::TurnEnded { turn, stop, .. } => turn_ended(turn.0, stop),
        Entry::Opened { cwd, moved_from: Some(from), .. } => {
            json!({"type": "moved", "text": format!("the session was moved to {cwd}"), "from": from, "to": cwd})
        }
        // The first entry opens the session, a later one forks it.
        Entry::Opened { moved_from: None, .. } if seq == Seq(1) => return None,
        Entry::Opened { moved_from: None, .. } => json!({"type": "forked"}),
        Entry::AgentBound { agent, binding, .. } => {
            json!({"type": binding_type(*binding), "agent": agent, "binding": binding})
        }
        // An agent that ends between two turns disturbs nobody.
        Entry::AgentLost { .. } if turn.is_none() => return None,
        Entry::AgentLost { reason, .. } => json!({"type": "agent_lost", "reason": reason}),
        Entry::PromptDropped { message, .. } => json!({"type": "prompt_dropped", "messageId": message}),
        Entry::CancelAsked { .. } => json!({"type": "cancel_asked"}),
        Entry::RootsSet { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptInserted { .. }
        | Entry::StateChanged { .. }
        | Entry::Updated { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::TitleSet { .. } => return None,
    };
    if event.get("text").is_none()
        && let Some(told) = TranscriptEvent::read(entry)
    {
        event["text"] = json!(told.sentence());
    }
    Some(event.into())
}

/// A new agent session, or one that knows what came before.
fn binding_type(binding: Binding) -> &'static str {
    match binding {
        Binding::Fresh => "agent_changed",
        Binding::Resumed | Binding::Loaded | Binding::Reseeded => "restored",
    }
}

fn turn_ended(turn: u64, stop: &Stop) -> Value {
    let error = stop.error.as_ref().and_then(|error| error.fields().text("message"));
    let text = match &error {
        Some(error) => format!("turn {turn} failed: {error}"),
        None => format!("turn {turn} ended: {}", stop.reason.replace('_', " ")),
    };
    let mut event = json!({"type": "turn_ended", "text": text, "stopReason": stop.reason});
    if let Some(error) = error {
        event["error"] = json!(error);
    }
    event
}

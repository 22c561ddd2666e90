//! The outline of a session as clients get it.

use rethread_core::{Activity, Json, Session};
use serde_json::{Value, json};

use crate::clock;
use crate::secret::SecretFinder;
use crate::store::{Archived, Store, StoreError, read_state};
use crate::transcript::{SessionOutline, TurnOutline};

/// How much of a prompt is shown.
const MAX_PROMPT: usize = 200;

/// Whether what looks like a secret is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redaction {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Reads the outline of a session. If it has too many turns for `room` bytes, the oldest are left out.
pub(crate) async fn outline(
    store: &dyn Store,
    id: &rethread_core::SessionId,
    redaction: Redaction,
    room: usize,
) -> Result<Json, StoreError> {
    let (session, row) = read_state(store, id).await?;
    let mut outline = SessionOutline::read(store, &row).await?;
    if redaction == Redaction::On {
        outline.redact(&mut SecretFinder::default());
    }
    let state = if row.owner.is_some() { state_name(&session) } else { "idle" };
    let mut answer = json!({
        "sessionId": outline.id,
        "title": outline.title,
        "cwd": outline.cwd,
        "agent": outline.agent,
        "agents": outline.agents,
        "state": state,
        "head": row.head,
        "archived": outline.archived == Archived::Yes,
        "createdAt": outline.created_at.map(clock::rfc3339),
        "updatedAt": clock::rfc3339(outline.updated_at),
        "tokens": outline.tokens(),
        "cost": outline.cost(),
        "context": outline.context.map(|(used, size)| json!({"used": used, "size": size})),
    });
    if let Some(parent) = &outline.parent {
        answer["forkOf"] = json!(parent);
    }
    if let Some(damage) = &outline.damage {
        answer["damage"] = json!({"seq": damage.at, "message": damage.message});
    }
    let (turns, omitted) = newest_turns(&outline.turns, room.saturating_sub(answer.to_string().len()));
    answer["turns"] = json!(turns);
    if omitted > 0 {
        answer["omitted"] = json!(omitted);
    }
    Ok(answer.into())
}

fn state_name(session: &Session) -> &'static str {
    match session.activity {
        Activity::Idle => "idle",
        Activity::RequiresAction => "waiting",
        Activity::Running | Activity::Other => "running",
    }
}

/// The newest turns that fit, and how many do not.
fn newest_turns(turns: &[TurnOutline], room: usize) -> (Vec<Value>, usize) {
    let mut left = room.saturating_sub(64);
    let mut shown: Vec<_> = turns
        .iter()
        .rev()
        .map(turn)
        .map_while(|turn| {
            left = left.checked_sub(turn.to_string().len() + 1)?;
            Some(turn)
        })
        .collect();
    shown.reverse();
    let omitted = turns.len() - shown.len();
    (shown, omitted)
}

fn turn(turn: &TurnOutline) -> Value {
    let mut shown = json!({
        "turn": turn.number,
        "seq": turn.first,
        "last": turn.last,
        "time": clock::rfc3339(turn.started_at),
        "messageId": turn.message,
        "prompt": turn.prompt.chars().take(MAX_PROMPT).collect::<String>(),
        "tools": turn.tools,
        "agent": turn.agent,
        "model": turn.model,
        "tokens": turn.tokens,
        "cost": turn.cost,
    });
    if let Some(ended) = turn.ended_at {
        shown["endedAt"] = json!(clock::rfc3339(ended));
        shown["stopReason"] = json!(turn.stop_reason);
    }
    shown
}

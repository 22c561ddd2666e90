//! What is told of how an agent came to a session: a notice where it matters, an error where it could not.

use rethread_core::{Binding, Fields, Json, Update, UpdateKind};
use serde_json::json;

use crate::wire::RpcError;

/// What the user should know of how the agent came to the session. That it restored it by itself is told only
/// where it disturbs nobody.
pub(super) fn outcome_notice(binding: Binding, agent: &str) -> Option<Update> {
    let (severity, title, description) = match binding {
        Binding::Fresh => return None,
        Binding::Resumed | Binding::Loaded => {
            ("info", "Session restored", format!("{agent} restored its own context of this session."))
        }
        Binding::Reseeded => (
            "warning",
            "The agent could not restore this session",
            format!(
                "It goes on in a fresh session of {agent}, which is given the kept transcript with the next prompt."
            ),
        ),
    };
    let mut body: Fields = [
        ("sessionUpdate", Json::of("notice")),
        ("severity", Json::of(severity)),
        ("title", Json::of(title)),
        ("description", Json::of(&description)),
    ]
    .into_iter()
    .collect();
    body.set("_meta", json!({"rethread": {"restored": format!("{binding:?}").to_lowercase()}}).into());
    Some(Update { kind: UpdateKind::Notice, id: String::new(), body: body.json() })
}

pub(super) fn read_only() -> RpcError {
    RpcError::internal("this session is read-only")
        .hint("start rethread without --restore read-only to go on")
}

pub(super) fn not_native() -> RpcError {
    RpcError::internal("the agent cannot restore this session by itself")
        .hint("start rethread with --restore auto to go on from the kept transcript")
}

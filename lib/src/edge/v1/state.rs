//! What a version 1 client is told of a turn that it does not wait for: version 1 has no states, so they are in `_meta` of
//! an update that says nothing else.

use rethread_core::{Fields, Json, Stop};
use serde_json::json;

/// The update that tells a state; `state` is a version 2 `state_update`.
#[must_use]
pub fn info_update(state: &Json) -> Json {
    let state = state.fields();
    let mut told = Fields::new();
    for member in ["state", "stopReason", "error"] {
        if let Some(value) = state.get(member).filter(|value| !value.is_null()) {
            told.set(member, value.clone());
        }
    }
    let told = told.json();
    json!({"sessionUpdate": "session_info_update", "_meta": {"rethread": told.value()}}).into()
}

/// The notice that tells why a turn failed.
#[must_use]
pub fn failed_notice(stop: &Stop) -> Json {
    let message = stop.error.as_ref().and_then(|error| error.fields().text("message"));
    json!({
        "sessionUpdate": "notice", "severity": "error", "title": "The turn failed",
        "description": message.unwrap_or_else(|| "no reason was given".to_owned()),
    })
    .into()
}

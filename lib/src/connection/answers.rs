//! Encodes the results of status requests, and the report of a login.

use rethread_core::{Fields, Json};
use serde_json::json;

use crate::agent::sessionless::{LoginChange, LoginState};
use crate::edge::dialect::{ClientDialect, StateUpdates};

/// Whether a session is open, and what it is doing for a client that gets states.
pub(super) fn status(dialect: ClientDialect, state: Option<&Json>, open: SomewhereOpen) -> Json {
    let mut answer = Fields::new();
    answer.set("status", Json::of(if open == SomewhereOpen::Yes { "open" } else { "saved" }));
    if let (StateUpdates::Sent, Some(state), SomewhereOpen::Yes) = (dialect.states, state, open) {
        let mut state = state.fields();
        state.take("sessionUpdate");
        answer.set("state", state.json());
    }
    answer.json()
}

/// Whether a session is in the memory of any process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SomewhereOpen {
    Yes,
    No,
}

/// The notification that reports a login or logout by another client.
pub(super) const LOGIN_CHANGED: &str = "_rethread/login_changed";

/// The parameters of [`LOGIN_CHANGED`].
pub(super) fn login_changed(change: &LoginChange, methods: Json) -> Json {
    let mut params: Fields =
        [("loggedIn", Json::of(&(change.login == LoginState::In)))].into_iter().collect();
    params.set("authMethods", methods);
    params.set("_meta", json!({"rethread": {"client": change.by.json().value()}}).into());
    params.json()
}

/// The notice about a login or logout for the other clients of the agent's sessions.
pub(super) fn login_notice(change: &LoginChange) -> Json {
    let who = change.by.display_name();
    let (title, description) = match change.login {
        LoginState::In => {
            (format!("{who} has logged in"), "All sessions of this agent process use that login.")
        }
        LoginState::Out => {
            (format!("{who} has logged out"), "The agent may require a new login before the next prompt.")
        }
    };
    json!({
        "sessionUpdate": "notice", "severity": "warning", "title": title, "description": description,
        "_meta": {"rethread": {"client": change.by.json().value()}},
    })
    .into()
}

//! Encodes the results of list and status requests, and the report of a login.

use rethread_core::{Fields, Json};
use serde_json::json;

use crate::agent::sessionless::{LoginChange, LoginState};
use crate::clock;
use crate::edge::dialect::{ClientDialect, StateUpdates};
use crate::store::{Archived, ListPage, SessionRow};

/// As much of one page of a list as fits into `room` bytes. A session that does not fit by itself is left out.
pub(super) fn list(mut page: ListPage, room: usize) -> Json {
    let (mut sessions, mut used) = (Vec::new(), 0);
    let mut rest = None;
    for (at, row) in page.rows.iter().enumerate() {
        let info = info(row).json();
        let size = info.text().len() + 1;
        if size <= room && used + size > room {
            rest = Some(at);
            break;
        }
        if size <= room {
            used += size;
            sessions.push(info);
        }
    }
    if let Some(at) = rest {
        page.cut(at);
    }
    let mut answer: Fields = [("sessions", Json::of(&sessions))].into_iter().collect();
    if let Some(next) = &page.next {
        answer.set("nextCursor", Json::of(next));
    }
    answer.json()
}

fn info(row: &SessionRow) -> Fields {
    let mut info: Fields =
        [("sessionId", Json::of(&row.id)), ("cwd", Json::of(&row.cwd))].into_iter().collect();
    if !row.roots.is_empty() {
        info.set("additionalDirectories", Json::of(&row.roots));
    }
    if let Some((title, _)) = row.title.as_ref().filter(|(title, _)| !title.is_empty()) {
        info.set("title", Json::of(title));
    }
    info.set("updatedAt", Json::of(&clock::rfc3339(row.updated_at)));
    info.set("archived", Json::of(&(row.archived == Archived::Yes)));
    info.set("_meta", json!({"rethread": {"agent": row.agent}}).into());
    info
}

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

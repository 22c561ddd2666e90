//! Encodes the results of session requests (new, load, list, status) in the client's version.

use rethread_core::{Fields, Json};
use serde_json::json;

use crate::clock;
use crate::edge::Version;
use crate::edge::capabilities::ClientProfile;
use crate::edge::v1::options::Options;
use crate::store::{Archived, ListPage, SessionRow};

/// What new, load and resume tell of options and commands; both are given as updates.
pub(super) fn opened(client: &ClientProfile, options: Option<&Json>, commands: Option<&Json>) -> Fields {
    let member = |update: Option<&Json>, name: &str| update.and_then(|body| body.fields().take(name));
    let list = member(options, "configOptions").unwrap_or_else(|| json!([]).into());
    let mut answer = Fields::new();
    match client.version {
        Version::V1 => {
            let options = Options::from_v2(&list);
            if !options.is_empty() {
                options.to_v1(client.booleans()).write_to(&mut answer);
            }
        }
        Version::V2 => {
            answer.set("configOptions", list);
            let commands = member(commands, "availableCommands").unwrap_or_else(|| json!([]).into());
            answer.set("availableCommands", commands);
        }
    }
    answer
}

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

/// Whether a session is open, and in version 2 what it is doing.
pub(super) fn status(version: Version, state: Option<&Json>, open: SomewhereOpen) -> Json {
    let mut answer = Fields::new();
    answer.set("status", Json::of(if open == SomewhereOpen::Yes { "open" } else { "saved" }));
    if let (Version::V2, Some(state), SomewhereOpen::Yes) = (version, state, open) {
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

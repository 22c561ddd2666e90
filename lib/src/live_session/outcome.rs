//! The notices and errors about how an agent restored a session.

use rethread_core::{Binding, Fields, Json, Update, UpdateKind};
use serde_json::json;

use crate::edge::agent_translator::MissingChoice;
use crate::wire::RpcError;

/// What an agent that opens a session had to do with it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquaintance {
    /// It was the last to have it, and was asked to restore it.
    Asked,
    /// It was the last to have it, and `--restore reseed` says not to ask it.
    NotAsked,
    /// Another agent had it.
    OfAnother,
    /// No agent has had it: it is a new fork.
    OfNone,
    /// No agent has had it in the directory that it was moved to.
    Elsewhere,
}

/// The notice about how the agent restored the session. A restore by the agent itself is reported only
/// where it disturbs nobody.
pub(super) fn outcome_notice(binding: Binding, before: Acquaintance, agent: &str) -> Option<Update> {
    let (severity, title, description) = match (binding, before) {
        (Binding::Fresh, _) => return None,
        (Binding::Resumed | Binding::Loaded, before) => restored(before, agent),
        (Binding::Reseeded, before) => from_transcript(before, agent),
    };
    let mut body = notice(severity, title, &description);
    body.set("_meta", json!({"rethread": {"restored": format!("{binding:?}").to_lowercase()}}).into());
    Some(update(&body))
}

/// The choices of a session that the agent which opens it did not accept, if there are any. They are reported once: from
/// then on the session has what the agent has.
pub(super) fn not_accepted(lacking: &[MissingChoice]) -> Option<Update> {
    let title = match lacking {
        [] => return None,
        [one] => format!("The agent did not accept the restored setting {}", one.option),
        several => format!("The agent did not accept {} restored settings", several.len()),
    };
    let sentence = |choice: &MissingChoice| match &choice.now {
        Some(now) => format!("{} is now {now}, not {}.", choice.option, choice.wanted),
        None => format!("{} is no longer offered.", choice.option),
    };
    let description = lacking.iter().map(sentence).collect::<Vec<_>>().join(" ");
    Some(update(&notice("warning", &title, &description)))
}

fn notice(severity: &str, title: &str, description: &str) -> Fields {
    [
        ("sessionUpdate", Json::of("notice")),
        ("severity", Json::of(severity)),
        ("title", Json::of(title)),
        ("description", Json::of(description)),
    ]
    .into_iter()
    .collect()
}

fn update(body: &Fields) -> Update {
    Update { kind: UpdateKind::Notice, id: String::new(), body: body.json() }
}

fn restored(before: Acquaintance, agent: &str) -> (&'static str, &'static str, String) {
    match before {
        Acquaintance::Asked | Acquaintance::NotAsked => {
            ("info", "Session restored", format!("{agent} restored its own context of this session."))
        }
        Acquaintance::OfAnother | Acquaintance::Elsewhere => {
            ("info", "Session restored", format!("{agent} was given the whole conversation."))
        }
        Acquaintance::OfNone => {
            ("info", "Session forked", format!("{agent} has the conversation of the parent session."))
        }
    }
}

fn from_transcript(before: Acquaintance, agent: &str) -> (&'static str, &'static str, String) {
    let gets = format!("{agent} gets the kept transcript with the next prompt");
    match before {
        Acquaintance::Asked => (
            "warning",
            "The agent could not restore this session",
            format!("It continues in a new session, and {gets}."),
        ),
        Acquaintance::NotAsked => {
            ("warning", "This session continues from its transcript", format!("{gets}."))
        }
        Acquaintance::OfAnother => (
            "warning",
            "Another agent continues this session",
            format!("{gets}, since it has not worked on this session before."),
        ),
        Acquaintance::OfNone => ("info", "This fork starts from the transcript", format!("{gets}.")),
        Acquaintance::Elsewhere => (
            "info",
            "This session was moved and continues from its transcript",
            format!("{gets}: agents keep their sessions by directory."),
        ),
    }
}

pub(super) fn read_only() -> RpcError {
    RpcError::internal("this session is read-only")
        .hint("start rethread without --restore read-only to continue it")
}

pub(super) fn not_native() -> RpcError {
    RpcError::internal("the agent cannot restore this session by itself")
        .hint("start rethread with --restore auto to continue from the kept transcript")
}

//! What the tests of this crate share: short ways to write entries, journals at random, and what a client sees.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses a part of it")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a view shows what it names and nothing else")]

pub mod act;
pub mod journal;
pub mod view;
pub mod view_v1;

use rethread_core::{Entry, Folded, Json, MessageId, Seq, Stop, TurnNo, Update};
use serde_json::{Value, json};

/// An update whose thing was not there before.
pub fn new(body: Value) -> Entry {
    Entry::Updated { update: update(body), known: false }
}

/// An update whose thing was there already.
pub fn known(body: Value) -> Entry {
    Entry::Updated { update: update(body), known: true }
}

/// Reads kind and id from a body as the edges do.
pub fn update(body: Value) -> Update {
    Update::read(body.into())
}

/// A chunk of plain text.
pub fn text(tag: &str, id: &str, text: &str) -> Value {
    json!({"sessionUpdate": tag, "messageId": id, "content": {"type": "text", "text": text}})
}

pub fn inserted(message: &str, turn: u64) -> Entry {
    let content = json!([{"type": "text", "text": "hi"}]).into();
    Entry::PromptInserted { message: MessageId::from(message), turn: TurnNo(turn), content, at: 1 }
}

pub fn started(turn: u64) -> Entry {
    Entry::TurnStarted { turn: TurnNo(turn), at: 1, state: state("running") }
}

pub fn ended(turn: u64) -> Entry {
    Entry::TurnEnded { turn: TurnNo(turn), stop: Stop::plain("end_turn"), at: 2, state: state("idle") }
}

pub fn state(name: &str) -> Json {
    json!({"sessionUpdate": "state_update", "state": name}).into()
}

/// Gives entries their places, from 1 on.
pub fn placed(entries: Vec<Entry>) -> Vec<Folded> {
    let place = |(at, entry)| Folded { first: Seq(at), last: Seq(at), entry };
    (1..).zip(entries).map(place).collect()
}

//! Entries that leave or enter the store by a file: without the data that only this program may write, and without numbers
//! that would overflow when they are counted on.

use rethread_core::{AgentKind, Dropped, Entry, Json, Millis, Stop, Update, UpdateKind};

use super::header::check_path;
use crate::edge::own_meta::strip;

/// Larger numbers of turns and agents do not occur.
const MAX_TURN: u64 = 1 << 40;
const MAX_GENERATION: u32 = 1 << 30;

/// The end of the year 9999.
const MAX_TIME: Millis = 253_402_300_799_999;

/// Removes marks of trust: `_meta.rethread`, and that an agent ran in this process.
#[must_use]
pub(super) fn untrusted(entry: Entry) -> Entry {
    match entry {
        Entry::AgentBound { generation, agent, native, binding, style, kind: _ } => {
            Entry::AgentBound { generation, agent, native, binding, style, kind: AgentKind::External }
        }
        Entry::PromptHeld { message, content } => Entry::PromptHeld { message, content: strip(&content) },
        Entry::PromptInserted { message, turn, content, at } => {
            Entry::PromptInserted { message, turn, content: strip(&content), at }
        }
        Entry::PromptDropped { message, why } => Entry::PromptDropped { message, why: untrusted_reason(why) },
        Entry::TurnStarted { turn, at, state } => Entry::TurnStarted { turn, at, state: strip(&state) },
        Entry::StateChanged { activity, state } => Entry::StateChanged { activity, state: strip(&state) },
        Entry::TurnEnded { turn, stop, at, state } => {
            let stop = Stop { error: stop.error.map(|error| strip(&error)), ..stop };
            Entry::TurnEnded { turn, stop, at, state: strip(&state) }
        }
        Entry::Updated { update, known } => {
            let body = strip(&update.body);
            Entry::Updated { update: Update { body, ..update }, known }
        }
        Entry::QuestionAsked { question, kind, body } => {
            Entry::QuestionAsked { question, kind, body: strip(&body) }
        }
        Entry::QuestionAnswered { question, answer } => {
            Entry::QuestionAnswered { question, answer: strip(&answer) }
        }
        Entry::OptionAsked { ask, option, value } => Entry::OptionAsked { ask, option, value: strip(&value) },
        Entry::OptionSettled { ask, error } => {
            Entry::OptionSettled { ask, error: error.map(|error| strip(&error)) }
        }
        same @ (Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptSent { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. }) => same,
    }
}

fn untrusted_reason(why: Dropped) -> Dropped {
    match why {
        Dropped::Cancelled => Dropped::Cancelled,
        Dropped::Refused(error) => Dropped::Refused(strip(&error)),
    }
}

/// Checks an entry of a file, and removes marks of trust.
pub(super) fn admitted(entry: Entry) -> Result<Entry, String> {
    match &entry {
        Entry::Opened { cwd, roots, at, .. } => {
            check_time(*at)?;
            roots.iter().chain([cwd]).try_for_each(|path| check_path(path))?;
        }
        Entry::RootsSet { roots, .. } => roots.iter().try_for_each(|path| check_path(path))?,
        Entry::AgentBound { generation, .. } | Entry::AgentLost { generation, .. } => {
            check(*generation <= MAX_GENERATION, "the number of an agent is too large")?;
        }
        Entry::PromptInserted { turn, at, .. }
        | Entry::TurnStarted { turn, at, .. }
        | Entry::TurnEnded { turn, at, .. } => {
            check(turn.0 <= MAX_TURN, "the number of a turn is too large")?;
            check_time(*at)?;
        }
        Entry::Updated { update, .. } => check_update(update)?,
        Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptDropped { .. }
        | Entry::StateChanged { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => {}
    }
    Ok(untrusted(entry))
}

/// The kind and the id of an update must be those of its body. What a sub-agent says has the id of its session.
fn check_update(update: &Update) -> Result<(), String> {
    let Update { kind, id, .. } = Update::read(Json::clone(&update.body));
    let of_subagent = update.kind == UpdateKind::Other && !update.id.is_empty();
    check(of_subagent || (kind, &id) == (update.kind, &update.id), "an update is not what it says")
}

fn check_time(at: Millis) -> Result<(), String> {
    check(at <= MAX_TIME, "a time is after the year 9999")
}

fn check(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

//! Entries that leave or enter the store by a file: without the data that only this program may write, and without numbers
//! that would overflow when they are counted on.

use rethread_core::{AgentKind, Entry, Json, Millis, Stop, Update, UpdateKind};

use super::header::{check_id, check_path};
use crate::edge::own_meta::strip;

/// Larger numbers of turns and agents do not occur.
const MAX_TURN: u64 = 1 << 40;
const MAX_GENERATION: u32 = 1 << 30;

/// The end of the year 9999.
const MAX_TIME: Millis = 253_402_300_799_999;

/// The options that travel, by their category. Others, such as modes, decide what an agent may do without asking.
const HARMLESS_OPTIONS: [&str; 2] = ["model", "thought_level"];

/// Removes what another user or machine must not decide: `_meta.rethread`, that an agent ran in this process, modes,
/// additional roots, and prompts, questions and changes of options that wait. Nothing is left of some entries.
#[must_use]
pub(super) fn untrusted(entry: Entry) -> Option<Entry> {
    Some(match entry {
        Entry::Opened { cwd, roots: _, agent, at, moved_from } => {
            Entry::Opened { cwd, roots: Vec::new(), agent, at, moved_from }
        }
        Entry::AgentBound { generation, agent, native, binding, style, kind: _ } => {
            Entry::AgentBound { generation, agent, native, binding, style, kind: AgentKind::External }
        }
        Entry::PromptInserted { message, turn, content, at } => {
            Entry::PromptInserted { message, turn, content: strip(&content), at }
        }
        Entry::TurnStarted { turn, at, state } => Entry::TurnStarted { turn, at, state: strip(&state) },
        Entry::StateChanged { activity, state } => Entry::StateChanged { activity, state: strip(&state) },
        Entry::TurnEnded { turn, stop, at, state } => {
            let stop = Stop { error: stop.error.map(|error| strip(&error)), ..stop };
            Entry::TurnEnded { turn, stop, at, state: strip(&state) }
        }
        Entry::Updated { update, known } => Entry::Updated { update: untrusted_update(update), known },
        same @ (Entry::AgentLost { .. } | Entry::CancelAsked { .. } | Entry::TitleSet { .. }) => same,
        Entry::RootsSet { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptDropped { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. } => return None,
    })
}

fn untrusted_update(update: Update) -> Update {
    let body = strip(&update.body);
    let is_options = update.kind == UpdateKind::ConfigOptionUpdate;
    Update { body: if is_options { harmless_options(&body) } else { body }, ..update }
}

/// The options without those that decide what an agent may do.
fn harmless_options(body: &Json) -> Json {
    let mut fields = body.fields();
    let Some(options) = fields.get("configOptions").and_then(Json::items) else { return body.clone() };
    let is_harmless = |option: &&Json| {
        option.fields().text("category").is_some_and(|category| HARMLESS_OPTIONS.contains(&category.as_str()))
    };
    let kept: Vec<_> = options.iter().filter(is_harmless).collect();
    if kept.len() == options.len() {
        return body.clone();
    }
    fields.set("configOptions", Json::of(&kept));
    fields.json()
}

/// Checks an entry of a file.
pub(super) fn check_entry(entry: &Entry) -> Result<(), String> {
    match entry {
        Entry::Opened { cwd, at, .. } => {
            check_time(*at)?;
            check_path(cwd)?;
        }
        Entry::AgentBound { generation, native, .. } => {
            check_generation(*generation)?;
            check_id(native)?;
        }
        Entry::AgentLost { generation, .. } => check_generation(*generation)?,
        Entry::PromptInserted { turn, at, .. }
        | Entry::TurnStarted { turn, at, .. }
        | Entry::TurnEnded { turn, at, .. } => {
            at_most(turn.0, MAX_TURN, "the number of a turn is too large")?;
            check_time(*at)?;
        }
        Entry::Updated { update, .. } => check_update(update)?,
        Entry::RootsSet { .. }
        | Entry::PromptHeld { .. }
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
    Ok(())
}

/// The kind and the id of an update must be those of its body. What a sub-agent says has the id of its session.
fn check_update(update: &Update) -> Result<(), String> {
    let Update { kind, id, .. } = Update::read(Json::clone(&update.body));
    let of_subagent = update.kind == UpdateKind::Other && !update.id.is_empty();
    if of_subagent || (kind, &id) == (update.kind, &update.id) {
        return Ok(());
    }
    Err("an update is not what it says".to_owned())
}

fn check_generation(generation: u32) -> Result<(), String> {
    at_most(generation, MAX_GENERATION, "the number of an agent is too large")
}

fn check_time(at: Millis) -> Result<(), String> {
    at_most(at, MAX_TIME, "a time is after the year 9999")
}

fn at_most<T: PartialOrd>(number: T, most: T, otherwise: &str) -> Result<(), String> {
    if number <= most { Ok(()) } else { Err(otherwise.to_owned()) }
}

//! Decisions about prompts and turns, and about agents that come and go in the midst of them.
//!
//! An agent that takes prompts one at a time has its state told by this side: its turn begins when the prompt
//! is sent and ends with its answer. One that acknowledges prompts tells its own state.

use serde_json::json;

use super::{StateUpdate, plain_state, state_changed, style};
use crate::session::{OpenPrompt, Phase};
use crate::{
    Activity, Dropped, Entry, HeldPrompts, Json, MessageId, Millis, PromptStyle, Refusal, Session, Stop,
    TitleSource, TurnNo, Update, UpdateKind, clean_title,
};

/// A client sends a prompt.
pub(super) fn prompt(
    session: &Session,
    message: MessageId,
    content: Json,
    title: Option<String>,
    at: Millis,
) -> Result<Vec<Entry>, Refusal> {
    if content.items().is_none_or(|blocks| blocks.is_empty()) {
        return Err(Refusal::EmptyPrompt);
    }
    let mut entries = Vec::new();
    if session.title.is_none() {
        let title = title.map(|title| clean_title(&title)).filter(|title| !title.is_empty());
        entries.extend(title.map(|title| Entry::TitleSet { title, by: TitleSource::Prompt }));
    }
    match session.agent.as_ref().map(|agent| agent.style) {
        Some(PromptStyle::Acknowledged) => {
            entries.push(Entry::PromptHeld { message: message.clone(), content });
            entries.push(Entry::PromptSent { message });
        }
        Some(PromptStyle::OneAtATime) if session.turn.is_none() && held(session).next().is_none() => {
            entries.extend(begin(session.turns.next(), message, content, at));
        }
        Some(PromptStyle::OneAtATime) | None => entries.push(Entry::PromptHeld { message, content }),
    }
    Ok(entries)
}

/// A client takes back a prompt. One that waits is dropped; the turn of one that the agent works on is cancelled, and
/// other prompts go on waiting. One that the agent has not acknowledged can only be taken back there.
pub(super) fn withdraw(session: &Session, message: MessageId) -> Result<Vec<Entry>, Refusal> {
    match (session.prompt(&message).map(|prompt| prompt.phase), &session.turn) {
        (Some(Phase::Held), _) => Ok(vec![Entry::PromptDropped { message, why: Dropped::Cancelled }]),
        (Some(Phase::Inserted), Some(turn)) if turn.cancelled => Ok(Vec::new()),
        (Some(Phase::Inserted), Some(turn)) => Ok(cancel_turn(session, turn.no)),
        (Some(Phase::Sent { .. } | Phase::Overtaken | Phase::Inserted) | None, _) => {
            Err(Refusal::UnknownPrompt(message))
        }
    }
}

fn cancel_turn(session: &Session, turn: TurnNo) -> Vec<Entry> {
    std::iter::once(Entry::CancelAsked { turn }).chain(withdraw_questions(session)).collect()
}

/// A client wants everything in the foreground to stop. Nothing to stop is no error.
pub(super) fn cancel(session: &Session) -> Vec<Entry> {
    let mut entries: Vec<_> = held(session).map(|prompt| dropped(prompt, Dropped::Cancelled)).collect();
    let goes_on = |prompt: &OpenPrompt| prompt.is_unacknowledged() && !prompt.cancelled;
    let sent = session.prompts.iter().any(goes_on);
    let turn = match &session.turn {
        Some(turn) if turn.cancelled && !sent => return entries,
        Some(turn) => turn.no,
        None if sent => session.turns.next(),
        None => return entries,
    };
    entries.extend(cancel_turn(session, turn));
    entries
}

/// An agent session is there: what waited for it starts.
pub(super) fn agent_bound(session: &Session, bound: Entry, style: PromptStyle, at: Millis) -> Vec<Entry> {
    let mut entries = vec![bound];
    match style {
        PromptStyle::OneAtATime => entries.extend(begin_next(session, session.turns.next(), at)),
        PromptStyle::Acknowledged => {
            entries.extend(held(session).map(|prompt| Entry::PromptSent { message: prompt.message.clone() }));
        }
    }
    entries
}

/// No agent can be had: whoever waits for it is told.
pub(super) fn agent_failed(session: &Session, error: &Json) -> Vec<Entry> {
    let refused = |prompt| dropped(prompt, Dropped::Refused(error.clone()));
    let mut entries: Vec<_> = held(session).map(refused).collect();
    entries.extend(settle_asks(session, error));
    entries
}

/// The agent is gone: what it left open is settled, and the turn ends with the reason. A prompt that it was sent is
/// never sent again.
pub(super) fn agent_exited(session: &Session, reason: &str, held: HeldPrompts, at: Millis) -> Vec<Entry> {
    let stop = Stop::failed(-32603, reason);
    let error = stop.error.clone().unwrap_or_else(|| json!({}).into());
    let mut entries = Vec::new();
    entries.extend(withdraw_questions(session));
    entries.extend(settle_things(session));
    entries.extend(settle_asks(session, &error));
    let lost = |prompt: &&OpenPrompt| match prompt.phase {
        Phase::Held => held == HeldPrompts::Drop,
        Phase::Sent { .. } | Phase::Overtaken => true,
        Phase::Inserted => false,
    };
    for prompt in session.prompts.iter().filter(lost) {
        let why = if prompt.cancelled { Dropped::Cancelled } else { Dropped::Refused(error.clone()) };
        entries.push(dropped(prompt, why));
    }
    match &session.turn {
        Some(turn) => {
            let stop = if turn.cancelled { Stop::plain("cancelled") } else { stop };
            entries.push(ended(turn.no, stop, background(session).map(|_| nothing_left()), at));
        }
        None => entries.extend(background_ended(session)),
    }
    if let Some(agent) = &session.agent {
        entries.push(Entry::AgentLost { generation: agent.generation, reason: reason.to_owned() });
    }
    entries
}

/// The end of a turn of the past: nothing in it goes on. `extra` has members of the final state.
pub(crate) fn settle_and_end(session: &Session, stop: Stop, extra: Option<Json>, at: Millis) -> Vec<Entry> {
    let end = session.turn.as_ref().map(|turn| ended(turn.no, stop, extra, at));
    settle_things(session).chain(end).collect()
}

/// An agent that tells its own state does so.
pub(super) fn agent_state(
    session: &Session,
    activity: Activity,
    stop: Option<Stop>,
    state: Json,
    at: Millis,
) -> Vec<Entry> {
    match (&session.turn, activity) {
        (Some(turn), Activity::Idle) => {
            let stop =
                stop.unwrap_or_else(|| Stop::plain(if turn.cancelled { "cancelled" } else { "end_turn" }));
            let mut entries = cut_off(session, &stop);
            // What goes wrong while aborting is still the end that was asked for.
            if turn.cancelled && stop.reason == "error" {
                let beside = state.fields().take("background").map(beside);
                entries.push(ended(turn.no, Stop::plain("cancelled"), beside, at));
            } else {
                entries.push(Entry::TurnEnded { turn: turn.no, stop, at, state });
            }
            entries
        }
        (None, Activity::Running) => vec![Entry::TurnStarted { turn: session.turns.next(), at, state }],
        (None, Activity::RequiresAction) => vec![
            Entry::TurnStarted { turn: session.turns.next(), at, state: state.clone() },
            Entry::StateChanged { activity, state },
        ],
        (Some(_), Activity::Running | Activity::RequiresAction | Activity::Other)
        | (None, Activity::Idle | Activity::Other) => vec![Entry::StateChanged { activity, state }],
    }
}

/// An acknowledging agent took a prompt into the conversation.
pub(super) fn inserted(session: &Session, message: MessageId, at: Millis) -> Result<Vec<Entry>, Refusal> {
    let Some(prompt) = session.prompt(&message) else { return Err(Refusal::UnknownPrompt(message)) };
    let content = prompt.content.clone();
    match (prompt.phase, &session.turn) {
        (Phase::Inserted, _) => Err(Refusal::UnknownPrompt(message)),
        (Phase::Held | Phase::Sent { .. } | Phase::Overtaken, Some(turn)) => {
            Ok(vec![Entry::PromptInserted { message, turn: turn.no, content, at }])
        }
        // The work on it is over already: it belongs to the turn that was.
        (Phase::Overtaken, None) => {
            Ok(vec![Entry::PromptInserted { message, turn: session.turns, content, at }])
        }
        (Phase::Held | Phase::Sent { .. }, None) => {
            let turn = session.turns.next();
            let mut state = plain_state(Activity::Running).fields();
            // An agent that reports its background work does so in every state.
            background(session).into_iter().for_each(|list| state.set("background", list));
            let state = state.json();
            Ok(vec![
                Entry::TurnStarted { turn, at, state },
                Entry::PromptInserted { message, turn, content, at },
            ])
        }
    }
}

/// An agent that takes one prompt at a time is done with it; the next one that waits begins.
pub(super) fn finished(
    session: &Session,
    message: &MessageId,
    stop: Stop,
    extra: Option<Json>,
    at: Millis,
) -> Result<Vec<Entry>, Refusal> {
    let prompt = session.prompt(message).ok_or_else(|| Refusal::UnknownPrompt(message.clone()))?;
    if prompt.is_unacknowledged() {
        return Ok(style::finished_early(session, prompt, stop, at));
    }
    let inserted = prompt.phase == Phase::Inserted;
    let Some(turn) = session.turn.as_ref().filter(|_| inserted) else {
        return Err(Refusal::UnknownPrompt(message.clone()));
    };
    let failed_abort = turn.cancelled && stop.reason == "error";
    let stop = if failed_abort { Stop::plain("cancelled") } else { stop };
    let mut entries: Vec<_> = withdraw_questions(session).collect();
    entries.extend(cut_off(session, &stop));
    entries.push(ended(turn.no, stop, extra, at));
    entries.extend(begin_next(session, turn.no.next(), at));
    Ok(entries)
}

/// An acknowledging agent did not take a prompt, or was asked not to.
pub(super) fn refused(session: &Session, message: MessageId, error: Json) -> Result<Vec<Entry>, Refusal> {
    match session.prompt(&message).map(|prompt| (prompt.phase, prompt.cancelled)) {
        Some((Phase::Held | Phase::Sent { .. } | Phase::Overtaken, cancelled)) => {
            // What goes wrong while aborting is still the end that was asked for.
            let why = if cancelled { Dropped::Cancelled } else { why_dropped(error) };
            Ok(vec![Entry::PromptDropped { message, why }])
        }
        Some((Phase::Inserted, _)) | None => Err(Refusal::UnknownPrompt(message)),
    }
}

/// The error that says a request was taken back is no failure.
fn why_dropped(error: Json) -> Dropped {
    const CANCELLED: i64 = -32800;
    let code = error.fields().get("code").and_then(|code| code.read::<i64>().ok());
    if code == Some(CANCELLED) { Dropped::Cancelled } else { Dropped::Refused(error) }
}

fn begin(turn: TurnNo, message: MessageId, content: Json, at: Millis) -> [Entry; 3] {
    [
        started(turn, at),
        Entry::PromptInserted { message: message.clone(), turn, content, at },
        Entry::PromptSent { message },
    ]
}

/// The next prompt begins: one that the agent was sent before, else one that waits to be sent.
fn begin_next(session: &Session, turn: TurnNo, at: Millis) -> Vec<Entry> {
    let sent = begin_sent(session, turn, at);
    let next = held(session).next().filter(|_| sent.is_empty());
    let begun = next.map(|prompt| begin(turn, prompt.message.clone(), prompt.content.clone(), at));
    sent.into_iter().chain(begun.into_iter().flatten()).collect()
}

/// The first prompt that the agent was sent and that is not part of the conversation begins a turn.
pub(super) fn begin_sent(session: &Session, turn: TurnNo, at: Millis) -> Vec<Entry> {
    let sent = session.prompts.iter().find(|prompt| prompt.is_unacknowledged());
    sent.map(|prompt| vec![started(turn, at), insert(prompt, turn, at)]).unwrap_or_default()
}

pub(crate) fn started(turn: TurnNo, at: Millis) -> Entry {
    Entry::TurnStarted { turn, at, state: plain_state(Activity::Running) }
}

pub(super) fn insert(prompt: &OpenPrompt, turn: TurnNo, at: Millis) -> Entry {
    let (message, content) = (prompt.message.clone(), prompt.content.clone());
    Entry::PromptInserted { message, turn, content, at }
}

fn held(session: &Session) -> impl Iterator<Item = &OpenPrompt> {
    session.prompts.iter().filter(|prompt| prompt.phase == Phase::Held)
}

pub(super) fn dropped(prompt: &OpenPrompt, why: Dropped) -> Entry {
    Entry::PromptDropped { message: prompt.message.clone(), why }
}

pub(super) fn ended(turn: TurnNo, stop: Stop, extra: Option<Json>, at: Millis) -> Entry {
    let plain = StateUpdate {
        stop_reason: Some(&stop.reason),
        error: stop.error.as_ref(),
        ..StateUpdate::of(Activity::Idle)
    };
    let plain = Json::of(&plain);
    let state = match extra {
        Some(extra) => with_members(&plain, &extra),
        None => plain,
    };
    Entry::TurnEnded { turn, stop, at, state }
}

fn with_members(object: &Json, extra: &Json) -> Json {
    let mut fields = object.fields();
    for (name, value) in extra.fields().iter() {
        fields.set(name, value.clone());
    }
    fields.json()
}

/// What the agent said to run in the background, if it says such things.
fn background(session: &Session) -> Option<Json> {
    session.state.as_ref()?.fields().take("background").filter(|list| !list.is_null())
}

fn beside(background: Json) -> Json {
    [("background", background)].into_iter().collect::<crate::Fields>().json()
}

/// An agent that is gone has no background work.
fn nothing_left() -> Json {
    beside(json!([]).into())
}

/// The state without the background work that ended with the agent.
fn background_ended(session: &Session) -> Option<Entry> {
    background(session).and_then(|list| list.items()).filter(|list| !list.is_empty())?;
    let mut state = session.state.as_ref()?.fields();
    state.set("background", json!([]).into());
    Some(Entry::StateChanged { activity: session.activity, state: state.json() })
}

fn withdraw_questions(session: &Session) -> impl Iterator<Item = Entry> {
    let withdrawn =
        |open: &crate::session::OpenQuestion| Entry::QuestionWithdrawn { question: open.question.clone() };
    // The turn that waited goes on to its end: nothing requires action any more.
    let again = (session.activity == Activity::RequiresAction && super::speaks_for(session))
        .then(|| state_changed(Activity::Running));
    session.questions.iter().map(withdrawn).chain(again)
}

/// Ends the tool calls, terminals and compactions that are open.
fn settle_things(session: &Session) -> impl Iterator<Item = Entry> {
    let compactions = settle_compactions(session, how_cut_off(session));
    settle_calls(session).chain(settle_terminals(session)).chain(compactions)
}

fn settle_calls(session: &Session) -> impl Iterator<Item = Entry> {
    session.calls.iter().filter(|(_, call)| !call.settled).map(|(id, _)| {
        let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed"});
        let update = Update { kind: UpdateKind::ToolCallUpdate, id: id.clone(), body: body.into() };
        Entry::Updated { update, known: true }
    })
}

fn settle_terminals(session: &Session) -> impl Iterator<Item = Entry> {
    session.terminals.iter().filter(|(_, terminal)| !terminal.settled).map(|(id, _)| {
        let body = json!({"sessionUpdate": "terminal_update", "terminalId": id, "exitStatus": {},
            "capabilities": null});
        let update = Update { kind: UpdateKind::TerminalUpdate, id: id.clone(), body: body.into() };
        Entry::Updated { update, known: true }
    })
}

/// The status of what a turn was in the midst of when it was cut off.
fn how_cut_off(session: &Session) -> &'static str {
    if session.turn.as_ref().is_some_and(|turn| turn.cancelled) { "cancelled" } else { "failed" }
}

/// A turn that is cancelled or fails takes along the compactions that it was in the midst of.
fn cut_off(session: &Session, stop: &Stop) -> Vec<Entry> {
    match stop.reason.as_str() {
        "cancelled" => settle_compactions(session, "cancelled").collect(),
        "error" => settle_compactions(session, how_cut_off(session)).collect(),
        _ => Vec::new(),
    }
}

fn settle_compactions(session: &Session, status: &str) -> impl Iterator<Item = Entry> {
    session.compactions.iter().map(move |id| {
        let body = json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": status});
        let update = Update { kind: UpdateKind::CompactionUpdate, id: id.clone(), body: body.into() };
        Entry::Updated { update, known: true }
    })
}

fn settle_asks(session: &Session, error: &Json) -> impl Iterator<Item = Entry> {
    session.asks.iter().map(|ask| Entry::OptionSettled { ask: ask.clone(), error: Some(error.clone()) })
}

//! Turns an input into the entries that follow from it, or refuses it. Pure: reads the session, changes nothing.
//! Prompts and turns are in `turn`, options in `option`, agents that take prompts otherwise than they said in `style`;
//! what is small is here.

mod option;
mod style;
mod turn;

pub(crate) use turn::{settle_and_end, started};

use serde::Serialize;
use serde_json::json;

use crate::session::OpenQuestion;
use crate::{
    Activity, Entry, Input, Json, PromptStyle, QuestionId, QuestionKind, Refusal, Session, Subject,
    TitleSource, Update, clean_title,
};

/// Decides what follows from an input. A refusal writes nothing.
pub fn decide(session: &Session, input: Input) -> Result<Vec<Entry>, Refusal> {
    match input {
        Input::Prompt { message, content, title, at } => turn::prompt(session, message, content, title, at),
        Input::Withdraw { message } => turn::withdraw(session, message),
        Input::Cancel => Ok(turn::cancel(session)),
        Input::SetRoots { roots, servers } => {
            let changed = roots != session.roots || !servers.is_empty();
            Ok(changed.then_some(Entry::RootsSet { roots, servers }).into_iter().collect())
        }
        Input::SetOption { ask, option, value } => option::set(session, ask, option, value),
        Input::SetTitle { title } => set_title(&title),
        Input::Answer { question, answer } => answer_question(session, question, answer),
        Input::AgentOffers { ask, options, tried } => {
            Ok(option::again(session, ask, &options, &tried).into_iter().collect())
        }
        Input::AgentBound { agent, native, binding, style, kind, at } => {
            let generation = session.generations + 1;
            let bound = Entry::AgentBound { generation, agent, native, binding, style, kind };
            Ok(turn::agent_bound(session, bound, style, at))
        }
        Input::StyleFound { style, at } => Ok(style::found(session, style, at)),
        Input::AgentFailed { error } => Ok(turn::agent_failed(session, &error)),
        Input::AgentExited { reason, held, at } => Ok(turn::agent_exited(session, &reason, held, at)),
        Input::Updated { update, known } => Ok(updated(session, update, known)),
        Input::AgentState { activity, stop, state, at } => {
            Ok(turn::agent_state(session, activity, stop, state, at))
        }
        Input::PromptInserted { message, at } => turn::inserted(session, message, at),
        Input::PromptFinished { message, stop, extra, at } => {
            turn::finished(session, &message, stop, extra, at)
        }
        Input::PromptRefused { message, error } => turn::refused(session, message, error),
        Input::Question { question, kind, body } => Ok(ask_question(session, question, kind, body)),
        Input::QuestionWithdrawn { question } => withdraw_question(session, question),
        Input::OptionAnswered { ask, error, options } => option::answered(session, ask, error, options),
    }
}

fn set_title(title: &str) -> Result<Vec<Entry>, Refusal> {
    let title = clean_title(title);
    if title.is_empty() {
        return Err(Refusal::EmptyTitle);
    }
    Ok(vec![Entry::TitleSet { title, by: TitleSource::User }])
}

/// The entries for an update of the agent.
pub(crate) fn updated(session: &Session, update: Update, known: bool) -> Vec<Entry> {
    match update.kind.subject() {
        Subject::SessionInfo => info_updated(session, update),
        Subject::UserMessage
        | Subject::AgentMessage
        | Subject::Thought
        | Subject::ToolCall
        | Subject::Terminal
        | Subject::Plan
        | Subject::Commands
        | Subject::Options
        | Subject::Usage
        | Subject::Compaction
        | Subject::Notice
        | Subject::Other => vec![Entry::Updated { update, known }],
    }
}

/// A title that the user gave stays: the agent's is taken out of what it says. Null clears it.
fn info_updated(session: &Session, mut update: Update) -> Vec<Entry> {
    let mut fields = update.body.fields();
    let title = fields.get("title").map(|title| clean_title(&title.as_string().unwrap_or_default()));
    if matches!(session.title, Some((_, TitleSource::User))) && fields.take("title").is_some() {
        update.body = fields.json();
        let says_more = fields.iter().any(|(name, _)| name != "sessionUpdate");
        return says_more.then_some(Entry::Updated { update, known: false }).into_iter().collect();
    }
    if let Some(title) =
        title.as_ref().filter(|title| fields.text("title").is_some_and(|said| said != **title))
    {
        fields.set("title", Json::of(title));
        update.body = fields.json();
    }
    let mut entries = vec![Entry::Updated { update, known: false }];
    entries.extend(title.map(|title| Entry::TitleSet { title, by: TitleSource::Agent }));
    entries
}

fn ask_question(session: &Session, question: QuestionId, kind: QuestionKind, body: Json) -> Vec<Entry> {
    let mut entries = vec![Entry::QuestionAsked { question: question.clone(), kind, body }];
    match &session.turn {
        // Whoever cancelled will not answer: the agent must not wait.
        Some(turn) if turn.cancelled => entries.push(Entry::QuestionWithdrawn { question }),
        Some(_) if speaks_for(session) && session.activity == Activity::Running => {
            entries.push(state_changed(Activity::RequiresAction));
        }
        Some(_) | None => {}
    }
    entries
}

fn answer_question(session: &Session, question: QuestionId, answer: Json) -> Result<Vec<Entry>, Refusal> {
    let Some(open) = session.questions.iter().find(|open| open.question == question) else {
        return Err(Refusal::UnknownQuestion(question));
    };
    let answer = match open.kind {
        QuestionKind::Permission => offered_or_cancelled(&open.body, answer),
        QuestionKind::Elicitation => answer,
    };
    let mut entries = vec![Entry::QuestionAnswered { question: question.clone(), answer }];
    entries.extend(runs_again(session, &question));
    Ok(entries)
}

fn withdraw_question(session: &Session, question: QuestionId) -> Result<Vec<Entry>, Refusal> {
    if !session.questions.iter().any(|open| open.question == question) {
        return Err(Refusal::UnknownQuestion(question));
    }
    let again = runs_again(session, &question);
    let mut entries = vec![Entry::QuestionWithdrawn { question }];
    entries.extend(again);
    Ok(entries)
}

/// An outcome that selects what was never offered, or that nobody knows, is no approval.
fn offered_or_cancelled(question: &Json, answer: Json) -> Json {
    let outcome = answer.fields().get("outcome").map(Json::fields).unwrap_or_default();
    let approved = match outcome.text("outcome").as_deref() {
        Some("selected") => outcome.text("optionId").is_some_and(|option| offers(question, &option)),
        Some("cancelled") => return answer,
        Some(_) | None => false,
    };
    if approved { answer } else { json!({"outcome": {"outcome": "cancelled"}}).into() }
}

/// Says whether an answer decides an open question: it selects an offered option, or accepts or declines a form. Anything
/// else is no answer of the user's.
#[must_use]
pub fn decides(question: &OpenQuestion, answer: &Json) -> bool {
    let answer = answer.fields();
    match question.kind {
        QuestionKind::Permission => {
            let outcome = answer.get("outcome").map(Json::fields).unwrap_or_default();
            let option = outcome.text("optionId").unwrap_or_default();
            outcome.text("outcome").as_deref() == Some("selected") && offers(&question.body, &option)
        }
        QuestionKind::Elicitation => {
            matches!(answer.text("action").as_deref(), Some("accept" | "decline"))
        }
    }
}

fn offers(question: &Json, option: &str) -> bool {
    let options = question.fields().get("options").and_then(Json::items).unwrap_or_default();
    options.iter().any(|offered| offered.fields().text("optionId").as_deref() == Some(option))
}

/// The state to show when the last open question goes away and the turn goes on.
fn runs_again(session: &Session, question: &QuestionId) -> Option<Entry> {
    let others = session.questions.iter().any(|open| open.question != *question);
    let waited = session.activity == Activity::RequiresAction && speaks_for(session);
    (waited && !others).then(|| state_changed(Activity::Running))
}

/// Says whether this side reports the state of the session, because the agent does not.
fn speaks_for(session: &Session) -> bool {
    session.agent.as_ref().is_none_or(|agent| agent.style == PromptStyle::OneAtATime)
}

fn state_changed(activity: Activity) -> Entry {
    Entry::StateChanged { activity, state: plain_state(activity) }
}

fn plain_state(activity: Activity) -> Json {
    Json::of(&StateUpdate::of(activity))
}

/// A state as shown to clients. Members that an agent adds follow these.
#[derive(Serialize)]
struct StateUpdate<'a> {
    #[serde(rename = "sessionUpdate")]
    kind: &'static str,
    state: &'static str,
    #[serde(rename = "stopReason", skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Json>,
}

impl StateUpdate<'_> {
    fn of(activity: Activity) -> Self {
        let state = match activity {
            Activity::Idle => "idle",
            Activity::Running => "running",
            Activity::RequiresAction => "requires_action",
            Activity::Other => "unknown",
        };
        Self { kind: "state_update", state, stop_reason: None, error: None }
    }
}

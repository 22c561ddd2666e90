//! What a client of the second protocol version sees after some entries, folded by the view of the library's client. That
//! view works on parsed JSON and uses nothing of the fold.

use rethread::client::SessionEvent;
use rethread::client::view::SessionView;
use rethread_core::{Activity, Entry, Folded, Json, Update, UpdateKind};
use serde_json::{Value, json};

/// What is seen after these items.
pub fn view_of(items: &[Folded]) -> SessionView {
    let mut view = SessionView::default();
    for event in items.iter().flat_map(|item| events(&item.entry)) {
        view.apply(&event);
    }
    view
}

fn events(entry: &Entry) -> Vec<SessionEvent> {
    match entry {
        Entry::PromptInserted { message, content, .. } => {
            let body = json!({"messageId": message.as_str(), "content": content.value()});
            vec![updated("user_message", body)]
        }
        Entry::TurnStarted { turn, state, .. } => vec![marker("started", turn.0), state_of(state)],
        Entry::TurnEnded { turn, state, .. } => vec![marker("ended", turn.0), state_of(state)],
        Entry::StateChanged { state, .. } => vec![state_of(state)],
        Entry::TitleSet { title, .. } => vec![updated("session_info_update", json!({"title": title}))],
        Entry::QuestionAsked { question, kind, body } => {
            vec![SessionEvent::Asked { question: question.clone(), kind: *kind, body: body.clone() }]
        }
        Entry::QuestionAnswered { question, .. } | Entry::QuestionWithdrawn { question } => {
            vec![SessionEvent::Settled { question: question.clone() }]
        }
        Entry::Updated { update, .. } => vec![SessionEvent::Updated(update.clone())],
        _ => Vec::new(),
    }
}

/// An update with this tag.
pub fn updated(tag: &str, mut body: Value) -> SessionEvent {
    body["sessionUpdate"] = json!(tag);
    SessionEvent::Updated(Update::read(body.into()))
}

/// Marks the place of a turn among the items.
fn marker(what: &str, turn: u64) -> SessionEvent {
    let body = json!({"sessionUpdate": format!("turn {what}"), "turn": turn}).into();
    SessionEvent::Updated(Update { kind: UpdateKind::Other, id: String::new(), body })
}

fn state_of(state: &Json) -> SessionEvent {
    SessionEvent::StateChanged { activity: Activity::Other, stop: None, body: state.clone() }
}

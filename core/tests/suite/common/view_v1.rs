//! What a client of the first protocol version sees: streamed text that is never taken back, tool calls that are
//! created and then patched, plans. It has no metadata of messages, no terminals of the agent and no compactions.

use rethread::client::SessionEvent;
use rethread::client::view::SessionView;
use rethread_core::{Entry, Folded, Subject, Update, UpdateForm, UpdateKind};
use serde_json::{Value, json};

use super::view::updated;

/// What is seen after these items.
pub fn view_v1_of(items: &[Folded]) -> SessionView {
    let mut view = SessionView::default();
    for item in items {
        match &item.entry {
            Entry::PromptInserted { message, content, .. } => {
                show_message(&mut view, UpdateKind::UserMessage, message.as_str(), content.value());
            }
            Entry::Updated { update, known } => show(&mut view, update, *known),
            _ => {}
        }
    }
    view
}

fn show(view: &mut SessionView, update: &Update, known: bool) {
    let body = update.body.value();
    match update.kind.whole() {
        kind @ (UpdateKind::UserMessage | UpdateKind::AgentMessage | UpdateKind::AgentThought) => {
            if update.kind.meaning().form == UpdateForm::Chunk {
                let chunk = json!({"messageId": update.id, "content": body["content"]});
                view.apply(&updated(update.kind.meaning().tag, chunk));
            } else {
                show_message(view, kind, &update.id, body["content"].clone());
            }
        }
        UpdateKind::ToolCallUpdate => {
            if !known {
                clear_call(view, &update.id);
            }
            view.apply(&SessionEvent::Updated(update.clone()));
        }
        // The edge shows an empty plan instead of a removed one.
        UpdateKind::PlanUpdate | UpdateKind::PlanRemoved => {
            view.apply(&SessionEvent::Updated(update.clone()));
        }
        _ => {}
    }
}

/// A whole message is streamed if nothing of it was.
fn show_message(view: &mut SessionView, kind: UpdateKind, id: &str, content: Value) {
    let is_shown = view.item(kind.subject(), id).is_some_and(|item| !item.content.is_empty());
    let mut body = json!({"messageId": id});
    if !is_shown && content.is_array() {
        body["content"] = content;
    }
    view.apply(&updated(kind.meaning().tag, body));
}

/// A call that is announced again starts anew, in its old place.
fn clear_call(view: &mut SessionView, id: &str) {
    let Some(call) = view.item(Subject::ToolCall, id) else { return };
    let mut body = json!({"toolCallId": id, "content": null, "_meta": null});
    for name in call.members.keys() {
        body[name] = Value::Null;
    }
    view.apply(&updated("tool_call_update", body));
}

//! What a client of the first protocol version sees: streamed text that is never taken back, tool calls that are
//! created and then patched, plans. It has no metadata of messages, no terminals of the agent and no compactions.

use rethread_core::{Entry, Folded, Update, UpdateKind};
use serde_json::Value;

use super::view::{Bit, Key, Thing, name, thing, with_block};

/// All that is on the screen, in order of appearance.
#[derive(Debug, Default, PartialEq)]
pub struct ViewV1(pub Vec<(Key, Thing)>);

impl ViewV1 {
    /// What is seen after these items.
    pub fn of(items: &[Folded]) -> Self {
        let mut view = Self::default();
        for item in items {
            match &item.entry {
                Entry::PromptInserted { message, content, .. } => {
                    view.message(("user_message", message.to_string()), &content.value());
                }
                Entry::Updated { update, known } => view.updated(update, *known),
                _ => {}
            }
        }
        view
    }

    fn updated(&mut self, update: &Update, known: bool) {
        let body = update.body.value();
        match update.kind.whole() {
            kind @ (UpdateKind::UserMessage | UpdateKind::AgentMessage | UpdateKind::AgentThought) => {
                let key = (name(kind), update.id.clone());
                if update.kind == kind { self.message(key, &body["content"]) } else { self.chunk(key, &body) }
            }
            UpdateKind::ToolCallUpdate => {
                let call = thing(&mut self.0, ("tool_call", update.id.clone()));
                if !known {
                    *call = Thing::default();
                }
                call.update(update, &body);
            }
            UpdateKind::PlanUpdate => {
                thing(&mut self.0, ("plan", update.id.clone())).content = vec![Bit::Value(body)];
            }
            // The edge shows an empty plan instead.
            UpdateKind::PlanRemoved => self.0.retain(|(key, _)| *key != ("plan", update.id.clone())),
            _ => {}
        }
    }

    /// A whole message is streamed if nothing of it was.
    fn message(&mut self, key: Key, content: &Value) {
        let message = thing(&mut self.0, key);
        if message.content.is_empty() {
            message.content = content.as_array().into_iter().flatten().fold(Vec::new(), with_block);
        }
    }

    fn chunk(&mut self, key: Key, body: &Value) {
        let message = thing(&mut self.0, key);
        message.content = with_block(std::mem::take(&mut message.content), &body["content"]);
    }
}

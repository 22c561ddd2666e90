//! Replaces ids that refer to other objects of the agent (terminals in a tool call, background work in a state) by the
//! public ids that clients know.

use rethread_core::{Fields, Json, UpdateKind};

use super::AgentTranslator;

impl AgentTranslator {
    /// Replaces the ids in the content of a tool call update.
    pub(super) fn with_public_references(&self, kind: UpdateKind, mut body: Fields) -> Fields {
        let content = match (kind, body.get("content")) {
            (UpdateKind::ToolCallUpdate, Some(items)) => self.items_with_public_ids(items),
            (UpdateKind::ToolCallContentChunk, Some(item)) => Some(self.with_public_ids(&item.fields())),
            (_, _) => None,
        };
        if let Some(content) = content {
            body.set("content", content);
        }
        body
    }

    /// Replaces the ids in the `background` list of a state.
    pub(super) fn with_background(&self, mut state: Fields) -> Fields {
        if let Some(items) = state.get("background").and_then(|items| self.items_with_public_ids(items)) {
            state.set("background", items);
        }
        state
    }

    /// Replaces `toolCallId` and `terminalId` of one object.
    pub(super) fn with_public_ids(&self, fields: &Fields) -> Json {
        let mut fields = fields.clone();
        for name in ["toolCallId", "terminalId"] {
            if let Some(id) = fields.text(name) {
                fields.set(name, Json::of(&self.public_id(&id)));
            }
        }
        fields.json()
    }

    fn items_with_public_ids(&self, items: &Json) -> Option<Json> {
        let items = items.items()?;
        let named: Vec<_> = items.iter().map(|item| self.with_public_ids(&item.fields())).collect();
        Some(Json::of(&named))
    }
}

//! The ids inside what an agent says that refer to other things of its: a tool call names terminals, a state
//! names what runs beside it. They are renamed as those things are.

use rethread_core::{Fields, Json, UpdateKind};

use super::Link;

impl Link {
    /// The body of an update with the ids that clients know in its content.
    pub(super) fn referring(&self, kind: UpdateKind, mut body: Fields) -> Fields {
        let content = match (kind, body.get("content")) {
            (UpdateKind::ToolCallUpdate, Some(items)) => self.each_named(items),
            (UpdateKind::ToolCallContentChunk, Some(item)) => Some(self.named_here(&item.fields())),
            (_, _) => None,
        };
        if let Some(content) = content {
            body.set("content", content);
        }
        body
    }

    /// A state with the ids that clients know of what runs in the background.
    pub(super) fn with_background(&self, mut state: Fields) -> Fields {
        if let Some(items) = state.get("background").and_then(|items| self.each_named(items)) {
            state.set("background", items);
        }
        state
    }

    /// The object with the ids that clients know, where it names a tool call or a terminal.
    pub(super) fn named_here(&self, fields: &Fields) -> Json {
        let mut fields = fields.clone();
        for name in ["toolCallId", "terminalId"] {
            if let Some(id) = fields.text(name) {
                fields.set(name, Json::of(&self.public_id(&id)));
            }
        }
        fields.json()
    }

    fn each_named(&self, items: &Json) -> Option<Json> {
        let items = items.items()?;
        let named: Vec<_> = items.iter().map(|item| self.named_here(&item.fields())).collect();
        Some(Json::of(&named))
    }
}

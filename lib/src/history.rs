//! The conversation as a list of whole messages, thoughts, tool calls, compactions and usage, for an agent that keeps
//! none itself. The same fold makes it from the journal and from what the agent has just said, so that a restored
//! session has the history that a live one had.

use rethread_core::{Entry, Folded, Json, MessageId, Seq, Stop, TurnNo, Update, UpdateKind, fold};
use serde_json::json;

/// How many items of a turn are kept unfolded.
const LOOSE: usize = 4096;

/// Collects what was said, item by item.
#[derive(Default)]
pub(crate) struct History {
    items: Vec<Folded>,
    next: u64,
    folded: usize,
}

impl History {
    /// Reads what [`History::list`] wrote.
    pub(crate) fn read(list: &[Json]) -> Self {
        let mut history = Self::default();
        list.iter().for_each(|body| history.told(body));
        history
    }

    /// Takes in one item of the journal.
    pub(crate) fn add(&mut self, item: &Folded) {
        match &item.entry {
            Entry::PromptInserted { .. } | Entry::TurnEnded { .. } => self.push(item.entry.clone()),
            Entry::Updated { update, .. } if is_said(update.kind) => self.push(item.entry.clone()),
            Entry::Updated { .. }
            | Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::TurnStarted { .. }
            | Entry::StateChanged { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => {}
        }
    }

    /// Takes in an update as it is told.
    pub(crate) fn told(&mut self, body: &Json) {
        let fields = body.fields();
        let tag = fields.text("sessionUpdate").unwrap_or_default();
        if tag == "state_update" && fields.text("state").as_deref() == Some("idle") {
            let stop = Stop::plain(&fields.text("stopReason").unwrap_or_default());
            return self.push(Entry::TurnEnded { turn: TurnNo(0), stop, at: 0, state: body.clone() });
        }
        let kind = UpdateKind::of_tag(&tag);
        if is_said(kind) {
            let id = kind.id_field().and_then(|name| fields.text(name)).unwrap_or_default();
            self.push(Entry::Updated { update: Update { kind, id, body: body.clone() }, known: false });
        }
    }

    /// Takes in a prompt.
    pub(crate) fn prompted(&mut self, message: &str, content: &Json) {
        let message = MessageId(message.to_owned());
        self.push(Entry::PromptInserted { message, turn: TurnNo(0), content: content.clone(), at: 0 });
    }

    /// Everything so far, each a whole update of version 2; the end of a turn is its `state_update`.
    pub(crate) fn list(&mut self) -> Vec<Json> {
        self.fold();
        self.items.iter().filter_map(body).collect()
    }

    fn push(&mut self, entry: Entry) {
        self.next += 1;
        self.items.push(Folded { first: Seq(self.next), last: Seq(self.next), entry });
        // A long stream must not pile up chunk by chunk.
        if self.items.len() > self.folded + LOOSE {
            self.fold();
        }
    }

    fn fold(&mut self) {
        if self.items.len() > self.folded {
            self.items = fold(&self.items);
            self.folded = self.items.len();
        }
    }
}

/// Says whether a model would want to know it.
fn is_said(kind: UpdateKind) -> bool {
    matches!(
        kind.whole(),
        UpdateKind::UserMessage
            | UpdateKind::AgentMessage
            | UpdateKind::AgentThought
            | UpdateKind::ToolCallUpdate
            | UpdateKind::CompactionUpdate
            | UpdateKind::UsageUpdate
    )
}

fn body(item: &Folded) -> Option<Json> {
    match &item.entry {
        Entry::PromptInserted { message, content, .. } => Some(
            json!({"sessionUpdate": "user_message", "messageId": message.as_str(), "content": content.value()})
                .into(),
        ),
        Entry::Updated { update, .. } => Some(update.body.clone()),
        Entry::TurnEnded { stop, .. } => Some(
            json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": stop.reason}).into(),
        ),
        Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentBound { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptDropped { .. }
        | Entry::TurnStarted { .. }
        | Entry::StateChanged { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(text: &str) -> Json {
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
            "content": {"type": "text", "text": text}})
        .into()
    }

    fn live() -> History {
        let mut history = History::default();
        history.prompted("p", &json!([{"type": "text", "text": "hello"}]).into());
        history.told(&chunk("a"));
        history.told(&chunk("b"));
        let tool = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Look"});
        history.told(&tool.into());
        let tool = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"});
        history.told(&tool.into());
        let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"});
        history.told(&idle.into());
        history
    }

    #[test]
    fn what_was_said_in_pieces_is_whole() {
        let list: Vec<_> = live().list().iter().map(|item| item.text().to_owned()).collect();
        expect_test::expect![[r#"
            {"sessionUpdate":"user_message","messageId":"p","content":[{"type":"text","text":"hello"}]}
            {"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"ab"}]}
            {"sessionUpdate":"tool_call_update","toolCallId":"t","title":"Look","status":"completed"}
            {"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}"#]]
        .assert_eq(&list.join("\n"));
    }

    #[test]
    fn what_was_written_is_read_as_it_was() {
        let list = live().list();
        assert_eq!(History::read(&list).list(), list);
    }
}

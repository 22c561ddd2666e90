//! The conversation as a list of whole messages, thoughts, tool calls, compactions and usage, for agents that store no
//! sessions. It is folded in the same way from the journal and from live updates, so that a restored session has the
//! same history as a live one. Turns before a compaction are dropped.

use rethread_core::{
    AgentKind, Entry, Fields, Folded, Gathered, HistoryRule, Json, MessageId, Seq, Stop, Subject, TextPart,
    TurnNo, Update, readable_update,
};
use serde_json::json;

use crate::edge::own_meta;

/// Collects the conversation item by item.
#[derive(Default)]
pub(crate) struct ConversationHistory {
    /// The folded items of earlier turns.
    past: Vec<Folded>,
    /// The items of the current turn.
    now: Gathered,
    next: u64,
    /// The in-process agent that the history is for; its own `_meta.rethread` is kept.
    reader: Option<String>,
    /// Whether that agent wrote the following journal entries.
    own: bool,
}

impl ConversationHistory {
    /// Makes a history for this agent. It gets its `_meta.rethread` back only if it runs in this process, and only from
    /// journal parts that it wrote itself in this process.
    pub(crate) fn for_agent(name: String, kind: AgentKind) -> Self {
        let reader = match kind {
            AgentKind::InProcess => Some(name),
            AgentKind::External => None,
        };
        Self { reader, ..Self::default() }
    }

    /// Reads the output of [`ConversationHistory::list`].
    pub(crate) fn read(list: &[Json]) -> Self {
        let mut history = Self::default();
        list.iter().for_each(|body| history.add_update(body));
        history
    }

    /// Adds one journal item.
    pub(crate) fn add(&mut self, item: &Folded) {
        match &item.entry {
            Entry::PromptInserted { .. } | Entry::TurnEnded { .. } => self.push(item.entry.clone()),
            Entry::Updated { update, known } => match update.kind.meaning().history {
                HistoryRule::Given => self.updated(update, *known),
                HistoryRule::Omitted => {}
            },
            Entry::AgentBound { agent, kind, .. } => {
                self.own = *kind == AgentKind::InProcess && self.reader.as_ref() == Some(agent);
            }
            // A fork begins in the middle of another session and has no agent yet.
            Entry::AgentLost { .. } | Entry::Opened { .. } => self.own = false,
            Entry::RootsSet { .. }
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

    /// Adds an update.
    pub(crate) fn add_update(&mut self, body: &Json) {
        let fields = body.fields();
        let tag = fields.text("sessionUpdate").unwrap_or_default();
        if tag == "state_update" && fields.text("state").as_deref() == Some("idle") {
            let stop = Stop::plain(&fields.text("stopReason").unwrap_or_default());
            return self.push(Entry::TurnEnded { turn: TurnNo(0), stop, at: 0, state: body.clone() });
        }
        let update = Update::of(&fields);
        if update.kind.meaning().history == HistoryRule::Given {
            self.push(Entry::Updated { update, known: false });
        }
    }

    /// Adds a prompt.
    pub(crate) fn add_prompt(&mut self, message: &str, content: &Json) {
        let message = MessageId(message.to_owned());
        self.push(Entry::PromptInserted { message, turn: TurnNo(0), content: content.clone(), at: 0 });
    }

    /// Returns everything so far as whole v2 updates; the end of a turn is its `state_update`. Turns before a
    /// compaction are reduced to ids and own metadata of tool calls, and the last usage.
    pub(crate) fn list(&mut self) -> Vec<Json> {
        self.past.iter().chain(self.now.fold()).filter_map(body).collect()
    }

    fn updated(&mut self, update: &Update, known: bool) {
        let body = if self.own { update.body.clone() } else { own_meta::strip(&update.body) };
        let update = Update { kind: update.kind, id: update.id.clone(), body };
        self.push(Entry::Updated { update, known });
    }

    fn push(&mut self, entry: Entry) {
        self.next += 1;
        let is_end = matches!(entry, Entry::TurnEnded { .. });
        let is_compaction = matches!(&entry, Entry::Updated { update, .. } if is_compacted(update));
        self.now.push(Folded { first: Seq(self.next), last: Seq(self.next), entry });
        if is_compaction && self.now.fold().iter().any(has_summary) {
            self.past = reduced(std::mem::take(&mut self.past));
        }
        // Nothing is merged across the end of a turn, so the turns before stay as they are.
        if is_end {
            self.past.append(&mut self.now.take());
        }
    }
}

/// Returns whether this update completes a compaction.
fn is_compacted(update: &Update) -> bool {
    update.kind.subject() == Subject::Compaction
        && update.body.fields().text("status").as_deref() == Some("completed")
}

/// Returns whether a compaction has a summary that replaces earlier turns.
fn has_summary(item: &Folded) -> bool {
    let Entry::Updated { update, .. } = &item.entry else { return false };
    let has_text = |part: &TextPart| matches!(part, TextPart::Text(text) if !text.is_empty());
    is_compacted(update) && readable_update(update).is_some_and(|summary| summary.parts.iter().any(has_text))
}

/// Keeps what is needed of compacted turns: tool call ids, which stay in use, their own metadata, and the usage.
fn reduced(items: Vec<Folded>) -> Vec<Folded> {
    let is_usage = |item: &Folded| matches!(&item.entry, Entry::Updated { update, .. } if update.kind.subject() == Subject::Usage);
    let last_usage = items.iter().rposition(is_usage);
    let keep = |(at, item): (usize, Folded)| {
        if let Entry::Updated { update, known } = &item.entry
            && update.kind.subject() == Subject::ToolCall
        {
            let update = Update { body: stub(&update.body), id: update.id.clone(), kind: update.kind };
            return Some(Folded { entry: Entry::Updated { update, known: *known }, ..item });
        }
        (Some(at) == last_usage).then_some(item)
    };
    items.into_iter().enumerate().filter_map(keep).collect()
}

/// A tool call without its content.
fn stub(call: &Json) -> Json {
    let fields = call.fields();
    let kept = ["sessionUpdate", "toolCallId"].into_iter();
    let mut stub: Fields = kept.filter_map(|name| Some((name, fields.get(name)?.clone()))).collect();
    if let Some(marks) = fields.get("_meta").and_then(|meta| meta.fields().take("rethread")) {
        stub.set("_meta", [("rethread", marks)].into_iter().collect::<Fields>().json());
    }
    stub.json()
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
    use rethread_core::{Binding, PromptStyle, UpdateKind};

    use super::*;

    fn chunk(text: &str) -> Json {
        json!({"sessionUpdate": "agent_message_chunk", "messageId": "m",
            "content": {"type": "text", "text": text}})
        .into()
    }

    fn live() -> ConversationHistory {
        let mut history = ConversationHistory::default();
        history.add_prompt("p", &json!([{"type": "text", "text": "hello"}]).into());
        history.add_update(&chunk("a"));
        history.add_update(&chunk("b"));
        let tool = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "Look"});
        history.add_update(&tool.into());
        let tool = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"});
        history.add_update(&tool.into());
        let idle = json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"});
        history.add_update(&idle.into());
        history
    }

    #[test]
    fn chunks_become_whole_messages() {
        let list: Vec<_> = live().list().iter().map(|item| item.text().to_owned()).collect();
        expect_test::expect![[r#"
            {"sessionUpdate":"user_message","messageId":"p","content":[{"type":"text","text":"hello"}]}
            {"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"ab"}]}
            {"sessionUpdate":"tool_call_update","toolCallId":"t","title":"Look","status":"completed"}
            {"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}"#]]
        .assert_eq(&list.join("\n"));
    }

    fn update(body: serde_json::Value) -> Json {
        body.into()
    }

    fn turn(history: &mut ConversationHistory, number: usize) {
        history.add_prompt(&format!("p{number}"), &json!([{"type": "text", "text": "hello"}]).into());
        let marks = json!({"rethread": {"tool": "read", "rule": {"work": "edit", "answer": "allow"}}});
        history.add_update(&update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("t{number}"),
            "status": "completed", "rawOutput": {"text": "x".repeat(10_000)}, "_meta": marks}),
        ));
        history.add_update(&update(json!({"sessionUpdate": "usage_update", "used": number, "size": 9})));
        history.add_update(&update(
            json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}),
        ));
    }

    fn compaction(history: &mut ConversationHistory, summary: &str) {
        history.add_prompt("now", &json!([{"type": "text", "text": "and now?"}]).into());
        let summary = json!([{"type": "text", "text": summary}]);
        history.add_update(&update(
            json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"}),
        ));
        history.add_update(&update(
            json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed",
            "summary": summary}),
        ));
    }

    #[test]
    fn compacted_turns_keep_only_ids_own_meta_and_usage() {
        let mut history = ConversationHistory::default();
        (1..=2).for_each(|number| turn(&mut history, number));
        compaction(&mut history, "two turns");
        let list = history.list();
        let texts: Vec<_> = list.iter().map(|item| item.text().to_owned()).collect();
        expect_test::expect![[r#"
            {"sessionUpdate":"tool_call_update","toolCallId":"t1","_meta":{"rethread":{"tool":"read","rule":{"work":"edit","answer":"allow"}}}}
            {"sessionUpdate":"tool_call_update","toolCallId":"t2","_meta":{"rethread":{"tool":"read","rule":{"work":"edit","answer":"allow"}}}}
            {"sessionUpdate":"usage_update","used":2,"size":9}
            {"sessionUpdate":"user_message","messageId":"now","content":[{"type":"text","text":"and now?"}]}
            {"sessionUpdate":"compaction_update","compactionId":"c","status":"completed","summary":[{"type":"text","text":"two turns"}]}"#]]
        .assert_eq(&texts.join("\n"));
        assert_eq!(ConversationHistory::read(&list).list(), list);
    }

    #[test]
    fn a_compaction_without_summary_replaces_nothing() {
        let mut history = ConversationHistory::default();
        turn(&mut history, 1);
        compaction(&mut history, "");
        assert!(history.list()[1].text().len() > 10_000);
    }

    #[test]
    fn a_written_history_round_trips() {
        let list = live().list();
        assert_eq!(ConversationHistory::read(&list).list(), list);
    }

    fn bound(agent: &str, kind: AgentKind) -> Entry {
        Entry::AgentBound {
            generation: 1,
            agent: agent.to_owned(),
            native: "n".to_owned(),
            binding: Binding::Fresh,
            style: PromptStyle::Acknowledged,
            kind,
        }
    }

    fn marked(id: &str) -> Entry {
        let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "_meta": {"rethread": {"rule": 1}}});
        let update = Update { kind: UpdateKind::ToolCallUpdate, id: id.to_owned(), body: body.into() };
        Entry::Updated { update, known: false }
    }

    /// The calls that keep their own metadata in the history for this agent.
    fn kept(name: &str, kind: AgentKind) -> Vec<String> {
        let lost = Entry::AgentLost { generation: 1, reason: String::new() };
        let journal = [
            marked("before"),
            bound("me", AgentKind::InProcess),
            marked("mine"),
            lost,
            marked("between"),
            bound("me", AgentKind::External),
            marked("so called"),
            bound("other", AgentKind::InProcess),
            marked("other's"),
            bound("me", AgentKind::InProcess),
            marked("mine again"),
        ];
        let mut history = ConversationHistory::for_agent(name.to_owned(), kind);
        for (at, entry) in (1..).zip(journal) {
            history.add(&Folded { first: Seq(at), last: Seq(at), entry });
        }
        let list = history.list();
        assert_eq!(list.len(), 6, "everything is included");
        let marked = list.iter().filter(|item| item.text().contains("rethread"));
        marked.filter_map(|item| item.fields().text("toolCallId")).collect()
    }

    #[test]
    fn own_meta_is_returned_only_to_the_in_process_agent_that_wrote_it() {
        assert_eq!(kept("me", AgentKind::InProcess), ["mine", "mine again"]);
        assert_eq!(kept("other", AgentKind::InProcess), ["other's"]);
        assert_eq!(kept("me", AgentKind::External), [""; 0]);
    }
}

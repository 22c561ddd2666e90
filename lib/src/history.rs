//! The conversation as a list of whole messages, thoughts, tool calls, compactions and usage, for an agent that keeps
//! none itself. The same fold makes it from the journal and from what the agent has just said, so that a restored
//! session has the history that a live one had. What a compaction sums up is not kept, so that the list is no longer
//! than what a model is given.

use rethread_core::{
    AgentKind, Entry, Fields, Folded, Gathered, HistoryRule, Json, MessageId, Seq, Stop, Subject, TextPart,
    TurnNo, Update, readable_update,
};
use serde_json::json;

use crate::edge::marks;

/// Collects what was said, item by item.
#[derive(Default)]
pub(crate) struct History {
    /// The turns before, folded.
    past: Vec<Folded>,
    /// The turn that runs.
    now: Gathered,
    next: u64,
    /// The in-process agent that the list is for; its own `_meta.rethread` stays in it.
    reader: Option<String>,
    /// Whether that agent said what comes next in the journal.
    own: bool,
}

impl History {
    /// A history for this agent. What it keeps in `_meta.rethread` it is given back only if it runs in this process,
    /// and only from where the journal says that it was itself and ran in this process.
    pub(crate) fn for_agent(name: String, kind: AgentKind) -> Self {
        let reader = match kind {
            AgentKind::InProcess => Some(name),
            AgentKind::External => None,
        };
        Self { reader, ..Self::default() }
    }

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
            Entry::Updated { update, known } => match update.kind.meaning().history {
                HistoryRule::Given => self.updated(update, *known),
                HistoryRule::Omitted => {}
            },
            Entry::AgentBound { agent, kind, .. } => {
                self.own = *kind == AgentKind::InProcess && self.reader.as_ref() == Some(agent);
            }
            // A fork begins in the midst of another session, and has no agent yet.
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

    /// Takes in an update as it is told.
    pub(crate) fn told(&mut self, body: &Json) {
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

    /// Takes in a prompt.
    pub(crate) fn prompted(&mut self, message: &str, content: &Json) {
        let message = MessageId(message.to_owned());
        self.push(Entry::PromptInserted { message, turn: TurnNo(0), content: content.clone(), at: 0 });
    }

    /// Everything so far, each a whole update of version 2; the end of a turn is its `state_update`. Of the turns that a
    /// compaction sums up there are only the ids and marks of tool calls, and the last usage.
    pub(crate) fn list(&mut self) -> Vec<Json> {
        self.past.iter().chain(self.now.fold()).filter_map(body).collect()
    }

    fn updated(&mut self, update: &Update, known: bool) {
        let body = if self.own { update.body.clone() } else { marks::strip(&update.body) };
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

/// Says whether this ends a compaction well.
fn is_compacted(update: &Update) -> bool {
    update.kind.subject() == Subject::Compaction
        && update.body.fields().text("status").as_deref() == Some("completed")
}

/// Says whether this is a compaction that has something to say in the place of the turns before.
fn has_summary(item: &Folded) -> bool {
    let Entry::Updated { update, .. } = &item.entry else { return false };
    let has_text = |part: &TextPart| matches!(part, TextPart::Text(text) if !text.is_empty());
    is_compacted(update) && readable_update(update).is_some_and(|summary| summary.parts.iter().any(has_text))
}

/// What is needed of turns that were summed up: the ids of tool calls, which stay taken, our marks on them, and what the
/// session has cost.
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

/// A tool call without what it did.
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

    fn update(body: serde_json::Value) -> Json {
        body.into()
    }

    fn turn(history: &mut History, number: usize) {
        history.prompted(&format!("p{number}"), &json!([{"type": "text", "text": "hello"}]).into());
        let marks = json!({"rethread": {"tool": "read", "rule": {"work": "edit", "answer": "allow"}}});
        history
            .told(&update(json!({"sessionUpdate": "tool_call_update", "toolCallId": format!("t{number}"),
            "status": "completed", "rawOutput": {"text": "x".repeat(10_000)}, "_meta": marks})));
        history.told(&update(json!({"sessionUpdate": "usage_update", "used": number, "size": 9})));
        history.told(&update(
            json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}),
        ));
    }

    fn compaction(history: &mut History, summary: &str) {
        history.prompted("now", &json!([{"type": "text", "text": "and now?"}]).into());
        let summary = json!([{"type": "text", "text": summary}]);
        history.told(&update(
            json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"}),
        ));
        history.told(&update(
            json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed",
            "summary": summary}),
        ));
    }

    #[test]
    fn what_was_summed_up_is_not_kept_but_for_ids_marks_and_usage() {
        let mut history = History::default();
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
        assert_eq!(History::read(&list).list(), list);
    }

    #[test]
    fn a_compaction_that_says_nothing_stands_for_nothing() {
        let mut history = History::default();
        turn(&mut history, 1);
        compaction(&mut history, "");
        assert!(history.list()[1].text().len() > 10_000);
    }

    #[test]
    fn what_was_written_is_read_as_it_was() {
        let list = live().list();
        assert_eq!(History::read(&list).list(), list);
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

    /// The calls that keep their marks in the history for this agent.
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
        let mut history = History::for_agent(name.to_owned(), kind);
        for (at, entry) in (1..).zip(journal) {
            history.add(&Folded { first: Seq(at), last: Seq(at), entry });
        }
        let list = history.list();
        assert_eq!(list.len(), 6, "all is told");
        let marked = list.iter().filter(|item| item.text().contains("rethread"));
        marked.filter_map(|item| item.fields().text("toolCallId")).collect()
    }

    #[test]
    fn marks_are_given_back_to_the_agent_in_this_process_that_made_them() {
        assert_eq!(kept("me", AgentKind::InProcess), ["mine", "mine again"]);
        assert_eq!(kept("other", AgentKind::InProcess), ["other's"]);
        assert_eq!(kept("me", AgentKind::External), [""; 0]);
    }
}

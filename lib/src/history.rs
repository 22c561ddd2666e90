//! The conversation as a list of whole messages, thoughts, tool calls, compactions and usage, for agents that store no
//! sessions. It is folded in the same way from the journal and from live updates, so that a restored session has the
//! same history as a live one. Turns before a compaction are dropped, and so is what is too old to fit (`left_out`).

mod left_out;

use rethread_core::{
    AgentKind, Entry, Folded, Gathered, HistoryRule, Json, MessageId, Seq, Stop, Subject, TextPart, TurnNo,
    Update, readable_update,
};
use serde_json::json;

use crate::edge::own_meta;
use left_out::Growth;

/// Collects the conversation item by item. Needs memory for about twice the limit, whatever is added.
pub(crate) struct ConversationHistory {
    /// The folded items of earlier turns.
    past: Vec<Folded>,
    /// The items of the current turn.
    now: Gathered,
    next: u64,
    /// How many bytes are given out, and how many were added since old items were last left out.
    most: usize,
    added: usize,
    /// What began here or before is left out.
    cut: Option<Seq>,
    /// The in-process agent that the history is for; its own `_meta.rethread` is kept.
    reader: Option<String>,
    /// Whether that agent wrote the following journal entries.
    own: bool,
}

impl Default for ConversationHistory {
    fn default() -> Self {
        Self::with_limit(left_out::MOST_BYTES)
    }
}

impl ConversationHistory {
    fn with_limit(most: usize) -> Self {
        let (past, now) = (Vec::new(), Gathered::default());
        Self { past, now, next: 0, most, added: 0, cut: None, reader: None, own: false }
    }

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
        list.iter().for_each(|body| history.add_given(body));
        history
    }

    fn add_given(&mut self, body: &Json) {
        if left_out::is_marker(body) {
            self.cut = Some(Seq(self.next));
        } else {
            self.add_update(body);
        }
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
    /// compaction are reduced to ids and own metadata of tool calls, and the last usage, and so is what does not fit.
    pub(crate) fn list(&mut self) -> Vec<Json> {
        self.leave_out();
        let longest_prompt = self.longest_prompt();
        let is_out = |item: &&Folded| self.cut.is_some_and(|cut| item.first <= cut);
        let items = self.past.iter().chain(self.now.fold());
        let (out, whole): (Vec<_>, Vec<_>) = items.partition(is_out);
        let reduced = left_out::reduced(out.into_iter().cloned().collect(), Growth::Over, longest_prompt);
        // The prompt comes last, because the turn that is given begins with it.
        let (prompt, rest): (Vec<_>, Vec<_>) = reduced.iter().partition(|item| left_out::is_prompt(item));
        let has_usage = whole.iter().any(|item| left_out::is_usage(item));
        let rest = rest.into_iter().filter(|item| !has_usage || !left_out::is_usage(item));
        let before = rest.chain(prompt).filter_map(body);
        let marker = self.cut.is_some().then(left_out::marker);
        before.chain(marker).chain(whole.into_iter().filter_map(body)).collect()
    }

    fn longest_prompt(&self) -> usize {
        self.most / 4
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
        let item = Folded { first: Seq(self.next), last: Seq(self.next), entry };
        self.added += left_out::size(&item);
        self.now.push(item);
        if is_compaction && self.now.fold().iter().any(has_summary) {
            self.past = left_out::reduced(std::mem::take(&mut self.past), Growth::Over, 0);
            self.replace_marker();
        }
        // Nothing is merged across the end of a turn, so the turns before stay as they are.
        if is_end {
            self.past.append(&mut self.now.take());
        }
        if self.added > self.most {
            self.leave_out();
        }
    }

    /// A summary stands for all turns before, also for what was left out of them.
    fn replace_marker(&mut self) {
        let begin = self.now.fold().first().map(|item| item.first);
        self.cut = self.cut.filter(|cut| begin.is_some_and(|begin| *cut >= begin));
    }

    /// Leaves out what does not fit. What was left out once does not fit later: the items after it only grow.
    fn leave_out(&mut self) {
        self.added = 0;
        let items = self.past.iter().chain(self.now.fold());
        self.cut = self.cut.max(left_out::cut(items, self.most));
        let Some(cut) = self.cut else { return };
        let longest_prompt = self.longest_prompt();
        let reduce = |mut items: Vec<Folded>, growth| {
            let rest = items.split_off(items.partition_point(|item| item.first <= cut));
            left_out::reduced(items, growth, longest_prompt).into_iter().chain(rest)
        };
        self.past = reduce(std::mem::take(&mut self.past), Growth::Over).collect();
        reduce(self.now.take(), Growth::Possible).for_each(|item| self.now.push(item));
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

    /// A conversation with long turns, as chunks: the last turn is much longer than the limit of [`limited`].
    fn long_conversation() -> Vec<Json> {
        let mut updates = Vec::new();
        for (turn, parts) in [(1, 1), (2, 3), (3, 2), (4, 9)] {
            let text = json!([{"type": "text", "text": format!("prompt {turn}")}]);
            updates.push(
                json!({"sessionUpdate": "user_message", "messageId": format!("p{turn}"), "content": text}),
            );
            for part in 0..parts {
                let call = format!("c{turn}.{part}");
                let begun = json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "title": "Read"});
                let chunk = |text: &str| {
                    json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{turn}.{part}"),
                    "content": {"type": "text", "text": text.repeat(100)}})
                };
                let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed",
                    "rawOutput": {"text": "é".repeat(100)}, "_meta": {"rethread": {"tool": "read"}}});
                updates.extend([begun, chunk("a\n"), chunk("b"), done, chunk("c")]);
            }
            updates.push(json!({"sessionUpdate": "usage_update", "used": turn, "size": 9}));
            updates.push(json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
        }
        updates.into_iter().map(Json::from).collect()
    }

    fn limited(updates: &[Json]) -> ConversationHistory {
        let mut history = ConversationHistory::with_limit(4_000);
        updates.iter().for_each(|update| history.add_given(update));
        history
    }

    fn kept_bytes(history: &ConversationHistory) -> usize {
        let kept =
            history.past.iter().chain(history.now.clone().fold()).map(left_out::size).collect::<Vec<_>>();
        kept.iter().sum()
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let list = limited(&long_conversation()).list();
        let words = |item: &Json| {
            let fields = item.fields();
            let word = |name| fields.text(name).unwrap_or_default();
            let name = word("messageId") + &word("toolCallId") + &word("compactionId");
            format!("{} {name} {}", word("sessionUpdate"), if item.text().len() > 200 { "whole" } else { "" })
        };
        let lines: Vec<_> = list.iter().map(|item| words(item).trim_end().to_owned()).collect();
        expect_test::expect![[r#"
            tool_call_update c1.0
            tool_call_update c2.0
            tool_call_update c2.1
            tool_call_update c2.2
            tool_call_update c3.0
            tool_call_update c3.1
            tool_call_update c4.0
            tool_call_update c4.1
            tool_call_update c4.2
            tool_call_update c4.3
            tool_call_update c4.4
            user_message p4
            compaction_update left-out whole
            agent_message m4.4 whole
            tool_call_update c4.5 whole
            agent_message m4.5 whole
            tool_call_update c4.6 whole
            agent_message m4.6 whole
            tool_call_update c4.7 whole
            agent_message m4.7 whole
            tool_call_update c4.8 whole
            agent_message m4.8 whole
            usage_update
            state_update"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_history_with_a_limit_is_the_same_live_and_restored() {
        let updates = long_conversation();
        for live in 0..=updates.len() {
            let restored = limited(&updates[..live]).list();
            // Listed before every turn, and handed over in the middle.
            for given in (0..live).step_by(7) {
                let mut history = limited(&limited(&updates[..given]).list());
                for update in &updates[given..live] {
                    if update.text().contains("user_message") {
                        history.list();
                    }
                    history.add_update(update);
                }
                assert_eq!(history.list(), restored, "{live} updates, of which {given} were given");
            }
        }
    }

    #[test]
    fn a_conversation_of_any_length_needs_little_memory() {
        let mut history = ConversationHistory::with_limit(100_000);
        history.add_prompt("p", &json!([{"type": "text", "text": "hello"}]).into());
        for number in 0..500 {
            history.add_update(&update(
                json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{}", number / 100),
                "content": {"type": "text", "text": "x".repeat(10_000)}}),
            ));
            assert!(kept_bytes(&history) < 250_000, "{}", kept_bytes(&history));
        }
        let given: usize = history.list().iter().map(|item| item.text().len()).sum();
        assert!(given < 110_000, "{given}");
    }

    #[test]
    fn a_new_prompt_is_given_whatever_its_size() {
        let mut history = ConversationHistory::with_limit(1000);
        turn(&mut history, 1);
        history.add_prompt("long", &json!([{"type": "text", "text": "x".repeat(5000)}]).into());
        assert!(history.list().last().is_some_and(|item| item.text().len() > 5000));
        history.add_update(&chunk("a"));
        assert!(history.list().iter().all(|item| item.text().len() < 1000), "the next turn does without");
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

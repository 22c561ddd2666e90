//! Tracks the tool calls that a v1 client was sent, and the terminals in them. Version 1 has neither terminals of the
//! agent nor content chunks, so a call is always sent as a whole. To keep the total size linear, a growing call is sent
//! again only when it has grown by a fraction of the last size, and with its next update. Calls are forgotten at the
//! end of their turn; of a very long turn, the oldest finished ones are forgotten sooner.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rethread_core::{Fields, Json, Screen, Update};

use super::v1;
use super::v1::CallContent;
use super::v1::tool_call::{Announced, TerminalText, TerminalView};
use super::view::{TerminalOwner, Timing, content_update};

/// A call is sent again when the new part is at least `1/GROWTH` of what was sent last.
const GROWTH: usize = 4;

/// How many bytes of finished calls are kept, in case something is added to them.
const MAX_FINISHED_BYTES: usize = 16 * 1024 * 1024;

/// The tracked calls and terminals of one view.
pub(super) struct ToolCalls {
    pub(super) terminals: TerminalOwner,
    screens: BTreeMap<String, Screen>,
    /// Terminals that this client runs: our ids, and the ids of the client.
    own: BTreeMap<String, String>,
    /// Calls of this turn, and older ones that are running or contain a running terminal.
    calls: BTreeMap<String, TrackedCall>,
    /// Calls with content that was not sent.
    stale: BTreeSet<String>,
    /// The finished calls of this turn, oldest first, with their sizes, and the sum of those.
    finished: VecDeque<(String, usize)>,
    finished_bytes: usize,
}

/// The content of one call.
#[derive(Default)]
struct TrackedCall {
    items: Vec<Json>,
    terminals: BTreeSet<String>,
    /// The bytes that were sent last, and approximately how many were added since.
    sent: usize,
    unsent: usize,
    phase: CallPhase,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum CallPhase {
    #[default]
    Running,
    Finished,
}

/// When a change is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendTime {
    Now,
    /// Together with a later update.
    Later,
}

impl TrackedCall {
    fn add(&mut self, item: Json) {
        if let Some(terminal) = terminal_in(&item) {
            self.terminals.insert(terminal);
        }
        self.items.push(item);
    }

    fn content(&self) -> Json {
        Json::of(&self.items)
    }

    fn was_sent(&mut self, bytes: usize) {
        (self.sent, self.unsent) = (bytes, 0);
    }

    fn has_grown(&self) -> bool {
        self.unsent.saturating_mul(GROWTH) >= self.sent
    }
}

fn terminal_in(item: &Json) -> Option<String> {
    if !item.text().contains("\"terminalId\"") {
        return None;
    }
    item.fields().text("terminalId")
}

impl ToolCalls {
    pub(super) fn new(terminals: TerminalOwner) -> Self {
        Self {
            terminals,
            screens: BTreeMap::new(),
            own: BTreeMap::new(),
            calls: BTreeMap::new(),
            stale: BTreeSet::new(),
            finished: VecDeque::new(),
            finished_bytes: 0,
        }
    }

    /// The client runs a terminal.
    pub(super) fn own_terminal(&mut self, ours: String, theirs: String) {
        self.own.insert(ours, theirs);
    }

    /// The calls as seen from an entry with this timing.
    pub(super) fn at(&self, timing: Timing) -> CallsAt<'_> {
        CallsAt { calls: self, timing }
    }

    /// Applies an update of a call. Returns the body to send, including content that was not sent yet, so that nothing
    /// follows the final update.
    pub(super) fn call_changed(&mut self, update: &Update) -> Json {
        let body = self.apply_call(update);
        if let Some(call) = self.calls.get(&update.id).filter(|call| call.phase == CallPhase::Finished) {
            self.finished_bytes += call.sent;
            self.finished.push_back((update.id.clone(), call.sent));
            self.forget_oldest();
        }
        body
    }

    fn apply_call(&mut self, update: &Update) -> Json {
        let mut body = update.body.fields();
        let over = body.text("status").map(|status| phase_of_status(&status));
        if let Some(content) = body.get("content") {
            let mut call = TrackedCall::default();
            content.items().unwrap_or_default().into_iter().for_each(|item| call.add(item));
            call.was_sent(content.text().len());
            call.phase = self.calls.get(&update.id).map_or(CallPhase::Running, |known| known.phase);
            self.calls.insert(update.id.clone(), call);
            self.stale.remove(&update.id);
        }
        let Some(call) = self.calls.get_mut(&update.id) else { return update.body.clone() };
        if let Some(over) = over {
            call.phase = over;
        }
        if !self.stale.remove(&update.id) {
            return update.body.clone();
        }
        let content = call.content();
        call.was_sent(content.text().len());
        body.set("content", content);
        body.json()
    }

    /// Forgets the oldest finished calls if they need too much memory, but not the one that was just finished.
    fn forget_oldest(&mut self) {
        while self.finished_bytes > MAX_FINISHED_BYTES && self.finished.len() > 1 {
            let Some((id, bytes)) = self.finished.pop_front() else { return };
            self.finished_bytes -= bytes;
            let is_over = |call: &TrackedCall| call.phase == CallPhase::Finished && call.terminals.is_empty();
            if self.calls.get(&id).is_some_and(is_over) && !self.stale.contains(&id) {
                self.calls.remove(&id);
            }
        }
    }

    /// Appends a content chunk to a call, and returns when it is sent.
    pub(super) fn content_added(&mut self, update: &Update, announced: Announced) -> SendTime {
        let mut body = update.body.fields();
        let Some(item) = body.take("content").filter(|item| !item.is_null()) else { return SendTime::Now };
        let call = self.calls.entry(update.id.clone()).or_default();
        call.unsent += item.text().len();
        call.add(item);
        if announced == Announced::New || has_other_members(&body) {
            call.was_sent(call.items.iter().map(|item| item.text().len()).sum());
            self.stale.remove(&update.id);
            return SendTime::Now;
        }
        self.stale.insert(update.id.clone());
        SendTime::Later
    }

    /// Applies an update of a terminal.
    pub(super) fn update_terminal(&mut self, update: &Update, timing: Timing) {
        let screen = self.screens.entry(update.id.clone()).or_default();
        screen.update(update);
        let over = screen.has_exited();
        if self.own_live(&update.id, timing).is_some() {
            return;
        }
        for (id, call) in self.calls.iter_mut().filter(|(_, call)| call.terminals.contains(&update.id)) {
            call.unsent =
                if over { usize::MAX } else { call.unsent.saturating_add(update.body.text().len()) };
            self.stale.insert(id.clone());
        }
    }

    /// Returns the updates for stale calls that have grown enough.
    pub(super) fn take_due_updates(&mut self) -> Vec<Json> {
        let is_due = |id: &String| self.calls.get(id).is_none_or(TrackedCall::has_grown);
        let (due, later) = std::mem::take(&mut self.stale).into_iter().partition(is_due);
        self.stale = later;
        // A call becomes stale only by terminals that the client does not run itself.
        let due: BTreeSet<String> = due;
        let past = self.at(Timing::Replay);
        let updates_by_id: Vec<(String, Json)> = due
            .into_iter()
            .filter_map(|id| {
                let content = self.calls.get(&id)?.content();
                let body = content_update("tool_call_update", "toolCallId", &id, content.raw());
                let update = v1::tool_call::to_v1(&body, Announced::Known, &past);
                Some((id, update))
            })
            .collect();
        let mut updates = Vec::new();
        for (id, update) in updates_by_id {
            if let Some(call) = self.calls.get_mut(&id) {
                call.was_sent(update.text().len());
            }
            updates.push(update);
        }
        updates
    }

    /// Makes all unsent content due.
    pub(super) fn mark_all_due(&mut self) {
        for id in &self.stale {
            if let Some(call) = self.calls.get_mut(id) {
                call.unsent = usize::MAX;
            }
        }
    }

    /// Ends a turn: makes unsent content due and forgets the calls that are finished.
    pub(super) fn turn_ended(&mut self) {
        self.mark_all_due();
        self.finished.clear();
        self.finished_bytes = 0;
        let (stale, screens) = (&self.stale, &self.screens);
        let runs = |terminal: &String| screens.get(terminal).is_some_and(|screen| !screen.has_exited());
        self.calls.retain(|id, call| {
            call.phase == CallPhase::Running || stale.contains(id) || call.terminals.iter().any(runs)
        });
        let shown: BTreeSet<_> = self.calls.values().flat_map(|call| &call.terminals).collect();
        self.screens.retain(|id, screen| !screen.has_exited() || shown.contains(id));
        let screens = &self.screens;
        self.own.retain(|id, _| screens.get(id).is_none_or(|screen| !screen.has_exited()));
    }

    /// Returns the client's id of a live terminal that it runs.
    fn own_live(&self, terminal: &str, timing: Timing) -> Option<&String> {
        self.own.get(terminal).filter(|_| timing == Timing::Live)
    }
}

fn phase_of_status(status: &str) -> CallPhase {
    if matches!(status, "completed" | "failed" | "cancelled") {
        CallPhase::Finished
    } else {
        CallPhase::Running
    }
}

/// Returns whether a chunk has members other than its content.
fn has_other_members(chunk: &Fields) -> bool {
    chunk.iter().any(|(name, _)| !matches!(name, "sessionUpdate" | "toolCallId"))
}

/// The calls as seen from an entry: a client's own terminals can only be referred to while the entry is live.
pub(super) struct CallsAt<'a> {
    calls: &'a ToolCalls,
    timing: Timing,
}

impl CallContent for CallsAt<'_> {
    fn content(&self, call: &str) -> Option<Json> {
        self.calls.calls.get(call).map(TrackedCall::content)
    }
}

impl TerminalText for CallsAt<'_> {
    fn render(&self, terminal: &str) -> TerminalView {
        match self.calls.own_live(terminal, self.timing) {
            Some(theirs) => TerminalView::Own(theirs.clone()),
            None => {
                let screen = self.calls.screens.get(terminal);
                TerminalView::Text(screen.map_or_else(Screen::unsaved, Screen::text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::UpdateKind;
    use serde_json::{Value, json};

    use super::*;

    fn update(kind: UpdateKind, id: &str, body: Value) -> Update {
        Update { kind, id: id.to_owned(), body: body.into() }
    }

    fn status(id: &str, status: &str) -> Update {
        let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status});
        update(UpdateKind::ToolCallUpdate, id, body)
    }

    fn chunk(id: &str, text: &str) -> Update {
        let item = json!({"type": "content", "content": {"type": "text", "text": text}});
        let body = json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": id, "content": item});
        update(UpdateKind::ToolCallContentChunk, id, body)
    }

    #[test]
    fn chunks_cost_linear_size_and_none_follows_the_end() {
        let mut calls = ToolCalls::new(TerminalOwner::Agent);
        calls.call_changed(&status("c", "in_progress"));
        let (mut said, mut sent) = (0, 0);
        for _ in 0..2000 {
            let chunk = chunk("c", &"x".repeat(400));
            said += chunk.body.text().len();
            assert_eq!(calls.content_added(&chunk, Announced::Known), SendTime::Later);
            sent += calls.take_due_updates().iter().map(|update| update.text().len()).sum::<usize>();
        }
        let end = calls.call_changed(&status("c", "completed"));
        assert_eq!(end.fields().get("content").and_then(Json::items).unwrap().len(), 2000, "all of it");
        sent += end.text().len();
        assert!(sent < 8 * said, "{sent} bytes for {said}");
        assert!(calls.take_due_updates().is_empty(), "nothing is left to say");
    }

    #[test]
    fn a_few_chunks_are_sent_at_once() {
        let mut calls = ToolCalls::new(TerminalOwner::Agent);
        assert_eq!(calls.content_added(&chunk("c", "one"), Announced::New), SendTime::Now);
        for text in ["two", "three"] {
            calls.content_added(&chunk("c", text), Announced::Known);
            assert_eq!(calls.take_due_updates().len(), 1);
        }
    }

    #[test]
    fn a_turn_of_any_length_needs_little_memory() {
        let mut calls = ToolCalls::new(TerminalOwner::Agent);
        let content =
            json!([{"type": "content", "content": {"type": "text", "text": "x".repeat(1_000_000)}}]);
        for number in 0..40 {
            let id = format!("c{number}");
            let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed",
                "content": content});
            calls.call_changed(&update(UpdateKind::ToolCallUpdate, &id, body));
            assert!(calls.calls.contains_key(&id) && calls.calls.len() <= 16, "{}", calls.calls.len());
        }
    }

    #[test]
    fn finished_calls_and_terminals_are_forgotten_with_the_turn() {
        let mut calls = ToolCalls::new(TerminalOwner::Agent);
        let terminal = json!([{"type": "terminal", "terminalId": "t"}]);
        for id in ["c", "d"] {
            let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "content": terminal});
            calls.call_changed(&update(UpdateKind::ToolCallUpdate, id, body));
        }
        let output = json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "aGk="});
        calls.update_terminal(&update(UpdateKind::TerminalOutputChunk, "t", output), Timing::Live);
        calls.call_changed(&status("c", "completed"));
        calls.take_due_updates();
        calls.turn_ended();
        assert_eq!((calls.calls.len(), calls.screens.len()), (2, 1), "the terminal runs");
        let exit =
            json!({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}});
        calls.update_terminal(&update(UpdateKind::TerminalUpdate, "t", exit), Timing::Live);
        assert_eq!(calls.take_due_updates().len(), 2, "its end is shown");
        calls.call_changed(&status("d", "failed"));
        calls.turn_ended();
        assert_eq!((calls.calls.len(), calls.screens.len(), calls.stale.len()), (0, 0, 0));
    }
}

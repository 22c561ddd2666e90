//! The tool calls that a version 1 client was shown, with the terminals inside them. Version 1 has no terminals of
//! the agent's and no pieces of content: a call is sent anew as a whole. So that this does not cost the square of what
//! there is to show, a call that grows is sent again only when it has grown by a part of what was sent, and with its next
//! update. Owns what must be remembered for that, and forgets it with the turn.

use std::collections::{BTreeMap, BTreeSet};

use rethread_core::{Fields, Json, Screen, Update};

use super::v1;
use super::v1::CallContent;
use super::v1::tool_call::{Announced, TerminalText, TerminalView};
use super::view::{Terminals, When, body_of};

/// A call is sent again when what is new is at least the part `1/GROWTH` of what was sent last.
const GROWTH: usize = 4;

/// The calls of one view.
pub(super) struct ToolCalls {
    /// Whose terminals they show.
    pub(super) terminals: Terminals,
    screens: BTreeMap<String, Screen>,
    /// The terminals that this client runs: our ids for them, and the client's.
    own: BTreeMap<String, String>,
    /// The content of those of this turn, and of those that run or show terminals that run.
    calls: BTreeMap<String, Call>,
    /// Those that have more to show than was sent.
    stale: BTreeSet<String>,
}

/// What a call shows.
#[derive(Default)]
struct Call {
    items: Vec<Json>,
    terminals: BTreeSet<String>,
    /// How many bytes were sent last, and about how many came since.
    sent: usize,
    unsent: usize,
    phase: Phase,
}

/// Whether a call is over.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Runs,
    Over,
}

/// Whether something is told at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It is.
    Now,
    /// With what comes later.
    Later,
}

impl Call {
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
    /// None yet.
    pub(super) fn new(terminals: Terminals) -> Self {
        Self {
            terminals,
            screens: BTreeMap::new(),
            own: BTreeMap::new(),
            calls: BTreeMap::new(),
            stale: BTreeSet::new(),
        }
    }

    /// The client runs a terminal.
    pub(super) fn own_terminal(&mut self, ours: String, theirs: String) {
        self.own.insert(ours, theirs);
    }

    /// As they are at the time of an entry.
    pub(super) fn at(&self, when: When) -> CallsAt<'_> {
        CallsAt { calls: self, when }
    }

    /// A call has changed. Gives the body to tell it with: what was not sent of its content goes along, so that nothing
    /// is left to be said after its end.
    pub(super) fn changed(&mut self, update: &Update) -> Json {
        let mut body = update.body.fields();
        let over = body.text("status").map(|status| is_final(&status));
        if let Some(content) = body.get("content") {
            let mut call = Call::default();
            content.items().unwrap_or_default().into_iter().for_each(|item| call.add(item));
            call.was_sent(content.text().len());
            call.phase = self.calls.get(&update.id).map_or(Phase::Runs, |known| known.phase);
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

    /// A call has more content. Says when the client is told.
    pub(super) fn grown(&mut self, update: &Update, announced: Announced) -> Told {
        let mut body = update.body.fields();
        let Some(item) = body.take("content").filter(|item| !item.is_null()) else { return Told::Now };
        let call = self.calls.entry(update.id.clone()).or_default();
        call.unsent += item.text().len();
        call.add(item);
        if announced == Announced::New || has_more(&body) {
            call.was_sent(call.items.iter().map(|item| item.text().len()).sum());
            self.stale.remove(&update.id);
            return Told::Now;
        }
        self.stale.insert(update.id.clone());
        Told::Later
    }

    /// A terminal has changed.
    pub(super) fn hear_terminal(&mut self, update: &Update, when: When) {
        let screen = self.screens.entry(update.id.clone()).or_default();
        screen.update(update);
        let over = screen.is_over();
        if self.own_live(&update.id, when).is_some() {
            return;
        }
        for (id, call) in self.calls.iter_mut().filter(|(_, call)| call.terminals.contains(&update.id)) {
            call.unsent =
                if over { usize::MAX } else { call.unsent.saturating_add(update.body.text().len()) };
            self.stale.insert(id.clone());
        }
    }

    /// The updates that bring the stale ones up to date which have grown enough.
    pub(super) fn redraw(&mut self) -> Vec<Json> {
        let is_due = |id: &String| self.calls.get(id).is_none_or(Call::has_grown);
        let (due, later) = std::mem::take(&mut self.stale).into_iter().partition(is_due);
        self.stale = later;
        // Only terminals that are not the client's own, or not any more, make a call stale.
        let due: BTreeSet<String> = due;
        let past = self.at(When::Past);
        let redrawn: Vec<(String, Json)> = due
            .into_iter()
            .filter_map(|id| {
                let content = self.calls.get(&id)?.content();
                let body = body_of("tool_call_update", "toolCallId", &id, content.raw());
                let update = v1::tool_call::to_v1(&body, Announced::Known, &past);
                Some((id, update))
            })
            .collect();
        let mut updates = Vec::new();
        for (id, update) in redrawn {
            if let Some(call) = self.calls.get_mut(&id) {
                call.was_sent(update.text().len());
            }
            updates.push(update);
        }
        updates
    }

    /// Whatever was not sent is due now.
    pub(super) fn make_due(&mut self) {
        for id in &self.stale {
            if let Some(call) = self.calls.get_mut(id) {
                call.unsent = usize::MAX;
            }
        }
    }

    /// A turn is over: what was not sent is due, and nothing is expected to be added to calls that are over.
    pub(super) fn turn_ended(&mut self) {
        self.make_due();
        let (stale, screens) = (&self.stale, &self.screens);
        let runs = |terminal: &String| screens.get(terminal).is_some_and(|screen| !screen.is_over());
        self.calls.retain(|id, call| {
            call.phase == Phase::Runs || stale.contains(id) || call.terminals.iter().any(runs)
        });
        let shown: BTreeSet<_> = self.calls.values().flat_map(|call| &call.terminals).collect();
        self.screens.retain(|id, screen| !screen.is_over() || shown.contains(id));
        let screens = &self.screens;
        self.own.retain(|id, _| screens.get(id).is_none_or(|screen| !screen.is_over()));
    }

    /// The client's id for a terminal of its own that lives.
    fn own_live(&self, terminal: &str, when: When) -> Option<&String> {
        self.own.get(terminal).filter(|_| when == When::Now)
    }
}

fn is_final(status: &str) -> Phase {
    if matches!(status, "completed" | "failed" | "cancelled") { Phase::Over } else { Phase::Runs }
}

/// Says whether a chunk has more to tell than its content.
fn has_more(chunk: &Fields) -> bool {
    chunk.iter().any(|(name, _)| !matches!(name, "sessionUpdate" | "toolCallId"))
}

/// The calls at the time of an entry: a terminal of the client's own is one only while it lives.
pub(super) struct CallsAt<'a> {
    calls: &'a ToolCalls,
    when: When,
}

impl CallContent for CallsAt<'_> {
    fn content(&self, call: &str) -> Option<Json> {
        self.calls.calls.get(call).map(Call::content)
    }
}

impl TerminalText for CallsAt<'_> {
    fn render(&self, terminal: &str) -> TerminalView {
        match self.calls.own_live(terminal, self.when) {
            Some(theirs) => TerminalView::Own(theirs.clone()),
            None => {
                let screen = self.calls.screens.get(terminal);
                TerminalView::Text(screen.map_or_else(Screen::nothing, Screen::text))
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
    fn chunks_cost_a_multiple_of_what_they_show_and_none_comes_after_the_end() {
        let mut calls = ToolCalls::new(Terminals::Agent);
        calls.changed(&status("c", "in_progress"));
        let (mut said, mut sent) = (0, 0);
        for _ in 0..2000 {
            let chunk = chunk("c", &"x".repeat(400));
            said += chunk.body.text().len();
            assert_eq!(calls.grown(&chunk, Announced::Known), Told::Later);
            sent += calls.redraw().iter().map(|update| update.text().len()).sum::<usize>();
        }
        let end = calls.changed(&status("c", "completed"));
        assert_eq!(end.fields().get("content").and_then(Json::items).unwrap().len(), 2000, "all of it");
        sent += end.text().len();
        assert!(sent < 8 * said, "{sent} bytes for {said}");
        assert!(calls.redraw().is_empty(), "nothing is left to say");
    }

    #[test]
    fn a_few_chunks_are_shown_as_they_come() {
        let mut calls = ToolCalls::new(Terminals::Agent);
        assert_eq!(calls.grown(&chunk("c", "one"), Announced::New), Told::Now);
        for text in ["two", "three"] {
            calls.grown(&chunk("c", text), Announced::Known);
            assert_eq!(calls.redraw().len(), 1);
        }
    }

    #[test]
    fn calls_and_terminals_that_are_over_are_forgotten_with_the_turn() {
        let mut calls = ToolCalls::new(Terminals::Agent);
        let terminal = json!([{"type": "terminal", "terminalId": "t"}]);
        for id in ["c", "d"] {
            let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "content": terminal});
            calls.changed(&update(UpdateKind::ToolCallUpdate, id, body));
        }
        let output = json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "aGk="});
        calls.hear_terminal(&update(UpdateKind::TerminalOutputChunk, "t", output), When::Now);
        calls.changed(&status("c", "completed"));
        calls.redraw();
        calls.turn_ended();
        assert_eq!((calls.calls.len(), calls.screens.len()), (2, 1), "the terminal runs");
        let exit =
            json!({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}});
        calls.hear_terminal(&update(UpdateKind::TerminalUpdate, "t", exit), When::Now);
        assert_eq!(calls.redraw().len(), 2, "its end is shown");
        calls.changed(&status("d", "failed"));
        calls.turn_ended();
        assert_eq!((calls.calls.len(), calls.screens.len(), calls.stale.len()), (0, 0, 0));
    }
}

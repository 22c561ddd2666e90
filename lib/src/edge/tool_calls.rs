//! The tool calls that a version 1 client was shown, with the terminals inside them. Version 1 has no terminals of
//! the agent's and no pieces of content: a call is sent anew as a whole when it grows, and when the text of its
//! terminals does. Owns what must be remembered for that.

use std::collections::{BTreeMap, BTreeSet};

use rethread_core::{Json, Update, UpdateKind};

use super::link::bare_id;
use super::screen::Screen;
use super::v1;
use super::v1::CallContent;
use super::v1::tool_call::{Announced, TerminalText, TerminalView};
use super::view::{Terminals, When, body_of};

/// The calls of one view.
pub(super) struct ToolCalls {
    /// Whose terminals they show.
    pub(super) terminals: Terminals,
    screens: BTreeMap<String, Screen>,
    /// The content of those of this turn, and of those that run or show terminals.
    content: BTreeMap<String, Json>,
    /// Those of them that are over and show no terminal.
    finished: BTreeSet<String>,
    /// Those whose terminals have more to show.
    stale: BTreeSet<String>,
}

impl ToolCalls {
    /// None yet.
    pub(super) fn new(terminals: Terminals) -> Self {
        Self {
            terminals,
            screens: BTreeMap::new(),
            content: BTreeMap::new(),
            finished: BTreeSet::new(),
            stale: BTreeSet::new(),
        }
    }

    /// As they are at the time of an entry.
    pub(super) fn at(&self, when: When) -> CallsAt<'_> {
        CallsAt { calls: self, when }
    }

    /// A call has changed.
    pub(super) fn remember(&mut self, update: &Update) {
        let mut body = update.body.fields();
        let content = body.take("content").filter(|content| !content.is_null());
        match (update.kind, content) {
            (UpdateKind::ToolCallContentChunk, Some(item)) => {
                let old = self.content.get(&update.id).and_then(Json::items).unwrap_or_default();
                let all: Vec<_> = old.into_iter().chain([item]).collect();
                self.content.insert(update.id.clone(), Json::of(&all));
            }
            (_, Some(content)) => {
                self.content.insert(update.id.clone(), content);
            }
            (_, None) => {}
        }
        let over = matches!(body.text("status").as_deref(), Some("completed" | "failed" | "cancelled"));
        let plain = |content: &Json| !content.text().contains("\"terminalId\"");
        if over && self.content.get(&update.id).is_some_and(plain) {
            self.finished.insert(update.id.clone());
        }
    }

    /// A terminal has changed.
    pub(super) fn hear_terminal(&mut self, update: &Update, when: When) {
        self.screens.entry(update.id.clone()).or_default().update(update);
        if self.owns_live(when) {
            return;
        }
        for (call, content) in &self.content {
            if content.text().contains(Json::of(&update.id).text()) {
                self.stale.insert(call.clone());
            }
        }
    }

    /// The updates that bring the stale ones up to date.
    pub(super) fn redraw(&mut self) -> Vec<Json> {
        let stale = std::mem::take(&mut self.stale);
        // Only terminals that are not the client's own, or not any more, make a call stale.
        let past = self.at(When::Past);
        let redrawn = |call: String| {
            let content = self.content.get(&call)?;
            let body = body_of("tool_call_update", "toolCallId", &call, content.raw());
            Some(v1::tool_call::to_v1(&body, Announced::Known, &past))
        };
        stale.into_iter().filter_map(redrawn).collect()
    }

    /// Nothing is expected to be added to a finished call after its turn.
    pub(super) fn forget_finished(&mut self) {
        for call in std::mem::take(&mut self.finished) {
            self.content.remove(&call);
        }
    }

    fn owns_live(&self, when: When) -> bool {
        self.terminals == Terminals::Client && when == When::Now
    }
}

/// The calls at the time of an entry: a terminal of the client's own is one only while it lives.
pub(super) struct CallsAt<'a> {
    calls: &'a ToolCalls,
    when: When,
}

impl CallContent for CallsAt<'_> {
    fn content(&self, call: &str) -> Option<Json> {
        self.calls.content.get(call).cloned()
    }
}

impl TerminalText for CallsAt<'_> {
    fn render(&self, terminal: &str) -> TerminalView {
        match self.calls.owns_live(self.when) {
            true => TerminalView::Own(bare_id(terminal).to_owned()),
            false => {
                let screen = self.calls.screens.get(terminal);
                TerminalView::Text(screen.map_or_else(Screen::nothing, Screen::text))
            }
        }
    }
}

//! The first reading of a thread: which of its records are undone, from where on the events say what people see, and when
//! it was used. Counts what is not known or damaged.

use std::ops::Range;

use rethread_core::{Millis, RawMembers};

use super::known;
use super::prompt;
use super::rollout::RolloutHead;
use super::thread::{ThreadLine, ThreadLines, is_half_written};
use crate::clock;
use crate::importer::lines::SourceLine;
use crate::importer::reader::ReadError;
use crate::importer::sink::Sink;

/// What the first reading finds.
#[derive(Debug)]
pub(super) struct ThreadIndex {
    /// The number of the first record from which on messages are told by events. Before it, in threads that old versions
    /// began, only the items for the model have them.
    pub(super) items_until: u64,
    pub(super) name: Option<String>,
    /// The working directory, where the first record has none.
    pub(super) cwd: Option<String>,
    pub(super) first_at: Option<Millis>,
    pub(super) last_at: Option<Millis>,
    undone: Vec<Range<u64>>,
    turns: Vec<IndexedTurn>,
    open: IndexedTurnState,
    /// The first item of a user since the agent did something.
    asked: Option<u64>,
}

/// Where a turn begins.
#[derive(Clone, Copy, Debug)]
struct IndexedTurn {
    start: u64,
}

/// Whether a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexedTurnState {
    None,
    /// A message of the user began it.
    Implied,
    /// A record says that it began, and another one will say that it ended.
    Explicit,
}

/// Reads a thread once.
pub(super) fn index(
    lines: &mut ThreadLines,
    head: &RolloutHead,
    sink: &mut Sink,
) -> Result<ThreadIndex, ReadError> {
    let mut index = ThreadIndex {
        items_until: u64::MAX,
        name: None,
        cwd: None,
        first_at: None,
        last_at: None,
        undone: Vec::new(),
        turns: Vec::new(),
        open: IndexedTurnState::None,
        asked: None,
    };
    while lines.next(|line| index.line(&line, head, sink))?.is_some() {}
    Ok(index)
}

impl ThreadIndex {
    /// Says whether a record was undone later.
    pub(super) fn is_undone(&self, number: u64) -> bool {
        self.undone.iter().any(|range| range.contains(&number))
    }

    fn line(&mut self, line: &ThreadLine<'_>, head: &RolloutHead, sink: &mut Sink) {
        let text = match line.text {
            SourceLine::Text(text, _) => text,
            SourceLine::Damaged(reason) => return sink.damaged(line.path, line.line, reason),
        };
        match serde_json::from_str::<RawMembers<'_>>(text) {
            Ok(record) => self.record(line.number, &record, head, sink),
            // The next import has it.
            Err(_) if is_half_written(&line.text) => {}
            Err(error) => sink.damaged(line.path, line.line, format!("it is not a JSON object: {error}")),
        }
    }

    fn record(&mut self, number: u64, record: &RawMembers<'_>, head: &RolloutHead, sink: &mut Sink) {
        let at = record.text("timestamp").and_then(|at| clock::from_rfc3339(&at));
        self.first_at = self.first_at.or(at);
        self.last_at = self.last_at.max(at);
        let payload = record.get("payload").map(RawMembers::of);
        let kind = record.text("type").unwrap_or_default();
        known::count_unknown(&kind, record, payload.as_ref(), &head.version, sink);
        match (&*kind, &payload) {
            ("event_msg", Some(event)) => self.event(number, event),
            ("response_item", Some(item)) => self.item(number, item),
            ("turn_context", Some(context)) if self.cwd.is_none() => {
                self.cwd = context.text("cwd").map(|cwd| cwd.into_owned());
            }
            (_, None) => self.item(number, record),
            (_, Some(_)) => {}
        }
    }

    fn event(&mut self, number: u64, event: &RawMembers<'_>) {
        match event.text("type").as_deref().unwrap_or_default() {
            "task_started" | "turn_started" => self.begin(number, IndexedTurnState::Explicit),
            "task_complete" | "turn_complete" | "turn_aborted" => self.open = IndexedTurnState::None,
            "user_message" => self.said_by_user(number),
            "item_completed" => {
                let item = event.get("item").map(RawMembers::of).unwrap_or_default();
                if item.text("type").as_deref() == Some("UserMessage") {
                    self.said_by_user(number);
                }
            }
            "thread_rolled_back" => {
                let turns = event.get("num_turns").and_then(|turns| turns.get().parse().ok());
                self.roll_back(number, turns.unwrap_or(0));
            }
            "thread_name_updated" => self.name = event.text("thread_name").map(|name| name.into_owned()),
            _ => {}
        }
    }

    /// A message of the user that is there for people to see.
    fn said_by_user(&mut self, number: u64) {
        if self.items_until == u64::MAX {
            // The same message is there for the model, and was taken for the begin of a turn.
            self.items_until = self.asked.unwrap_or(number);
            if self.open == IndexedTurnState::Implied
                && self.turns.last().is_some_and(|turn| turn.start >= self.items_until)
            {
                self.turns.pop();
                self.open = IndexedTurnState::None;
            }
        }
        if self.open != IndexedTurnState::Explicit {
            self.begin(number, IndexedTurnState::Implied);
        }
    }

    fn item(&mut self, number: u64, item: &RawMembers<'_>) {
        if self.items_until != u64::MAX {
            return;
        }
        let is_user = item.text("role").as_deref() == Some("user");
        let kind = item.text("type").unwrap_or_default();
        if &*kind == "message" && is_user {
            let content = item.get("content").and_then(|content| serde_json::from_str(content.get()).ok());
            let content = content.unwrap_or_default();
            if prompt::of_item(&content).is_empty() {
                self.cwd = self.cwd.take().or_else(|| prompt::directory(&content));
                return;
            }
            self.asked.get_or_insert(number);
            if self.open != IndexedTurnState::Explicit {
                self.begin(number, IndexedTurnState::Implied);
            }
        } else if item.text("role").as_deref() != Some("developer") {
            self.asked = None;
        }
    }

    fn begin(&mut self, start: u64, open: IndexedTurnState) {
        self.turns.push(IndexedTurn { start });
        self.open = open;
    }

    /// Takes back the last turns.
    fn roll_back(&mut self, number: u64, turns: usize) {
        self.open = IndexedTurnState::None;
        let kept = self.turns.len().saturating_sub(turns);
        let undone = self.turns.split_off(kept);
        let Some(first) = undone.first() else { return };
        let start = first.start;
        // What was undone before is part of it now.
        self.undone.retain(|range| range.start < start);
        self.undone.push(start..number + 1);
    }
}

//! What a chat shows of a session: turns the changes of the view into lines that stay. Pure: it neither reads nor writes the
//! terminal.

use std::collections::{HashMap, HashSet};

use rethread::client::view::{PlanStep, SessionNotice, SessionView, ViewChange, ViewItem};
use rethread_core::Subject;

use super::message_text::{MessageText, NewText};
use super::notes::{notice_lines, plan_lines, prompt_lines};
use super::tool_call::{CallFormat, ChangesSeen, call_lines, call_title, is_final};
use crate::markdown::style::{StyledText, TextStyle};
use crate::markdown::{MarkdownStream, wrap};
use crate::output::target::Color;

/// Whether what is shown happens now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It happens now: the user has typed the prompts.
    Live,
    /// It is history.
    Replay,
}

/// The transcript of a chat.
pub(crate) struct Transcript {
    columns: usize,
    color: Color,
    moment: Moment,
    message: MessageText,
    /// The message that is streaming.
    stream: Option<MarkdownStream>,
    /// The calls that were shown, and those whose changes were shown in a question.
    shown: HashSet<String>,
    seen: HashSet<String>,
    /// The plans as they were last shown.
    plans: HashMap<String, Vec<PlanStep>>,
    /// The last group that was printed, and the one that what follows belongs to.
    last: Option<LineGroup>,
    current: LineGroup,
    gap: Gap,
}

/// Whether an empty line is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    Due,
    None,
}

/// What lines belong to; groups are set apart by an empty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineGroup {
    Text,
    Thought,
    /// A call in one line; several of them stay together.
    Call,
    Other,
}

impl Transcript {
    /// Starts a transcript for a terminal.
    pub(crate) fn new(columns: usize, color: Color, moment: Moment) -> Self {
        Self {
            columns,
            color,
            moment,
            message: MessageText::default(),
            stream: None,
            shown: HashSet::new(),
            seen: HashSet::new(),
            plans: HashMap::new(),
            last: None,
            current: LineGroup::Other,
            gap: Gap::None,
        }
    }

    /// Uses another width for what is to come.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.columns = columns;
        if let Some(stream) = &mut self.stream {
            stream.resize(columns);
        }
    }

    /// What is history has been shown.
    pub(crate) fn begin_live(&mut self) {
        self.moment = Moment::Live;
    }

    /// The user has seen the changes of this call in a question.
    pub(crate) fn changes_seen(&mut self, call: &str) {
        self.seen.insert(call.to_owned());
    }

    /// Shows a change of the view.
    pub(crate) fn change(&mut self, view: &SessionView, change: &ViewChange) -> String {
        match change {
            ViewChange::Added(at) | ViewChange::Changed(at) => self.item(view, &view.items()[*at]),
            ViewChange::Appended { item, text } => self.appended(&view.items()[*item], text),
            ViewChange::Notice(notice) => self.notice(notice),
            ViewChange::Child { session, change } => self.child(view, session, change),
            ViewChange::Removed { .. }
            | ViewChange::Info
            | ViewChange::Options
            | ViewChange::Commands
            | ViewChange::Usage
            | ViewChange::State
            | ViewChange::Asked(_)
            | ViewChange::Settled(_) => String::new(),
        }
    }

    /// Shows other lines, which have been escaped.
    pub(crate) fn lines(&mut self, text: &str) -> String {
        let ended = self.end_message();
        ended + &self.group(LineGroup::Other, text)
    }

    /// The caller has printed an empty line.
    pub(crate) fn set_apart(&mut self) {
        self.last = None;
        self.gap = Gap::None;
    }

    /// Whether something was shown since the turn began.
    pub(crate) fn has_lines(&self) -> bool {
        self.last.is_some()
    }

    /// Ends the turn: shows what is not finished.
    pub(crate) fn end_turn(&mut self, view: &SessionView) -> String {
        let mut text = self.end_message();
        let open: Vec<&ViewItem> = view
            .items()
            .iter()
            .filter(|item| item.subject == Subject::ToolCall && !self.shown.contains(&item.id))
            .collect();
        for call in open {
            text += &self.call(view, call);
        }
        self.shown.clear();
        self.seen.clear();
        self.last = None;
        text
    }

    /// Shows the message that is streaming as far as it came: nothing more of it is expected.
    pub(crate) fn finish_message(&mut self) -> String {
        self.end_message()
    }

    /// The end of the text that is not finished, in at most so many lines and an empty one.
    pub(crate) fn open_lines(&self, max: usize) -> Vec<String> {
        let text = self.stream.as_ref().map(MarkdownStream::open_text).unwrap_or_default();
        if text.trim().is_empty() {
            return Vec::new();
        }
        let lines = wrap(
            &[StyledText::new(text.replace('\n', " "), TextStyle::PLAIN)],
            self.columns.saturating_sub(1),
        );
        let from = lines.len().saturating_sub(max);
        let line = |line: &Vec<StyledText>| line.iter().map(|piece| piece.text.as_str()).collect::<String>();
        let gap = (self.gap == Gap::Due).then(String::new);
        gap.into_iter().chain(lines[from..].iter().map(line)).collect()
    }

    /// What is going on, in one line.
    pub(crate) fn activity(&self, view: &SessionView) -> String {
        let calls = view.items().iter().rev();
        let running =
            calls.filter(|item| item.subject == Subject::ToolCall && !is_final(item)).map(call_title).next();
        running.unwrap_or_else(|| "working".to_owned())
    }

    fn item(&mut self, view: &SessionView, item: &ViewItem) -> String {
        match item.subject {
            Subject::AgentMessage | Subject::Thought => {
                let new = self.message.whole(item);
                self.say(item.subject, new)
            }
            Subject::UserMessage => self.user(item),
            Subject::ToolCall => self.call_changed(view, item),
            Subject::Plan => self.plan(item),
            Subject::Compaction if item.status() == Some("completed") => {
                let text = TextStyle::DIM.paint(self.color, "(the conversation was compacted)");
                self.lines(&format!("{text}\n"))
            }
            Subject::Compaction
            | Subject::Terminal
            | Subject::Commands
            | Subject::Options
            | Subject::SessionInfo
            | Subject::Usage
            | Subject::Notice
            | Subject::Other => String::new(),
        }
    }

    fn appended(&mut self, item: &ViewItem, text: &str) -> String {
        match item.subject {
            Subject::AgentMessage | Subject::Thought => {
                let new = self.message.appended(item, text);
                self.say(item.subject, new)
            }
            Subject::UserMessage if self.moment == Moment::Replay => {
                self.lines(&prompt_lines(text, self.color))
            }
            Subject::UserMessage
            | Subject::ToolCall
            | Subject::Terminal
            | Subject::Plan
            | Subject::Compaction
            | Subject::Commands
            | Subject::Options
            | Subject::SessionInfo
            | Subject::Usage
            | Subject::Notice
            | Subject::Other => String::new(),
        }
    }

    fn say(&mut self, subject: Subject, new: NewText) -> String {
        let (group, style) = if subject == Subject::Thought {
            (LineGroup::Thought, TextStyle { italic: true, ..TextStyle::DIM })
        } else {
            (LineGroup::Text, TextStyle::PLAIN)
        };
        let (ended, text) = match new {
            NewText::More(text) => (String::new(), text),
            NewText::Anew(text) => {
                let ended = self.finish_stream();
                self.stream = Some(MarkdownStream::new(self.columns, self.color, style));
                self.start(group);
                (ended, text)
            }
        };
        let stream = self.stream.get_or_insert_with(|| MarkdownStream::new(self.columns, self.color, style));
        let lines = stream.push(&text);
        ended + &self.gap_before(lines)
    }

    fn user(&mut self, item: &ViewItem) -> String {
        let text = item.text();
        if self.moment == Moment::Live || text.is_empty() {
            return String::new();
        }
        self.lines(&prompt_lines(&text, self.color))
    }

    fn call_changed(&mut self, view: &SessionView, call: &ViewItem) -> String {
        // What was said before a call is complete.
        let ended = self.end_message();
        if !is_final(call) || self.shown.contains(&call.id) {
            return ended;
        }
        ended + &self.call(view, call)
    }

    fn call(&mut self, view: &SessionView, call: &ViewItem) -> String {
        self.shown.insert(call.id.clone());
        let changes = if self.seen.contains(&call.id) { ChangesSeen::Yes } else { ChangesSeen::No };
        let format = CallFormat { columns: self.columns, color: self.color, changes };
        let lines = call_lines(view, call, format);
        let group = if lines.len() == 1 { LineGroup::Call } else { LineGroup::Other };
        self.group(group, &(lines.join("\n") + "\n"))
    }

    fn plan(&mut self, item: &ViewItem) -> String {
        let steps = item.plan_steps();
        if steps.is_empty() {
            let text = item.plan_text().unwrap_or_default();
            let mut stream = MarkdownStream::new(self.columns, self.color, TextStyle::PLAIN);
            let lines = stream.push(&text) + &stream.finish();
            return self.lines(&lines);
        }
        let before = self.plans.insert(item.id.clone(), steps.clone()).unwrap_or_default();
        let lines = plan_lines(&before, &steps, self.color);
        if lines.is_empty() { String::new() } else { self.lines(&lines) }
    }

    fn notice(&mut self, notice: &SessionNotice) -> String {
        self.lines(&notice_lines(notice, self.columns, self.color))
    }

    /// Of a sub-agent only its finished calls are shown.
    fn child(&mut self, view: &SessionView, session: &str, change: &ViewChange) -> String {
        let child = view.children().iter().find(|(id, _)| id == session).map(|(_, child)| child);
        let (Some(child), ViewChange::Added(at) | ViewChange::Changed(at)) = (child, change) else {
            return String::new();
        };
        let item = &child.items()[*at];
        let key = format!("{session} {}", item.id);
        if item.subject != Subject::ToolCall || !is_final(item) || !self.shown.insert(key) {
            return String::new();
        }
        let ended = self.end_message();
        let line = TextStyle::DIM.paint(self.color, &format!("  ↳ {}", call_title(item)));
        ended + &self.group(LineGroup::Call, &format!("{line}\n"))
    }

    /// Ends the message that is streaming; what follows is another one, even if it has the same id.
    fn end_message(&mut self) -> String {
        self.message.end();
        self.finish_stream()
    }

    fn finish_stream(&mut self) -> String {
        let rest = self.stream.take().map(|mut stream| stream.finish()).unwrap_or_default();
        self.gap_before(rest)
    }

    fn group(&mut self, group: LineGroup, text: &str) -> String {
        self.start(group);
        self.gap_before(text.to_owned())
    }

    fn start(&mut self, group: LineGroup) {
        let together = group == LineGroup::Call && self.last == Some(LineGroup::Call);
        self.gap = if self.last.is_some() && !together { Gap::Due } else { Gap::None };
        self.current = group;
    }

    fn gap_before(&mut self, lines: String) -> String {
        if lines.is_empty() {
            return lines;
        }
        self.last = Some(self.current);
        match std::mem::replace(&mut self.gap, Gap::None) {
            Gap::Due => format!("\n{lines}"),
            Gap::None => lines,
        }
    }
}

//! Writes the items of a turn as Markdown.

use rethread_core::TextPart;

use super::pieces::{closed, code_span, fenced, first_lines, last_lines, plain, quoted, shortened};
use super::{ToolDetail, as_sentence};
use crate::session_view::FileLocation;
use crate::transcript::content::ContentPart;
use crate::transcript::item::{PlanItem, SubagentItem, TerminalItem, ToolItem, TranscriptItem};
use crate::transcript::terminal_text::terminal_text;

/// How many lines are written of the text, the diff and the output of a tool call, and of a thought, in short.
const TEXT_LINES: usize = 8;
const DIFF_LINES: usize = 40;
const OUTPUT_LINES: usize = 10;
const THOUGHT_LINES: usize = 3;

/// How many characters are written of a thought in short.
const THOUGHT_CHARACTERS: usize = 300;

/// Writes items one after the other, with a heading where the speaker changes.
pub(super) struct ItemWriter {
    detail: ToolDetail,
    side: Option<Side>,
}

/// Who speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    User,
    Agent,
}

impl ItemWriter {
    pub(super) fn new(detail: ToolDetail) -> Self {
        Self { detail, side: None }
    }

    /// Writes an item, with an empty line before it.
    pub(super) fn item(&mut self, item: &TranscriptItem) -> String {
        let text = match item {
            TranscriptItem::User { content, .. } => return self.spoken(Side::User, &message(content)),
            TranscriptItem::Agent { content, .. } => message(content),
            TranscriptItem::Thought { content, .. } => self.thought(content),
            TranscriptItem::Tool(tool) => self.tool(tool),
            TranscriptItem::Terminal(terminal) => self.alone(|writer| writer.terminal(terminal)),
            TranscriptItem::Plan(plan) => plan_text(plan),
            TranscriptItem::Compaction { status, content } => compaction(status.as_deref(), content),
            TranscriptItem::Subagent(subagent) => self.subagent(subagent),
            TranscriptItem::Event(event) => {
                return format!("\n*{}*\n", plain(&as_sentence(&event.sentence())));
            }
        };
        self.spoken(Side::Agent, &text)
    }

    fn spoken(&mut self, side: Side, text: &str) -> String {
        if text.trim().is_empty() {
            return String::new();
        }
        let name = match side {
            Side::User => "User",
            Side::Agent => "Agent",
        };
        let same = self.side.replace(side) == Some(side);
        if same { format!("\n{text}") } else { format!("\n### {name}\n\n{text}") }
    }

    /// What is written only if tool calls are.
    fn alone(&self, write: impl FnOnce(&Self) -> String) -> String {
        match self.detail {
            ToolDetail::None => String::new(),
            ToolDetail::Short | ToolDetail::Full => write(self),
        }
    }

    fn thought(&self, content: &[ContentPart]) -> String {
        let text = message(content);
        match self.detail {
            ToolDetail::None => String::new(),
            ToolDetail::Short => quoted(&shortened(&text, THOUGHT_LINES, THOUGHT_CHARACTERS)),
            ToolDetail::Full => quoted(&text),
        }
    }

    fn tool(&self, tool: &ToolItem) -> String {
        self.alone(|writer| {
            let mut text = tool_heading(tool);
            for part in &tool.content {
                text.push('\n');
                text += &writer.tool_part(part);
            }
            text
        })
    }

    fn tool_part(&self, part: &ContentPart) -> String {
        let short = self.detail == ToolDetail::Short;
        match part {
            ContentPart::Text { text } if short => {
                fenced(&first_lines(terminal_text(text).trim_end(), TEXT_LINES), "")
            }
            ContentPart::Text { text } => fenced(&terminal_text(text), ""),
            ContentPart::Diff { patch, .. } if short && !patch.is_empty() => {
                fenced(&first_lines(patch.trim_end(), DIFF_LINES), "diff")
            }
            ContentPart::Resource { uri, text } if short => {
                format!("{}\n\n{}", code_span(uri), fenced(&first_lines(text.trim_end(), TEXT_LINES), ""))
            }
            ContentPart::Terminal(terminal) => self.terminal(terminal),
            ContentPart::Link { .. }
            | ContentPart::Resource { .. }
            | ContentPart::Image { .. }
            | ContentPart::Diff { .. }
            | ContentPart::Other { .. } => content_text(part),
        }
    }

    fn terminal(&self, terminal: &TerminalItem) -> String {
        let output = match self.detail {
            ToolDetail::Full => terminal_text(&terminal.output).trim_end().to_owned(),
            ToolDetail::Short | ToolDetail::None => {
                last_lines(&terminal_text(&terminal.output), OUTPUT_LINES)
            }
        };
        let command = terminal.command.as_ref().map(|command| format!("$ {command}"));
        let lines = [command, Some(output), exit_words(terminal)].into_iter().flatten();
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            "*(a terminal without output)*\n".to_owned()
        } else {
            fenced(&lines.join("\n"), "")
        }
    }

    fn subagent(&self, subagent: &SubagentItem) -> String {
        let title = if subagent.title.is_empty() { &subagent.session } else { &subagent.title };
        let state = subagent.state.as_ref().map(|state| format!(" · {}", plain(&state.replace('_', " "))));
        let mut text = format!("**Sub-agent: {}**{}\n", plain(title), state.unwrap_or_default());
        let mut inner = Self::new(self.detail);
        inner.side = Some(Side::Agent);
        let said: String = subagent.items.iter().map(|item| inner.item(item)).collect();
        if !said.trim().is_empty() {
            text += "\n";
            text += &quoted(said.trim_start_matches('\n'));
        }
        text
    }
}

fn tool_heading(tool: &ToolItem) -> String {
    let mark = match tool.status.as_deref() {
        Some("completed") => "✓",
        Some("failed") => "✗",
        Some("cancelled") => "⊘",
        Some(_) | None => "…",
    };
    let title = if tool.title.is_empty() { "(tool call)" } else { &tool.title };
    let words = [tool.kind.as_deref(), tool.status.as_deref()].into_iter().flatten();
    let words: Vec<_> = words.map(|word| plain(&word.replace('_', " "))).collect();
    let places: Vec<_> = tool.locations.iter().map(place).filter(|place| !title.contains(place)).collect();
    let places: Vec<_> = places.iter().map(|place| code_span(place)).collect();
    format!("{mark} **{}** · {}{}\n", plain(title), words.join(" · "), prefixed(" · ", &places.join(", ")))
}

fn prefixed(prefix: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{prefix}{text}") }
}

fn place(location: &FileLocation) -> String {
    location.line.map_or_else(|| location.path.clone(), |line| format!("{}:{line}", location.path))
}

/// How a command ended, if it did not succeed.
pub(in crate::transcript) fn exit_words(terminal: &TerminalItem) -> Option<String> {
    match (terminal.exit_code, &terminal.signal) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("[exit status {code}]")),
        (None, Some(signal)) => Some(format!("[ended by {signal}]")),
    }
}

fn plan_text(plan: &PlanItem) -> String {
    let mut text = "**Plan**\n\n".to_owned();
    for step in &plan.steps {
        let (mark, note) = match step.status.as_str() {
            "completed" => ('x', ""),
            "in_progress" => (' ', " *(in progress)*"),
            _ => (' ', ""),
        };
        text += &format!("- [{mark}] {}{note}\n", plain(&step.content));
    }
    text + &plan.text.as_ref().map(|text| closed(text)).unwrap_or_default()
}

fn compaction(status: Option<&str>, content: &[ContentPart]) -> String {
    let how = match status {
        Some("completed") | None => "The conversation was compacted.".to_owned(),
        Some(status) => format!("Compaction of the conversation: {}.", plain(&status.replace('_', " "))),
    };
    let summary = message(content);
    if summary.trim().is_empty() { format!("*{how}*\n") } else { format!("*{how}*\n\n{}", quoted(&summary)) }
}

/// The content of a message.
fn message(content: &[ContentPart]) -> String {
    content.iter().map(content_text).collect::<Vec<_>>().join("\n")
}

fn content_text(part: &ContentPart) -> String {
    match part {
        ContentPart::Text { text } => closed(text),
        ContentPart::Link { uri } => format!("{}\n", code_span(uri)),
        ContentPart::Resource { uri, text } => format!("{}\n\n{}", code_span(uri), fenced(text, "")),
        ContentPart::Image { mime_type, data } => {
            format!("*({}, {} KiB)*\n", plain(mime_type), data.len() * 3 / 4096 + 1)
        }
        ContentPart::Diff { files, patch } if patch.is_empty() => {
            let changes = files.iter().map(|file| (file.operation.clone(), file.path.clone())).collect();
            fenced(&TextPart::Diff { changes, patch: String::new() }.text(), "")
        }
        ContentPart::Diff { patch, .. } => fenced(patch, "diff"),
        ContentPart::Terminal(terminal) => ItemWriter::new(ToolDetail::Full).terminal(terminal),
        ContentPart::Other { kind } => format!("*({})*\n", plain(kind)),
    }
}

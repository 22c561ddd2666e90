//! A tool call in the transcript: one line with its status, and what came of it, shortened.

use rethread::client::view::{SessionView, ViewItem};
use rethread_core::{Subject, TextPart};

use super::diff::{diff_lines, diff_size};
use super::folded::{first_lines, last_lines};
use crate::markdown::style::{TextColor, TextStyle};
use crate::output::escape::visible;
use crate::output::target::Color;
use crate::output::width::cut_end;

/// How many lines of a text, a terminal and a patch are shown.
const TEXT_LINES: usize = 4;
const TERMINAL_LINES: usize = 8;
const DIFF_LINES: usize = 40;

/// How a tool call is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallFormat {
    /// The columns of the terminal.
    pub(crate) columns: usize,
    /// Whether colours are used.
    pub(crate) color: Color,
    /// Whether the user has seen the changes, in a question.
    pub(crate) changes: ChangesSeen,
}

/// Whether the user has seen the changes of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangesSeen {
    /// They were part of a question.
    Yes,
    /// They were not shown.
    No,
}

/// Returns whether a tool call has come to its end.
pub(crate) fn is_final(call: &ViewItem) -> bool {
    matches!(call.status(), Some("completed" | "failed" | "cancelled"))
}

/// The name of a call in one line.
pub(crate) fn call_title(call: &ViewItem) -> String {
    let title = call.title().filter(|title| !title.trim().is_empty());
    let title = title.or_else(|| call.tool_kind()).unwrap_or("tool call");
    visible(title.trim().replace(['\n', '\r'], " ").trim_matches('`')).into_owned()
}

/// The lines of a call.
pub(crate) fn call_lines(view: &SessionView, call: &ViewItem, format: CallFormat) -> Vec<String> {
    let room = format.columns.saturating_sub(3);
    let (mark, color, note) = match call.status() {
        Some("completed") => ("●", TextColor::Green, ""),
        Some("failed") => ("✗", TextColor::Red, " (failed)"),
        Some("cancelled") => ("✗", TextColor::Yellow, " (cancelled)"),
        Some(_) | None => ("○", TextColor::Yellow, " (not finished)"),
    };
    let mark = TextStyle::colored(color).paint(format.color, mark);
    let title = call_title(call);
    let title = TextStyle::BOLD.paint(format.color, &cut_end(&title, room.saturating_sub(note.len())));
    let mut lines = vec![format!("{mark} {title}{}", TextStyle::DIM.paint(format.color, note))];
    for part in call.parts() {
        let body = part_lines(view, &part, format);
        lines.extend(body.into_iter().map(|line| format!("  {line}")));
    }
    lines
}

fn part_lines(view: &SessionView, part: &TextPart, format: CallFormat) -> Vec<String> {
    let room = format.columns.saturating_sub(3);
    let dim = |lines: Vec<String>| -> Vec<String> {
        lines.iter().map(|line| TextStyle::DIM.paint(format.color, line)).collect()
    };
    match part {
        TextPart::Text(text) => dim(first_lines(text, TEXT_LINES, room)),
        TextPart::Terminal(id) => {
            let Some(terminal) = view.item(Subject::Terminal, id) else { return Vec::new() };
            let mut lines = last_lines(&terminal.output(), TERMINAL_LINES, room);
            lines.extend(exit_line(terminal));
            dim(lines)
        }
        TextPart::Diff { changes, patch } => change_lines(changes, patch, format),
        TextPart::Link(uri) | TextPart::Resource { uri, .. } => {
            dim(vec![cut_end(&visible(uri), room).into_owned()])
        }
        TextPart::Opaque(kind) => dim(vec![format!("[{}]", visible(kind))]),
    }
}

/// How a command ended, unless it succeeded.
fn exit_line(terminal: &ViewItem) -> Option<String> {
    let exit = terminal.exit()?;
    match (exit.code, exit.signal) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("ended by {}", visible(&signal))),
    }
}

fn change_lines(changes: &[(String, String)], patch: &str, format: CallFormat) -> Vec<String> {
    let (added, removed) = diff_size(patch);
    let size = format!(
        " {} {}",
        TextStyle::colored(TextColor::Green).paint(format.color, &format!("+{added}")),
        TextStyle::colored(TextColor::Red).paint(format.color, &format!("-{removed}"))
    );
    let room = format.columns.saturating_sub(16);
    let mut lines: Vec<String> = changes
        .iter()
        .map(|(operation, path)| cut_end(&visible(&format!("{operation} {path}")), room).into_owned())
        .collect();
    match lines.last_mut() {
        Some(last) => last.push_str(&size),
        None => lines.push(size.trim_start().to_owned()),
    }
    if format.changes == ChangesSeen::No {
        let patch = diff_lines(patch, format.color);
        let left = patch.len().saturating_sub(DIFF_LINES);
        lines.extend(patch.into_iter().take(DIFF_LINES));
        if left > 0 {
            lines.push(TextStyle::DIM.paint(format.color, &format!("… {left} more lines")));
        }
    }
    lines
}

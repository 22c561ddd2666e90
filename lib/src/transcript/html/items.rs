//! The items of a turn as HTML.

use super::diff::diff;
use super::escape::{escaped, image, link};
use super::event;
use super::message::markdown;
use crate::session_view::{FileLocation, PlanStep};
use crate::transcript::content::ContentPart;
use crate::transcript::item::{PlanItem, SubagentItem, TerminalItem, ToolItem, TranscriptItem};
use crate::transcript::markdown::{exit_words, first_lines, last_lines, shortened};
use crate::transcript::terminal_text::terminal_text;

/// How many lines of a terminal's output and of other texts of a tool call are shown.
const OUTPUT_LINES: usize = 400;
const TEXT_LINES: usize = 400;

/// A patch of so many lines is shown without a click.
const OPEN_PATCH_LINES: usize = 60;

/// Writes an item.
pub(super) fn item(item: &TranscriptItem) -> String {
    let (class, name, text) = match item {
        TranscriptItem::User { content, .. } => ("user", "User", message(content)),
        TranscriptItem::Agent { content, .. } => ("agent", "Agent", message(content)),
        TranscriptItem::Thought { content, .. } => return thought(content),
        TranscriptItem::Tool(call) => return tool(call),
        TranscriptItem::Terminal(shown) => return terminal(shown),
        TranscriptItem::Plan(shown) => ("plan", "Plan", plan(shown)),
        TranscriptItem::Compaction { content, .. } => {
            ("compaction", "The conversation was compacted", message(content))
        }
        TranscriptItem::Subagent(shown) => return subagent(shown),
        TranscriptItem::Event(happened) => return event(happened),
    };
    if text.trim().is_empty() {
        return String::new();
    }
    format!("<article class=\"{class}\">\n<h3>{name}</h3>\n{text}</article>\n")
}

fn message(content: &[ContentPart]) -> String {
    content.iter().map(part).collect()
}

fn part(part: &ContentPart) -> String {
    match part {
        ContentPart::Text { text } => markdown(text),
        ContentPart::Link { uri } => format!("<p>{}</p>\n", link(uri, &escaped(uri))),
        ContentPart::Resource { uri, text } => {
            let name = link(uri, &escaped(uri));
            format!(
                "<details class=\"file\"><summary>{name}</summary>\n<pre>{}</pre></details>\n",
                escaped(text)
            )
        }
        ContentPart::Image { mime_type, data } => {
            image(mime_type, data, "image").unwrap_or_else(|| format!("[{}]", escaped(mime_type))) + "\n"
        }
        ContentPart::Diff { files, patch } if patch.is_empty() => {
            let file = |file: &crate::transcript::ChangedFile| {
                format!("<li>{} <code>{}</code></li>\n", escaped(&file.operation), escaped(&file.path))
            };
            format!("<ul>\n{}</ul>\n", files.iter().map(file).collect::<String>())
        }
        ContentPart::Diff { patch, .. } => diff(patch),
        ContentPart::Terminal(shown) => terminal(shown),
        ContentPart::Other { kind } => format!("<p>[{}]</p>\n", escaped(kind)),
    }
}

fn thought(content: &[ContentPart]) -> String {
    let text = message(content);
    if text.trim().is_empty() {
        return String::new();
    }
    let words = content.iter().find_map(|part| match part {
        ContentPart::Text { text } => Some(shortened(text, 1, 100)),
        ContentPart::Link { .. }
        | ContentPart::Resource { .. }
        | ContentPart::Image { .. }
        | ContentPart::Diff { .. }
        | ContentPart::Terminal(_)
        | ContentPart::Other { .. } => None,
    });
    let words = words.and_then(|words| words.lines().next().map(str::to_owned)).unwrap_or_default();
    let summary = escaped(words.trim_matches(['*', '#', ' ', '_'])).into_owned();
    format!("<details class=\"thought\"><summary><i>Thought</i> {summary}</summary>\n{text}</details>\n")
}

fn tool(call: &ToolItem) -> String {
    let (mark, class) = match call.status.as_deref() {
        Some("completed") => ("✓", "done"),
        Some("failed") => ("✗", "failed"),
        Some("cancelled") => ("⊘", "failed"),
        Some(_) | None => ("…", "open"),
    };
    let title = if call.title.is_empty() { "(tool call)" } else { &call.title };
    let words = [call.kind.as_deref(), call.status.as_deref()].into_iter().flatten();
    let words: Vec<_> = words.map(|word| word.replace('_', " ")).collect();
    let places = call.locations.iter().filter(|place| !title.contains(&place.path)).map(location);
    let content: String = places.chain(call.content.iter().map(tool_part)).collect();
    let summary = format!(
        "<span class=\"mark {class}\">{mark}</span> <b dir=\"auto\">{}</b> <small>{}</small>",
        escaped(title),
        escaped(&words.join(" · "))
    );
    if content.trim().is_empty() {
        return format!("<p class=\"tool\">{summary}</p>\n");
    }
    let open = if call.content.iter().any(is_short_patch) { " open" } else { "" };
    format!("<details class=\"tool\"{open}><summary>{summary}</summary>\n{content}</details>\n")
}

fn is_short_patch(part: &ContentPart) -> bool {
    matches!(part, ContentPart::Diff { patch, .. } if patch.lines().count() <= OPEN_PATCH_LINES)
}

fn location(place: &FileLocation) -> String {
    let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("<p><code>{}{line}</code></p>\n", escaped(&place.path))
}

/// The text of a tool call is output rather than Markdown.
fn tool_part(content: &ContentPart) -> String {
    match content {
        ContentPart::Text { text } => {
            let text = first_lines(terminal_text(text).trim_end(), TEXT_LINES);
            if text.is_empty() { String::new() } else { format!("<pre>{}</pre>\n", escaped(&text)) }
        }
        ContentPart::Link { .. }
        | ContentPart::Resource { .. }
        | ContentPart::Image { .. }
        | ContentPart::Diff { .. }
        | ContentPart::Terminal(_)
        | ContentPart::Other { .. } => part(content),
    }
}

fn terminal(shown: &TerminalItem) -> String {
    let command = shown.command.as_ref().map(|command| format!("<b>$ {}</b>", escaped(command)));
    let output = last_lines(&terminal_text(&shown.output), OUTPUT_LINES);
    let exit = exit_words(shown).map(|exit| format!("<i>{}</i>", escaped(&exit)));
    let lines = [command, Some(escaped(&output).into_owned()), exit].into_iter().flatten();
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    format!("<pre class=\"terminal\">{}</pre>\n", lines.join("\n"))
}

fn plan(plan: &PlanItem) -> String {
    let step = |step: &PlanStep| {
        let (mark, class) = match step.status.as_str() {
            "completed" => ("✓", "done"),
            "in_progress" => ("▸", "running"),
            _ => ("○", "open"),
        };
        let content = escaped(&step.content);
        format!("<li class=\"{class}\" dir=\"auto\"><span class=\"mark\">{mark}</span> {content}</li>\n")
    };
    let steps: String = plan.steps.iter().map(step).collect();
    let steps = if steps.is_empty() { steps } else { format!("<ul class=\"steps\">\n{steps}</ul>\n") };
    steps + &plan.text.as_deref().map(markdown).unwrap_or_default()
}

fn subagent(shown: &SubagentItem) -> String {
    let title = if shown.title.is_empty() { &shown.session } else { &shown.title };
    let state = shown.state.as_ref().map(|state| state.replace('_', " ")).unwrap_or_default();
    let summary =
        format!("<b dir=\"auto\">Sub-agent: {}</b> <small>{}</small>", escaped(title), escaped(&state));
    let items: String = shown.items.iter().map(item).collect();
    if items.is_empty() {
        return format!("<p class=\"tool\">{summary}</p>\n");
    }
    format!("<details class=\"subagent\"><summary>{summary}</summary>\n{items}</details>\n")
}

//! Small pieces of a transcript: the steps of a plan, notices, prompts of the user, and the line at the end of a turn.

use std::time::Duration;

use rethread::client::view::{PlanStep, SessionNotice, SessionView};
use rethread_core::{Json, Stop};

use crate::markdown::style::{StyledText, TextColor, TextStyle, painted};
use crate::markdown::wrap;
use crate::output::escape::{visible, visible_lines};
use crate::output::target::Color;

/// The steps of a plan that changed; all of them if it is another plan.
pub(crate) fn plan_lines(before: &[PlanStep], steps: &[PlanStep], color: Color) -> String {
    let same_steps =
        before.len() == steps.len() && before.iter().zip(steps).all(|(old, new)| old.content == new.content);
    let changed = |(at, step): &(usize, &PlanStep)| !same_steps || before[*at].status != step.status;
    steps.iter().enumerate().filter(changed).map(|(_, step)| step_line(step, color)).collect()
}

fn step_line(step: &PlanStep, color: Color) -> String {
    let (mark, style) = match step.status.as_str() {
        "completed" => ("☑", TextStyle::DIM),
        "in_progress" => ("▸", TextStyle::BOLD),
        _ => ("☐", TextStyle::PLAIN),
    };
    format!("{}\n", style.paint(color, &format!("{mark} {}", visible(&step.content))))
}

/// A notice with its details.
pub(crate) fn notice_lines(notice: &SessionNotice, columns: usize, color: Color) -> String {
    let (mark, mark_color) = match notice.severity.as_str() {
        "error" => ("!", TextColor::Red),
        "warning" => ("!", TextColor::Yellow),
        _ => ("·", TextColor::Cyan),
    };
    let style = TextStyle::colored(mark_color);
    let title = indented(&visible(&notice.title), columns, style, color);
    let title = title
        .strip_prefix("  ")
        .map_or_else(String::new, |rest| format!("{} {rest}", style.paint(color, mark)));
    let details = notice.description.as_deref().unwrap_or_default().trim();
    title + &indented(details, columns, TextStyle::DIM, color)
}

/// A text in lines that are set in by two columns.
pub(crate) fn indented(text: &str, columns: usize, style: TextStyle, color: Color) -> String {
    if text.is_empty() {
        return String::new();
    }
    let lines = wrap(&[StyledText::new(visible_lines(text), style)], columns.saturating_sub(3));
    lines.into_iter().map(|line| format!("  {}\n", painted(&line, color))).collect()
}

/// A prompt of the user in a history.
pub(crate) fn prompt_lines(text: &str, color: Color) -> String {
    let text = visible_lines(text).into_owned();
    let mark = |at: usize| if at == 0 { "› " } else { "  " };
    let line = |(at, line): (usize, &str)| {
        format!("{}\n", TextStyle::BOLD.paint(color, &format!("{}{line}", mark(at))))
    };
    text.trim_end().lines().enumerate().map(line).collect()
}

/// What is said at the end of a turn: why it ended if that is not usual, and the usage.
pub(crate) fn turn_end_lines(stop: &Stop, view: &SessionView, took: Duration, color: Color) -> String {
    let usage = TextStyle::DIM.paint(color, &usage_line(view, took));
    format!("{}{usage}\n", stop_lines(stop, color))
}

/// Why a turn ended, if that is not usual.
pub(crate) fn stop_lines(stop: &Stop, color: Color) -> String {
    let (style, sentence) = match stop.reason.as_str() {
        "end_turn" | "" => (TextStyle::PLAIN, String::new()),
        "cancelled" => (TextStyle::colored(TextColor::Yellow), "Cancelled.".to_owned()),
        "refusal" => (TextStyle::colored(TextColor::Yellow), "The agent refused to answer.".to_owned()),
        "max_tokens" => {
            (TextStyle::colored(TextColor::Yellow), "The answer reached the token limit.".to_owned())
        }
        "max_turn_requests" => {
            let text = "The agent made as many requests as it may in one turn.".to_owned();
            (TextStyle::colored(TextColor::Yellow), text)
        }
        other => (TextStyle::colored(TextColor::Red), error_sentence(stop, other)),
    };
    visible_lines(&sentence).lines().map(|line| style.paint(color, line) + "\n").collect()
}

fn error_sentence(stop: &Stop, reason: &str) -> String {
    let error = stop.error.as_ref().map(Json::fields).unwrap_or_default();
    let hint = error.get("data").and_then(|data| data.fields().text("hint"));
    let message = error.text("message").unwrap_or_else(|| format!("The turn ended with {reason}."));
    let hint = hint.map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    format!("error: {message}{hint}")
}

/// Tokens, cost and time.
fn usage_line(view: &SessionView, took: Duration) -> String {
    let mut parts = Vec::new();
    if let Some(usage) = view.usage() {
        let share = usage.used.saturating_mul(100).checked_div(usage.size).unwrap_or(0);
        parts.push(format!("{} of {} tokens ({share}%)", count(usage.used), count(usage.size)));
        if let Some(cost) = usage.cost {
            let amount =
                if cost.amount < 0.1 { format!("{:.4}", cost.amount) } else { format!("{:.2}", cost.amount) };
            let currency = visible(&cost.currency).into_owned();
            parts.push(if currency == "USD" { format!("${amount}") } else { format!("{amount} {currency}") });
        }
    }
    parts.push(seconds(took));
    parts.join(" · ")
}

/// A number of tokens: `950`, `12.3k`, `1.5M`.
pub(crate) fn count(number: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", number / unit, number % unit / (unit / 10));
    match number {
        0..=999 => number.to_string(),
        1_000..=999_999 => format!("{}k", tenths(1_000)),
        _ => format!("{}M", tenths(1_000_000)),
    }
}

/// A duration in one or two units.
pub(crate) fn seconds(took: Duration) -> String {
    match took.as_secs() {
        0 => format!("{}.{} s", 0, took.subsec_millis() / 100),
        seconds @ 1..=59 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

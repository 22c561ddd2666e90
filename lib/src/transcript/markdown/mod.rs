//! Writes a transcript as Markdown: a head with what is known of the session, then the turns. Text of agents is Markdown
//! already and stays as it is, except that control characters are shown as escapes and open code blocks are closed.

mod items;
mod pieces;

use rethread_core::Millis;

use super::event::TranscriptEvent;
use super::item::TranscriptItem;
use super::outline::{AgentSummary, SessionOutline, agent_summaries};
use super::scan::JournalDamage;
use super::times::{day_and_minute, span};
use super::turn::{TranscriptTurn, TurnEnding};
use super::usage::TurnTokens;
use crate::store::Archived;
use items::ItemWriter;
use pieces::{code_span, plain};

pub(super) use items::exit_words;
pub(super) use pieces::{first_lines, last_lines, shortened};

/// How much of tool calls and thoughts is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolDetail {
    /// Nothing of tool calls; thoughts are left out too.
    None,
    /// A line for each, with the beginning of its content or the end of its output; the beginning of thoughts.
    #[default]
    Short,
    /// Everything.
    Full,
}

/// Writes what comes before the turns.
#[must_use]
pub fn head(outline: &SessionOutline) -> String {
    let title = outline.title.as_deref().unwrap_or("(no title)");
    let mut text = format!("# {}\n\n", plain(title));
    for (name, value) in facts(outline) {
        text += &format!("- {name}: {value}\n");
    }
    text
}

/// Writes a turn.
#[must_use]
pub fn turn(turn: &TranscriptTurn, detail: ToolDetail) -> String {
    if is_blank(turn) {
        return String::new();
    }
    let mut text = if turn.continued { String::new() } else { heading(turn) };
    let mut writer = ItemWriter::new(detail);
    for item in turn.items.iter().filter(|item| is_shown(item)) {
        text += &writer.item(item);
    }
    if let Some(sentence) = turn.end.as_ref().and_then(TurnEnding::sentence) {
        text += &format!("\n*{}*\n", plain(&as_sentence(&sentence)));
    }
    text
}

/// Writes what comes after the turns: where the journal is damaged.
#[must_use]
pub fn foot(damage: Option<&JournalDamage>) -> String {
    damage.map_or_else(String::new, |damage| {
        format!("\n---\n\n**The rest cannot be read:** {}\n", plain(&damage.message))
    })
}

/// The facts of a session with their names.
fn facts(outline: &SessionOutline) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Session", code_span(outline.id.as_str())), ("Directory", code_span(&outline.cwd))];
    facts.extend(outline.parent.iter().map(|parent| ("Forked from", code_span(parent.as_str()))));
    if outline.agents.is_empty() {
        facts.push(("Agent", plain(&outline.agent)));
    }
    facts.extend(agent_summaries(&outline.agents).iter().map(|AgentSummary { first, words }| {
        let (agent, id) = (plain(&first.agent), code_span(&first.native_id));
        ("Agent", format!("{agent}, own id {id}, from turn {} ({words})", first.from_turn))
    }));
    facts.extend(outline.created_at.map(|at| ("Created", format!("{} UTC", day_and_minute(at)))));
    facts.push(("Changed", format!("{} UTC", day_and_minute(outline.updated_at))));
    if outline.archived == Archived::Yes {
        facts.push(("Archived", "yes".to_owned()));
    }
    facts.push(("Turns", outline.turns.len().to_string()));
    facts.extend(usage_words(outline).map(|usage| ("Usage", plain(&usage))));
    facts
}

/// The usage of a session in words; nothing if no agent reported any.
pub(super) fn usage_words(outline: &SessionOutline) -> Option<String> {
    let tokens = outline.tokens().map(|tokens| token_words(&tokens));
    let context =
        outline.context.map(|(used, size)| format!("context {} of {} tokens", grouped(used), grouped(size)));
    let cost = outline.cost();
    let cost = (!cost.is_empty()).then(|| format!("cost {}", cost.text()));
    let words: Vec<_> = [tokens, context, cost].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Tokens in words.
pub(super) fn token_words(tokens: &TurnTokens) -> String {
    let TurnTokens { input, output, cached_read, total, .. } = *tokens;
    let cached = if cached_read > 0 { format!(", {} cached", grouped(cached_read)) } else { String::new() };
    format!("{} tokens ({} in, {} out{cached})", grouped(total), grouped(input), grouped(output))
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn heading(turn: &TranscriptTurn) -> String {
    let Some(number) = turn.number else { return "\n## After the last turn\n".to_owned() };
    let began = turn.started_at.map(|at| format!(" · {} UTC", day_and_minute(at))).unwrap_or_default();
    format!(
        "\n## Turn {number}{began}{}\n",
        lasted(turn).map(|lasted| format!(" · {lasted}")).unwrap_or_default()
    )
}

/// How long a turn took; nothing if it has not ended or took less than a second.
pub(super) fn lasted(turn: &TranscriptTurn) -> Option<String> {
    let (start, end): (Millis, Millis) = (turn.started_at?, turn.end.as_ref()?.at);
    let length = end.saturating_sub(start);
    (length >= 1000).then(|| span(length))
}

/// Returns whether nothing is to be said of what came after the last turn.
pub(super) fn is_blank(turn: &TranscriptTurn) -> bool {
    turn.number.is_none() && !turn.items.iter().any(is_shown)
}

/// Events that the head or the end of the turn tell already are left out.
pub(super) fn is_shown(item: &TranscriptItem) -> bool {
    !matches!(
        item,
        TranscriptItem::Event(
            TranscriptEvent::CancelAsked
                | TranscriptEvent::AgentBound { binding: rethread_core::Binding::Fresh, .. }
        )
    )
}

/// A sentence with a capital letter, and with a full stop unless it ends with another mark.
pub(super) fn as_sentence(words: &str) -> String {
    let mut rest = words.chars();
    let mut text: String = rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect();
    if !text.ends_with(['.', '?', '!', '…', ':']) {
        text.push('.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}

//! Writes a transcript as one web page that needs nothing else: no scripts, no fonts, nothing from other places. All text is
//! escaped, and the page forbids everything but its own style and included images.

mod diff;
mod escape;
mod items;
mod message;

use super::event::TranscriptEvent;
use super::markdown::{as_sentence, is_blank, is_shown, lasted, token_words, usage_words};
use super::outline::{AgentSummary, SessionOutline, TurnOutline, agent_summaries};
use super::scan::JournalDamage;
use super::times::day_and_minute;
use super::turn::{TranscriptTurn, TurnEnding};
use crate::store::Archived;
use escape::escaped;

const STYLE: &str = include_str!("style.css");

/// The SHA-256 of the style, in base64: the only style that the page allows.
const STYLE_HASH: &str = "8txos2S4pxm8g0Wd9H3Bxw2QoEtUhjGOYYfEcRjwT2g=";

/// Writes what comes before the turns.
#[must_use]
pub fn head(outline: &SessionOutline) -> String {
    let title = escaped(outline.title.as_deref().unwrap_or("(no title)"));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
    );
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1 dir=\"auto\">{title}</h1>\n{}</header>\n{}<main>\n",
        facts(outline),
        contents(&outline.turns),
    )
}

/// Writes a turn.
#[must_use]
pub fn turn(turn: &TranscriptTurn) -> String {
    if is_blank(turn) {
        return String::new();
    }
    let mut text = String::from("<section class=\"turn\"");
    match turn.number.filter(|_| !turn.continued) {
        Some(number) => text += &format!(" id=\"turn-{number}\">\n<h2>Turn {number}{}</h2>\n", when(turn)),
        None if turn.continued => text += ">\n",
        None => text += ">\n<h2>After the last turn</h2>\n",
    }
    for item in turn.items.iter().filter(|item| is_shown(item)) {
        text += &items::item(item);
    }
    text += &turn.end.as_ref().map(ending).unwrap_or_default();
    text + "</section>\n"
}

/// Writes what comes after the turns.
#[must_use]
pub fn foot(damage: Option<&JournalDamage>) -> String {
    let damage = damage.map_or_else(String::new, |damage| {
        format!("<p class=\"problem\">The rest cannot be read: {}</p>\n", escaped(&damage.message))
    });
    format!("{damage}</main>\n</body>\n</html>\n")
}

fn facts(outline: &SessionOutline) -> String {
    let code = |text: &str| format!("<code>{}</code>", escaped(text));
    let mut facts = vec![("Session", code(outline.id.as_str())), ("Directory", code(&outline.cwd))];
    facts.extend(outline.parent.iter().map(|parent| ("Forked from", code(parent.as_str()))));
    if outline.agents.is_empty() {
        facts.push(("Agent", escaped(&outline.agent).into_owned()));
    }
    facts.extend(agent_summaries(&outline.agents).iter().map(|AgentSummary { first, words }| {
        let (agent, id) = (escaped(&first.agent), code(&first.native_id));
        ("Agent", format!("<b>{agent}</b>, own id {id}, from turn {} ({words})", first.from_turn))
    }));
    let time = |at| format!("{} UTC", day_and_minute(at));
    facts.extend(outline.created_at.map(|at| ("Created", time(at))));
    facts.push(("Changed", time(outline.updated_at)));
    if outline.archived == Archived::Yes {
        facts.push(("Archived", "yes".to_owned()));
    }
    facts.push(("Turns", outline.turns.len().to_string()));
    facts.extend(usage_words(outline).map(|usage| ("Usage", escaped(&usage).into_owned())));
    let row = |(name, value): &(&str, String)| format!("<dt>{name}</dt><dd>{value}</dd>\n");
    format!("<dl>\n{}</dl>\n", facts.iter().map(row).collect::<String>())
}

/// The list of turns, if there are several.
fn contents(turns: &[TurnOutline]) -> String {
    if turns.len() < 2 {
        return String::new();
    }
    let line = |turn: &TurnOutline| {
        let prompt = if turn.prompt.is_empty() { "(no prompt)" } else { &turn.prompt };
        format!(
            "<li value=\"{0}\"><a href=\"#turn-{0}\" dir=\"auto\">{1}</a></li>\n",
            turn.number,
            escaped(prompt)
        )
    };
    format!("<nav>\n<h2>Turns</h2>\n<ol>\n{}</ol>\n</nav>\n", turns.iter().map(line).collect::<String>())
}

/// When a turn was and how long it took.
fn when(turn: &TranscriptTurn) -> String {
    let began = turn.started_at.map(|at| format!("{} UTC", day_and_minute(at)));
    let words: Vec<_> = [began, lasted(turn)].into_iter().flatten().collect();
    if words.is_empty() { String::new() } else { format!(" <small>{}</small>", words.join(" · ")) }
}

fn ending(end: &TurnEnding) -> String {
    let mut text = String::new();
    if let Some(sentence) = end.sentence() {
        text += &format!("<p class=\"problem\">{}</p>\n", escaped(&as_sentence(&sentence)));
    }
    let cost = (!end.cost.is_empty()).then(|| end.cost.text());
    let usage: Vec<_> = end.tokens.as_ref().map(token_words).into_iter().chain(cost).collect();
    if !usage.is_empty() {
        text += &format!("<p class=\"usage\">{}</p>\n", escaped(&usage.join(" · ")));
    }
    text
}

/// An event of the session as a line.
fn event(event: &TranscriptEvent) -> String {
    let class = match event {
        TranscriptEvent::AgentLost { .. } => "problem",
        TranscriptEvent::AgentBound { .. }
        | TranscriptEvent::Forked
        | TranscriptEvent::PromptDropped
        | TranscriptEvent::CancelAsked
        | TranscriptEvent::QuestionOpen { .. } => "event",
    };
    format!("<p class=\"{class}\">{}</p>\n", escaped(&as_sentence(&event.sentence())))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use sha2::Digest;

    use super::*;

    #[test]
    fn the_page_allows_its_own_style() {
        let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(STYLE));
        assert_eq!(hash, STYLE_HASH, "the style has changed: change its hash too");
        assert!(!STYLE.contains("</"), "the style ends where its element ends");
    }
}

//! `rethread search`: finds messages by their words, newest first.

use std::path::{Path, PathBuf};

use clap::Args;
use rethread::clock;
use rethread::store::{Archived, SearchHit, SearchPage, SearchQuery, Store, StoreError};
use rethread_core::search::{PartKind, TextQuery};
use rethread_core::{Millis, TurnNo};
use serde_json::{Value, json};

use crate::failure::{ExitCode, Failure};
use crate::output::age::age;
use crate::output::agent_name::short_agent;
use crate::output::escape::visible;
use crate::output::json::json_document;
use crate::output::passage::passage_lines;
use crate::output::progress::progress_bar;
use crate::output::stream::{OutputStream, print};
use crate::output::target::{OutputTarget, Paint};
use crate::output::width::cut_end;
use crate::shell_word::shell_word;
use crate::stored_sessions::with_store;
use crate::time_span::PointInTime;

/// The lines of a passage on a terminal, and what they are indented by.
const PASSAGE_LINES: usize = 3;
const INDENT: &str = "  ";
/// The width of the column that says who speaks.
const SPEAKER_WIDTH: usize = 11;

/// Options of `search`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SearchArgs {
    /// Words that must all occur in a message. An argument with spaces is a phrase; `pars*` finds all words with this
    /// beginning. Case and accents make no difference.
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    /// Search only sessions of agents whose name contains this text.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Search only sessions of this directory.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Search only messages since then: a time span such as `3h`, `2d` or `1w`, or a date such as `2026-01-31`.
    #[arg(long, value_name = "TIME")]
    since: Option<PointInTime>,
    /// The maximum number of hits, at most 200.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  rethread search parser error         both words, in any order
  rethread search \"connection refused\" this phrase
  rethread search 'migrat*' --cwd .    words with this beginning, in sessions of this directory
  rethread search deploy --since 2w    in the last two weeks";

/// Searches.
pub(crate) fn run(args: &SearchArgs) -> Result<(), Failure> {
    let text = TextQuery::parse(&query_text(&args.words)).map_err(|error| {
        Failure::new(ExitCode::Usage, error.to_string())
            .hint("words are letters and digits; \"several words\" are a phrase, pars* is a beginning")
    })?;
    let page = with_store(async |store| {
        match store.update_index(progress_bar("Indexing")).await {
            // The store can search without writing.
            Ok(()) | Err(StoreError::Unwritable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        search(args, store.as_ref(), text).await
    })?;
    if args.json {
        return print(&json_document(&document(&page)));
    }
    let mut output = OutputStream::paged();
    output.print(&shown(args, &page))?;
    output.finish()
}

/// An argument with spaces was quoted in the shell: a phrase, unless it has quotes of its own.
fn query_text(words: &[String]) -> String {
    let quoted = |word: &String| word.trim().contains(char::is_whitespace) && !word.contains('"');
    let argument = |word: &String| if quoted(word) { format!("\"{word}\"") } else { word.clone() };
    words.iter().map(argument).collect::<Vec<_>>().join(" ")
}

async fn search(args: &SearchArgs, store: &dyn Store, text: TextQuery) -> Result<SearchPage, Failure> {
    let mut query = SearchQuery::new(text, args.limit);
    query.agent.clone_from(&args.agent);
    query.since = args.since.map(|since| since.at(clock::now()));
    let Some(cwd) = &args.cwd else { return Ok(store.search(&query).await?) };
    let mut page = SearchPage::default();
    for cwd in spellings(cwd)? {
        query.cwd = Some(cwd);
        let found = store.search(&query).await?;
        page.hits.extend(found.hits);
        page.next = page.next.or(found.next);
    }
    page.hits.sort_by_key(|hit| std::cmp::Reverse(hit.at));
    if page.hits.len() > args.limit.max(1) {
        page.next.get_or_insert_default();
        page.hits.truncate(args.limit.max(1));
    }
    Ok(page)
}

/// A directory as it was given and without links.
fn spellings(directory: &Path) -> Result<Vec<String>, Failure> {
    let given = std::path::absolute(directory)?;
    let physical = given.canonicalize().ok().filter(|physical| *physical != given);
    Ok([Some(given), physical].into_iter().flatten().map(|path| path.display().to_string()).collect())
}

fn document(page: &SearchPage) -> Value {
    let part = |part: &rethread_core::search::ExcerptPart| json!({"text": part.text, "match": part.kind == PartKind::Match});
    let hit = |hit: &SearchHit| {
        json!({
            "session": hit.session,
            "title": hit.title,
            "agent": hit.agent,
            "cwd": hit.cwd,
            "archived": hit.archived == Archived::Yes,
            "turn": hit.turn,
            "message": hit.message,
            "speaker": hit.speaker.name().to_lowercase(),
            "time": clock::rfc3339(hit.at),
            "passage": hit.excerpt.parts.iter().map(part).collect::<Vec<_>>(),
        })
    };
    json!({"hits": page.hits.iter().map(hit).collect::<Vec<_>>(), "more": page.next.is_some()})
}

fn shown(args: &SearchArgs, page: &SearchPage) -> String {
    let target = OutputTarget::stdout();
    if page.hits.is_empty() {
        return "No message was found.\n".to_owned();
    }
    let same_turn =
        |one: &SearchHit, next: &SearchHit| (&one.session, one.turn) == (&next.session, next.turn);
    let turns = page.hits.chunk_by(same_turn);
    let mut text = turns.map(|hits| entry(target, hits)).collect::<Vec<_>>().join("\n");
    if page.next.is_some() {
        let more = format!("There are more than {}; --limit shows more of them.", page.hits.len());
        let more = if args.limit > page.hits.len() { "There are more.".to_owned() } else { more };
        text += &format!("\n{}\n", target.paint(Paint::Dim, &more));
    }
    text
}

/// The hits of one turn: the session, the passages, and how to open it.
fn entry(target: OutputTarget, hits: &[SearchHit]) -> String {
    let Some(hit) = hits.first() else { return String::new() };
    let archived = if hit.archived == Archived::Yes { ", archived" } else { "" };
    let about = format!("{}, {}{archived}", short_agent(&hit.agent), ago(hit.at));
    let about = visible(&about);
    let title = visible(hit.title.as_deref().unwrap_or("(no title)"));
    let room = target.width().saturating_sub(about.len() + 2);
    let title = cut_end(&title, room.max(target.width() / 3));
    let title = target.paint(Paint::Cyan, &title);
    let columns = target.width().saturating_sub(INDENT.len());
    let mut text = format!("{title}  {}\n", target.paint(Paint::Dim, &about));
    for hit in hits {
        let mark = format!("{:<SPEAKER_WIDTH$}", hit.speaker.name().to_lowercase());
        let mark = target.paint(Paint::Dim, &mark);
        let lines = passage_lines(target, &hit.excerpt, columns.saturating_sub(SPEAKER_WIDTH), PASSAGE_LINES);
        for (at, line) in lines.iter().enumerate() {
            let before = if at == 0 { mark.clone() } else { " ".repeat(SPEAKER_WIDTH) };
            text += &format!("{INDENT}{before}{line}\n");
        }
    }
    let turn = if hit.turn == TurnNo(0) { String::new() } else { format!(" --turn {}", hit.turn) };
    let command = format!("rethread show {}{turn}", shell_word(hit.session.as_str()));
    text + &format!("{INDENT}{}\n", target.paint(Paint::Dim, &command))
}

fn ago(at: Millis) -> String {
    match age(clock::now(), at) {
        now if now == "now" => now,
        age => format!("{age} ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_with_spaces_are_phrases() {
        let words = ["fix", "the parser", "\"a b\" c", " x "].map(str::to_owned);
        assert_eq!(query_text(&words), "fix \"the parser\" \"a b\" c  x ");
    }
}

//! `rethread stats`: turns, tokens and cost by agent, model and day.

use clap::Args;
use rethread::clock;
use rethread::transcript::{TurnTokens, UsageFilter, UsageSum, UsageSums, day_and_minute};
use rethread_core::Millis;

use crate::failure::Failure;
use crate::output::escape::visible;
use crate::output::json::json_document;
use crate::output::progress::progress_bar;
use crate::output::stream::{OutputStream, print};
use crate::output::table::{Cell, Column, Cut, table};
use crate::output::target::{OutputTarget, Paint};
use crate::output::width::width;
use crate::resolve::current_directories;
use crate::stored_sessions::with_store;
use crate::time_span::PointInTime;

/// The number of days and models that are shown as text.
const MAX_ROWS: usize = 31;

/// The width of the longest bar.
const BAR_WIDTH: usize = 24;

/// Options of `stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Count the sessions of all directories.
    #[arg(long)]
    all: bool,
    /// Count only turns since then: a time span such as `12h` or `30d`, or a date such as `2026-01-31`.
    #[arg(long, value_name = "TIME")]
    since: Option<PointInTime>,
    /// Count only turns of agents whose name contains this text.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Sums up the usage of sessions.
pub(crate) fn run(args: &StatsArgs) -> Result<(), Failure> {
    let since = args.since.map(|since| since.at(clock::now()));
    let directories = if args.all { Vec::new() } else { current_directories()? };
    let filter = UsageFilter { directories, agent: args.agent.clone(), since };
    let sums = with_store(async |store| {
        Ok(UsageSums::read(store.as_ref(), &filter, progress_bar("Reading")).await?)
    })?;
    for id in &sums.damaged {
        eprintln!("warning: session {} is damaged; a part of it is not counted", visible(id));
    }
    if args.json {
        return print(&json_document(&sums.json(since)));
    }
    let mut output = OutputStream::paged();
    output.print(&text(args, &sums, since))?;
    output.finish()
}

fn text(args: &StatsArgs, sums: &UsageSums, since: Option<Millis>) -> String {
    if sums.total.turns == 0 {
        let place = if args.all { "" } else { " in this directory; --all counts those of all directories" };
        return format!("No turns{place}.\n");
    }
    let target = OutputTarget::stdout();
    let mut text = format!("{}\n", target.paint(Paint::Bold, &headline(sums, since)));
    for (name, rows) in [("agent", sums.by_agent()), ("model", sums.by_model()), ("day", sums.by_day())] {
        let skipped = rows.len().saturating_sub(MAX_ROWS);
        // The last days, and the agents and models with the most turns.
        let shown = if name == "day" { &rows[skipped..] } else { &rows[..rows.len() - skipped] };
        text += "\n";
        text += &usage_table(target, name, shown);
        if skipped > 0 {
            text += &target.paint(Paint::Dim, &format!("and {skipped} more\n"));
        }
    }
    text + &note(target, sums)
}

fn headline(sums: &UsageSums, since: Option<Millis>) -> String {
    let count = |number: u64, one: &str| {
        if number == 1 { format!("1 {one}") } else { format!("{} {one}s", grouped(number)) }
    };
    let mut words = vec![count(sums.sessions, "session"), count(sums.total.turns, "turn")];
    words.extend(sums.total.tokens.map(|tokens| format!("{} tokens", grouped(tokens.total))));
    words.extend(Some(sums.total.cost.text()).filter(|cost| !cost.is_empty()));
    let since = since.map(|since| format!(" since {} UTC", day_and_minute(since))).unwrap_or_default();
    words.join(", ") + &since
}

fn usage_table(target: OutputTarget, name: &'static str, rows: &[(String, UsageSum)]) -> String {
    let columns = [
        Column { header: name, cut: Cut::End(12) },
        Column { header: "turns", cut: Cut::Number },
        Column { header: "input", cut: Cut::Number },
        Column { header: "output", cut: Cut::Number },
        Column { header: "cached", cut: Cut::Number },
        Column { header: "cost", cut: Cut::Number },
        Column { header: "", cut: Cut::End(4) },
    ];
    let texts: Vec<_> = rows.iter().map(|(name, sum)| texts(name, sum)).collect();
    let most = rows.iter().map(|(_, sum)| sum.turns).max().unwrap_or(0);
    let room = bar_room(target, &columns, &texts);
    let cells = texts.iter().zip(rows).map(|(texts, (_, sum))| {
        let bar = Cell::painted(&bar(sum.turns, most, room), Paint::Cyan);
        texts.iter().map(|text| Cell::new(text)).chain([bar]).collect()
    });
    table(target, &columns, &cells.collect::<Vec<_>>())
}

/// The cells of a row before the bar.
fn texts(name: &str, sum: &UsageSum) -> [String; 6] {
    let tokens = |count: fn(&TurnTokens) -> u64| {
        sum.tokens.as_ref().map_or_else(|| "-".to_owned(), |tokens| grouped(count(tokens)))
    };
    let cost = sum.cost.text();
    [
        visible(name).into_owned(),
        grouped(sum.turns),
        tokens(|tokens| tokens.input),
        tokens(|tokens| tokens.output),
        tokens(|tokens| tokens.cached_read),
        if cost.is_empty() { "-".to_owned() } else { cost },
    ]
}

/// The columns that are left for bars. Without a terminal there are none.
fn bar_room(target: OutputTarget, columns: &[Column], rows: &[[String; 6]]) -> usize {
    const LEAST: usize = 6;
    match target {
        OutputTarget::Plain => 0,
        OutputTarget::Terminal { width: total, .. } => {
            let widest = |at: usize| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0);
            let used: usize = (0..6).map(|at| widest(at).max(columns[at].header.len()) + 2).sum();
            Some(total.saturating_sub(used)).filter(|room| *room >= LEAST).unwrap_or(0).min(BAR_WIDTH)
        }
    }
}

/// A bar for a number of turns.
fn bar(turns: u64, most: u64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (turns as f64 / most.max(1) as f64 * (room * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(turns > 0 && room > 0));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// What is missing in the sums.
fn note(target: OutputTarget, sums: &UsageSums) -> String {
    let (without, turns) = (sums.total.turns_without_tokens, sums.total.turns);
    let words = match without {
        0 => return String::new(),
        all if all == turns => "No tokens were reported.".to_owned(),
        some => format!(
            "Of {} turns, {} have no token counts: their agents report none.",
            grouped(turns),
            grouped(some)
        ),
    };
    format!("\n{}\n", target.paint(Paint::Dim, &words))
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

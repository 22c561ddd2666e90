//! The benchmarks of Rethread: ratios against a baseline in the same run, printed as one table. Wall time varies on
//! shared machines, so processor time counts more. `cargo bench` runs it; an argument selects rows.

mod agent;
mod client;
mod conductor;
mod idle;
mod list;
mod memory;
mod meter;
mod start;
mod stream;
mod turns;

use std::process::ExitCode;

/// One line of the table.
pub(crate) struct Row {
    what: String,
    figure: String,
    bound: &'static str,
    verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    Missed,
    /// The baseline is not available.
    Skipped,
}

impl Row {
    /// A figure with a bound.
    pub(crate) fn new(
        what: impl Into<String>,
        figure: impl Into<String>,
        bound: &'static str,
        holds: bool,
    ) -> Self {
        let verdict = if holds { Verdict::Holds } else { Verdict::Missed };
        Self { what: what.into(), figure: figure.into(), bound, verdict }
    }

    /// A figure that cannot be measured here.
    pub(crate) fn skipped(what: impl Into<String>, bound: &'static str) -> Self {
        Self { what: what.into(), figure: String::new(), bound, verdict: Verdict::Skipped }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if args.first().is_some_and(|arg| arg == agent::FLAG) {
        agent::run();
        return ExitCode::SUCCESS;
    }
    let wanted = |name: &str| args.is_empty() || args.iter().any(|arg| name.contains(arg.as_str()));
    let mut rows = Vec::new();
    if wanted("stream") {
        rows.extend(stream::measure());
    }
    if wanted("conductor") {
        rows.extend(conductor::measure());
    }
    if wanted("memory") {
        rows.extend(memory::measure());
    }
    if wanted("list") {
        rows.extend(list::measure());
    }
    if wanted("start") {
        rows.extend(start::measure());
    }
    if wanted("turns") {
        rows.extend(turns::measure());
    }
    if wanted("idle") {
        rows.extend(idle::measure());
    }
    print(&rows);
    if rows.iter().any(|row| row.verdict == Verdict::Missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[expect(clippy::print_stdout, reason = "the table is what the bench is for")]
fn print(rows: &[Row]) {
    println!("| what | figure | bound | |");
    println!("|---|---|---|---|");
    for row in rows {
        let verdict = match row.verdict {
            Verdict::Holds => "holds",
            Verdict::Missed => "MISSED",
            Verdict::Skipped => "skipped",
        };
        println!("| {} | {} | {} | {verdict} |", row.what, row.figure, row.bound);
    }
}

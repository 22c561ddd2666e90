//! The numbers that Rethread holds: ratios against a base in the same run, printed as one table. Wall time
//! swings on shared machines, so processor time counts more. `cargo bench` runs it; an argument picks rows.

mod agent;
mod client;
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
    holds: bool,
}

impl Row {
    /// A figure that must hold.
    pub(crate) fn new(
        what: impl Into<String>,
        figure: impl Into<String>,
        bound: &'static str,
        holds: bool,
    ) -> Self {
        Self { what: what.into(), figure: figure.into(), bound, holds }
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
    if rows.iter().all(|row| row.holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::print_stdout, reason = "the table is what the bench is for")]
fn print(rows: &[Row]) {
    println!("| what | figure | bound | |");
    println!("|---|---|---|---|");
    for row in rows {
        let verdict = if row.holds { "holds" } else { "MISSED" };
        println!("| {} | {} | {} | {verdict} |", row.what, row.figure, row.bound);
    }
}

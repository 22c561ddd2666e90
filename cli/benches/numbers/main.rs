//! The benchmarks of Rethread, printed as one table. Most figures are ratios to a base that is measured in the same run,
//! because shared machines vary; processor time varies less than wall time. `cargo bench` runs all of them, an argument
//! selects some by name; `docs/performance.md` describes them. A missed bound is exit code 3.

mod agent;
mod client;
mod conductor;
mod disk;
mod figure;
mod hop;
mod idle;
mod import;
mod list;
mod load_clients;
mod many;
mod memory;
mod meter;
mod pace;
mod postgres;
mod program;
mod pump;
mod read;
mod round_trip;
mod sdk_server;
mod search;
mod server;
mod start;
mod stream;
mod table;
mod turns;
mod written;

use std::path::Path;
use std::process::ExitCode;

use crate::table::{Row, summary};

/// The exit code for missed bounds, which differs from that of a failed run.
const MISSED: u8 = 3;

type Measure = fn() -> Vec<Row>;

/// All measurements by name.
const MEASUREMENTS: [(&str, Measure); 16] = [
    ("pace", pace::measure),
    ("pace-written", written::measure),
    ("many", many::measure),
    ("stream", stream::measure),
    ("round-trip", round_trip::measure),
    ("pump", pump::measure),
    ("server", server::measure),
    ("memory", memory::measure),
    ("turns", turns::measure),
    ("read", read::measure),
    ("start", start::measure),
    ("list", list::measure),
    ("search", search::measure),
    ("idle", idle::measure),
    ("import", import::measure),
    ("postgres", postgres::measure),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [agent::FLAG] => agent::run(0),
        [agent::FLAG, listed] => agent::run(listed.parse().expect("a number of sessions")),
        [sdk_server::FLAG] => sdk_server::run(),
        [hop::FLAG, journal] => hop::run(Path::new(journal)),
        _ => return measure(&args),
    }
    ExitCode::SUCCESS
}

/// Measures what is selected, or everything.
fn measure(selected: &[&str]) -> ExitCode {
    if let Some(unknown) =
        selected.iter().find(|part| !MEASUREMENTS.iter().any(|(name, _)| name.contains(**part)))
    {
        eprintln!("error: no measurement is called {unknown}");
        eprintln!("hint: there are {}", MEASUREMENTS.map(|(name, _)| name).join(", "));
        return ExitCode::FAILURE;
    }
    let mut rows = Vec::new();
    for (name, measure) in MEASUREMENTS {
        if selected.is_empty() || selected.iter().any(|part| name.contains(part)) {
            eprintln!("measuring {name}");
            rows.extend(measure());
        }
    }
    print(&rows);
    if rows.iter().any(Row::is_missed) { ExitCode::from(MISSED) } else { ExitCode::SUCCESS }
}

#[expect(clippy::print_stdout, reason = "the table is what the bench is for")]
fn print(rows: &[Row]) {
    println!("| what | figure | bound | |");
    println!("|---|---|---|---|");
    for row in rows {
        println!("{row}");
    }
    println!("\nThe stores on disk were in {}.", disk::place().display());
    println!("{}", summary(rows));
}

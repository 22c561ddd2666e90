//! The `rethread` command: runs the command line and reports its failure.

mod agents;
mod changes;
mod commands;
mod config;
mod doctor;
mod environment;
mod failure;
mod log;
mod output;
mod paths;
mod picker;
mod resolve;
mod server_parts;
mod stored_sessions;
mod summary;
mod time_span;

use std::process::exit;

use commands::Cli;

fn main() {
    if let Err(failure) = Cli::run() {
        failure.report();
        exit(failure.exit_code().number());
    }
}

//! The `rethread` command: parses the command line and runs the command.

mod agents;
mod changes;
mod commands;
mod config;
mod environment;
mod failure;
mod log;
mod output;
mod paths;
mod picker;
mod pruning;
mod resolve;
mod server_parts;
mod shell_word;
mod stored_sessions;
mod summary;
mod time_span;

use std::process::exit;

use clap::Parser;

use commands::Command;

/// Keeps, resumes and serves the sessions of AI coding agents.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() {
    if let Err(failure) = Cli::parse().command.run() {
        failure.report();
        exit(failure.exit_code().number());
    }
}

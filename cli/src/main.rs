//! The `rethread` command: runs the command line and reports its failure.

mod agents;
mod changes;
mod chat;
mod cluster;
mod commands;
mod config;
mod doctor;
mod environment;
mod export_file;
mod failure;
mod importing;
mod log;
mod markdown;
mod output;
mod paths;
mod picker;
mod pruning;
mod resolve;
mod server_parts;
mod serving;
mod shell_word;
mod store_choice;
mod stored_sessions;
mod summary;
mod time_span;
mod tokens;
mod transcript_json;

use std::process::exit;

use commands::Cli;

fn main() {
    if let Err(failure) = Cli::run() {
        failure.report();
        exit(failure.exit_code().number());
    }
}

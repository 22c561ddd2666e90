//! The `rethread` command: parses the command line and calls the library.

mod acp;
mod config;
mod demo;
mod environment;
mod failure;
mod log;
mod paths;

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::process::exit;

use clap::{Args, Parser, Subcommand};
use rethread::agent::guardian::{self, GuardianArgs, OrphanPolicy};

/// Keeps, resumes and serves the sessions of AI coding agents.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves an ACP client on stdin and stdout: the given agent, or the built-in assistant.
    Acp(acp::AcpArgs),
    /// Shows what rethread does: kills it in the middle of an answer and restores everything that was shown.
    Demo,
    /// The agent of the demonstration.
    #[command(name = "__demo-agent", hide = true)]
    DemoAgent,
    /// Runs a guardian for one agent; started by rethread itself.
    #[command(name = "__guard", hide = true)]
    Guard(GuardOptions),
}

#[derive(Debug, Args)]
struct GuardOptions {
    /// The descriptor that closes when rethread ends.
    #[arg(long, value_name = "FD")]
    control: RawFd,
    /// The descriptor for status lines.
    #[arg(long, value_name = "FD")]
    status: RawFd,
    /// Keeps processes that the agent leaves running until their end is requested.
    #[arg(long)]
    stay: bool,
    /// The agent's program and arguments.
    #[arg(last = true, required = true, num_args = 1..)]
    command: Vec<OsString>,
}

fn main() {
    let outcome = match Cli::parse().command {
        Command::Acp(args) => acp::run(args),
        Command::Demo => demo::run(),
        Command::DemoAgent => demo::run_agent(),
        Command::Guard(args) => exit(guard(args)),
    };
    if let Err(failure) = outcome {
        eprintln!("{failure}");
        exit(1);
    }
}

fn guard(args: GuardOptions) -> i32 {
    let mut words = args.command.into_iter();
    let program = words.next().unwrap_or_default();
    let orphans = if args.stay { OrphanPolicy::Keep } else { OrphanPolicy::End };
    guardian::run(GuardianArgs {
        control: args.control,
        status: args.status,
        orphans,
        program,
        args: words.collect(),
    })
}

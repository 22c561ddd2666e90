//! The `rethread` command: reads the command line and hands over to the library.

mod acp;
mod config;
mod demo;
mod environment;
mod failure;
mod paths;

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::process::exit;

use clap::{Args, Parser, Subcommand};
use rethread::agent::guardian::{self, Afterwards, Guard};

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
    /// Shows what rethread does: an agent is killed in mid-sentence, and nothing that was shown is lost.
    Demo,
    /// The agent of the demonstration.
    #[command(name = "__demo-agent", hide = true)]
    DemoAgent,
    /// Watches over one agent; started by rethread itself.
    #[command(name = "__guard", hide = true)]
    Guard(GuardArgs),
}

#[derive(Debug, Args)]
struct GuardArgs {
    /// The descriptor that closes when rethread is gone.
    #[arg(long, value_name = "FD")]
    tie: RawFd,
    /// The descriptor that takes what becomes of the agent.
    #[arg(long, value_name = "FD")]
    status: RawFd,
    /// What the agent leaves running stays until it is asked for.
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
        Command::DemoAgent => demo::be_the_agent(),
        Command::Guard(args) => exit(guard(args)),
    };
    if let Err(failure) = outcome {
        eprintln!("{failure}");
        exit(1);
    }
}

fn guard(args: GuardArgs) -> i32 {
    let mut words = args.command.into_iter();
    let program = words.next().unwrap_or_default();
    let afterwards = if args.stay { Afterwards::Stay } else { Afterwards::End };
    guardian::run(Guard { tie: args.tie, status: args.status, afterwards, program, args: words.collect() })
}

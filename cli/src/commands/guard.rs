//! `rethread __guard`: runs a guardian for one agent process. Rethread starts it itself.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::process::exit;

use clap::Args;
use rethread::agent::guardian::{self, GuardianArgs, OrphanPolicy};

use crate::failure::Failure;

/// Options of `__guard`.
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
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

/// Runs the guardian and exits with its status.
pub(crate) fn run(args: GuardArgs) -> Result<(), Failure> {
    let mut words = args.command.into_iter();
    let program = words.next().unwrap_or_default();
    let orphans = if args.stay { OrphanPolicy::Keep } else { OrphanPolicy::End };
    exit(guardian::run(GuardianArgs {
        control: args.control,
        status: args.status,
        orphans,
        program,
        args: words.collect(),
    }))
}

//! The commands, each in a file of its own.

mod acp;
mod archive;
mod delete;
mod demo;
mod guard;
mod list;
mod prune;
mod rename;
mod search;

use clap::Subcommand;

use crate::failure::Failure;

/// A command with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves an ACP client on stdin and stdout: the given agent, or the built-in assistant.
    Acp(acp::AcpArgs),
    /// Lists the sessions of this directory, newest first.
    List(list::ListArgs),
    /// Finds messages by their words, newest first.
    Search(search::SearchArgs),
    /// Gives a session a title, which agents never replace.
    Rename(rename::RenameArgs),
    /// Hides a session from lists.
    Archive(archive::ArchiveArgs),
    /// Shows an archived session in lists again.
    Unarchive(archive::ArchiveArgs),
    /// Deletes a session and frees its text.
    Delete(delete::DeleteArgs),
    /// Deletes sessions that have not changed for long.
    Prune(prune::PruneArgs),
    /// Shows what rethread does: kills it in the middle of an answer and restores everything that was shown.
    Demo,
    /// The agent of the demonstration.
    #[command(name = "__demo-agent", hide = true)]
    DemoAgent,
    /// Runs a guardian for one agent; started by rethread itself.
    #[command(name = "__guard", hide = true)]
    Guard(guard::GuardArgs),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Acp(args) => acp::run(args),
            Self::List(args) => list::run(&args),
            Self::Search(args) => search::run(&args),
            Self::Rename(args) => rename::run(&args),
            Self::Archive(args) => archive::archive(&args),
            Self::Unarchive(args) => archive::unarchive(&args),
            Self::Delete(args) => delete::run(&args),
            Self::Prune(args) => prune::run(&args),
            Self::Demo => demo::run(),
            Self::DemoAgent => demo::run_agent(),
            Self::Guard(args) => guard::run(args),
        }
    }
}

//! The commands, each in a file of its own.

mod acp;
mod archive;
mod chat;
mod delete;
mod demo;
mod export;
mod guard;
mod import;
mod list;
mod rename;
mod search;
mod show;
mod stats;

use clap::Subcommand;

use crate::failure::Failure;

/// A command with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves an ACP client on stdin and stdout: the given agent, or the built-in assistant.
    Acp(acp::AcpArgs),
    /// Talks to an agent in the terminal, or sends it one prompt.
    Chat(chat::ChatArgs),
    /// Lists the sessions of this directory, newest first.
    List(list::ListArgs),
    /// Finds messages by their words, newest first.
    Search(search::SearchArgs),
    /// Shows the transcript of a session.
    Show(show::ShowArgs),
    /// Writes sessions to a file: JSON lines to import again, Markdown, or a web page.
    Export(export::ExportArgs),
    /// Stores the sessions of a file that `rethread export` wrote.
    Import(import::ImportArgs),
    /// Sums up turns, tokens and cost by agent, model and day.
    Stats(stats::StatsArgs),
    /// Gives a session a title, which agents never replace.
    Rename(rename::RenameArgs),
    /// Hides a session from lists.
    Archive(archive::ArchiveArgs),
    /// Shows an archived session in lists again.
    Unarchive(archive::ArchiveArgs),
    /// Deletes a session and frees its text.
    Delete(delete::DeleteArgs),
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
            Self::Chat(args) => chat::run(args),
            Self::List(args) => list::run(&args),
            Self::Search(args) => search::run(&args),
            Self::Show(args) => show::run(&args),
            Self::Export(args) => export::run(&args),
            Self::Import(args) => import::run(&args),
            Self::Stats(args) => stats::run(&args),
            Self::Rename(args) => rename::run(&args),
            Self::Archive(args) => archive::archive(&args),
            Self::Unarchive(args) => archive::unarchive(&args),
            Self::Delete(args) => delete::run(&args),
            Self::Demo => demo::run(),
            Self::DemoAgent => demo::run_agent(),
            Self::Guard(args) => guard::run(args),
        }
    }
}

//! The command line. Each command is in a file of its own; `examples` has the examples of their help.

mod acp;
pub(crate) mod agents;
mod archive;
mod chat;
mod completions;
mod config;
mod delete;
mod demo;
mod doctor;
mod examples;
pub(crate) mod export;
mod fork;
mod guard;
mod import;
mod list;
mod man;
pub(crate) mod models;
mod prune;
mod release;
mod relocate;
mod rename;
mod search;
mod serve;
mod share;
mod show;
mod stats;
mod store;
mod token;
mod web;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::Failure;
use crate::store_choice;

/// Keeps, resumes and serves the sessions of AI coding agents.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The store: `embedded`, or the address of a PostgreSQL database, postgres://user@host/name. A password is better kept in
    /// the configuration or in the variable `RETHREAD_STORE`.
    #[arg(long, global = true, value_name = "STORE", help_heading = "Store")]
    store: Option<String>,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// The definition of the whole command line, with examples.
    pub(crate) fn definition() -> clap::Command {
        examples::added_to(Self::command())
    }

    /// Parses the command line of this process and runs the command. A wrong one ends the process.
    pub(crate) fn run() -> Result<(), Failure> {
        let matches = Self::definition().get_matches();
        let cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        store_choice::set_option(cli.store);
        cli.command.run()
    }
}

/// A command with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves an ACP client on stdin and stdout: with the given agent, or with the built-in assistant.
    Acp(acp::AcpArgs),
    /// Keeps sessions running without clients, and serves several clients at once.
    Serve(serve::ServeArgs),
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
    /// Stores the sessions of other tools, or those of a file that `rethread export` wrote.
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
    /// Deletes sessions that have not changed for long.
    Prune(prune::PruneArgs),
    /// Makes a session that goes on from another one.
    Fork(fork::ForkArgs),
    /// Gives a session another working directory.
    Move(relocate::MoveArgs),
    /// Asks the process that has a session open to let it go.
    Release(release::ReleaseArgs),
    /// Opens the web page of the running server in the browser.
    Web(web::WebArgs),
    /// Makes a link with which anybody can look at one session; lists and revokes such links.
    Share(share::ShareArgs),
    /// Copies sessions between stores.
    Store(store::StoreArgs),
    /// Makes, lists and revokes the tokens of remote clients.
    Token(token::TokenArgs),
    /// Lists the agents that can be used by name.
    Agents(agents::AgentsArgs),
    /// Lists the models of the built-in assistant. Providers are asked each time; nothing is cached.
    Models(models::ModelsArgs),
    /// Shows, edits or checks the configuration.
    Config(config::ConfigArgs),
    /// Looks for what is wrong with the store, the configuration, the agents and the system.
    Doctor(doctor::DoctorArgs),
    /// Prints the completions for a shell.
    Completions(completions::CompletionsArgs),
    /// Prints or writes the manual pages.
    Man(man::ManArgs),
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
            Self::Serve(args) => serve::run(&args),
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
            Self::Prune(args) => prune::run(&args),
            Self::Fork(args) => fork::run(&args),
            Self::Move(args) => relocate::run(&args),
            Self::Release(args) => release::run(&args),
            Self::Web(args) => web::run(&args),
            Self::Share(args) => share::run(&args),
            Self::Store(args) => store::run(&args),
            Self::Token(args) => token::run(&args),
            Self::Agents(args) => agents::run(&args),
            Self::Models(args) => models::run(&args),
            Self::Config(args) => config::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
            Self::Demo => demo::run(),
            Self::DemoAgent => demo::run_agent(),
            Self::Guard(args) => guard::run(args),
        }
    }
}

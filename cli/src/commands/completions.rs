//! `rethread completions`: the completions for a shell.

use clap::{Args, ValueEnum};
use clap_complete::aot::{Shell, generate};

use super::Cli;
use crate::failure::Failure;
use crate::output::stream::print;

/// Options of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: CompletedShell,
}

/// A shell that has completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completions.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = match args.shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut visible_commands(), "rethread", &mut script);
    print(&String::from_utf8(script).expect("the generators write UTF-8"))
}

/// The command line without the commands that rethread runs itself: the generators do not leave hidden ones out.
fn visible_commands() -> clap::Command {
    let definition = Cli::definition();
    let visible: Vec<_> =
        definition.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    clap::Command::new("rethread")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Keeps, resumes and serves the sessions of AI coding agents")
        .subcommands(visible)
}

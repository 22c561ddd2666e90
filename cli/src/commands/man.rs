//! `rethread man`: the manual pages, printed or written to a folder.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::Man;

use super::Cli;
use crate::failure::{ExitCode, Failure};
use crate::output::stream::print;

/// Options of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command whose page is printed; the page of rethread itself if it is missing.
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Option<String>,
    /// Write all pages to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints one page, or writes all of them.
pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    let pages = pages()?;
    match (&args.out, &args.command) {
        (Some(folder), _) => write_all(folder, &pages),
        (None, command) => {
            let wanted =
                command.as_ref().map_or_else(|| "rethread".to_owned(), |name| format!("rethread-{name}"));
            let unknown = || {
                let message = format!("there is no command {}", command.as_deref().unwrap_or_default());
                Failure::new(ExitCode::Usage, message).hint("`rethread --help` lists the commands")
            };
            let (_, page) = pages.iter().find(|(name, _)| *name == wanted).ok_or_else(unknown)?;
            print(page)
        }
    }
}

/// All pages with their names, that of rethread itself first.
fn pages() -> Result<Vec<(String, String)>, Failure> {
    let mut definition = Cli::definition().disable_help_subcommand(true);
    definition.build();
    let mut pages = vec![("rethread".to_owned(), page(definition.clone())?)];
    add_subcommands(&definition, "rethread", &mut pages)?;
    Ok(pages)
}

fn add_subcommands(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, String)>,
) -> Result<(), Failure> {
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let full = format!("{name}-{}", subcommand.get_name());
        let named = subcommand.clone().display_name(full.clone());
        pages.push((full.clone(), page(named)?));
        add_subcommands(subcommand, &full, pages)?;
    }
    Ok(())
}

fn page(command: clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    Man::new(command).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write_all(folder: &Path, pages: &[(String, String)]) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::plain(&format!("writing {path} failed: {error}"))
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    for (name, page) in pages {
        let path = folder.join(format!("{name}.1"));
        std::fs::write(&path, page).map_err(failed(&path))?;
    }
    print(&format!("Wrote {} pages to {}.\n", pages.len(), folder.display()))
}

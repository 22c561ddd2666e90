//! `rethread store copy`: copies all sessions from one store to another.

use clap::{Args, Subcommand};
use rethread::session_file::copy::{CopyReport, copy_store};
use serde_json::json;

use crate::changes::{JsonOption, report};
use crate::failure::{ExitCode, Failure};
use crate::output::progress::progress_bar;
use crate::paths::Paths;
use crate::store_choice::StoreChoice;

/// Options of `store`.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Copies all sessions to another store, and compares them. Can be interrupted and repeated: it goes on where it was, and
    /// adds what is new.
    Copy(CopyArgs),
}

#[derive(Debug, Args)]
struct CopyArgs {
    /// The store to read: `embedded`, or postgres://user@host/name.
    #[arg(value_name = "FROM")]
    from: String,
    /// The store to write: `embedded`, or postgres://user@host/name.
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    json: JsonOption,
}

/// Runs the command.
pub(crate) fn run(args: &StoreArgs) -> Result<(), Failure> {
    match &args.command {
        StoreCommand::Copy(args) => copy(args),
    }
}

fn copy(args: &CopyArgs) -> Result<(), Failure> {
    let paths = Paths::from_environment()?;
    let [from, to] = [&args.from, &args.to].map(|named| StoreChoice::parse(named, &paths));
    let (from, to) = (from?, to?);
    let shown =
        |choice: &StoreChoice| choice.shown().unwrap_or_else(|| paths.store().database.display().to_string());
    if shown(&from) == shown(&to) {
        return Err(
            Failure::new(ExitCode::Usage, "both stores are the same").hint("name two different stores")
        );
    }
    let (source, target) = (from.open_existing()?, to.open()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(copy_store(&*source, &*target, &shown(&from), progress_bar("Copying")))?;
    let CopyReport { copied, unchanged, skipped, different } = &done;
    let mut sentence = format!("Copied {copied} sessions from {} to {}", shown(&from), shown(&to));
    if *unchanged > 0 {
        sentence += &format!("; {unchanged} were there");
    }
    sentence.push('.');
    for id in skipped {
        sentence += &format!("\nNot copied, because it is open there or from elsewhere: {id}");
    }
    let document = json!({
        "from": shown(&from), "to": shown(&to), "copied": copied, "unchanged": unchanged, "skipped": skipped.iter().map(|id| id.as_str()).collect::<Vec<_>>(),
        "different": different.iter().map(|id| id.as_str()).collect::<Vec<_>>(),
    });
    report(args.json.form(), &sentence, &document)?;
    if different.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = different.iter().map(|id| id.as_str()).collect();
    Err(Failure::new(
        ExitCode::Store,
        format!("these copies are not equal to the originals: {}", ids.join(", ")),
    )
    .hint("a session that is in use changes while it is copied: repeat the copy when it is closed"))
}

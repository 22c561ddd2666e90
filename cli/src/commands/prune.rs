//! `rethread prune`: deletes sessions that have not changed for long.

use clap::Args;
use rethread::clock;
use rethread::store::{ArchivedFilter, Store};
use serde_json::{Value, json};

use crate::changes::{JsonOption, ReportForm};
use crate::failure::Failure;
use crate::output::age::age;
use crate::output::agent_name::short_agent;
use crate::output::ids::short_ids;
use crate::output::json::json_document;
use crate::output::progress::progress_bar;
use crate::output::size::size;
use crate::output::stream::{OutputStream, print};
use crate::output::table::{Cell, Column, Cut, table};
use crate::output::target::{OutputTarget, Paint};
use crate::picker::confirm;
use crate::pruning::{OldSession, old_sessions, prune};
use crate::stored_sessions::with_store;
use crate::time_span::TimeSpan;

/// Options of `prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Delete sessions that have not changed for so long: `90d`, `12w`.
    #[arg(long, value_name = "TIME")]
    older_than: TimeSpan,
    /// Delete archived sessions, too.
    #[arg(long)]
    archived: bool,
    /// Only show which sessions would be deleted.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pruned {
    /// The sessions were deleted.
    Deleted,
    /// Nothing was deleted.
    OnlyShown,
}

/// Deletes old sessions.
pub(crate) fn run(args: &PruneArgs) -> Result<(), Failure> {
    let (old, pruned) = with_store(async |store| find_and_prune(args, store.as_ref()).await)?;
    match args.json.form() {
        ReportForm::Json => print(&json_document(&document(&old, pruned))),
        ReportForm::Text if pruned == Pruned::OnlyShown && !old.is_empty() => {
            let mut output = OutputStream::paged();
            output.print(&list(&old))?;
            output.print(&format!("Would delete {}.\n", summary(&old)))?;
            output.finish()
        }
        ReportForm::Text if old.is_empty() => print("There is nothing to delete.\n"),
        ReportForm::Text => print(&format!("Deleted {}.\n", summary(&old))),
    }
}

async fn find_and_prune(args: &PruneArgs, store: &dyn Store) -> Result<(Vec<OldSession>, Pruned), Failure> {
    let archived = if args.archived { ArchivedFilter::Include } else { ArchivedFilter::Exclude };
    let before = clock::now().saturating_sub(args.older_than.0);
    let mut old = old_sessions(store, before, archived).await?;
    if args.dry_run || old.is_empty() {
        return Ok((old, Pruned::OnlyShown));
    }
    if !args.yes {
        confirm(&format!("Delete {} for good? (--dry-run lists them)", summary(&old)))?;
    }
    let deleted = prune(store, &old, progress_bar("Deleting")).await?;
    // Somebody may have opened one meanwhile.
    old.retain(|old| deleted.contains(&old.row.id));
    Ok((old, Pruned::Deleted))
}

/// `3 sessions (1.2 MB)`.
fn summary(old: &[OldSession]) -> String {
    let sessions = if old.len() == 1 { "session" } else { "sessions" };
    format!("{} {sessions} ({})", old.len(), size(bytes(old)))
}

fn bytes(old: &[OldSession]) -> u64 {
    old.iter().map(|old| old.bytes).sum()
}

fn document(old: &[OldSession], pruned: Pruned) -> Value {
    let session = |old: &OldSession| {
        let title = old.row.title.as_ref().map(|(title, _)| title).filter(|title| !title.is_empty());
        json!({
            "id": old.row.id,
            "title": title,
            "agent": old.row.agent,
            "cwd": old.row.cwd,
            "updatedAt": clock::rfc3339(old.row.updated_at),
            "bytes": old.bytes,
        })
    };
    json!({
        "sessions": old.iter().map(session).collect::<Vec<_>>(),
        "bytes": bytes(old),
        "deleted": pruned == Pruned::Deleted,
    })
}

fn list(old: &[OldSession]) -> String {
    let columns = [
        Column { header: "id", cut: Cut::Nothing },
        Column { header: "age", cut: Cut::Nothing },
        Column { header: "size", cut: Cut::Number },
        Column { header: "agent", cut: Cut::End(8) },
        Column { header: "directory", cut: Cut::Start(12) },
        Column { header: "title", cut: Cut::End(24) },
    ];
    let ids: Vec<&str> = old.iter().map(|old| old.row.id.as_str()).collect();
    let rows: Vec<Vec<Cell>> = old.iter().zip(short_ids(&ids)).map(|(old, id)| row(old, id)).collect();
    table(OutputTarget::stdout(), &columns, &rows)
}

fn row(old: &OldSession, id: &str) -> Vec<Cell> {
    let title = old.row.title.as_ref().map(|(title, _)| title.as_str()).filter(|title| !title.is_empty());
    vec![
        Cell::painted(id, Paint::Cyan),
        Cell::new(&age(clock::now(), old.row.updated_at)),
        Cell::new(&size(old.bytes)),
        Cell::new(short_agent(&old.row.agent)),
        Cell::painted(&old.row.cwd, Paint::Dim),
        title.map_or_else(|| Cell::painted("(no title)", Paint::Dim), Cell::new),
    ]
}

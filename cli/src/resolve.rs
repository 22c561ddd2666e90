//! Finds the session that a command line names: by its id, by the beginning or end of it, by `@last`, or by a choice from a
//! list on a terminal.

use std::path::PathBuf;

use clap::Args;
use rethread::store::{ArchivedFilter, Deleted, ListQuery, SessionRow, Store};
use rethread_core::SessionId;

use crate::failure::{ExitCode, Failure};
use crate::picker;

/// Names the newest session of the current directory.
const LAST: &str = "@last";

/// How many sessions an error lists.
const MAX_CANDIDATES: usize = 10;

/// How many sessions can be chosen from.
const MAX_CHOICES: usize = 500;

/// The session that a command is about.
#[derive(Debug, Args)]
pub(crate) struct SessionArg {
    /// The session: its id, a unique beginning or end of it, or `@last` for the newest of this directory. If it is
    /// missing, a terminal shows a list to choose from.
    #[arg(value_name = "ID")]
    id: Option<String>,
}

impl SessionArg {
    /// Finds the session. The row is complete.
    pub(crate) async fn resolve(&self, store: &dyn Store) -> Result<SessionRow, Failure> {
        match &self.id {
            Some(id) => resolve(store, id).await,
            None => choose(store).await,
        }
    }
}

/// Finds the session that a text names.
pub(crate) async fn resolve(store: &dyn Store, named: &str) -> Result<SessionRow, Failure> {
    if named == LAST {
        return newest_here(store).await;
    }
    if let Some(row) = existing(store, &SessionId(named.to_owned())).await? {
        return Ok(row);
    }
    let unknown = || {
        Failure::new(ExitCode::NotFound, format!("no session has the id {named}"))
            .hint("`rethread list --all` shows the sessions")
    };
    if named.is_empty() {
        return Err(unknown());
    }
    let mut found = store.find_by_part(named, MAX_CANDIDATES + 1).await?;
    match found.len() {
        0 => Err(unknown()),
        1 => existing(store, &found.remove(0).id).await?.ok_or_else(unknown),
        _ => Err(ambiguous(named, &found)),
    }
}

/// The directories that count as the current one: without links, and as the shell names it.
pub(crate) fn current_directories() -> Result<Vec<String>, Failure> {
    let physical = std::env::current_dir()?;
    let logical = std::env::var_os("PWD").map(PathBuf::from);
    let logical = logical.filter(|path| {
        path.is_absolute() && *path != physical && path.canonicalize().is_ok_and(|real| real == physical)
    });
    Ok([Some(physical), logical].into_iter().flatten().map(|path| path.display().to_string()).collect())
}

async fn existing(store: &dyn Store, id: &SessionId) -> Result<Option<SessionRow>, Failure> {
    Ok(store.find(id).await?.filter(|row| row.deleted == Deleted::No))
}

async fn newest_here(store: &dyn Store) -> Result<SessionRow, Failure> {
    let mut newest: Option<SessionRow> = None;
    for cwd in current_directories()? {
        let query = ListQuery { cwd: Some(cwd), limit: 1, ..ListQuery::default() };
        let found = store.list(&query).await?.rows.into_iter().next();
        newest = newest.into_iter().chain(found).max_by_key(|row| row.updated_at);
    }
    let none = || {
        Failure::new(ExitCode::NotFound, "this directory has no sessions")
            .hint("`rethread list --all` shows the sessions of all directories")
    };
    let newest = newest.ok_or_else(none)?;
    existing(store, &newest.id).await?.ok_or_else(none)
}

/// Lets the user choose a session from a list.
pub(crate) async fn choose(store: &dyn Store) -> Result<SessionRow, Failure> {
    let missing = |message: &str| {
        Failure::new(ExitCode::Usage, message)
            .hint("name one by its id or as @last; `rethread list` shows the sessions")
    };
    if !picker::is_possible() {
        return Err(missing("no session was named"));
    }
    let query = ListQuery { limit: MAX_CHOICES, archived: ArchivedFilter::Include, ..ListQuery::default() };
    let mut rows = store.list(&query).await?.rows;
    let here = current_directories()?;
    rows.sort_by_key(|row| !here.contains(&row.cwd));
    if rows.is_empty() {
        return Err(Failure::new(ExitCode::NotFound, "there are no sessions"));
    }
    let chosen = picker::choose_session(rows, &here)?;
    existing(store, &chosen).await?.ok_or_else(|| missing("the session was deleted"))
}

fn ambiguous(named: &str, found: &[SessionRow]) -> Failure {
    let mut message = format!("{named} is the beginning or end of several ids:");
    for row in found.iter().take(MAX_CANDIDATES) {
        let title = row.title.as_ref().map_or("", |(title, _)| title.as_str());
        message += &format!("\n  {}  {title}", row.id);
    }
    if found.len() > MAX_CANDIDATES {
        message += "\n  and more";
    }
    Failure::new(ExitCode::Usage, message).hint("use more of the id")
}

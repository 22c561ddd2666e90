//! `rethread list`: the sessions of this directory or of all, newest first.

use clap::Args;
use rethread::clock;
use rethread::store::{ArchivedFilter, ListQuery, SessionRow, Store};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::age::age;
use crate::output::ids::short_ids;
use crate::output::json::json_document;
use crate::output::stream::{OutputStream, print};
use crate::output::table::{Cell, Column, Cut, table};
use crate::output::target::{OutputTarget, Paint};
use crate::resolve::current_directories;
use crate::serving::attached_clients;
use crate::stored_sessions::with_store;
use crate::summary::{SessionState, SessionSummary, summarize};
use crate::time_span::PointInTime;

/// The number of rows that are read at once.
const PAGE: usize = 200;

/// Options of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// List the sessions of all directories.
    #[arg(long)]
    all: bool,
    /// List only sessions of agents whose name contains this text.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// List only archived sessions.
    #[arg(long)]
    archived: bool,
    /// List only sessions that changed since then: a time span such as `3h`, `2d` or `1w`, or a date such as `2026-01-31`.
    #[arg(long, value_name = "TIME")]
    since: Option<PointInTime>,
    /// The maximum number of sessions.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The sessions that were found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionList {
    sessions: Vec<SessionSummary>,
    /// Whether there are more than the limit allows.
    more: bool,
}

/// Lists sessions.
pub(crate) fn run(args: &ListArgs) -> Result<(), Failure> {
    let mut list = with_store(async |store| {
        let (rows, more) = rows(args, store.as_ref()).await?;
        let mut sessions = Vec::new();
        for row in rows {
            sessions.extend(summarize(store.as_ref(), row).await?);
        }
        Ok(SessionList { sessions, more })
    })?;
    add_clients(&mut list);
    if args.json {
        return print(&json_document(&list));
    }
    let mut output = OutputStream::paged();
    output.print(&text(args, &list))?;
    output.finish()
}

/// Adds how many clients are attached to the sessions that a running server has open.
fn add_clients(list: &mut SessionList) {
    if list.sessions.iter().all(|session| session.process.is_none()) {
        return;
    }
    let attached = attached_clients();
    for session in &mut list.sessions {
        session.clients = attached.get(&session.id).copied();
    }
}

/// The rows to list, and whether there are more.
async fn rows(args: &ListArgs, store: &dyn Store) -> Result<(Vec<SessionRow>, bool), Failure> {
    let directories =
        if args.all { vec![None] } else { current_directories()?.into_iter().map(Some).collect() };
    let mut found = Vec::new();
    for cwd in directories {
        found.extend(rows_in(args, store, cwd).await?);
    }
    found.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
    let more = found.len() > args.limit;
    found.truncate(args.limit);
    Ok((found, more))
}

/// The rows of one directory, up to one more than the limit.
async fn rows_in(
    args: &ListArgs,
    store: &dyn Store,
    cwd: Option<String>,
) -> Result<Vec<SessionRow>, Failure> {
    let wanted = args.limit.saturating_add(1);
    let since = args.since.map_or(0, |since| since.at(clock::now()));
    let archived = if args.archived { ArchivedFilter::Only } else { ArchivedFilter::Exclude };
    let mut query =
        ListQuery { cwd, agent: args.agent.clone(), archived, after: None, limit: wanted.min(PAGE) };
    let mut found = Vec::new();
    loop {
        let page = store.list(&query).await?;
        let before = found.len() + page.rows.len();
        found.extend(page.rows.into_iter().take_while(|row| row.updated_at >= since));
        if found.len() < before || found.len() >= wanted || page.next.is_none() {
            return Ok(found);
        }
        query.after = page.next;
    }
}

fn text(args: &ListArgs, list: &SessionList) -> String {
    let target = OutputTarget::stdout();
    if list.sessions.is_empty() {
        let place = if args.all { "" } else { " in this directory" };
        let hint = if args.all { "" } else { "; --all lists those of all directories" };
        return format!("No sessions{place}{hint}.\n");
    }
    let columns = [
        Column { header: "id", cut: Cut::Nothing },
        Column { header: "age", cut: Cut::Nothing },
        Column { header: "state", cut: Cut::Nothing },
        Column { header: "turns", cut: Cut::Number },
        Column { header: "agent", cut: Cut::End(8) },
        Column { header: "process", cut: Cut::End(8) },
        Column { header: "clients", cut: Cut::Number },
        Column { header: "directory", cut: Cut::Start(12) },
        Column { header: "title", cut: Cut::End(24) },
    ];
    let ids: Vec<&str> = list.sessions.iter().map(|session| session.id.as_str()).collect();
    let rows: Vec<Vec<Cell>> =
        list.sessions.iter().zip(short_ids(&ids)).map(|(session, id)| row(args, session, id)).collect();
    let more = format!("There are more than {}; --limit lists more of them.\n", args.limit);
    let more = if list.more { target.paint(Paint::Dim, &more) } else { String::new() };
    table(target, &columns, &rows) + &more
}

fn row(args: &ListArgs, session: &SessionSummary, short: &str) -> Vec<Cell> {
    let state = match session.state {
        SessionState::Running => Paint::Green,
        SessionState::Waiting => Paint::Yellow,
        SessionState::Idle => Paint::Dim,
        SessionState::Damaged => Paint::Red,
    };
    let turns = session.turns.map_or_else(String::new, |turns| turns.to_string());
    let process = session.process.as_ref().map_or_else(String::new, ToString::to_string);
    let clients = session.clients.map_or_else(String::new, |clients| clients.to_string());
    let title = match &session.title {
        Some(title) => Cell::new(title),
        None => Cell::painted("(no title)", Paint::Dim),
    };
    vec![
        Cell::painted(short, Paint::Cyan),
        Cell::new(&age(clock::now(), session.changed)),
        Cell::painted(session.state.name(), state),
        Cell::new(&turns),
        Cell::new(&session.agent),
        Cell::painted(&process, Paint::Dim),
        Cell::new(&clients),
        Cell::painted(if args.all { &session.cwd } else { "" }, Paint::Dim),
        title,
    ]
}

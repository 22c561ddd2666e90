//! What the commands that change sessions have in common: they change a session that the running server has open by
//! a request to it, refuse one that is live in another process, and report what they did.

use rethread::store::{SessionRow, Store};
use serde::Serialize;

use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::output::json::json_document;
use crate::output::stream::print;
use crate::resolve::SessionArg;
use crate::serving::request::ServedSession;

/// A session that can be changed, and how.
pub(crate) enum Changeable {
    /// No process has it open: in the store.
    Stored(SessionRow),
    /// The running server has it open: by a request to it.
    Served(SessionRow, ServedSession),
}

/// Finds the session that the command line names. Refuses one that another process than the server has open.
pub(crate) async fn changeable(session: &SessionArg, store: &dyn Store) -> Result<Changeable, Failure> {
    let row = session.resolve(store).await?;
    match ServedSession::find(&row)? {
        Some(served) => Ok(Changeable::Served(row, served)),
        None => refuse_owned(row).map(Changeable::Stored),
    }
}

fn refuse_owned(row: SessionRow) -> Result<SessionRow, Failure> {
    match &row.owner {
        None => Ok(row),
        Some(owner) => {
            let message = format!("session {} is open in process {} on {}", row.id, owner.pid, owner.host);
            Err(Failure::new(ExitCode::Refused, message)
                .hint(format!("close it there, or run `rethread release {}`", row.id)))
        }
    }
}

/// The session for people: its title, or its id.
pub(crate) fn name_of(row: &SessionRow) -> String {
    let title = row.title.as_ref().map(|(title, _)| title.as_str()).filter(|title| !title.is_empty());
    visible(title.unwrap_or_else(|| row.id.as_str())).into_owned()
}

/// Reports a change: as a sentence, or as JSON.
pub(crate) fn report(form: ReportForm, sentence: &str, json: &impl Serialize) -> Result<(), Failure> {
    match form {
        ReportForm::Json => print(&json_document(json)),
        ReportForm::Text => print(&format!("{sentence}\n")),
    }
}

/// How a command reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportForm {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The option `--json`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct JsonOption {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl JsonOption {
    /// How the command reports.
    pub(crate) fn form(self) -> ReportForm {
        if self.json { ReportForm::Json } else { ReportForm::Text }
    }
}

//! `rethread delete`: deletes a session and frees its text.

use clap::Args;
use rethread::clock;
use serde_json::json;

use crate::changes::{Changeable, JsonOption, changeable, name_of, report};
use crate::failure::{ExitCode, Failure};
use crate::picker::confirm;
use crate::resolve::SessionArg;
use crate::stored_sessions::with_store;

/// Options of `delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// Deletes a session.
pub(crate) fn run(args: &DeleteArgs) -> Result<(), Failure> {
    let row = with_store(async |store| {
        let found = changeable(&args.session, store.as_ref()).await?;
        let (Changeable::Stored(row) | Changeable::Served(row, _)) = &found;
        if !args.yes {
            confirm(&format!("Delete {} for good?", name_of(row)))?;
        }
        let row = match found {
            Changeable::Stored(row) => row,
            Changeable::Served(row, server) => {
                server.request("session/delete", json!({})).await?;
                return Ok(row);
            }
        };
        let deleted =
            store.delete_unowned(std::slice::from_ref(&row.id), clock::now(), Box::new(|_| {})).await?;
        if deleted.is_empty() {
            let message = format!("session {} was opened or deleted by another process", row.id);
            return Err(Failure::new(ExitCode::Refused, message).hint("try again"));
        }
        Ok(row)
    })?;
    let sentence = format!("Deleted {}.", name_of(&row));
    report(args.json.form(), &sentence, &json!({"id": row.id, "deleted": true}))
}

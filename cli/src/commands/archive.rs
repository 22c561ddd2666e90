//! `rethread archive` and `rethread unarchive`: hide a session from lists, or show it again.

use clap::Args;
use rethread::clock;
use rethread::store::{Archived, SessionRow};
use serde_json::json;

use crate::changes::{Changeable, JsonOption, changeable, name_of, report};
use crate::failure::Failure;
use crate::resolve::SessionArg;
use crate::stored_sessions::with_store;

/// Options of `archive` and `unarchive`.
#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    session: SessionArg,
    #[command(flatten)]
    json: JsonOption,
}

/// Archives a session.
pub(crate) fn archive(args: &ArchiveArgs) -> Result<(), Failure> {
    let row = set(args, Archived::Yes)?;
    report(
        args.json.form(),
        &format!("Archived {}.", name_of(&row)),
        &json!({"id": row.id, "archived": true}),
    )
}

/// Restores an archived session.
pub(crate) fn unarchive(args: &ArchiveArgs) -> Result<(), Failure> {
    let row = set(args, Archived::No)?;
    let sentence = format!("Restored {} from the archive.", name_of(&row));
    report(args.json.form(), &sentence, &json!({"id": row.id, "archived": false}))
}

fn set(args: &ArchiveArgs, archived: Archived) -> Result<SessionRow, Failure> {
    with_store(async |store| match changeable(&args.session, store.as_ref()).await? {
        Changeable::Stored(row) => {
            store.set_archived(&row.id, archived, clock::now()).await?;
            Ok(row)
        }
        Changeable::Served(row, server) => {
            let method = match archived {
                Archived::Yes => "session/archive",
                Archived::No => "session/unarchive",
            };
            server.request(method, json!({})).await?;
            Ok(row)
        }
    })
}

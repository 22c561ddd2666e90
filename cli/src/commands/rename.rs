//! `rethread rename`: gives a session a title.

use clap::Args;
use rethread_core::clean_title;
use serde_json::json;

use crate::changes::{Changeable, JsonOption, changeable, report};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::resolve::SessionArg;
use crate::stored_sessions::with_store;

/// Options of `rename`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct RenameArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The title.
    title: String,
    #[command(flatten)]
    json: JsonOption,
}

/// Gives a session a title.
pub(crate) fn run(args: &RenameArgs) -> Result<(), Failure> {
    let title = clean_title(&args.title);
    if title.is_empty() {
        return Err(Failure::new(ExitCode::Usage, "the title has no visible characters"));
    }
    let row = with_store(async |store| match changeable(&args.session, store.as_ref()).await? {
        Changeable::Stored(row) => {
            store.set_title(&row.id, &title).await?;
            Ok(row)
        }
        Changeable::Served(row, server) => {
            server.request("session/set_title", json!({"title": title})).await?;
            Ok(row)
        }
    })?;
    let sentence = format!("Renamed {} to {}.", visible(row.id.as_str()), visible(&title));
    report(args.json.form(), &sentence, &json!({"id": row.id, "title": title}))
}

//! `rethread fork`: makes a session that goes on from another one, without an agent.

use clap::Args;
use rethread::store::fork::{ForkError, fork};
use serde_json::json;

use crate::changes::{JsonOption, report};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::resolve::SessionArg;
use crate::stored_sessions::with_store;

/// Options of `fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The id of the last message of the fork. Without it the fork begins after the last finished turn.
    #[arg(long, value_name = "MESSAGE")]
    at: Option<String>,
    #[command(flatten)]
    json: JsonOption,
}

/// Forks a session and prints the id of the new one.
pub(crate) fn run(args: &ForkArgs) -> Result<(), Failure> {
    let (parent, made) = with_store(async |store| {
        let row = args.session.resolve(store.as_ref()).await?;
        let made = fork(store.as_ref(), &row.id, args.at.as_deref()).await?;
        store.release(&made.lease).await?;
        Ok((row.id, made.lease.session))
    })?;
    report(args.json.form(), &visible(made.as_str()), &json!({"id": made, "parent": parent}))
}

impl From<ForkError> for Failure {
    fn from(error: ForkError) -> Self {
        let message = error.to_string();
        match error {
            ForkError::Store(error) => error.into(),
            ForkError::NotStored(_) => {
                Self::new(ExitCode::Refused, message).hint("load it with its agent first, then fork it")
            }
            ForkError::NoMessage { session, .. } => Self::new(ExitCode::NotFound, message)
                .hint(format!("`rethread show {session} --raw` shows the ids of its messages")),
        }
    }
}

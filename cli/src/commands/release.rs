//! `rethread release`: asks the process that has a session open to let it go.

use std::time::{Duration, Instant};

use clap::Args;
use rethread::clock;
use rethread::store::{Owner, ReleaseAnswer, SessionRow, Store, read_state};
use serde_json::json;

use crate::changes::{JsonOption, name_of, report};
use crate::failure::{ExitCode, Failure};
use crate::resolve::SessionArg;
use crate::stored_sessions::with_store;
use crate::summary::{OwnerProcess, SessionState};

/// How long the other process is waited for. It looks once a second.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How often the row is looked at.
const POLL: Duration = Duration::from_millis(50);

/// How often the request is repeated: a process that has just opened its first session may have missed it.
const REPEAT: Duration = Duration::from_millis(1500);

/// Options of `release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    session: SessionArg,
    #[command(flatten)]
    json: JsonOption,
}

/// What happened to the session.
pub(super) enum ReleaseOutcome {
    /// No process had it open.
    NotOpen,
    /// The process that had it open has ended; what it left is settled.
    Cleared,
    /// The process has let it go.
    Released(Owner),
}

/// Asks for a session.
pub(crate) fn run(args: &ReleaseArgs) -> Result<(), Failure> {
    let (row, outcome) = with_store(async |store| {
        let row = args.session.resolve(store.as_ref()).await?;
        let outcome = release(store.as_ref(), &row).await?;
        Ok((row, outcome))
    })?;
    let name = name_of(&row);
    let (word, owner, sentence) = match &outcome {
        ReleaseOutcome::NotOpen => ("not-open", None, format!("{name} is not open in any process.")),
        ReleaseOutcome::Cleared => {
            ("cleared", None, format!("The process that had {name} open has ended; the session is free."))
        }
        ReleaseOutcome::Released(owner) => {
            ("released", Some(owner), format!("Process {} has released {name}.", owner.pid))
        }
    };
    let process = owner.map(OwnerProcess::of);
    report(args.json.form(), &sentence, &json!({"id": row.id, "outcome": word, "process": process}))
}

/// Asks the process that has a session open to let it go, and waits until it has.
pub(super) async fn release(store: &dyn Store, row: &SessionRow) -> Result<ReleaseOutcome, Failure> {
    if let Some(owner) = &row.owner {
        let state = read_state(store, &row.id).await?.0;
        refuse_busy(row, owner, SessionState::of(&state, Some(owner)))?;
    }
    match store.ask_release(&row.id, clock::now()).await? {
        ReleaseAnswer::NotOwned => Ok(ReleaseOutcome::NotOpen),
        ReleaseAnswer::OwnerGone => Ok(ReleaseOutcome::Cleared),
        ReleaseAnswer::Asked(owner) => wait(store, row, owner).await,
    }
}

/// Waits until the owner has released the session or declined.
async fn wait(store: &dyn Store, row: &SessionRow, owner: Owner) -> Result<ReleaseOutcome, Failure> {
    let (until, mut repeat) = (Instant::now() + ANSWER_LIMIT, Instant::now() + REPEAT);
    while Instant::now() < until {
        tokio::time::sleep(POLL).await;
        let Some(now) = store.find(&row.id).await? else { return Ok(ReleaseOutcome::NotOpen) };
        match (&now.owner, now.release_asked_at) {
            (Some(other), _) if (other.pid, other.since) != (owner.pid, owner.since) => {
                return Ok(ReleaseOutcome::Released(owner));
            }
            (None, _) => return Ok(ReleaseOutcome::Released(owner)),
            (Some(_), None) => return Err(busy(row, &owner, "is in use")),
            (Some(_), Some(_)) if Instant::now() > repeat => {
                store.ask_release(&row.id, clock::now()).await?;
                repeat = Instant::now() + REPEAT;
            }
            (Some(_), Some(_)) => {}
        }
    }
    store.decline_release(&row.id).await?;
    let message = format!("process {} on {} did not answer", owner.pid, owner.host);
    Err(Failure::new(ExitCode::Refused, message).hint("it may be stopped; end it, then try again"))
}

fn refuse_busy(row: &SessionRow, owner: &Owner, state: SessionState) -> Result<(), Failure> {
    match state {
        SessionState::Running => Err(busy(row, owner, "runs a turn")),
        SessionState::Waiting => Err(busy(row, owner, "waits for an answer")),
        SessionState::Idle | SessionState::Damaged => Ok(()),
    }
}

fn busy(row: &SessionRow, owner: &Owner, what: &str) -> Failure {
    let message = format!("session {} {what} in process {} on {}", row.id, owner.pid, owner.host);
    Failure::new(ExitCode::Refused, message).hint("wait for the end of the turn, or cancel it there")
}

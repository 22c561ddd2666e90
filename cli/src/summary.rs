//! What `list` and other commands say of a session: its row, and the state that is read from its journal without claiming
//! it.

use std::fmt;

use rethread::clock;
use rethread::store::{Archived, Owner, SessionRow, Store, StoreError, read_state};
use rethread_core::session::SessionProgress;
use rethread_core::{Millis, Session};
use serde::Serialize;

use crate::failure::Failure;

/// A session in short.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionSummary {
    /// The id.
    pub(crate) id: String,
    /// The title, if it has one.
    pub(crate) title: Option<String>,
    /// The agent that served it last.
    pub(crate) agent: String,
    /// The working directory.
    pub(crate) cwd: String,
    /// The time of the last change.
    #[serde(skip)]
    pub(crate) changed: Millis,
    /// The same in RFC 3339.
    updated_at: String,
    /// The number of turns; nothing if the session is only known from an agent's list.
    pub(crate) turns: Option<u64>,
    /// What it is doing.
    pub(crate) state: SessionState,
    /// The process that has it open.
    pub(crate) process: Option<OwnerProcess>,
    /// How many clients are attached, if the server has it open.
    pub(crate) clients: Option<usize>,
    /// Whether it is archived.
    archived: bool,
    /// The session that it was forked from.
    parent: Option<String>,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SessionState {
    /// A turn runs.
    Running,
    /// A turn waits for the user.
    Waiting,
    /// No turn runs.
    Idle,
    /// Its journal cannot be read.
    Damaged,
}

impl SessionState {
    /// The name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Damaged => "damaged",
        }
    }

    /// The state of a session. Without a process nothing runs, whatever the journal ends with.
    pub(crate) fn of(session: &Session, owner: Option<&Owner>) -> Self {
        if owner.is_none() {
            return Self::Idle;
        }
        match session.progress() {
            SessionProgress::Idle => Self::Idle,
            SessionProgress::Running => Self::Running,
            SessionProgress::Waiting => Self::Waiting,
        }
    }
}

/// A process that has a session open.
#[derive(Debug, Serialize)]
pub(crate) struct OwnerProcess {
    pid: u32,
    host: String,
    since: String,
    #[serde(skip)]
    elsewhere: bool,
}

impl OwnerProcess {
    /// The process of an owner.
    pub(crate) fn of(owner: &Owner) -> Self {
        Self {
            pid: owner.pid,
            host: owner.host.clone(),
            since: clock::rfc3339(owner.since),
            elsewhere: owner.host != this_host(),
        }
    }
}

impl fmt::Display for OwnerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)?;
        if self.elsewhere { write!(f, " on {}", self.host) } else { Ok(()) }
    }
}

/// Reads the state of a session that was listed. Nothing if it was deleted meanwhile.
pub(crate) async fn summarize(store: &dyn Store, row: SessionRow) -> Result<Option<SessionSummary>, Failure> {
    match read_state(store, &row.id).await {
        Ok((session, row)) => Ok(Some(SessionSummary::of(&row, &session))),
        Err(StoreError::Unknown(_)) => Ok(None),
        Err(StoreError::Damaged { .. }) => Ok(Some(SessionSummary {
            state: SessionState::Damaged,
            turns: None,
            ..SessionSummary::of(&row, &Session::default())
        })),
        Err(other) => Err(other.into()),
    }
}

impl SessionSummary {
    /// Summarizes a complete row and the state.
    pub(crate) fn of(row: &SessionRow, session: &Session) -> Self {
        let title = row.title.as_ref().map(|(title, _)| title.clone()).filter(|title| !title.is_empty());
        Self {
            id: row.id.0.clone(),
            title,
            agent: session.natives.last().map_or_else(|| row.agent.clone(), |native| native.agent.clone()),
            cwd: row.cwd.clone(),
            changed: row.updated_at,
            updated_at: clock::rfc3339(row.updated_at),
            turns: (row.head.0 > 0).then_some(session.turns.0),
            state: SessionState::of(session, row.owner.as_ref()),
            process: row.owner.as_ref().map(OwnerProcess::of),
            clients: None,
            archived: row.archived == Archived::Yes,
            parent: row.parent.as_ref().map(|(parent, _)| parent.0.clone()),
        }
    }
}

/// The name of this machine.
fn this_host() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is as long as the call is told.
    let known = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } == 0;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    if known { String::from_utf8_lossy(&name[..end]).into_owned() } else { String::new() }
}

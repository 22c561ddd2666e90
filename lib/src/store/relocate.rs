//! Moves a session to another working directory, without an agent. The journal says so, and the row with it.

use std::sync::Arc;

use rethread_core::{Entry, HeldPrompts, Input, Seq, Session, SessionId};

use super::facts::facts;
use super::state::read_state;
use super::{Append, Durability, Lease, Store, StoreError};
use crate::clock;

/// Why a session cannot be moved.
#[derive(Debug, thiserror::Error)]
pub enum RelocateError {
    /// The store failed, does not have the session, or a process has it open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Only an agent has the content of the session.
    #[error("session {0} has no content here: only its agent has it")]
    NotStored(SessionId),
}

/// Moves a session that nobody has open to another directory, an absolute path. Returns the directory that it was in. The
/// sessions that agents have of it stay behind: they belong to the old directory.
pub async fn relocate(store: &dyn Store, id: &SessionId, cwd: &str) -> Result<String, RelocateError> {
    let row = super::fork::existing_row(store, id).await?;
    if row.head == Seq(0) {
        return Err(RelocateError::NotStored(id.clone()));
    }
    let lease = store.claim(id).await?;
    let moved = write(store, &lease, cwd).await;
    // If this fails too, the session is released when the process ends.
    let released = store.release(&lease).await;
    let before = moved?;
    released?;
    Ok(before)
}

async fn write(store: &dyn Store, lease: &Lease, cwd: &str) -> Result<String, StoreError> {
    let (session, _) = read_state(store, &lease.session).await?;
    let before = session.cwd.clone();
    if before == cwd {
        return Ok(before);
    }
    let entries = moving_entries(&session, cwd);
    let append = Append {
        session: lease.session.clone(),
        epoch: lease.epoch,
        expected: lease.head,
        facts: facts(entries.iter()),
        entries: entries.into_iter().map(Arc::new).collect(),
        durability: Durability::Power,
        at: None,
    };
    store.append(append).await?;
    Ok(before)
}

/// An end to what a crash has left open, and the new directory.
fn moving_entries(session: &Session, cwd: &str) -> Vec<Entry> {
    let at = clock::now();
    let reason = "the session was moved to another directory".to_owned();
    let exited = Input::AgentExited { reason, held: HeldPrompts::Drop, at };
    let mut entries = rethread_core::decide(session, exited).unwrap_or_default();
    entries.push(Entry::Opened {
        cwd: cwd.to_owned(),
        roots: session.roots.clone(),
        agent: session.made_with.clone(),
        at,
        moved_from: Some(session.cwd.clone()),
    });
    entries
}

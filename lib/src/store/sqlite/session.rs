//! Operations on session rows: create, claim, release, set title, archive, delete.

use rethread_core::{Millis, Seq, SessionId, TitleSource};
use rusqlite::{Transaction, params};

use super::append::{add_entries, apply_facts, keep_snapshot, touch};
use super::fault::SqliteFault;
use super::integers::{seq_to_sql, to_sql};
use super::owner::ThisProcess;
use super::row::{existing_head, live_owner, session_head, title_number};
use super::stubs;
use super::{Archived, Deleted, Lease, NewSession, StoreError};
use crate::clock;

const FIRST_EPOCH: u64 = 1;

/// Creates a session that this process owns.
pub(super) fn create(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    new: &NewSession,
) -> Result<Lease, SqliteFault> {
    stubs::remove_stub(tx, new.id.as_str())?;
    if tx.prepare_cached("SELECT 1 FROM session WHERE uid = ?1")?.exists([new.id.as_str()])? {
        return Err(StoreError::Exists(new.id.clone()).into());
    }
    let parent = new.parent.as_ref().map(|(id, fork)| fork_point(tx, id, *fork)).transpose()?;
    let key = insert(tx, this_process, new, parent)?;
    let fork = parent.map_or(Seq(0), |(_, fork)| fork);
    let head = add_entries(tx, key, fork, &new.entries)?;
    tx.prepare_cached("UPDATE session SET head_seq = ?2 WHERE key = ?1")?.execute([key, seq_to_sql(head)])?;
    apply_facts(tx, key, &new.facts)?;
    keep_snapshot(tx, key, new.snapshot.as_deref())?;
    if new.parent.is_some() {
        touch(tx, key, new.at)?;
    }
    Ok(Lease { session: new.id.clone(), epoch: FIRST_EPOCH, head })
}

/// Claims a session, unless a live process owns it, this one included.
pub(super) fn claim(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    session: &SessionId,
) -> Result<Lease, SqliteFault> {
    let session_head = existing_head(tx, session)?;
    if let Some(owner) = live_owner(tx, this_process, session_head.key)? {
        return Err(StoreError::LiveElsewhere { session: session.clone(), owner }.into());
    }
    let epoch = session_head.epoch + 1;
    tx.execute(
        "UPDATE session SET owner = ?2, owned_since = ?3, epoch = ?4 WHERE key = ?1",
        params![session_head.key, this_process.id(), to_sql(clock::now()), to_sql(epoch)],
    )?;
    Ok(Lease { session: session.clone(), epoch, head: session_head.head })
}

/// Releases a session; does nothing if the lease is no longer valid.
pub(super) fn release(tx: &Transaction<'_>, lease: &Lease) -> Result<(), SqliteFault> {
    tx.execute(
        "UPDATE session SET owner = NULL, owned_since = NULL WHERE uid = ?1 AND epoch = ?2",
        params![lease.session.as_str(), to_sql(lease.epoch)],
    )?;
    Ok(())
}

/// Sets the title as the user's choice.
pub(super) fn set_title(tx: &Transaction<'_>, session: &SessionId, title: &str) -> Result<(), SqliteFault> {
    let key = existing_head(tx, session)?.key;
    let by = title_number(TitleSource::User);
    tx.execute("UPDATE session SET title = ?2, title_by = ?3 WHERE key = ?1", params![key, title, by])?;
    Ok(())
}

/// Archives or restores a session.
pub(super) fn set_archived(
    tx: &Transaction<'_>,
    session: &SessionId,
    archived: Archived,
    at: Millis,
) -> Result<(), SqliteFault> {
    let key = existing_head(tx, session)?.key;
    match archived {
        Archived::Yes => {
            tx.execute("UPDATE session SET archived_at = ?2 WHERE key = ?1", [key, to_sql(at)])?;
            revoke_lease(tx, key)
        }
        Archived::No => {
            tx.execute("UPDATE session SET archived_at = NULL WHERE key = ?1", [key])?;
            Ok(())
        }
    }
}

/// Marks a session as deleted; its entries stay for forks that need them.
pub(super) fn delete(tx: &Transaction<'_>, session: &SessionId, at: Millis) -> Result<(), SqliteFault> {
    let session_head = session_head(tx, session)?;
    match session_head.deleted {
        Deleted::Yes => Ok(()),
        Deleted::No => {
            tx.execute("UPDATE session SET deleted_at = ?2 WHERE key = ?1", [session_head.key, to_sql(at)])?;
            revoke_lease(tx, session_head.key)
        }
    }
}

/// Ends the lease of the current owner.
fn revoke_lease(tx: &Transaction<'_>, key: i64) -> Result<(), SqliteFault> {
    tx.execute(
        "UPDATE session SET epoch = epoch + 1, owner = NULL, owned_since = NULL WHERE key = ?1",
        [key],
    )?;
    Ok(())
}

fn fork_point(tx: &Transaction<'_>, parent: &SessionId, fork: Seq) -> Result<(i64, Seq), SqliteFault> {
    let session_head = existing_head(tx, parent)?;
    if fork > session_head.head {
        let moved = StoreError::MovedOn { session: parent.clone(), expected: fork, found: session_head.head };
        return Err(moved.into());
    }
    Ok((session_head.key, fork))
}

fn insert(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    new: &NewSession,
    parent: Option<(i64, Seq)>,
) -> Result<i64, SqliteFault> {
    let fork = parent.map(|(_, fork)| seq_to_sql(fork));
    tx.prepare_cached(
        "INSERT INTO session (uid, cwd, agent, updated_at, head_seq, epoch, owner, owned_since, parent, fork_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        new.id.as_str(),
        new.cwd,
        new.agent,
        to_sql(new.at),
        fork.unwrap_or(0),
        to_sql(FIRST_EPOCH),
        this_process.id(),
        to_sql(clock::now()),
        parent.map(|(key, _)| key),
        fork,
    ])?;
    Ok(tx.last_insert_rowid())
}

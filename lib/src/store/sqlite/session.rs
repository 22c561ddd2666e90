//! What happens to sessions beside their journals: made, taken, given back, named, put away, deleted.

use rethread_core::{Millis, Seq, SessionId, TitleSource};
use rusqlite::{Transaction, params};

use super::append::{add_entries, keep_snapshot, learn, touch};
use super::fault::Fault;
use super::number::{put, put_seq};
use super::owner::Ourselves;
use super::row::{live, living_owner, standing, title_number};
use super::stubs;
use super::{Archived, Deleted, Lease, NewSession, StoreError};
use crate::clock;

const FIRST_EPOCH: u64 = 1;

/// Makes a session that we own.
pub(super) fn create(tx: &Transaction<'_>, ourselves: &Ourselves, new: &NewSession) -> Result<Lease, Fault> {
    stubs::give_way(tx, new.id.as_str())?;
    if tx.prepare_cached("SELECT 1 FROM session WHERE uid = ?1")?.exists([new.id.as_str()])? {
        return Err(StoreError::Exists(new.id.clone()).into());
    }
    let parent = new.parent.as_ref().map(|(id, fork)| fork_point(tx, id, *fork)).transpose()?;
    let key = insert(tx, ourselves, new, parent)?;
    let fork = parent.map_or(Seq(0), |(_, fork)| fork);
    let head = add_entries(tx, key, fork, &new.entries)?;
    tx.prepare_cached("UPDATE session SET head_seq = ?2 WHERE key = ?1")?.execute([key, put_seq(head)])?;
    learn(tx, key, &new.facts)?;
    keep_snapshot(tx, key, new.snapshot.as_deref())?;
    if new.parent.is_some() {
        touch(tx, key, new.at)?;
    }
    Ok(Lease { session: new.id.clone(), epoch: FIRST_EPOCH, head })
}

/// Takes a session, unless a living process has it, this one included.
pub(super) fn claim(
    tx: &Transaction<'_>,
    ourselves: &Ourselves,
    session: &SessionId,
) -> Result<Lease, Fault> {
    let standing = live(tx, session)?;
    if let Some(owner) = living_owner(tx, ourselves, standing.key)? {
        return Err(StoreError::LiveElsewhere { session: session.clone(), owner }.into());
    }
    let epoch = standing.epoch + 1;
    tx.execute(
        "UPDATE session SET owner = ?2, owned_since = ?3, epoch = ?4 WHERE key = ?1",
        params![standing.key, ourselves.id(), put(clock::now()), put(epoch)],
    )?;
    Ok(Lease { session: session.clone(), epoch, head: standing.head })
}

/// Gives a session back; nothing happens if the lease holds no longer.
pub(super) fn release(tx: &Transaction<'_>, lease: &Lease) -> Result<(), Fault> {
    tx.execute(
        "UPDATE session SET owner = NULL, owned_since = NULL WHERE uid = ?1 AND epoch = ?2",
        params![lease.session.as_str(), put(lease.epoch)],
    )?;
    Ok(())
}

/// Sets the title as the user's.
pub(super) fn set_title(tx: &Transaction<'_>, session: &SessionId, title: &str) -> Result<(), Fault> {
    let key = live(tx, session)?.key;
    let by = title_number(TitleSource::User);
    tx.execute("UPDATE session SET title = ?2, title_by = ?3 WHERE key = ?1", params![key, title, by])?;
    Ok(())
}

/// Archives or brings back.
pub(super) fn set_archived(
    tx: &Transaction<'_>,
    session: &SessionId,
    archived: Archived,
    at: Millis,
) -> Result<(), Fault> {
    let key = live(tx, session)?.key;
    match archived {
        Archived::Yes => {
            tx.execute("UPDATE session SET archived_at = ?2 WHERE key = ?1", [key, put(at)])?;
            dispossess(tx, key)
        }
        Archived::No => {
            tx.execute("UPDATE session SET archived_at = NULL WHERE key = ?1", [key])?;
            Ok(())
        }
    }
}

/// Marks as deleted; the text stays for the forks that need it.
pub(super) fn delete(tx: &Transaction<'_>, session: &SessionId, at: Millis) -> Result<(), Fault> {
    let standing = standing(tx, session)?;
    match standing.deleted {
        Deleted::Yes => Ok(()),
        Deleted::No => {
            tx.execute("UPDATE session SET deleted_at = ?2 WHERE key = ?1", [standing.key, put(at)])?;
            dispossess(tx, standing.key)
        }
    }
}

/// Ends the lease of whoever writes the session.
fn dispossess(tx: &Transaction<'_>, key: i64) -> Result<(), Fault> {
    tx.execute(
        "UPDATE session SET epoch = epoch + 1, owner = NULL, owned_since = NULL WHERE key = ?1",
        [key],
    )?;
    Ok(())
}

fn fork_point(tx: &Transaction<'_>, parent: &SessionId, fork: Seq) -> Result<(i64, Seq), Fault> {
    let standing = live(tx, parent)?;
    if fork > standing.head {
        let moved = StoreError::MovedOn { session: parent.clone(), expected: fork, found: standing.head };
        return Err(moved.into());
    }
    Ok((standing.key, fork))
}

fn insert(
    tx: &Transaction<'_>,
    ourselves: &Ourselves,
    new: &NewSession,
    parent: Option<(i64, Seq)>,
) -> Result<i64, Fault> {
    let fork = parent.map(|(_, fork)| put_seq(fork));
    tx.prepare_cached(
        "INSERT INTO session (uid, cwd, agent, updated_at, head_seq, epoch, owner, owned_since, parent, fork_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        new.id.as_str(),
        new.cwd,
        new.agent,
        put(new.at),
        fork.unwrap_or(0),
        put(FIRST_EPOCH),
        ourselves.id(),
        put(clock::now()),
        parent.map(|(key, _)| key),
        fork,
    ])?;
    Ok(tx.last_insert_rowid())
}

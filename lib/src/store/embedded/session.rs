//! Operations on session rows: create, claim, give up, set title, archive, delete.

use rethread_core::{Millis, Seq, SessionId, TitleSource};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::append::{add_entries, apply_facts, keep_snapshot, touch};
use super::chain::{FileName, from_hex, hex};
use super::fault::SqliteFault;
use super::integers::{from_sql, seq_to_sql, to_sql};
use super::journal_file::FileId;
use super::owner::ThisProcess;
use super::row::{NamedOwner, existing_head, session_head, title_number};
use super::search::note_deleted;
use super::stubs;
use super::{Archived, Deleted, Lease, NewSession, PruneTurn, StoreError};
use crate::{clock, ids};

pub(super) const FIRST_EPOCH: u64 = 1;

/// Creates a session that this process owns. `parent_head` is the last entry of the session that it is forked from.
pub(super) fn create(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    new: &NewSession,
    name: &FileName,
    parent_head: Option<Seq>,
) -> Result<(i64, Lease), SqliteFault> {
    stubs::remove_stub(tx, new.id.as_str())?;
    if tx.prepare_cached("SELECT 1 FROM session WHERE uid = ?1")?.exists([new.id.as_str()])? {
        return Err(StoreError::Exists(new.id.clone()).into());
    }
    let parent = match &new.parent {
        Some((id, fork)) => Some(fork_point(tx, id, *fork, parent_head.unwrap_or(Seq(0)))?),
        None => None,
    };
    let key = insert(tx, this_process, new, name, parent)?;
    let fork = parent.map_or(Seq(0), |(_, fork)| fork);
    let head = add_entries(tx, key, fork, &new.entries)?;
    tx.prepare_cached("UPDATE session SET head_seq = ?2 WHERE key = ?1")?.execute([key, seq_to_sql(head)])?;
    apply_facts(tx, key, &new.facts)?;
    keep_snapshot(tx, key, new.snapshot.as_deref())?;
    if new.parent.is_some() {
        touch(tx, key, new.at)?;
    }
    Ok((key, Lease { session: new.id.clone(), epoch: FIRST_EPOCH, head, folded: head }))
}

/// A session that was claimed.
pub(super) struct ClaimedSession {
    pub(super) key: i64,
    pub(super) epoch: u64,
    /// The id of its journal files.
    pub(super) journal: FileId,
    /// The owner that has ended without releasing the session, if there was one.
    pub(super) former_owner: Option<String>,
}

impl ClaimedSession {
    pub(super) fn last_owner(&self) -> LastOwner {
        match self.former_owner {
            Some(_) => LastOwner::Crashed,
            None => LastOwner::Released,
        }
    }
}

/// How the last owner of a session left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastOwner {
    /// It released the session, and has written everything.
    Released,
    /// It ended without that: changes of the row may be missing.
    Crashed,
}

/// Claims a session, unless a live process owns it, this one included.
pub(super) fn claim(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    session: &SessionId,
) -> Result<ClaimedSession, SqliteFault> {
    let claimed = claimable(tx, this_process, session)?;
    tx.execute(
        "UPDATE session SET owner = ?2, owned_since = ?3, epoch = ?4, journal = ?5, release_asked_at = NULL
         WHERE key = ?1",
        params![
            claimed.key,
            this_process.id(),
            to_sql(clock::now()),
            to_sql(claimed.epoch),
            hex(&claimed.journal)
        ],
    )?;
    Ok(claimed)
}

/// What a claim would give. Refused as a claim is.
pub(super) fn claimable(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    session: &SessionId,
) -> Result<ClaimedSession, SqliteFault> {
    let sql =
        "SELECT key, epoch, journal, owner, owned_since FROM session WHERE uid = ?1 AND deleted_at IS NULL";
    let read = |row: &Row<'_>| {
        let named = NamedOwner::read(row, 3)?;
        Ok((row.get::<_, i64>(0)?, from_sql(row.get(1)?), row.get::<_, Option<String>>(2)?, named))
    };
    let found = tx.prepare_cached(sql)?.query_row([session.as_str()], read).optional()?;
    let Some((key, last_epoch, known, named)) = found else {
        return Err(StoreError::Unknown(session.clone()).into());
    };
    if let Some(named) = &named
        && let Some(owner) = named.if_live(tx, this_process)?
    {
        return Err(StoreError::LiveElsewhere { session: session.clone(), owner }.into());
    }
    let epoch = last_epoch + 1;
    let former_owner = named.map(|named| named.id);
    let journal = known.as_deref().and_then(from_hex).unwrap_or_else(|| *ids::unique().as_bytes());
    Ok(ClaimedSession { key, epoch, journal, former_owner })
}

/// How the last owner of a session that nobody owns left it.
pub(super) fn last_owner(tx: &Transaction<'_>, key: i64) -> Result<LastOwner, SqliteFault> {
    let sql = "SELECT owner IS NOT NULL FROM session WHERE key = ?1";
    let named: bool = tx.prepare_cached(sql)?.query_row([key], |row| row.get(0))?;
    Ok(if named { LastOwner::Crashed } else { LastOwner::Released })
}

/// Removes the name of an owner that has ended.
pub(super) fn forget_owner(tx: &Transaction<'_>, key: i64) -> Result<(), SqliteFault> {
    let sql = "UPDATE session SET owner = NULL, owned_since = NULL, release_asked_at = NULL WHERE key = ?1";
    tx.execute(sql, [key])?;
    Ok(())
}

/// Leaves a session to nobody, or to an owner that has ended: then the next claim settles what that one has left.
pub(super) fn give_back(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    key: i64,
    to: Option<&str>,
) -> Result<(), SqliteFault> {
    tx.execute(
        "UPDATE session SET owner = ?3, owned_since = NULL, release_asked_at = NULL WHERE key = ?1 AND owner = ?2",
        params![key, this_process.id(), to],
    )?;
    Ok(())
}

/// Sets or removes the request to release a session.
pub(super) fn set_release_asked(
    tx: &Transaction<'_>,
    key: i64,
    at: Option<Millis>,
) -> Result<(), SqliteFault> {
    tx.execute("UPDATE session SET release_asked_at = ?2 WHERE key = ?1", params![key, at.map(to_sql)])?;
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

/// Marks a session as deleted, and removes what its row says of the conversation. Returns its key, if it was not deleted.
pub(super) fn delete(
    tx: &Transaction<'_>,
    session: &SessionId,
    at: Millis,
) -> Result<Option<i64>, SqliteFault> {
    let session_head = session_head(tx, session)?;
    match session_head.deleted {
        Deleted::Yes => Ok(None),
        Deleted::No => {
            tx.execute(
                "UPDATE session SET deleted_at = ?2, title = NULL, title_by = NULL WHERE key = ?1",
                [session_head.key, to_sql(at)],
            )?;
            revoke_lease(tx, session_head.key)?;
            note_deleted(tx, session_head.key)?;
            Ok(Some(session_head.key))
        }
    }
}

/// Notes that old sessions are pruned, unless that was done at `since` or later.
pub(super) fn begin_pruning(
    tx: &Transaction<'_>,
    at: Millis,
    since: Millis,
) -> Result<PruneTurn, SqliteFault> {
    let sql = "UPDATE store SET pruned_at = ?1 WHERE pruned_at < ?2";
    let noted = tx.execute(sql, [to_sql(at), to_sql(since)])? > 0;
    Ok(if noted { PruneTurn::Ours } else { PruneTurn::Done })
}

/// Ends the lease of the current owner, which stays registered until it releases the session.
fn revoke_lease(tx: &Transaction<'_>, key: i64) -> Result<(), SqliteFault> {
    tx.execute("UPDATE session SET epoch = epoch + 1 WHERE key = ?1", [key])?;
    Ok(())
}

fn fork_point(
    tx: &Transaction<'_>,
    parent: &SessionId,
    fork: Seq,
    head: Seq,
) -> Result<(i64, Seq), SqliteFault> {
    let session_head = existing_head(tx, parent)?;
    if fork > head {
        return Err(StoreError::MovedOn { session: parent.clone(), expected: fork, found: head }.into());
    }
    Ok((session_head.key, fork))
}

fn insert(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    new: &NewSession,
    name: &FileName,
    parent: Option<(i64, Seq)>,
) -> Result<i64, SqliteFault> {
    let fork = parent.map(|(_, fork)| seq_to_sql(fork));
    tx.prepare_cached(
        "INSERT INTO session (uid, cwd, agent, updated_at, head_seq, epoch, owner, owned_since, parent, fork_seq,
                              journal)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
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
        hex(&name.journal),
    ])?;
    Ok(tx.last_insert_rowid())
}

//! Creates, claims and releases sessions.

use std::rc::Rc;
use std::sync::Arc;

use deadpool_postgres::Transaction;
use rethread_core::{Millis, Seq, SessionId};

use super::database::{execute, row, rows};
use super::fault::PgFault;
use super::host::{HOST_COLUMNS, NamedHost};
use super::open_database::{OpenDatabase, OwnedLease};
use super::row::{CHANGED, existing_locked_head, remove_stub, store_rare_facts, title_number};
use super::text_column::{to_column, to_columns};
use crate::store::integers::{from_sql, seq_from_sql, seq_to_sql, to_sql};
use crate::store::segment::{NewSegment, first_segments};
use crate::store::{Lease, NewSession, ReleaseAnswer, StoreError};
use crate::{clock, ids};

const FIRST_EPOCH: u64 = 1;

impl OpenDatabase {
    /// Creates a session that this host owns.
    pub(super) async fn create(self: Rc<Self>, new: NewSession) -> Result<Lease, StoreError> {
        let host = self.host.key(&self.database).await?;
        let fork = new.parent.as_ref().map_or(Seq(0), |(_, fork)| *fork);
        let new = Arc::new(new);
        let segments = {
            let new = new.clone();
            blocking(move || first_segments(fork, &new.entries)).await?
        };
        let head = Seq(fork.0 + new.entries.len() as u64);
        // A second attempt after a lost connection knows the session by it.
        let made_by = ids::unique().to_string();
        let _claiming = self.doubts.claiming(&new.id);
        let key = self
            .database
            .write("creating a session", async |tx| insert(tx, &new, &made_by, host, head, &segments).await)
            .await;
        self.doubts.note(&key);
        let key = key?;
        let lease = Lease { session: new.id.clone(), epoch: FIRST_EPOCH, head, folded: head };
        self.note_owned(&lease, key);
        Ok(lease)
    }

    /// Takes ownership of a session, unless a host with a valid lease owns it.
    pub(super) async fn claim(self: Rc<Self>, session: SessionId) -> Result<Lease, StoreError> {
        let host = self.host.key(&self.database).await?;
        let _claiming = self.doubts.claiming(&session);
        let lease = self
            .database
            .write("claiming a session", async |tx| {
                let head = existing_locked_head(tx, &session).await?;
                let sql = format!(
                    "SELECT {HOST_COLUMNS} FROM rethread.lease AS l LEFT JOIN rethread.host AS h ON h.key = l.host
                     WHERE l.session = $1"
                );
                let named = row(tx, &sql, &[&head.key]).await?.as_ref().and_then(NamedHost::read);
                if let Some(owner) = self.host.owner(named) {
                    // One that is ours and that nobody here knows of is left of a claim whose answer was lost.
                    let is_known = self.owned.borrow().contains_key(&session);
                    if owner.ours == crate::store::OwnedHere::No || is_known {
                        return Err(StoreError::LiveElsewhere { session: session.clone(), owner }.into());
                    }
                }
                let epoch = head.epoch + 1;
                let sql = "UPDATE rethread.lease SET epoch = $2, host = $3, owned_epoch = $2, owned_since = $4
                           WHERE session = $1";
                execute(tx, sql, &[&head.key, &to_sql(epoch), &host, &to_sql(clock::now())]).await?;
                mark_changed(tx, head.key).await?;
                let lease = Lease { session: session.clone(), epoch, head: head.head, folded: head.folded };
                Ok((lease, head.key))
            })
            .await;
        self.doubts.note(&lease);
        let (lease, key) = lease?;
        self.note_owned(&lease, key);
        Ok(lease)
    }

    /// Releases a session, if the lease is the one that this host has. Frees it if it was deleted meanwhile.
    pub(super) async fn release(self: Rc<Self>, lease: Lease) -> Result<(), StoreError> {
        let deleted = self
            .database
            .write("releasing a session", async |tx| {
                let sql = "UPDATE rethread.lease AS l SET host = NULL, owned_epoch = NULL, owned_since = NULL
                           FROM rethread.session AS s
                           WHERE s.id = $1 AND l.session = s.key AND l.owned_epoch = $2
                           RETURNING s.key, s.deleted_at IS NOT NULL";
                let id = to_column(lease.session.as_str());
                let Some(released) = row(tx, sql, &[&id, &to_sql(lease.epoch)]).await? else {
                    return Ok(None);
                };
                let key: i64 = released.get(0);
                mark_changed(tx, key).await?;
                note_pending(tx, key).await?;
                Ok(released.get::<_, bool>(1).then_some(key))
            })
            .await;
        // Nobody here has it any more, also if that could not be stored: then it is released later.
        self.forget_owned(&lease);
        self.doubts.note(&deleted);
        match deleted? {
            Some(key) => self.free(key).await,
            None => Ok(()),
        }
    }

    /// Asks the owner of a session to release it.
    pub(super) async fn ask_release(
        self: Rc<Self>,
        session: SessionId,
        at: Millis,
    ) -> Result<ReleaseAnswer, StoreError> {
        self.database
            .write("releasing a session", async |tx| {
                let head = existing_locked_head(tx, &session).await?;
                let sql = format!(
                    "SELECT {HOST_COLUMNS} FROM rethread.lease AS l LEFT JOIN rethread.host AS h ON h.key = l.host
                     WHERE l.session = $1"
                );
                let found = row(tx, &sql, &[&head.key]).await?;
                let was_owned = found.as_ref().is_some_and(|row| row.get::<_, Option<i64>>("host").is_some());
                let owner = self.host.owner(found.as_ref().and_then(NamedHost::read));
                match owner {
                    Some(owner) => {
                        set_release_asked(tx, head.key, Some(at)).await?;
                        Ok(ReleaseAnswer::Asked(owner))
                    }
                    None if was_owned => {
                        // Its epoch ends, so that an owner that was only away cannot go on beside the next one.
                        let sql = "UPDATE rethread.lease SET host = NULL, owned_epoch = NULL, epoch = epoch + 1
                                   WHERE session = $1";
                        execute(tx, sql, &[&head.key]).await?;
                        set_release_asked(tx, head.key, None).await?;
                        note_pending(tx, head.key).await?;
                        Ok(ReleaseAnswer::OwnerGone)
                    }
                    None => Ok(ReleaseAnswer::NotOwned),
                }
            })
            .await
    }

    /// Removes the request to release a session.
    pub(super) async fn decline_release(self: Rc<Self>, session: SessionId) -> Result<(), StoreError> {
        self.database
            .write("declining a release", async |tx| {
                let head = existing_locked_head(tx, &session).await?;
                set_release_asked(tx, head.key, None).await
            })
            .await
    }

    /// Takes the sessions of hosts away whose leases have been over for long, or that are known to have ended. What they left
    /// can then be indexed and freed.
    pub(super) async fn retire_hosts(&self) -> Result<(), StoreError> {
        let gone = self.host.gone_here(&self.database).await;
        let gone =
            gone.map_err(|fault| fault.at("looking for hosts that have ended", &self.database.address))?;
        let deleted = self
            .database
            .write("retiring hosts", async |tx| {
                let sql = "SELECT key FROM rethread.host
                           WHERE key = ANY ($1) OR expires_at < clock_timestamp() - interval '60 seconds'
                           ORDER BY key FOR UPDATE SKIP LOCKED";
                let hosts: Vec<i64> = rows(tx, sql, &[&gone]).await?.iter().map(|row| row.get(0)).collect();
                if hosts.is_empty() {
                    return Ok(Vec::new());
                }
                let sql = "WITH taken AS (
                               UPDATE rethread.lease SET host = NULL, owned_epoch = NULL, epoch = epoch + 1
                               WHERE session IN (SELECT session FROM rethread.lease WHERE host = ANY ($1) ORDER BY session
                                                 FOR UPDATE)
                               RETURNING session
                           ), pending AS (INSERT INTO rethread.search_pending (session) SELECT session FROM taken)
                           UPDATE rethread.session AS s SET release_asked_at = NULL, changed_in = pg_current_xact_id()::text::bigint
                           FROM taken WHERE s.key = taken.session RETURNING s.key, s.deleted_at IS NOT NULL";
                let taken = rows(tx, sql, &[&hosts]).await?;
                execute(tx, "DELETE FROM rethread.host WHERE key = ANY ($1)", &[&hosts]).await?;
                Ok(taken.iter().filter(|row| row.get(1)).map(|row| row.get(0)).collect::<Vec<i64>>())
            })
            .await?;
        for key in deleted {
            self.free(key).await?;
        }
        Ok(())
    }

    fn note_owned(&self, lease: &Lease, key: i64) {
        self.owned.borrow_mut().insert(lease.session.clone(), OwnedLease { key, epoch: lease.epoch });
    }

    fn forget_owned(&self, lease: &Lease) {
        let mut owned = self.owned.borrow_mut();
        if owned.get(&lease.session).is_some_and(|owned| owned.epoch == lease.epoch) {
            owned.remove(&lease.session);
        }
    }
}

/// Marks the row of a session as changed.
pub(super) async fn mark_changed(tx: &Transaction<'_>, key: i64) -> Result<(), PgFault> {
    let sql = format!("UPDATE rethread.session SET release_asked_at = NULL, {CHANGED} WHERE key = $1");
    execute(tx, &sql, &[&key]).await?;
    Ok(())
}

/// Notes that something has ended in a session that may not be indexed.
pub(super) async fn note_pending(tx: &Transaction<'_>, key: i64) -> Result<(), PgFault> {
    execute(tx, "INSERT INTO rethread.search_pending (session) VALUES ($1)", &[&key]).await?;
    Ok(())
}

async fn set_release_asked(tx: &Transaction<'_>, key: i64, at: Option<Millis>) -> Result<(), PgFault> {
    let sql = format!("UPDATE rethread.session SET release_asked_at = $2, {CHANGED} WHERE key = $1");
    execute(tx, &sql, &[&key, &at.map(to_sql)]).await?;
    Ok(())
}

async fn insert(
    tx: &Transaction<'_>,
    new: &NewSession,
    made_by: &str,
    host: i64,
    head: Seq,
    segments: &[NewSegment],
) -> Result<i64, PgFault> {
    let id = to_column(new.id.as_str());
    let sql = "SELECT key FROM rethread.session WHERE id = $1 AND made_by = $2::text::uuid";
    if let Some(done) = row(tx, sql, &[&id, &made_by]).await? {
        return Ok(done.get(0));
    }
    remove_stub(tx, &id).await?;
    let parent = match &new.parent {
        Some((parent, fork)) => Some(fork_point(tx, parent, *fork).await?),
        None => None,
    };
    let key = insert_row(tx, new, made_by, parent).await?;
    let sql = "INSERT INTO rethread.lease (session, epoch, head, folded, host, owned_epoch, owned_since)
               VALUES ($1, $2, $3, $3, $4, $2, $5)";
    let epoch = to_sql(FIRST_EPOCH);
    execute(tx, sql, &[&key, &epoch, &seq_to_sql(head), &host, &to_sql(clock::now())]).await?;
    for segment in segments {
        add_segment(tx, key, segment).await?;
    }
    store_rare_facts(tx, key, &new.facts).await?;
    keep_snapshot(tx, key, new.snapshot.as_deref()).await?;
    let fork = parent.map_or(0, |(_, fork)| seq_to_sql(fork));
    let sql = "INSERT INTO rethread.indexed (session, seq, turn, at) VALUES ($1, $2, 0, 0)";
    execute(tx, sql, &[&key, &fork]).await?;
    if !new.entries.is_empty() {
        note_pending(tx, key).await?;
    }
    Ok(key)
}

async fn fork_point(tx: &Transaction<'_>, parent: &SessionId, fork: Seq) -> Result<(i64, Seq), PgFault> {
    // Locked, so that no fold merges across the fork point meanwhile.
    let head = existing_locked_head(tx, parent).await?;
    if fork > head.head {
        return Err(StoreError::MovedOn { session: parent.clone(), expected: fork, found: head.head }.into());
    }
    Ok((head.key, fork))
}

async fn insert_row(
    tx: &Transaction<'_>,
    new: &NewSession,
    made_by: &str,
    parent: Option<(i64, Seq)>,
) -> Result<i64, PgFault> {
    // A fork is listed as newer than all other sessions.
    let sql = "INSERT INTO rethread.session (id, made_by, cwd, agent, agent_name, title, title_by, roots, updated_at, parent,
                                             fork_seq, listed, changed_in)
               VALUES ($1, $2::text::uuid, $3, $4, $5, $6, $7, $8,
                       CASE WHEN $10::bigint IS NULL THEN $9 ELSE greatest($9, 1 + greatest(
                           (SELECT updated_at FROM rethread.session WHERE listed AND deleted_at IS NULL AND NOT archived
                               ORDER BY updated_at DESC LIMIT 1),
                           (SELECT updated_at FROM rethread.session WHERE listed AND deleted_at IS NULL AND archived
                               ORDER BY updated_at DESC LIMIT 1))) END,
                       $10, $11, $12, pg_current_xact_id()::text::bigint)
               ON CONFLICT (id) DO NOTHING RETURNING key";
    let facts = &new.facts;
    let cwd = to_column(facts.cwd.as_deref().unwrap_or(&new.cwd));
    let name = facts.agent_name.as_ref().and_then(|name| name.0.as_deref()).map(to_column);
    let (title, by) = facts.title.as_ref().map(|(title, by)| (to_column(title), title_number(*by))).unzip();
    let roots = to_columns(facts.roots.as_deref().unwrap_or_default());
    let (parent, fork) = parent.map(|(key, fork)| (key, seq_to_sql(fork))).unzip();
    let inserted = row(
        tx,
        sql,
        &[
            &to_column(new.id.as_str()),
            &made_by,
            &cwd,
            &to_column(&new.agent),
            &name,
            &title,
            &by,
            &roots,
            &to_sql(new.at),
            &parent,
            &fork,
            &facts.listed.is_some(),
        ],
    )
    .await?;
    inserted.map(|row| row.get(0)).ok_or_else(|| StoreError::Exists(new.id.clone()).into())
}

/// Inserts a segment.
pub(super) async fn add_segment(tx: &Transaction<'_>, key: i64, segment: &NewSegment) -> Result<(), PgFault> {
    let sql = "INSERT INTO rethread.segment (session, first_seq, last_seq, length, checksum, items)
               VALUES ($1, $2, $3, $4, $5, $6)";
    let NewSegment { first, last, packed } = segment;
    let (first, last) = (seq_to_sql(*first), seq_to_sql(*last));
    execute(tx, sql, &[&key, &first, &last, &packed.length, &packed.checksum, &packed.bytes]).await?;
    Ok(())
}

/// Stores the snapshot, if there is one.
pub(super) async fn keep_snapshot(
    tx: &Transaction<'_>,
    key: i64,
    state: Option<&[u8]>,
) -> Result<(), PgFault> {
    if let Some(state) = state {
        let sql = "INSERT INTO rethread.snapshot (session, state) VALUES ($1, $2)
                   ON CONFLICT (session) DO UPDATE SET state = excluded.state";
        execute(tx, sql, &[&key, &state]).await?;
    }
    Ok(())
}

/// The lease of a session as the database has it.
pub(super) async fn current_lease(
    store: &OpenDatabase,
    session: &SessionId,
) -> Result<(i64, u64, Seq), StoreError> {
    let sql = "SELECT s.key, l.epoch, l.head FROM rethread.session AS s JOIN rethread.lease AS l ON l.session = s.key
               WHERE s.id = $1";
    let id = to_column(session.as_str());
    let found = store.database.query("reading a lease", sql, &[&id]).await?;
    let found = found.first().ok_or_else(|| StoreError::Unknown(session.clone()))?;
    Ok((found.get(0), from_sql(found.get(1)), seq_from_sql(found.get(2))))
}

/// Runs work that takes processor time on another thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Io {
        context: "compressing a journal".to_owned(),
        source,
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| failed(error.into())),
        Err(stopped) => Err(failed(stopped.into())),
    }
}

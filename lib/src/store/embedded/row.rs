//! Reads the rows of sessions: what they say by themselves, without journal files.

use rethread_core::{Seq, SessionId, TitleSource, clean_title};
use rusqlite::{OptionalExtension as _, Row, Transaction};

use super::fault::SqliteFault;
use super::integers::{from_sql, seq_from_sql};
use super::owner::{self, Liveness, ThisProcess};
use super::{Archived, Deleted, Listed, OwnedHere, Owner, SessionRow, StoreError};

/// The columns that [`read_row`] reads, in order.
pub(super) const COLUMNS: &str = "uid, cwd, roots, title, title_by, agent, natives, updated_at, head_seq, archived, \
     deleted_at IS NOT NULL, (SELECT p.uid FROM session AS p WHERE p.key = session.parent), fork_seq, agent_name, \
     release_asked_at, listed, owner, owned_since";

/// What must be checked before a session is changed. The head is that of the segments.
pub(super) struct SessionHead {
    pub(super) key: i64,
    pub(super) epoch: u64,
    pub(super) head: Seq,
    pub(super) deleted: Deleted,
}

impl SessionHead {
    /// Refuses a writer whose epoch has ended.
    pub(super) fn check_epoch(&self, session: &SessionId, held: u64) -> Result<(), StoreError> {
        if self.epoch == held {
            return Ok(());
        }
        Err(StoreError::StaleEpoch { session: session.clone(), held, found: self.epoch })
    }
}

/// Reads the head of a session, also if it is deleted.
pub(super) fn session_head(tx: &Transaction<'_>, session: &SessionId) -> Result<SessionHead, SqliteFault> {
    let sql = "SELECT key, epoch, head_seq, deleted_at IS NOT NULL FROM session WHERE uid = ?1";
    let found = tx.prepare_cached(sql)?.query_row([session.as_str()], read_session_head).optional()?;
    found.ok_or_else(|| StoreError::Unknown(session.clone()).into())
}

/// Reads the head of a session that is not deleted.
pub(super) fn existing_head(tx: &Transaction<'_>, session: &SessionId) -> Result<SessionHead, SqliteFault> {
    let session_head = session_head(tx, session)?;
    match session_head.deleted {
        Deleted::No => Ok(session_head),
        Deleted::Yes => Err(StoreError::Unknown(session.clone()).into()),
    }
}

/// Returns whether a session is in lists.
pub(super) fn is_listed(tx: &Transaction<'_>, key: i64) -> Result<bool, SqliteFault> {
    Ok(tx.prepare_cached("SELECT listed FROM session WHERE key = ?1")?.query_row([key], |row| row.get(0))?)
}

/// Returns whether a session is deleted.
pub(super) fn deleted_of(tx: &Transaction<'_>, key: i64) -> Result<Deleted, SqliteFault> {
    let sql = "SELECT deleted_at IS NOT NULL FROM session WHERE key = ?1";
    Ok(tx.prepare_cached(sql)?.query_row([key], |row| deleted(row, 0))?)
}

/// Reads a row with its snapshot and live owner, and its key. The head is that of the segments.
pub(super) fn find(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    session: &SessionId,
) -> Result<Option<(SessionRow, i64)>, SqliteFault> {
    let sql = format!("SELECT {COLUMNS}, key FROM session WHERE uid = ?1");
    let read = |row: &Row<'_>| Ok((read_row(row)?, row.get::<_, i64>(18)?));
    let found = tx.prepare_cached(&sql)?.query_row([session.as_str()], read).optional()?;
    let Some((row, key)) = found else { return Ok(None) };
    let mut row = row.parse_owned(tx, this_process)?;
    row.snapshot = snapshot(tx, key)?;
    Ok(Some((row, key)))
}

/// Returns the process that owns a session, if it lives.
pub(super) fn live_owner(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    key: i64,
) -> Result<Option<Owner>, SqliteFault> {
    let mut statement = tx.prepare_cached("SELECT owner, owned_since FROM session WHERE key = ?1")?;
    let named = statement.query_row([key], |row| NamedOwner::read(row, 0))?;
    named.map_or(Ok(None), |named| named.if_live(tx, this_process))
}

/// The owner that a row names; it may have ended.
pub(super) struct NamedOwner {
    pub(super) id: String,
    since: Option<i64>,
}

impl NamedOwner {
    /// Reads the columns `owner` and `owned_since`.
    pub(super) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Self>> {
        let (id, since) = (row.get::<_, Option<String>>(column)?, row.get(column + 1)?);
        Ok(id.map(|id| Self { id, since }))
    }

    /// The process, if it lives.
    pub(super) fn if_live(
        &self,
        tx: &Transaction<'_>,
        this_process: &ThisProcess,
    ) -> Result<Option<Owner>, SqliteFault> {
        let Some(other) = owner::find(tx, &self.id)? else { return Ok(None) };
        let ours = match this_process.liveness_of(&other)? {
            Liveness::ThisProcess => OwnedHere::Yes,
            Liveness::Alive => OwnedHere::No,
            Liveness::Gone => return Ok(None),
        };
        let since = from_sql(self.since.unwrap_or(0));
        Ok(Some(Owner { pid: other.process.pid, host: other.process.host, since, ours, contact: None }))
    }
}

/// A row whose JSON columns are not parsed yet.
pub(super) struct RawRow {
    row: SessionRow,
    roots: String,
    natives: String,
    owner: Option<NamedOwner>,
}

impl RawRow {
    /// Parses the JSON columns, and looks whether the owner lives.
    pub(super) fn parse_owned(
        self,
        tx: &Transaction<'_>,
        this_process: &ThisProcess,
    ) -> Result<SessionRow, SqliteFault> {
        let owner = match &self.owner {
            Some(named) => named.if_live(tx, this_process)?,
            None => None,
        };
        Ok(SessionRow { owner, ..self.parse()? })
    }

    /// Parses the JSON columns.
    pub(super) fn parse(mut self) -> Result<SessionRow, StoreError> {
        self.row.roots = self.texts(&self.roots)?;
        self.row.natives = self.texts(&self.natives)?;
        Ok(self.row)
    }

    fn texts(&self, json: &str) -> Result<Vec<String>, StoreError> {
        serde_json::from_str(json).map_err(|cause| StoreError::Damaged {
            session: self.row.id.clone(),
            at: self.row.head,
            source: cause.into(),
        })
    }
}

/// Reads [`COLUMNS`], which do not include the snapshot.
pub(super) fn read_row(row: &Row<'_>) -> rusqlite::Result<RawRow> {
    let parent: Option<String> = row.get(11)?;
    let fork: Option<i64> = row.get(12)?;
    Ok(RawRow {
        roots: row.get(2)?,
        natives: row.get(6)?,
        owner: NamedOwner::read(row, 16)?,
        row: SessionRow {
            id: SessionId(row.get(0)?),
            cwd: row.get(1)?,
            roots: Vec::new(),
            // Earlier versions stored titles without cleaning them.
            title: row
                .get::<_, Option<String>>(3)?
                .map(|title| clean_title(&title))
                .zip(row.get::<_, Option<i64>>(4)?.map(title_source)),
            agent: row.get(5)?,
            natives: Vec::new(),
            updated_at: from_sql(row.get(7)?),
            head: seq_from_sql(row.get(8)?),
            snapshot: None,
            archived: if row.get(9)? { Archived::Yes } else { Archived::No },
            deleted: deleted(row, 10)?,
            owner: None,
            parent: parent.map(SessionId).zip(fork.map(seq_from_sql)),
            agent_name: row.get(13)?,
            release_asked_at: row.get::<_, Option<i64>>(14)?.map(from_sql),
            listed: row.get::<_, bool>(15)?.then_some(Listed),
        },
    })
}

/// The number for the source of a title: a smaller number is a stronger source.
pub(super) fn title_number(by: TitleSource) -> i64 {
    match by {
        TitleSource::User => 0,
        TitleSource::Agent => 1,
        TitleSource::Prompt => 2,
    }
}

fn title_source(number: i64) -> TitleSource {
    match number {
        0 => TitleSource::User,
        1 => TitleSource::Agent,
        _ => TitleSource::Prompt,
    }
}

fn read_session_head(row: &Row<'_>) -> rusqlite::Result<SessionHead> {
    Ok(SessionHead {
        key: row.get(0)?,
        epoch: from_sql(row.get(1)?),
        head: seq_from_sql(row.get(2)?),
        deleted: deleted(row, 3)?,
    })
}

fn snapshot(tx: &Transaction<'_>, key: i64) -> Result<Option<Vec<u8>>, SqliteFault> {
    let mut statement = tx.prepare_cached("SELECT state FROM snapshot WHERE session = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

fn deleted(row: &Row<'_>, column: usize) -> rusqlite::Result<Deleted> {
    Ok(if row.get(column)? { Deleted::Yes } else { Deleted::No })
}

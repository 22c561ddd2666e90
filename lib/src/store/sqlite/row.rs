//! The row of a session, as it is read.

use rethread_core::{Seq, SessionId, TitleSource, clean_title};
use rusqlite::{OptionalExtension as _, Row, Transaction};

use super::fault::Fault;
use super::number::{got, got_seq};
use super::owner::{self, Life, Ourselves};
use super::{Archived, Deleted, Ours, Owner, SessionRow, StoreError};

/// What [`read_row`] reads, in its order.
pub(super) const COLUMNS: &str = "uid, cwd, roots, title, title_by, agent, natives, updated_at, head_seq, archived, \
     deleted_at IS NOT NULL, (SELECT p.uid FROM session AS p WHERE p.key = session.parent), fork_seq";

/// What a writer must know of a session before it changes anything.
pub(super) struct Standing {
    pub(super) key: i64,
    pub(super) epoch: u64,
    pub(super) head: Seq,
    pub(super) deleted: Deleted,
}

impl Standing {
    /// Refuses a writer whose epoch is over.
    pub(super) fn check_epoch(&self, session: &SessionId, held: u64) -> Result<(), StoreError> {
        if self.epoch == held {
            return Ok(());
        }
        Err(StoreError::StaleEpoch { session: session.clone(), held, found: self.epoch })
    }
}

/// How a session stands; deleted ones included.
pub(super) fn standing(tx: &Transaction<'_>, session: &SessionId) -> Result<Standing, Fault> {
    let sql = "SELECT key, epoch, head_seq, deleted_at IS NOT NULL FROM session WHERE uid = ?1";
    let found = tx.prepare_cached(sql)?.query_row([session.as_str()], read_standing).optional()?;
    found.ok_or_else(|| StoreError::Unknown(session.clone()).into())
}

/// How a session stands that is not deleted.
pub(super) fn live(tx: &Transaction<'_>, session: &SessionId) -> Result<Standing, Fault> {
    let standing = standing(tx, session)?;
    match standing.deleted {
        Deleted::No => Ok(standing),
        Deleted::Yes => Err(StoreError::Unknown(session.clone()).into()),
    }
}

/// The whole row with its snapshot and its living owner.
pub(super) fn find(
    tx: &Transaction<'_>,
    ourselves: &Ourselves,
    session: &SessionId,
) -> Result<Option<SessionRow>, Fault> {
    let sql = format!("SELECT {COLUMNS}, key FROM session WHERE uid = ?1");
    let read = |row: &Row<'_>| Ok((read_row(row)?, row.get::<_, i64>(13)?));
    let found = tx.prepare_cached(&sql)?.query_row([session.as_str()], read).optional()?;
    let Some((row, key)) = found else { return Ok(None) };
    let mut row = row.whole()?;
    row.snapshot = snapshot(tx, key)?;
    row.owner = living_owner(tx, ourselves, key)?;
    Ok(Some(row))
}

/// The process that has a session, unless it is gone.
pub(super) fn living_owner(
    tx: &Transaction<'_>,
    ourselves: &Ourselves,
    key: i64,
) -> Result<Option<Owner>, Fault> {
    let mut statement = tx.prepare_cached("SELECT owner, owned_since FROM session WHERE key = ?1")?;
    let (id, since) = statement
        .query_row([key], |row| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<i64>>(1)?)))?;
    let Some(id) = id else { return Ok(None) };
    let Some(other) = owner::find(tx, &id)? else { return Ok(None) };
    let ours = match ourselves.life_of(&other)? {
        Life::Ours => Ours::Yes,
        Life::Alive => Ours::No,
        Life::Gone => return Ok(None),
    };
    Ok(Some(Owner { pid: other.process.pid, host: other.process.host, since: got(since.unwrap_or(0)), ours }))
}

/// A row whose JSON columns are still text.
pub(super) struct RawRow {
    row: SessionRow,
    roots: String,
    natives: String,
}

impl RawRow {
    /// Reads the JSON columns too.
    pub(super) fn whole(mut self) -> Result<SessionRow, StoreError> {
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

/// Reads the columns of [`COLUMNS`]. Snapshot and owner are not among them.
pub(super) fn read_row(row: &Row<'_>) -> rusqlite::Result<RawRow> {
    let parent: Option<String> = row.get(11)?;
    let fork: Option<i64> = row.get(12)?;
    Ok(RawRow {
        roots: row.get(2)?,
        natives: row.get(6)?,
        row: SessionRow {
            id: SessionId(row.get(0)?),
            cwd: row.get(1)?,
            roots: Vec::new(),
            // Earlier programs kept titles as they came.
            title: row
                .get::<_, Option<String>>(3)?
                .map(|title| clean_title(&title))
                .zip(row.get::<_, Option<i64>>(4)?.map(title_source)),
            agent: row.get(5)?,
            natives: Vec::new(),
            updated_at: got(row.get(7)?),
            head: got_seq(row.get(8)?),
            snapshot: None,
            archived: if row.get(9)? { Archived::Yes } else { Archived::No },
            deleted: deleted(row, 10)?,
            owner: None,
            parent: parent.map(SessionId).zip(fork.map(got_seq)),
        },
    })
}

/// The number that stands for who gave a title: the smaller, the stronger.
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

fn read_standing(row: &Row<'_>) -> rusqlite::Result<Standing> {
    Ok(Standing {
        key: row.get(0)?,
        epoch: got(row.get(1)?),
        head: got_seq(row.get(2)?),
        deleted: deleted(row, 3)?,
    })
}

fn snapshot(tx: &Transaction<'_>, key: i64) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = tx.prepare_cached("SELECT state FROM snapshot WHERE session = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

fn deleted(row: &Row<'_>, column: usize) -> rusqlite::Result<Deleted> {
    Ok(if row.get(column)? { Deleted::Yes } else { Deleted::No })
}

//! Reads and changes the rows of sessions.

use std::rc::Rc;

use deadpool_postgres::Transaction;
use rethread_core::{Millis, Seq, SessionId, TitleSource, clean_title};
use tokio_postgres::Row;

use super::database::{execute, row, rows};
use super::fault::PgFault;
use super::host::{HOST_COLUMNS, NamedHost};
use super::imports;
use super::open_database::OpenDatabase;
use super::text_column::{from_column, from_columns, to_column, to_columns};
use super::writer::RowColumnChange;
use crate::store::cursor::ListCursor;
use crate::store::integers::{from_sql, seq_from_sql, to_sql};
use crate::store::{
    Archived, ArchivedFilter, Deleted, ListPage, ListQuery, Listed, NativeId, RowFacts, SessionRow,
    StoreError, Stub,
};

/// Marks a row as changed, for [`super::changes`].
pub(super) const CHANGED: &str = "changed_in = pg_current_xact_id()::text::bigint";

/// The columns that [`read_row`] reads, of a row `s` of session and a row `l` of lease.
pub(super) const COLUMNS: &str = "s.id, s.cwd, s.roots, s.title, s.title_by, s.agent, s.natives, s.updated_at, l.folded, \
     l.head, s.archived, s.deleted_at IS NOT NULL AS deleted, \
     (SELECT p.id FROM rethread.session AS p WHERE p.key = s.parent) AS parent_id, s.fork_seq, s.agent_name, \
     s.release_asked_at, s.key, l.epoch, s.listed";

/// What must be checked before a session is changed.
pub(super) struct LeaseHead {
    pub(super) key: i64,
    pub(super) epoch: u64,
    pub(super) head: Seq,
    pub(super) folded: Seq,
    pub(super) deleted: Deleted,
}

impl LeaseHead {
    /// Refuses a writer whose epoch has ended.
    pub(super) fn check_epoch(&self, session: &SessionId, held: u64) -> Result<(), StoreError> {
        if self.epoch == held {
            return Ok(());
        }
        Err(StoreError::StaleEpoch { session: session.clone(), held, found: self.epoch })
    }
}

/// Reads the head of a session, also if it is deleted.
pub(super) async fn session_head(tx: &Transaction<'_>, session: &SessionId) -> Result<LeaseHead, PgFault> {
    head_by(tx, session, "").await
}

/// The same, and locks its lease until the transaction ends: no append, claim or fold comes in between.
pub(super) async fn locked_head(tx: &Transaction<'_>, session: &SessionId) -> Result<LeaseHead, PgFault> {
    head_by(tx, session, "FOR UPDATE OF l").await
}

/// The same for a session that is not deleted.
pub(super) async fn existing_locked_head(
    tx: &Transaction<'_>,
    session: &SessionId,
) -> Result<LeaseHead, PgFault> {
    let head = locked_head(tx, session).await?;
    match head.deleted {
        Deleted::No => Ok(head),
        Deleted::Yes => Err(StoreError::Unknown(session.clone()).into()),
    }
}

async fn head_by(tx: &Transaction<'_>, session: &SessionId, lock: &str) -> Result<LeaseHead, PgFault> {
    let sql = format!(
        "SELECT s.key, l.epoch, l.head, l.folded, s.deleted_at IS NOT NULL
         FROM rethread.session AS s JOIN rethread.lease AS l ON l.session = s.key WHERE s.id = $1 {lock}"
    );
    let found = row(tx, &sql, &[&to_column(session.as_str())]).await?;
    let found = found.ok_or_else(|| StoreError::Unknown(session.clone()))?;
    Ok(LeaseHead {
        key: found.get(0),
        epoch: from_sql(found.get(1)),
        head: seq_from_sql(found.get(2)),
        folded: seq_from_sql(found.get(3)),
        deleted: if found.get(4) { Deleted::Yes } else { Deleted::No },
    })
}

/// Reads [`COLUMNS`], which include neither snapshot nor owner. The head is that of the folded entries.
pub(super) fn read_row(row: &Row) -> SessionRow {
    let parent: Option<String> = row.get("parent_id");
    let fork: Option<i64> = row.get("fork_seq");
    let title: Option<String> = row.get("title");
    SessionRow {
        id: SessionId(from_column(row.get("id"))),
        cwd: from_column(row.get("cwd")),
        roots: from_columns(row.get("roots")),
        title: title
            .map(|title| clean_title(&from_column(title)))
            .zip(row.get::<_, Option<i16>>("title_by").map(title_source)),
        agent: from_column(row.get("agent")),
        natives: from_columns(row.get("natives")),
        updated_at: from_sql(row.get("updated_at")),
        head: seq_from_sql(row.get("folded")),
        snapshot: None,
        archived: if row.get("archived") { Archived::Yes } else { Archived::No },
        deleted: if row.get("deleted") { Deleted::Yes } else { Deleted::No },
        owner: None,
        parent: parent.map(|id| SessionId(from_column(id))).zip(fork.map(seq_from_sql)),
        agent_name: row.get::<_, Option<String>>("agent_name").map(from_column),
        release_asked_at: row.get::<_, Option<i64>>("release_asked_at").map(from_sql),
        listed: row.get::<_, bool>("listed").then_some(Listed),
    }
}

impl OpenDatabase {
    /// Reads a row with its snapshot and live owner.
    pub(super) async fn find(self: Rc<Self>, session: SessionId) -> Result<Option<SessionRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, {HOST_COLUMNS}, (SELECT state FROM rethread.snapshot AS n WHERE n.session = s.key) AS state
             FROM rethread.session AS s JOIN rethread.lease AS l ON l.session = s.key
             LEFT JOIN rethread.host AS h ON h.key = l.host WHERE s.id = $1"
        );
        let id = to_column(session.as_str());
        let found = self.database.query("reading a session", &sql, &[&id]).await?;
        Ok(found.first().map(|row| SessionRow {
            head: seq_from_sql(row.get("head")),
            snapshot: row.get("state"),
            owner: self.host.owner(NamedHost::read(row)),
            ..read_row(row)
        }))
    }

    /// Reads the rows of sessions whose id begins or ends with this text, by two indexes.
    pub(super) async fn find_by_part(
        self: Rc<Self>,
        part: String,
        limit: usize,
    ) -> Result<Vec<SessionRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM rethread.session AS s JOIN rethread.lease AS l ON l.session = s.key
             WHERE s.deleted_at IS NULL
               AND (s.id BETWEEN $1 AND $1 || repeat(chr(1114111), 2) AND starts_with(s.id, $1)
                    OR reverse(s.id) COLLATE \"C\" BETWEEN reverse($1) AND reverse($1) || repeat(chr(1114111), 2)
                       AND starts_with(reverse(s.id), reverse($1)))
             ORDER BY s.updated_at DESC, s.id DESC LIMIT $2"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.database.query("finding a session", &sql, &[&to_column(&part), &limit]).await?;
        Ok(found.iter().map(read_row).collect())
    }

    /// Reads one page of a list, by key instead of offset: every page costs the same.
    pub(super) async fn list(self: Rc<Self>, query: ListQuery) -> Result<ListPage, StoreError> {
        let after = query.after.as_deref().map(ListCursor::decode).transpose()?;
        let archived: &[bool] = match query.archived {
            ArchivedFilter::Exclude => &[false],
            ArchivedFilter::Only => &[true],
            ArchivedFilter::Include => &[false, true],
        };
        let directories =
            query.spellings().map_or_else(|| vec![None], |both| both.into_iter().map(Some).collect());
        let mut found = Vec::new();
        for archived in archived {
            for cwd in &directories {
                found.extend(self.listed(&query, cwd.as_deref(), after.as_ref(), *archived).await?);
            }
        }
        found.sort_by_cached_key(|row| std::cmp::Reverse(ListCursor::after(row)));
        Ok(ListPage::of(found, query.limit))
    }

    /// One row more than the page has, to know whether there is a next page.
    async fn listed(
        &self,
        query: &ListQuery,
        cwd: Option<&str>,
        after: Option<&ListCursor>,
        archived: bool,
    ) -> Result<Vec<SessionRow>, StoreError> {
        let (time, id) =
            after.map_or((i64::MAX, ""), |cursor| (to_sql(cursor.updated_at), cursor.uid.as_str()));
        let limit = i64::try_from(query.limit.max(1).saturating_add(1)).unwrap_or(i64::MAX);
        let (cwd, agent) = (cwd.map(to_column), query.agent.as_deref().map(to_column));
        let cwd_is = if cwd.is_some() { "s.cwd = $5 AND" } else { "$5::text IS NULL AND" };
        let agent_is = if agent.is_some() { AGENT_IS } else { "$6::text IS NULL AND" };
        let sql = format!(
            "SELECT {COLUMNS}, {HOST_COLUMNS} FROM rethread.session AS s JOIN rethread.lease AS l ON l.session = s.key
             LEFT JOIN rethread.host AS h ON h.key = l.host
             WHERE {cwd_is} {agent_is} s.archived = $1 AND s.listed AND s.deleted_at IS NULL
               AND (s.updated_at, s.id) < ($2, $3)
             ORDER BY s.updated_at DESC, s.id DESC LIMIT $4"
        );
        let parameters: super::database::Parameters<'_> =
            &[&archived, &time, &to_column(id), &limit, &cwd, &agent];
        let found = self.database.query("listing sessions", &sql, parameters).await?;
        let owner = |row: &Row| self.host.owner(NamedHost::read(row));
        Ok(found.iter().map(|row| SessionRow { owner: owner(row), ..read_row(row) }).collect())
    }

    /// Stores what an agent lists. Known sessions, including deleted ones, stay unchanged; stubs are updated.
    pub(super) async fn add_stubs(self: Rc<Self>, agent: String, stubs: Vec<Stub>) -> Result<(), StoreError> {
        let agent = to_column(&agent);
        self.database
            .write("storing a list of an agent", async |tx| {
                for stub in &stubs {
                    add_stub(tx, &agent, stub).await?;
                }
                Ok(())
            })
            .await
    }
}

/// A condition on the agents of a session.
pub(super) const AGENT_IS: &str =
    "(strpos(translate(s.agent, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'),
          translate($6, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')) > 0
     OR EXISTS (SELECT FROM rethread.native AS n WHERE n.session = s.key
          AND strpos(translate(n.agent, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'),
                     translate($6, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')) > 0)) AND";

async fn add_stub(tx: &Transaction<'_>, agent: &str, stub: &Stub) -> Result<(), PgFault> {
    let id = to_column(stub.id.as_str());
    let known = row(tx, "SELECT FROM rethread.native WHERE agent = $1 AND id = $2", &[&agent, &id]).await?;
    if known.is_some() {
        return Ok(());
    }
    let sql = format!(
        "INSERT INTO rethread.session (id, made_by, cwd, agent, title, title_by, updated_at, listed, changed_in)
         VALUES ($1, gen_random_uuid(), $2, $3, $4, CASE WHEN $4::text IS NULL THEN NULL ELSE 1 END, $5, true,
                 pg_current_xact_id()::text::bigint)
         ON CONFLICT (id) DO UPDATE SET
             title = CASE WHEN session.title_by = 0 THEN session.title ELSE excluded.title END,
             title_by = CASE WHEN session.title_by = 0 THEN 0 ELSE excluded.title_by END,
             updated_at = excluded.updated_at, {CHANGED}
         WHERE session.deleted_at IS NULL AND session.key IN (SELECT session FROM rethread.lease WHERE head = 0)
         RETURNING key"
    );
    let title = stub.title.as_deref().map(to_column);
    let (cwd, at) = (to_column(&stub.cwd), to_sql(stub.updated_at));
    if let Some(row) = row(tx, &sql, &[&id, &cwd, &agent, &title, &at]).await? {
        let sql = "INSERT INTO rethread.lease (session, epoch, head, folded) VALUES ($1, 0, 0, 0) ON CONFLICT DO NOTHING";
        execute(tx, sql, &[&row.get::<_, i64>(0)]).await?;
    }
    Ok(())
}

/// The condition for a row `s` that only comes from an agent's list.
const IS_STUB: &str = "s.deleted_at IS NULL
    AND EXISTS (SELECT FROM rethread.lease AS l WHERE l.session = s.key AND l.head = 0 AND l.host IS NULL)";

/// Deletes the stub with this id to make room for a session.
pub(super) async fn remove_stub(tx: &Transaction<'_>, id: &str) -> Result<(), PgFault> {
    let sql = format!("DELETE FROM rethread.session AS s WHERE s.id = $1 AND {IS_STUB}");
    execute(tx, &sql, &[&id]).await?;
    Ok(())
}

/// Records an agent's id for a session, and removes the stub that the agent may have listed under it.
async fn remember_native(tx: &Transaction<'_>, key: i64, native: &NativeId) -> Result<(), PgFault> {
    let (agent, id) = (to_column(&native.agent), to_column(&native.id));
    let sql = format!(
        "DELETE FROM rethread.session AS s WHERE s.id = $2 AND s.agent = $1 AND s.key <> $3 AND {IS_STUB}"
    );
    execute(tx, &sql, &[&agent, &id, &key]).await?;
    let sql = "INSERT INTO rethread.native (agent, id, session) VALUES ($1, $2, $3)
               ON CONFLICT (agent, id) DO UPDATE SET session = excluded.session";
    execute(tx, sql, &[&agent, &id, &key]).await?;
    let sql = format!(
        "UPDATE rethread.session SET natives = natives || $2, {CHANGED}
         WHERE key = $1 AND deleted_at IS NULL AND natives[cardinality(natives)] IS DISTINCT FROM $2"
    );
    execute(tx, &sql, &[&key, &id]).await?;
    Ok(())
}

/// The changes of a row that an append makes by itself; the native id and the import are apart.
pub(super) fn row_change(facts: &RowFacts, at: Option<Millis>) -> Option<RowColumnChange> {
    let RowFacts { title, roots, native: _, listed, cwd, agent_name, import: _ } = facts;
    let nothing =
        title.is_none() && roots.is_none() && listed.is_none() && cwd.is_none() && agent_name.is_none();
    if nothing && at.is_none() {
        return None;
    }
    Some(RowColumnChange {
        title: title.as_ref().map(|(title, by)| (to_column(title), title_number(*by))),
        roots: roots.as_ref().map(|roots| serde_json::json!(to_columns(roots)).to_string()),
        listed: listed.is_some(),
        cwd: cwd.as_deref().map(to_column),
        agent_name: agent_name.as_ref().map(|name| name.0.as_deref().map(to_column)),
        at: at.map(to_sql),
    })
}

/// Stores the native id and the import of an append or a new session.
pub(super) async fn store_rare_facts(
    tx: &Transaction<'_>,
    key: i64,
    facts: &RowFacts,
) -> Result<(), PgFault> {
    if let Some(record) = &facts.import {
        imports::remember(tx, record).await?;
    }
    match &facts.native {
        Some(native) => remember_native(tx, key, native).await,
        None => Ok(()),
    }
}

/// The sessions that have these keys, with their ids.
pub(super) async fn id_of(tx: &Transaction<'_>, key: i64) -> Result<SessionId, PgFault> {
    let found = rows(tx, "SELECT id FROM rethread.session WHERE key = $1", &[&key]).await?;
    Ok(SessionId(found.first().map_or_else(String::new, |row| from_column(row.get(0)))))
}

/// The number for the source of a title: a smaller number is a stronger source.
pub(super) fn title_number(by: TitleSource) -> i16 {
    match by {
        TitleSource::User => 0,
        TitleSource::Agent => 1,
        TitleSource::Prompt => 2,
    }
}

fn title_source(number: i16) -> TitleSource {
    match number {
        0 => TitleSource::User,
        1 => TitleSource::Agent,
        _ => TitleSource::Prompt,
    }
}

//! What the store says of a journal that is to be indexed: for which session its text is shown, up to where, and in which
//! scope. Text that a deleted session shares with forks is shown for one of them.

use rethread_core::{Seq, SessionId};
use rusqlite::{OptionalExtension as _, Transaction};

use crate::store::embedded::chain::files_of;
use crate::store::embedded::fault::SqliteFault;
use crate::store::embedded::integers::{from_sql, seq_from_sql};
use crate::store::embedded::open_store::OpenStore;
use crate::store::embedded::row::live_owner;
use crate::store::search::bare_directory;

/// The end of a journal that is shown to its end.
const NO_CUT: Seq = Seq(i64::MAX as u64);

/// A journal whose text is shown.
#[derive(Debug)]
pub(super) struct JournalFacts {
    pub(super) key: i64,
    /// The session that the text is shown for.
    pub(super) shown: ShownAs,
    /// The session through which the journal is read.
    pub(super) reader: SessionId,
    /// The journal's own entries begin behind this one.
    pub(super) after: Seq,
    pub(super) liveness: JournalLiveness,
    /// What the store has of the journal: if it is the same as before, there is nothing new.
    pub(super) state: String,
}

/// For which session a text is shown, and where it can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownAs {
    pub(super) key: i64,
    /// The last entry that is shown.
    pub(super) cut: Seq,
    /// The working directory and the agents.
    pub(super) scope: SearchScope,
}

/// The directory and the agents of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SearchScope {
    pub(super) cwd: String,
    pub(super) agents: Vec<String>,
}

/// Whether entries may be added to a journal now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalLiveness {
    /// A process has the session open.
    Live,
    /// Nobody has.
    AtRest,
}

impl SearchScope {
    /// The scope as one text, to be compared.
    pub(super) fn text(&self) -> String {
        let agents = self.agents.iter().map(|agent| format!("\n{agent}"));
        std::iter::once(self.cwd.clone()).chain(agents).collect()
    }
}

/// What is read of the row of a session.
struct SessionColumns {
    uid: String,
    cwd: String,
    agent: String,
    deleted: bool,
    head: i64,
    fork: i64,
}

impl OpenStore {
    /// What the store says of a journal; nothing if its text is not shown.
    pub(super) fn journal_facts(
        &self,
        tx: &Transaction<'_>,
        key: i64,
    ) -> Result<Option<JournalFacts>, SqliteFault> {
        let Some(own) = row_facts(tx, key)? else { return Ok(None) };
        let (shown, cut) = match own.deleted {
            false => (key, NO_CUT),
            true => match living_fork(tx, key, own.fork)? {
                Some(fork) => fork,
                None => return Ok(None),
            },
        };
        let Some(row) = row_facts(tx, shown)? else { return Ok(None) };
        let live = shown == key && live_owner(tx, &self.this_process, key)?.is_some();
        let liveness = if live { JournalLiveness::Live } else { JournalLiveness::AtRest };
        let scope = scope(tx, shown, &row)?;
        Ok(Some(JournalFacts {
            key,
            state: self.journal_state(tx, key, own.head, liveness)?,
            shown: ShownAs { key: shown, cut, scope },
            reader: SessionId(row.uid),
            after: Seq(from_sql(own.fork)),
            liveness,
        }))
    }

    fn journal_state(
        &self,
        tx: &Transaction<'_>,
        key: i64,
        head: i64,
        liveness: JournalLiveness,
    ) -> Result<String, SqliteFault> {
        let mut state = format!("{head} {liveness:?}");
        for name in files_of(tx, key)? {
            let length = self.folder().used_bytes(&name);
            state += &format!(" {}.{}:{length}", name.epoch, name.number);
        }
        Ok(state)
    }
}

fn row_facts(tx: &Transaction<'_>, key: i64) -> Result<Option<SessionColumns>, SqliteFault> {
    let sql = "SELECT uid, cwd, agent, deleted_at IS NOT NULL, head_seq, coalesce(fork_seq, 0)
               FROM session WHERE key = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        Ok(SessionColumns {
            uid: row.get(0)?,
            cwd: row.get(1)?,
            agent: row.get(2)?,
            deleted: row.get(3)?,
            head: row.get(4)?,
            fork: row.get(5)?,
        })
    };
    Ok(tx.prepare_cached(sql)?.query_row([key], read).optional()?)
}

/// The fork of a deleted session that shows most of its text behind `after`, and up to which entry.
fn living_fork(tx: &Transaction<'_>, key: i64, after: i64) -> Result<Option<(i64, Seq)>, SqliteFault> {
    let sql = "WITH RECURSIVE fork (key, cut, deleted) AS (
                   SELECT key, fork_seq, deleted_at IS NOT NULL FROM session WHERE parent = ?1
                   UNION ALL
                   SELECT session.key, min(session.fork_seq, fork.cut), session.deleted_at IS NOT NULL
                   FROM session JOIN fork ON session.parent = fork.key
               )
               SELECT key, cut FROM fork WHERE deleted = 0 AND cut > ?2 ORDER BY cut DESC, key LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, seq_from_sql(row.get(1)?)));
    Ok(tx.prepare_cached(sql)?.query_row([key, after], read).optional()?)
}

fn scope(tx: &Transaction<'_>, key: i64, row: &SessionColumns) -> Result<SearchScope, SqliteFault> {
    let mut statement =
        tx.prepare_cached("SELECT DISTINCT agent FROM native WHERE session = ?1 ORDER BY agent")?;
    let named = statement.query_map([key], |row| row.get(0))?;
    let mut agents = named.collect::<Result<Vec<String>, _>>()?;
    if !agents.contains(&row.agent) {
        agents.push(row.agent.clone());
    }
    Ok(SearchScope { cwd: bare_directory(&row.cwd).to_owned(), agents })
}

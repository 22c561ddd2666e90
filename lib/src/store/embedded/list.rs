//! Lists sessions, newest first, by key instead of offset: every page costs the same.

use rethread_core::Millis;
use rusqlite::{Connection, ToSql, Transaction, named_params, params};

use super::fault::SqliteFault;
use super::integers::{from_sql, to_sql};
use super::owner::ThisProcess;
use super::row::{COLUMNS, read_row};
use super::{ArchivedFilter, ListPage, ListQuery, SessionRow};
use crate::store::cursor::ListCursor;

const NO: i64 = 0;
const YES: i64 = 1;

pub(super) fn list(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    query: &ListQuery,
    after: Option<&ListCursor>,
) -> Result<ListPage, SqliteFault> {
    let archived: &[i64] = match query.archived {
        ArchivedFilter::Exclude => &[NO],
        ArchivedFilter::Only => &[YES],
        ArchivedFilter::Include => &[NO, YES],
    };
    let directories =
        query.spellings().map_or_else(|| vec![None], |both| both.into_iter().map(Some).collect());
    // Each directory spelling yields rows in order.
    let mut found = Vec::new();
    for archived in archived {
        for cwd in &directories {
            found.extend(rows(tx, this_process, query, cwd.as_deref(), after, *archived)?);
        }
    }
    found.sort_by_cached_key(|row| std::cmp::Reverse(ListCursor::after(row)));
    Ok(ListPage::of(found, query.limit))
}

/// Reads one row more than the page has, to know whether there is a next page.
fn rows(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    query: &ListQuery,
    cwd: Option<&str>,
    after: Option<&ListCursor>,
    archived: i64,
) -> Result<Vec<SessionRow>, SqliteFault> {
    let (time, uid) = after.map_or((i64::MAX, ""), |cursor| (to_sql(cursor.updated_at), cursor.uid.as_str()));
    let limit = i64::try_from(query.limit.max(1).saturating_add(1)).unwrap_or(i64::MAX);
    let agent = query.agent.as_deref();
    let mut statement = tx.prepare_cached(&sql(cwd, agent))?;
    let named = named_params! {":archived": archived, ":time": time, ":uid": uid, ":limit": limit};
    let filters = [(":cwd", cwd), (":agent", agent)];
    let filters = filters.iter().filter_map(|(name, value)| Some((*name, value.as_ref()? as &dyn ToSql)));
    let parameters: Vec<(&str, &dyn ToSql)> = named.iter().copied().chain(filters).collect();
    let mut found = statement.query(parameters.as_slice())?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(read_row(row)?.parse_owned(tx, this_process)?);
    }
    Ok(rows)
}

fn sql(cwd: Option<&str>, agent: Option<&str>) -> String {
    let cwd = if cwd.is_some() { "cwd = :cwd AND" } else { "" };
    let named = |column: &str| format!("instr(lower({column}), lower(:agent)) > 0");
    let agent = agent.map_or_else(String::new, |_| {
        format!(
            "({} OR key IN (SELECT session FROM native WHERE {})) AND",
            named("session.agent"),
            named("native.agent")
        )
    });
    format!(
        "SELECT {COLUMNS} FROM session
         WHERE {cwd} {agent} archived = :archived AND listed = 1 AND deleted_at IS NULL AND (updated_at, uid) < (:time, :uid)
         ORDER BY updated_at DESC, uid DESC LIMIT :limit"
    )
}

/// Reads the rows of sessions whose id begins or ends with this text. Visits all rows: no index has the ends of ids.
pub(super) fn find_by_part(
    tx: &Transaction<'_>,
    this_process: &ThisProcess,
    part: &str,
    limit: usize,
) -> Result<Vec<SessionRow>, SqliteFault> {
    let sql = format!(
        "SELECT {COLUMNS} FROM session
         WHERE deleted_at IS NULL AND (substr(uid, 1, length(?1)) = ?1 OR substr(uid, -length(?1)) = ?1)
         ORDER BY updated_at DESC, uid DESC LIMIT ?2"
    );
    let mut statement = tx.prepare_cached(&sql)?;
    let mut found = statement.query(params![part, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(read_row(row)?.parse_owned(tx, this_process)?);
    }
    Ok(rows)
}

/// The latest time of all listed sessions.
pub(super) fn newest(connection: &Connection) -> rusqlite::Result<Millis> {
    let sql = "SELECT max(
            coalesce((SELECT updated_at FROM session WHERE archived = 0 AND listed = 1 AND deleted_at IS NULL
                ORDER BY updated_at DESC LIMIT 1), 0),
            coalesce((SELECT updated_at FROM session WHERE archived = 1 AND listed = 1 AND deleted_at IS NULL
                ORDER BY updated_at DESC LIMIT 1), 0))";
    connection.query_row(sql, [], |row| row.get(0).map(from_sql))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// Every page is one index scan that starts at the cursor.
    #[test]
    fn a_page_is_one_index_scan() {
        for (cwd, index) in [(None, "session_by_age"), (Some("/w"), "session_by_cwd")] {
            let plan = plan(&sql(cwd, None));
            assert!(plan.contains(&format!("SEARCH session USING INDEX {index} ")), "{plan}");
            assert!(plan.contains("(updated_at,uid)<(?,?)"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{plan}");
        }
    }

    fn plan(sql: &str) -> String {
        let mut connection = Connection::open_in_memory().unwrap();
        let tx = connection.transaction().unwrap();
        crate::store::embedded::migrate::run(&tx, 0).unwrap();
        tx.commit().unwrap();
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let lines = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        lines.map(|line| line.unwrap() + "\n").collect()
    }
}

//! What `rethread doctor` wants to know of a PostgreSQL store: the server, settings that break promises, standbys, sizes.

use std::rc::Rc;

use super::PostgresStore;
use super::migrate::LATEST_VERSION;
use super::open_database::OpenDatabase;
use super::text_column::from_column;
use crate::store::integers::from_sql;
use crate::store::{HostNumber, StoreError};

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct PostgresInspection {
    /// The version of the server, in its own words.
    pub server: String,
    /// The version of the schema.
    pub schema: i64,
    /// The settings that promises depend on, with their values.
    pub settings: Vec<(String, String)>,
    /// The standbys that receive changes.
    pub standbys: Vec<Standby>,
    /// Whether the server is a standby itself, which cannot be written.
    pub in_recovery: bool,
    /// How many sessions lists have.
    pub sessions: u64,
    /// The bytes of all tables of the store, with their indexes.
    pub bytes: u64,
    /// The entries that are not folded yet, and the dead rows among them, as the server estimates them.
    pub tail: (u64, u64),
    /// The sessions that have something to be indexed.
    pub unindexed: u64,
    /// The hosts.
    pub hosts: Vec<InspectedHost>,
    /// Whether statements of this role may read what standbys there are.
    pub sees_standbys: bool,
}

/// A standby of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    /// Its name.
    pub name: String,
    /// `sync`, `quorum`, `potential` or `async`.
    pub sync_state: String,
    /// How many bytes it is behind.
    pub lag_bytes: u64,
}

/// A host as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedHost {
    /// Its number.
    pub number: HostNumber,
    /// The name of the machine.
    pub name: String,
    /// The process id.
    pub pid: u64,
    /// Whether its lease is valid.
    pub valid: bool,
    /// The sessions that it owns.
    pub sessions: u64,
    /// Where other hosts reach it; nothing if it serves none.
    pub address: Option<String>,
}

/// The settings that promises depend on.
const SETTINGS: [&str; 4] = ["fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names"];

impl PostgresStore {
    /// Looks at the server and the tables. Changes nothing.
    pub async fn inspect(&self) -> Result<PostgresInspection, StoreError> {
        self.call(async move |store: Rc<OpenDatabase>| store.inspect().await).await
    }
}

impl OpenDatabase {
    async fn inspect(&self) -> Result<PostgresInspection, StoreError> {
        const WHAT: &str = "inspecting the store";
        let query = async |sql: &str| self.database.query(WHAT, sql, &[]).await;
        let mut found = PostgresInspection { schema: LATEST_VERSION, ..PostgresInspection::default() };
        let sql = "SELECT current_setting('server_version'), pg_is_in_recovery(),
                          (SELECT count(*) FROM rethread.session WHERE listed AND deleted_at IS NULL),
                          (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
                           WHERE c.relnamespace = 'rethread'::regnamespace AND c.relkind = 'r'),
                          (SELECT coalesce(sum(n_live_tup), 0)::bigint FROM pg_stat_user_tables
                           WHERE schemaname = 'rethread' AND relname LIKE 'tail\\_%'),
                          (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables
                           WHERE schemaname = 'rethread' AND relname LIKE 'tail\\_%'),
                          (SELECT count(DISTINCT session) FROM rethread.search_pending),
                          pg_has_role(current_user, 'pg_monitor', 'USAGE')";
        if let Some(row) = query(sql).await?.first() {
            found.server = row.get(0);
            found.in_recovery = row.get(1);
            found.sessions = from_sql(row.get(2));
            found.bytes = from_sql(row.get(3));
            found.tail = (from_sql(row.get(4)), from_sql(row.get(5)));
            found.unindexed = from_sql(row.get(6));
            found.sees_standbys = row.get(7);
        }
        for setting in SETTINGS {
            let sql = "SELECT coalesce(current_setting($1, true), '')";
            let rows = self.database.query(WHAT, sql, &[&setting]).await?;
            found.settings.extend(rows.first().map(|row| (setting.to_owned(), row.get(0))));
        }
        let sql = "SELECT coalesce(application_name, ''), coalesce(sync_state, ''),
                          coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint
                   FROM pg_stat_replication";
        if !found.in_recovery {
            let standby = |row: &tokio_postgres::Row| Standby {
                name: row.get(0),
                sync_state: row.get(1),
                lag_bytes: from_sql(row.get(2)),
            };
            found.standbys = query(sql).await?.iter().map(standby).collect();
        }
        let sql = "SELECT h.name, h.pid, h.expires_at > clock_timestamp(),
                          (SELECT count(*) FROM rethread.lease AS l WHERE l.host = h.key), h.key, h.address
                   FROM rethread.host AS h ORDER BY h.key";
        let host = |row: &tokio_postgres::Row| InspectedHost {
            name: from_column(row.get(0)),
            pid: from_sql(row.get(1)),
            valid: row.get(2),
            sessions: from_sql(row.get(3)),
            number: HostNumber(row.get(4)),
            address: row.get::<_, Option<String>>(5).map(from_column),
        };
        found.hosts = query(sql).await?.iter().map(host).collect();
        Ok(found)
    }
}

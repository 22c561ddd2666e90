//! Inspects the database: version, structure, segments, sessions and owners. Opens it read-only.

use std::path::Path;
use std::time::Instant;

use rethread_core::{SessionId, stored};
use rusqlite::{Connection, OpenFlags};

use super::super::fault::SqliteFault;
use super::super::files::with_suffix;
use super::super::integers::{from_sql, seq_from_sql};
use super::super::migrate::{LATEST_VERSION, version};
use super::super::owner::{Liveness, OwnerRow, liveness};
use super::super::reading::{self, ReadConnection};
use super::super::segment::unpack;
use super::super::{EmbeddedPaths, StoreError};
use super::{
    Budget, DamagedSessions, InspectedOwner, Inspection, InspectionDepth, OwnerState, StoreLeftover,
    StoreProblem,
};
use crate::store::process::ProcessIdentity;
use crate::wire::with_causes;

/// How many steps of SQLite pass between two looks at the clock.
const STEPS: i32 = 50_000;

/// How many messages of SQLite's own check are reported.
const MESSAGES: usize = 5;

/// Opens the database and reads its version; nothing if that is not possible.
pub(super) fn connect(paths: &EmbeddedPaths, inspection: &mut Inspection) -> Option<Connection> {
    let opened = open(&paths.database).map_err(SqliteFault::from);
    let opened = opened.and_then(|connection| Ok((version(&connection)?, connection)));
    let problem = match opened {
        Ok((found, connection)) => {
            inspection.version = Some(found);
            if found < LATEST_VERSION {
                inspection.problems.push(StoreProblem::Older(found));
            }
            return Some(connection);
        }
        Err(SqliteFault::Refused(StoreError::Newer { found, .. })) => {
            inspection.version = Some(found);
            StoreProblem::Newer(found)
        }
        Err(SqliteFault::Refused(other)) => StoreProblem::NotOurs(with_causes(&other)),
        Err(SqliteFault::Failed(error)) => {
            let (path, cause) = (paths.database.clone(), error.to_string());
            match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::NotADatabase) => StoreProblem::NotOurs(cause),
                Some(rusqlite::ErrorCode::DatabaseCorrupt) => StoreProblem::DatabaseDamaged(cause),
                Some(_) | None => StoreProblem::Unreadable { path, cause },
            }
        }
    };
    inspection.problems.push(problem);
    None
}

/// Without a log nobody uses the database, and it need not even be locked: no file is made beside it.
fn open(database: &Path) -> rusqlite::Result<Connection> {
    let in_use = with_suffix(database, "-wal").exists();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if in_use {
        match reading::open_with(database, || Connection::open_with_flags(database, flags))? {
            ReadConnection::Shared(connection) => connection,
            ReadConnection::Alone(alone) => alone.connection,
        }
    } else {
        reading::open_immutable(database)?
    };
    connection.busy_timeout(super::TIME_LIMIT)?;
    Ok(connection)
}

/// Inspects what the database says by itself.
pub(super) fn inspect(
    connection: &mut Connection,
    paths: &EmbeddedPaths,
    depth: InspectionDepth,
    inspection: &mut Inspection,
) {
    check_structure(connection, depth, inspection);
    if inspection.version != Some(LATEST_VERSION) {
        return;
    }
    let read = count_sessions(connection, inspection)
        .and_then(|()| find_owners(connection, paths, inspection))
        .and_then(|()| check_segments(connection, depth, inspection));
    match read {
        Ok(damaged) => inspection.problems.extend(damaged.others()),
        Err(fault) => {
            let cause = with_causes(&fault.at("reading", &paths.database));
            inspection.problems.push(StoreProblem::DatabaseDamaged(cause));
        }
    }
}

/// Has SQLite check its own structure. A bounded check is interrupted when its time is over.
fn check_structure(connection: &mut Connection, depth: InspectionDepth, inspection: &mut Inspection) {
    let pragma = match depth {
        InspectionDepth::Bounded => "PRAGMA quick_check(5)",
        InspectionDepth::Full => "PRAGMA integrity_check(5)",
    };
    if let Some(until) = Budget::of(depth).until {
        // If it cannot be set, the check takes as long as it takes.
        let _ = connection.progress_handler(STEPS, Some(move || Instant::now() >= until));
    }
    let checked = connection.prepare(pragma).and_then(|mut statement| {
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        rows.collect::<Result<Vec<_>, _>>()
    });
    let _ = connection.progress_handler(0, None::<fn() -> bool>);
    match checked {
        Ok(messages) if messages == ["ok"] => inspection.coverage.database = true,
        Ok(messages) => {
            inspection.coverage.database = true;
            let said = messages.iter().take(MESSAGES).map(|message| message.replace('\n', " "));
            inspection.problems.push(StoreProblem::DatabaseDamaged(said.collect::<Vec<_>>().join("; ")));
        }
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => {}
        Err(error) => inspection.problems.push(StoreProblem::DatabaseDamaged(error.to_string())),
    }
}

fn count_sessions(connection: &Connection, inspection: &mut Inspection) -> Result<(), SqliteFault> {
    let sql =
        "SELECT coalesce(sum(listed = 1 AND archived = 0), 0), coalesce(sum(listed = 1 AND archived = 1), 0),
                      coalesce(sum(listed = 0), 0) FROM session WHERE deleted_at IS NULL";
    let counts = &mut inspection.sessions;
    connection.query_row(sql, [], |row| {
        counts.listed = from_sql(row.get(0)?);
        counts.archived = from_sql(row.get(1)?);
        counts.empty = from_sql(row.get(2)?);
        Ok(())
    })?;
    Ok(())
}

fn find_owners(
    connection: &Connection,
    paths: &EmbeddedPaths,
    inspection: &mut Inspection,
) -> Result<(), SqliteFault> {
    let sql = "SELECT id, pid, host, boot, started_at,
                      (SELECT count(*) FROM session WHERE session.owner = owner.id AND deleted_at IS NULL)
               FROM owner ORDER BY started_at";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let process = ProcessIdentity { pid: row.get(1)?, host: row.get(2)?, boot: row.get(3)? };
        Ok((OwnerRow { id: row.get(0)?, process }, from_sql(row.get(4)?), from_sql(row.get(5)?)))
    })?;
    for row in rows {
        let (owner, since, sessions) = row?;
        let state = match liveness(&ProcessIdentity::this(), &paths.locks, &owner)? {
            Liveness::ThisProcess | Liveness::Alive => OwnerState::Alive,
            Liveness::Gone => OwnerState::Gone,
        };
        let OwnerRow { id, process: ProcessIdentity { pid, host, .. } } = owner;
        if state == OwnerState::Gone {
            inspection.problems.push(StoreProblem::Left(StoreLeftover::StaleOwner {
                pid,
                host: host.clone(),
                sessions,
            }));
        }
        inspection.owners.push(InspectedOwner { id, pid, host, since, state, sessions });
    }
    Ok(())
}

/// Reads segments, the newest first.
fn check_segments(
    connection: &Connection,
    depth: InspectionDepth,
    inspection: &mut Inspection,
) -> Result<DamagedSessions, SqliteFault> {
    let (mut budget, mut damaged) = (Budget::of(depth), DamagedSessions::default());
    let total: i64 = connection.query_row("SELECT count(*) FROM segment", [], |row| row.get(0))?;
    inspection.coverage.segments.1 = from_sql(total);
    let sql = "SELECT session.uid, segment.first_seq, segment.length, segment.checksum, segment.items
               FROM segment JOIN session ON session.key = segment.session ORDER BY segment.key DESC";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if budget.is_spent() {
            break;
        }
        let items = row.get_ref(4)?.as_blob().unwrap_or_default();
        budget.spend(items.len() as u64);
        inspection.coverage.segments.0 += 1;
        let plain = unpack(row.get(2)?, row.get(3)?, items).map_err(|error| with_causes(&error));
        let read =
            plain.and_then(|plain| stored::decode_segment(&plain).map_err(|error| with_causes(&error)));
        if let Err(cause) = read {
            let (session, at) = (SessionId(row.get(0)?), seq_from_sql(row.get(1)?));
            if damaged.is_news(&session) {
                inspection.problems.push(StoreProblem::SegmentDamaged { session, at, cause });
            }
        }
    }
    Ok(damaged)
}

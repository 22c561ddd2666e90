//! Inspects the journal files: whether those that are registered can be read, and which are not in use.

use std::collections::HashSet;

use rethread_core::{Seq, SessionId};
use rusqlite::{Connection, Transaction};

use super::super::EmbeddedPaths;
use super::super::chain::{Chain, ChainFault, FileName, JournalFolder, Visit, files_of};
use super::super::fault::SqliteFault;
use super::super::integers::seq_from_sql;
use super::super::migrate::store_id;
use super::folder::{entries, is_old};
use super::{Budget, DamagedSessions, Inspection, InspectionDepth, OwnerState, StoreLeftover, StoreProblem};
use crate::wire::with_causes;

/// How often a session is read again because its files were folded meanwhile.
const ATTEMPTS: usize = 3;

/// A session that has journal files.
struct SessionWithFiles {
    id: SessionId,
    key: i64,
    /// Whether a process that lives has it open.
    live: bool,
}

pub(super) fn inspect(
    connection: &mut Connection,
    paths: &EmbeddedPaths,
    depth: InspectionDepth,
    inspection: &mut Inspection,
) {
    if let Err(fault) = inspect_files(connection, paths, depth, inspection) {
        let cause = with_causes(&fault.at("reading", &paths.database));
        inspection.problems.push(StoreProblem::DatabaseDamaged(cause));
    }
}

fn inspect_files(
    connection: &mut Connection,
    paths: &EmbeddedPaths,
    depth: InspectionDepth,
    inspection: &mut Inspection,
) -> Result<(), SqliteFault> {
    let folder = JournalFolder::new(paths.journals(), store_id(connection)?);
    let alive = inspection.owners.iter().filter(|owner| owner.state == OwnerState::Alive);
    let alive: HashSet<String> = alive.map(|owner| owner.id.clone()).collect();
    let sessions = sessions_with_files(&connection.transaction()?, &alive)?;
    inspection.coverage.journals.1 = sessions.len() as u64;
    let (mut budget, mut unfolded, mut damaged) = (Budget::of(depth), 0, DamagedSessions::default());
    for session in &sessions {
        if budget.is_spent() {
            break;
        }
        inspection.coverage.journals.0 += 1;
        let read = read_session(connection, &folder, session)?;
        budget.spend(read.bytes);
        unfolded += u64::from(read.entries > 0 && !session.live);
        inspection.problems.extend(read.problem.filter(|_| damaged.is_news(&session.id)));
    }
    inspection.problems.extend(damaged.others());
    if unfolded > 0 {
        inspection.problems.push(StoreProblem::Left(StoreLeftover::Unfolded(unfolded)));
    }
    unused_files(&connection.transaction()?, paths, inspection)
}

fn sessions_with_files(
    tx: &Transaction<'_>,
    alive: &HashSet<String>,
) -> Result<Vec<SessionWithFiles>, SqliteFault> {
    let sql = "SELECT uid, key, owner FROM session WHERE key IN (SELECT session FROM journal_file)
               ORDER BY updated_at DESC";
    let mut statement = tx.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let owner: Option<String> = row.get(2)?;
        let live = owner.is_some_and(|owner| alive.contains(&owner));
        Ok(SessionWithFiles { id: SessionId(row.get(0)?), key: row.get(1)?, live })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What was read of a session's files.
#[derive(Default)]
struct JournalRead {
    bytes: u64,
    entries: u64,
    problem: Option<StoreProblem>,
}

/// Reads the files of a session. One that has vanished was folded, unless it is still registered.
fn read_session(
    connection: &mut Connection,
    folder: &JournalFolder,
    session: &SessionWithFiles,
) -> Result<JournalRead, SqliteFault> {
    let mut missing = None;
    for _ in 0..ATTEMPTS {
        let tx = connection.transaction()?;
        let names = files_of(&tx, session.key)?;
        let folded: i64 =
            tx.query_row("SELECT head_seq FROM session WHERE key = ?1", [session.key], |row| row.get(0))?;
        drop(tx);
        match read_files(folder, &names, seq_from_sql(folded), session) {
            Err(ChainFault::Vanished(path)) => missing = Some(path),
            Ok(read) => return Ok(read),
            Err(ChainFault::Damaged { at, cause }) => {
                let problem = StoreProblem::JournalDamaged { session: session.id.clone(), at, cause };
                return Ok(JournalRead { problem: Some(problem), ..JournalRead::default() });
            }
            Err(ChainFault::Io(path, error)) => {
                let problem = StoreProblem::Unreadable { path, cause: error.to_string() };
                return Ok(JournalRead { problem: Some(problem), ..JournalRead::default() });
            }
        }
    }
    let session = session.id.clone();
    let problem = missing.map(|path| StoreProblem::JournalMissing { session, path });
    Ok(JournalRead { problem, ..JournalRead::default() })
}

fn read_files(
    folder: &JournalFolder,
    names: &[FileName],
    folded: Seq,
    session: &SessionWithFiles,
) -> Result<JournalRead, ChainFault> {
    let mut read = JournalRead::default();
    let chain = Chain::open(folder, names)?;
    let end = chain.visit(folded.next(), Seq(u64::MAX), |record| {
        read.bytes += record.entry.len() as u64;
        read.entries += 1;
        Visit::Next
    })?;
    // An owner may be writing just now.
    let skipped = end.map_or(0, |end| end.skipped);
    if skipped > 0 && !session.live {
        let session = session.id.clone();
        read.problem = Some(StoreProblem::EndSkipped { session, bytes: skipped });
    }
    Ok(read)
}

/// Files that a crash has left: no row names them.
fn unused_files(
    tx: &Transaction<'_>,
    paths: &EmbeddedPaths,
    inspection: &mut Inspection,
) -> Result<(), SqliteFault> {
    let mut statement = tx.prepare("SELECT DISTINCT session FROM journal_file")?;
    let keys = statement.query_map([], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
    let mut registered = HashSet::new();
    for key in keys {
        registered.extend(files_of(tx, key)?);
    }
    let (mut count, mut bytes) = (0, 0);
    for (name, meta) in entries(&paths.journals(), inspection) {
        let unused = JournalFolder::parse_name(&name).is_some_and(|name| !registered.contains(&name));
        if unused && is_old(&meta) {
            (count, bytes) = (count + 1, bytes + meta.len());
        }
    }
    if count > 0 {
        inspection.problems.push(StoreProblem::Left(StoreLeftover::UnusedFiles { count, bytes }));
    }
    Ok(())
}

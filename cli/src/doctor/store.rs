//! The store: what an inspection found, in words and with remedies; and repairing what can be repaired safely.

use rethread::store::embedded::inspect::{
    InspectedOwner, Inspection, InspectionDepth, OwnerState, StoreLeftover, StoreProblem, inspect,
    supported_version,
};
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::{DriftCount, Store as _};
use rethread::wire::with_causes;
use serde_json::{Value, json};

use super::{Area, Finding, Level};
use crate::failure::Failure;
use crate::output::progress::progress_bar;
use crate::output::size::size;

/// The remedy of everything that `--repair` does.
const REPAIR: &str = "run `rethread doctor --repair`";

/// How many unknown things of imports are listed for people.
const MAX_DRIFT: usize = 20;

/// What is said of the store.
pub(crate) struct StoreReport {
    /// The findings.
    pub(crate) findings: Vec<Finding>,
    /// The same for programs.
    pub(crate) json: Value,
}

/// Inspects the store. Changes nothing.
pub(crate) fn examine(paths: &EmbeddedPaths, depth: InspectionDepth) -> StoreReport {
    let inspection = inspect(paths, depth);
    StoreReport { findings: findings(paths, &inspection), json: document(paths, &inspection) }
}

/// Settles what processes that have ended left behind, and removes what is not in use. Returns what is no longer wrong.
pub(crate) async fn repair(paths: &EmbeddedPaths) -> Result<Vec<String>, Failure> {
    if !paths.database.exists() {
        return Ok(Vec::new());
    }
    let before = repairable(&inspect(paths, InspectionDepth::Bounded));
    // Opening it removes what is registered for processes that have ended.
    let store = EmbeddedStore::open(paths)?;
    store.clean_up(paths).await?;
    // Waits for rows that are still to be written.
    store.changes(None).await?;
    let index = repair_index(&store).await?;
    drop(store);
    let after = repairable(&inspect(paths, InspectionDepth::Bounded));
    Ok(before.into_iter().filter(|problem| !after.contains(problem)).chain(index).collect())
}

/// Adds what is missing in the search index. One that cannot be used is made anew, which is returned.
async fn repair_index(store: &EmbeddedStore) -> Result<Option<String>, Failure> {
    let Err(error) = store.update_index(progress_bar("Indexing")).await else { return Ok(None) };
    store.rebuild_index(progress_bar("Indexing")).await?;
    Ok(Some(format!("the search index could not be used: {}", with_causes(&error))))
}

/// The messages of the problems that a repair is about.
fn repairable(inspection: &Inspection) -> Vec<String> {
    let findings = inspection.problems.iter().map(problem);
    findings
        .filter(|finding| finding.hint.as_deref() == Some(REPAIR))
        .map(|finding| finding.message)
        .collect()
}

fn findings(paths: &EmbeddedPaths, inspection: &Inspection) -> Vec<Finding> {
    let ok = |message: String| Finding::new(Area::Store, Level::Ok, message);
    let sizes = inspection.sizes;
    let problems = inspection.problems.iter().map(problem);
    if sizes.database == 0 {
        let none = Finding::new(
            Area::Store,
            Level::Note,
            format!("{} does not exist yet", paths.database.display()),
        );
        let none = problems.clone().all(|finding| finding.level < Level::Broken).then_some(none);
        return none.into_iter().chain(problems).collect();
    }
    let mut found = vec![ok(format!(
        "{}, {}{}",
        paths.database.display(),
        size(sizes.database + sizes.log),
        inspection.version.map_or_else(String::new, |version| format!(", version {version}")),
    ))];
    if inspection.version == Some(supported_version()) {
        found.push(ok(contents(inspection)));
        found.push(checked(inspection));
    }
    found.extend(owners(inspection));
    found.extend(inspection.drift.iter().take(MAX_DRIFT).map(unknown));
    found.extend(more_unknown(inspection.drift.len()));
    found.extend(problems);
    found
}

/// Something in the files of another tool that is not known.
fn unknown(found: &DriftCount) -> Finding {
    let DriftCount { tool, version, what, count } = found;
    let version = if version.is_empty() { String::new() } else { format!(" {version}") };
    let message =
        format!("imported from {tool}{version}: {what} is not known ({})", self::count(*count, "time"));
    Finding::new(Area::Store, Level::Note, message)
}

fn more_unknown(all: usize) -> Option<Finding> {
    let more = all.checked_sub(MAX_DRIFT).filter(|more| *more > 0)?;
    Some(Finding::new(Area::Store, Level::Note, format!("{more} more are not known; --json lists them")))
}

fn contents(inspection: &Inspection) -> String {
    let (sessions, sizes) = (inspection.sessions, inspection.sizes);
    let mut parts = vec![count(sessions.listed, "session")];
    if sessions.archived > 0 {
        parts.push(format!("{} archived", sessions.archived));
    }
    parts.push(format!("{} with {}", count(sizes.journal_files, "journal file"), size(sizes.journals)));
    if sizes.backups > 0 {
        parts.push(format!("copies of earlier versions with {}", size(sizes.backups)));
    }
    parts.join(", ")
}

fn checked(inspection: &Inspection) -> Finding {
    let coverage = inspection.coverage;
    if coverage.is_complete() {
        let message = format!(
            "the database, {} and the journal files of {} were read",
            count(coverage.segments.1, "segment"),
            count(coverage.journals.1, "session"),
        );
        return Finding::new(Area::Store, Level::Ok, message);
    }
    let structure = if coverage.database { "the database" } else { "a part of the database" };
    let message = format!(
        "{structure}, {} of {} and the journal files of {} of {} were read",
        coverage.segments.0,
        count(coverage.segments.1, "segment"),
        coverage.journals.0,
        count(coverage.journals.1, "session"),
    );
    Finding::new(Area::Store, Level::Note, message).hint("`rethread doctor --full` reads everything")
}

fn owners(inspection: &Inspection) -> Vec<Finding> {
    let alive = inspection.owners.iter().filter(|owner| owner.state == OwnerState::Alive);
    let message = |owner: &InspectedOwner| {
        format!("process {} on {} has {} open", owner.pid, owner.host, count(owner.sessions, "session"))
    };
    alive.map(|owner| Finding::new(Area::Store, Level::Ok, message(owner))).collect()
}

/// A problem in words, with its remedy.
fn problem(problem: &StoreProblem) -> Finding {
    let found = |level, message: String| Finding::new(Area::Store, level, message);
    let broken = |message: String| found(Level::Broken, message);
    match problem {
        StoreProblem::Unreadable { path, cause } => {
            broken(format!("{} cannot be read: {cause}", path.display()))
                .hint("check who may read it, and the disk")
        }
        StoreProblem::NotOurs(cause) => broken(format!("the file is no database of rethread: {cause}"))
            .hint("move it away, or set RETHREAD_HOME to another folder"),
        StoreProblem::Newer(version) => broken(format!(
            "the database has version {version}, but this program supports only versions up to {}",
            supported_version()
        ))
        .hint("use the newer rethread that wrote it"),
        StoreProblem::Older(version) => found(
            Level::Note,
            format!("the database has version {version}; the next command migrates it and keeps a copy"),
        ),
        StoreProblem::DatabaseDamaged(cause) => {
            broken(format!("the database is damaged: {cause}")).hint("restore it from a backup of its folder")
        }
        StoreProblem::SegmentDamaged { session, at, cause } => {
            broken(format!("session {session} is damaged at entry {at}: {cause}")).hint(KEEP_READABLE_PART)
        }
        StoreProblem::JournalDamaged { session, at, cause } => {
            broken(format!("session {session} is damaged at entry {at}: {cause}")).hint(KEEP_READABLE_PART)
        }
        StoreProblem::MoreDamaged(sessions) => {
            broken(format!("{} more are damaged", count(*sessions, "session")))
        }
        StoreProblem::JournalMissing { session, path } => {
            broken(format!("session {session} lacks the file {}", path.display()))
                .hint("restore the file from a backup; what was folded before can still be read")
        }
        StoreProblem::EndSkipped { session, bytes } => found(
            Level::Note,
            format!(
                "session {session} ends with {bytes} bytes that were never written in full; they are skipped"
            ),
        ),
        StoreProblem::Left(left) => leftover(left).hint(REPAIR),
        StoreProblem::NetworkFileSystem(name) => {
            broken(format!("the store is on a network file system ({name})"))
                .hint("set RETHREAD_HOME to a folder on a local disk")
        }
        StoreProblem::Exposed(path) => {
            found(Level::Warning, format!("other users can read {}", path.display()))
                .hint(format!("run `chmod go= {}`", path.display()))
        }
    }
}

/// The remedy for a session of which a part is damaged.
const KEEP_READABLE_PART: &str =
    "what comes before can be read, and forked with `rethread fork --at`; the rest needs a backup";

/// What processes that have ended left behind, in words. The store settles most of it by itself.
fn leftover(left: &StoreLeftover) -> Finding {
    let (level, message) = match left {
        StoreLeftover::StaleOwner { pid, host, sessions } => (
            Level::Warning,
            format!(
                "process {pid} on {host} has ended and is registered with {}",
                count(*sessions, "session")
            ),
        ),
        StoreLeftover::Unfolded(sessions) => (
            Level::Note,
            format!("{} left by processes that have ended can be folded", count(*sessions, "session")),
        ),
        StoreLeftover::StaleLocks(locks) => {
            (Level::Note, format!("{} of processes that have ended", count(*locks, "lock file")))
        }
        StoreLeftover::UnusedFiles { count: files, bytes } => {
            (Level::Warning, format!("{} with {} not in use", count(*files, "file"), size(*bytes)))
        }
    };
    Finding::new(Area::Store, level, message)
}

fn count(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

fn document(paths: &EmbeddedPaths, inspection: &Inspection) -> Value {
    let owner = |owner: &InspectedOwner| {
        json!({
            "pid": owner.pid,
            "host": owner.host,
            "since": rethread::clock::rfc3339(owner.since),
            "alive": owner.state == OwnerState::Alive,
            "sessions": owner.sessions,
        })
    };
    let drift = |found: &DriftCount| json!({"tool": found.tool, "version": found.version, "what": found.what, "count": found.count});
    let (sizes, sessions, coverage) = (inspection.sizes, inspection.sessions, inspection.coverage);
    json!({
        "path": paths.database,
        "exists": sizes.database > 0,
        "version": inspection.version,
        "supportedVersion": supported_version(),
        "databaseBytes": sizes.database,
        "logBytes": sizes.log,
        "journalFiles": sizes.journal_files,
        "journalBytes": sizes.journals,
        "backupBytes": sizes.backups,
        "sessions": {"listed": sessions.listed, "archived": sessions.archived, "empty": sessions.empty},
        "owners": inspection.owners.iter().map(owner).collect::<Vec<_>>(),
        "importDrift": inspection.drift.iter().map(drift).collect::<Vec<_>>(),
        "checked": {
            "complete": coverage.is_complete(),
            "segments": coverage.segments.0,
            "segmentsTotal": coverage.segments.1,
            "journals": coverage.journals.0,
            "journalsTotal": coverage.journals.1,
        },
    })
}

#[cfg(test)]
mod tests {
    use rethread::store::embedded::inspect::Coverage;

    use super::*;

    #[test]
    fn what_was_not_read_is_said() {
        let part = Inspection {
            coverage: Coverage { database: true, segments: (10, 200), journals: (3, 3) },
            ..Inspection::default()
        };
        let finding = checked(&part);
        assert_eq!(finding.level, Level::Note);
        assert_eq!(
            finding.message,
            "the database, 10 of 200 segments and the journal files of 3 of 3 sessions were read"
        );
        assert!(finding.hint.is_some_and(|hint| hint.contains("--full")));
    }
}

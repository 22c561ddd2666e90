//! Inspects a store without changing it: sizes, versions, owners, and what is damaged or left over. Works on a store that
//! cannot be opened, and beside processes that use it. `database` reads the database, `journals` the journal files, `folder`
//! the folders.

mod database;
mod folder;
mod journals;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rethread_core::{Millis, Seq, SessionId};

use super::fault::io_failed;
use super::migrate::LATEST_VERSION;
use super::{EmbeddedPaths, StoreError, imports};
use crate::store::DriftCount;

/// How long each part of a bounded inspection may take.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// How many bytes of segments, and of journal files, a bounded inspection reads.
const BYTE_LIMIT: u64 = 128 * 1024 * 1024;

/// How many damaged sessions are named.
const MAX_DAMAGED: u64 = 20;

/// How much of a store is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectionDepth {
    /// As much as a few seconds allow, the newest first.
    Bounded,
    /// All of it.
    Full,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// The version of the database; nothing if there is none or it cannot be read.
    pub version: Option<i64>,
    /// The sizes of the files.
    pub sizes: StoreSizes,
    /// The numbers of sessions.
    pub sessions: SessionCounts,
    /// The processes that are registered.
    pub owners: Vec<InspectedOwner>,
    /// What was not known in the files of other tools.
    pub drift: Vec<DriftCount>,
    /// How much was read.
    pub coverage: Coverage,
    /// What is wrong.
    pub problems: Vec<StoreProblem>,
}

/// The sizes of the files of a store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSizes {
    /// The database.
    pub database: u64,
    /// Its write-ahead log.
    pub log: u64,
    /// The number of journal files.
    pub journal_files: u64,
    /// All of them together.
    pub journals: u64,
    /// The copies that migrations made.
    pub backups: u64,
}

/// The numbers of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Those in lists, without archived ones.
    pub listed: u64,
    /// Archived ones.
    pub archived: u64,
    /// Those without content.
    pub empty: u64,
}

/// A process that is registered as an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedOwner {
    /// Its id in the store.
    pub id: String,
    /// The process id.
    pub pid: u32,
    /// The host name.
    pub host: String,
    /// When it was registered.
    pub since: Millis,
    /// Whether it lives.
    pub state: OwnerState,
    /// How many sessions it owns.
    pub sessions: u64,
}

/// Whether an owner lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It lives, or may live on another machine.
    Alive,
    /// It has ended.
    Gone,
}

/// How much of a store was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Whether the structure of the database was checked as a whole.
    pub database: bool,
    /// The segments that were read, and all that there are.
    pub segments: (u64, u64),
    /// The sessions whose journal files were read, and all that have some.
    pub journals: (u64, u64),
}

impl Coverage {
    /// Returns whether everything was read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.database && self.segments.0 == self.segments.1 && self.journals.0 == self.journals.1
    }
}

/// Something that is wrong with a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreProblem {
    /// A file or folder cannot be read.
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// The database belongs to another program, or is none.
    NotOurs(String),
    /// A newer program wrote the database.
    Newer(i64),
    /// An older program wrote the database. It is migrated when it is opened.
    Older(i64),
    /// The structure of the database is damaged.
    DatabaseDamaged(String),
    /// A segment cannot be read.
    SegmentDamaged {
        /// The session.
        session: SessionId,
        /// The first entry of the segment.
        at: Seq,
        /// The cause.
        cause: String,
    },
    /// A journal file cannot be read.
    JournalDamaged {
        /// The session.
        session: SessionId,
        /// The first entry that cannot be read.
        at: Seq,
        /// The file, the place and the cause.
        cause: String,
    },
    /// This many more sessions are damaged.
    MoreDamaged(u64),
    /// A journal file is missing.
    JournalMissing {
        /// The session.
        session: SessionId,
        /// The file.
        path: PathBuf,
    },
    /// The end of a journal file was never synced, and is skipped.
    EndSkipped {
        /// The session.
        session: SessionId,
        /// The number of bytes.
        bytes: u64,
    },
    /// Something that processes that have ended left behind. [`EmbeddedStore::clean_up`] settles it.
    ///
    /// [`EmbeddedStore::clean_up`]: super::EmbeddedStore::clean_up
    Left(StoreLeftover),
    /// A network file system, where the store is not safe.
    NetworkFileSystem(String),
    /// Other users can read this file or folder.
    Exposed(PathBuf),
}

/// What processes that have ended left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLeftover {
    /// A process has ended and is still registered.
    StaleOwner {
        /// The process id.
        pid: u32,
        /// The host name.
        host: String,
        /// How many sessions it owns.
        sessions: u64,
    },
    /// This many sessions have journal files of processes that have ended.
    Unfolded(u64),
    /// This many lock files belong to processes that have ended.
    StaleLocks(u64),
    /// These files are not in use.
    UnusedFiles {
        /// How many.
        count: u64,
        /// All of them together, in bytes.
        bytes: u64,
    },
}

/// The damaged sessions, each of which is named once, and not more than a few of them.
#[derive(Default)]
struct DamagedSessions(HashSet<SessionId>);

impl DamagedSessions {
    /// Returns whether this damage is to be reported.
    fn is_news(&mut self, session: &SessionId) -> bool {
        self.0.insert(session.clone()) && self.count() <= MAX_DAMAGED
    }

    /// What is said of the others.
    fn others(&self) -> Option<StoreProblem> {
        let others = self.count().saturating_sub(MAX_DAMAGED);
        (others > 0).then_some(StoreProblem::MoreDamaged(others))
    }

    fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The limit of one part of an inspection.
#[derive(Clone, Copy)]
struct Budget {
    until: Option<Instant>,
    bytes: u64,
}

impl Budget {
    fn of(depth: InspectionDepth) -> Self {
        match depth {
            InspectionDepth::Bounded => Self { until: Some(Instant::now() + TIME_LIMIT), bytes: BYTE_LIMIT },
            InspectionDepth::Full => Self { until: None, bytes: u64::MAX },
        }
    }

    fn is_spent(&self) -> bool {
        self.bytes == 0 || self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn spend(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Removes copies of the database that a migration did not finish.
pub(super) fn remove_parts(paths: &EmbeddedPaths) -> Result<(), StoreError> {
    folder::remove_parts(paths).map_err(io_failed("removing files beside", &paths.database))
}

/// The latest version of a database that this program supports.
#[must_use]
pub fn supported_version() -> i64 {
    LATEST_VERSION
}

/// Inspects a store. Changes none of its files, apart from the memory that SQLite shares between processes. Blocks.
#[must_use]
pub fn inspect(paths: &EmbeddedPaths, depth: InspectionDepth) -> Inspection {
    let mut inspection = Inspection::default();
    folder::inspect(paths, &mut inspection);
    if inspection.sizes.database == 0 {
        return inspection;
    }
    let Some(mut connection) = database::connect(paths, &mut inspection) else { return inspection };
    database::inspect(&mut connection, paths, depth, &mut inspection);
    if inspection.version == Some(LATEST_VERSION) {
        journals::inspect(&mut connection, paths, depth, &mut inspection);
        // What is damaged has been found before.
        let drift = connection.transaction().ok().and_then(|tx| imports::drift(&tx).ok());
        inspection.drift = drift.unwrap_or_default();
    }
    inspection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_inspection_ends_with_its_budget() {
        let mut bounded = Budget::of(InspectionDepth::Bounded);
        assert!(!bounded.is_spent());
        bounded.spend(BYTE_LIMIT - 1);
        assert!(!bounded.is_spent());
        bounded.spend(5);
        assert!(bounded.is_spent());
        let late = Budget { until: Some(Instant::now()), bytes: 1 };
        assert!(late.is_spent());
        let mut full = Budget::of(InspectionDepth::Full);
        full.spend(BYTE_LIMIT * 10);
        assert!(!full.is_spent());
    }

    #[test]
    fn a_session_is_named_once_and_not_all_of_them() {
        let mut damaged = DamagedSessions::default();
        let named = |no: u64, damaged: &mut DamagedSessions| damaged.is_news(&SessionId(format!("s-{no}")));
        assert!(named(0, &mut damaged) && !named(0, &mut damaged));
        assert_eq!(
            (0..MAX_DAMAGED + 5).filter(|no| named(*no, &mut damaged)).count() as u64,
            MAX_DAMAGED - 1
        );
        assert_eq!(damaged.others(), Some(StoreProblem::MoreDamaged(5)));
    }

    #[test]
    fn all_parts_must_be_read_for_a_whole() {
        let all = Coverage { database: true, segments: (2, 2), journals: (1, 1) };
        assert!(all.is_complete());
        for part in [
            Coverage { database: false, ..all },
            Coverage { segments: (1, 2), ..all },
            Coverage { journals: (0, 1), ..all },
        ] {
            assert!(!part.is_complete(), "{part:?}");
        }
    }
}

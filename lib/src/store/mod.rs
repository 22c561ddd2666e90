//! The interface of a session store: journals, rows, leases and lists. `memory`, `embedded` and `postgres` implement it.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use rethread_core::{Entry, Millis, Seq, SessionId, TitleSource};

use crate::host_deadline::HostDeadline;

mod cursor;
mod database_problem;
pub mod embedded;
pub mod facts;
pub(crate) mod find_back;
pub mod fork;
mod imports;
mod integers;
mod lineage;
pub mod memory;
mod open_outcome;
mod page;
#[cfg(feature = "postgres")]
pub mod postgres;
mod process;
pub mod relocate;
mod search;
mod segment;
pub(crate) mod state;
mod text_form;
mod texts;
mod tokens;

pub use database_problem::DatabaseProblem;
pub use imports::{DriftCount, ImportLedger, ImportProgress, ImportRecord};
pub use open_outcome::OpenOutcome;
pub use page::Page;
pub use search::{IndexProgress, MAX_HITS, ProgressCallback, SearchHit, SearchPage, SearchQuery};
pub use state::read_state;
pub use tokens::{TokenLedger, TokenRecord};

/// The result of a store's method, when it is there.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A callback for a page that was read. It runs on a thread that may block.
pub type PageVisitor = Box<dyn FnOnce(Page) + Send>;

/// A store of sessions. The methods never block the thread that awaits them for longer than one small write.
pub trait Store: ImportLedger + Send + Sync + 'static {
    /// Creates a session that this process owns, with its first entries, so that it survives a power failure. An id is
    /// never reused, not even after a delete. For a fork, the parent must not be deleted and must contain the fork point,
    /// else [`StoreError::MovedOn`].
    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease>;

    /// Takes ownership of the session. Refused while a live process owns it, this one included; ownership of a dead process
    /// ends at once. Every claim increments the epoch.
    fn claim(&self, session: &SessionId) -> StoreFuture<'_, Lease>;

    /// Releases ownership if this lease is still valid.
    fn release(&self, lease: &Lease) -> StoreFuture<'_, ()>;

    /// Appends entries with the durability that they request. A refused or failed append changes nothing. An owner may
    /// have only one append under way for each session.
    fn append(&self, append: Append) -> StoreFuture<'_, ()>;

    /// Reads from `from` (inclusive) through ancestors, segments and unfolded entries, about `budget` bytes, and at least
    /// one item if there is one. Needs no ownership.
    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> StoreFuture<'_, Page>;

    /// Finds where a read begins that shows what comes before an entry: about `budget` bytes before it, or at `Seq(0)` if
    /// there is less. Parts that are stored as a whole count as a whole. Needs no ownership.
    fn seek_back(&self, session: &SessionId, before: Seq, budget: usize) -> StoreFuture<'_, Seq>;

    /// Reads as [`Store::read`] does and passes the page to `visit`. A store that reads on a thread that may block calls it
    /// there, so that reading and using a page needs one change of threads.
    fn read_to(
        &self,
        session: &SessionId,
        from: Seq,
        budget: usize,
        visit: PageVisitor,
    ) -> StoreFuture<'_, ()> {
        let page = self.read(session, from, budget);
        Box::pin(async move {
            let page = page.await?;
            let visited = tokio::task::spawn_blocking(move || visit(page)).await;
            visited.map_err(|stopped| StoreError::Io {
                context: "using a page".to_owned(),
                source: stopped.into(),
            })
        })
    }

    /// Folds entries into segments. The caller ensures that no turn is open below `fold.upto` and that no client reads
    /// inside. Nothing is merged across a fork point.
    fn fold(&self, lease: &Lease, fold: FoldUpTo) -> StoreFuture<'_, ()>;

    /// Returns the row of a session, also if it is deleted. For a deleted session, claims, reads and changes return
    /// [`StoreError::Unknown`], and appends of its former owner return [`StoreError::StaleEpoch`] as soon as that owner
    /// can know of it.
    fn find(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionRow>>;

    /// Returns the rows of sessions whose id begins or ends with this text, newest first and at most `limit` of them.
    /// Deleted sessions are left out, those without content are not. The rows are as in lists.
    fn find_by_part(&self, part: &str, limit: usize) -> StoreFuture<'_, Vec<SessionRow>>;

    /// Returns one page of sessions, newest first.
    fn list(&self, query: &ListQuery) -> StoreFuture<'_, ListPage>;

    /// Returns the sessions whose rows have changed since an earlier call; without one only the current revision. An owner
    /// calls this from time to time: a lease whose epoch is over is noticed here.
    fn changes(&self, since: Option<Revision>) -> StoreFuture<'_, Changes>;

    /// Returns one page of the messages that a query finds, newest first. All turns that have ended are found, in whatever
    /// process they ended: what is not indexed yet is indexed first, which takes long on the first search.
    fn search(&self, query: &SearchQuery) -> StoreFuture<'_, SearchPage>;

    /// Indexes what is not indexed yet, and reports the progress.
    fn update_index(&self, progress: ProgressCallback) -> StoreFuture<'_, ()>;

    /// Drops the index and makes it anew from the journals. Sessions are not touched.
    fn rebuild_index(&self, progress: ProgressCallback) -> StoreFuture<'_, ()>;

    /// Sets the title as the user's choice, without a journal entry.
    fn set_title(&self, session: &SessionId, title: &str) -> StoreFuture<'_, ()>;

    /// Archives or restores a session. Archiving increments the epoch, which ends the owner's lease. The owner stays
    /// registered until it releases the session.
    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> StoreFuture<'_, ()>;

    /// Marks a session as deleted, increments the epoch, and frees its text as far as no fork needs it: at once, or when
    /// its owner releases it. It is not found by searches any more; its words are erased soon.
    fn delete(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ()>;

    /// Deletes sessions as [`Store::delete`] does, except those that a process has open. Returns those that were deleted,
    /// when their text is in no file any more. Cheaper than one by one. The progress counts sessions.
    fn delete_unowned(
        &self,
        sessions: &[SessionId],
        at: Millis,
        progress: ProgressCallback,
    ) -> StoreFuture<'_, Vec<SessionId>>;

    /// Returns the number of bytes that the session's own text takes in the store.
    fn size(&self, session: &SessionId) -> StoreFuture<'_, u64>;

    /// Notes that old sessions are pruned now, unless that was done at `since` or later. Returns whether it was noted: of
    /// several processes, one gets the turn.
    fn begin_pruning(&self, at: Millis, since: Millis) -> StoreFuture<'_, PruneTurn>;

    /// Asks the owner of a session to release it, which it learns from [`Store::changes`]. What an owner that has ended
    /// left behind is settled. The request stays until the owner releases the session or it is declined.
    fn ask_release(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ReleaseAnswer>;

    /// Declines or withdraws a request to release a session.
    fn decline_release(&self, session: &SessionId) -> StoreFuture<'_, ()>;

    /// Stores the sessions that an agent lists. Adds a row for each that is not known by any id, and updates rows that
    /// came from such a list. Creating a session with the same id replaces the row.
    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> StoreFuture<'_, ()>;

    /// Says where other hosts reach this process. They find it in the owner of its sessions. Returns the number of this host;
    /// nothing if the store is not shared by hosts.
    fn advertise(&self, address: &str) -> StoreFuture<'_, Option<HostNumber>> {
        let _ = address;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Until when the agents of this process may run, if the leases of the store expire.
    fn host_deadline(&self) -> Option<HostDeadline> {
        None
    }

    /// The tokens that this store has for all its hosts. Nothing for a store of one machine, which has them in a file.
    fn shared_tokens(self: Arc<Self>) -> Option<Arc<dyn TokenLedger>> {
        None
    }

    /// Returns the data stored under this agent key.
    fn profile(&self, key: &str) -> StoreFuture<'_, Option<Vec<u8>>>;

    /// Stores data under this agent key.
    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> StoreFuture<'_, ()>;
}

/// Whether it is this process's turn to prune old sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneTurn {
    /// It is.
    Ours,
    /// It was done already, or another process does it.
    Done,
}

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The id of the session.
    pub id: SessionId,
    /// The working directory.
    pub cwd: String,
    /// The display name of the agent.
    pub agent: String,
    /// For a fork: the parent and the sequence number that its own entries follow.
    pub parent: Option<(SessionId, Seq)>,
    /// The first entries.
    pub entries: Vec<Arc<Entry>>,
    /// Other values of the row.
    pub facts: RowFacts,
    /// The encoded state after the entries.
    pub snapshot: Option<Vec<u8>>,
    /// The time of the change. A fork is always listed as newer than all other sessions.
    pub at: Millis,
}

/// The right to append to a session. It is valid until the epoch changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session that is owned.
    pub session: SessionId,
    /// The epoch of the claim.
    pub epoch: u64,
    /// The last stored sequence number at the time of the claim.
    pub head: Seq,
    /// The last folded sequence number at the time of the claim.
    pub folded: Seq,
}

/// Entries to append to one session.
#[derive(Clone, Debug)]
pub struct Append {
    /// The session to append to.
    pub session: SessionId,
    /// The epoch of the writer's lease.
    pub epoch: u64,
    /// The head that the writer expects; the first entry gets the next number.
    pub expected: Seq,
    /// The entries to append.
    pub entries: Vec<Arc<Entry>>,
    /// Changes to the session's row.
    pub facts: RowFacts,
    /// What the append must survive.
    pub durability: Durability,
    /// The time of a change that makes the session the newest in lists; `None` keeps its position. If the clock was set
    /// back, the session is still listed after all earlier changes.
    pub at: Option<Millis>,
}

/// Changes to a session's row; `None` keeps a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFacts {
    /// The title and who set it; an empty title removes it.
    pub title: Option<(String, TitleSource)>,
    /// All additional roots.
    pub roots: Option<Vec<String>>,
    /// Another id that an agent uses for the session.
    pub native: Option<NativeId>,
    /// Makes the session visible in lists.
    pub listed: Option<Listed>,
    /// Another working directory.
    pub cwd: Option<String>,
    /// Another agent that serves the session.
    pub agent_name: Option<AgentName>,
    /// The source that the session is imported from. With a new session, both are stored or neither.
    pub import: Option<ImportRecord>,
}

/// The configured name of an agent; nothing if it is only a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentName(pub Option<String>);

/// The id that an agent uses for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeId {
    /// The agent's own name.
    pub agent: String,
    /// The agent's id for the session.
    pub id: String,
}

/// A session that an agent lists and that was never opened here: a row without a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// The agent's id, also used as the session id.
    pub id: SessionId,
    /// The working directory.
    pub cwd: String,
    /// The agent's title for it.
    pub title: Option<String>,
    /// The time of the last change according to the agent.
    pub updated_at: Millis,
}

/// Marks a session as having content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed;

/// What a stored append survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The end of the process, including `kill -9`.
    Process,
    /// A power failure.
    Power,
}

/// What to fold.
#[derive(Clone, Debug)]
pub struct FoldUpTo {
    /// The last entry to fold.
    pub upto: Seq,
    /// A state to store, not earlier than `upto`.
    pub snapshot: Option<Snapshot>,
}

/// The state of a session between two turns.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The last entry that it includes.
    pub head: Seq,
    /// The encoded state.
    pub state: Vec<u8>,
}

/// A point in the history of all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// What has changed in the rows of sessions.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The sessions that have changed, in the order of their last change.
    pub sessions: Vec<ChangedSession>,
    /// Where to continue.
    pub revision: Revision,
}

/// A session whose row has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedSession {
    /// The id of the session.
    pub id: SessionId,
    /// The current epoch: a lease of an earlier one is no longer valid.
    pub epoch: u64,
    /// Whether the session is archived.
    pub archived: Archived,
    /// Whether the session is deleted.
    pub deleted: Deleted,
    /// When its owner was asked to release it, if that request is open.
    pub release_asked_at: Option<Millis>,
}

/// What follows from a request to release a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseAnswer {
    /// Nobody owns it.
    NotOwned,
    /// Its owner had ended without releasing it. What it left is settled.
    OwnerGone,
    /// Its owner was asked.
    Asked(Owner),
}

/// The row of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The id of the session.
    pub id: SessionId,
    /// The working directory.
    pub cwd: String,
    /// The additional roots.
    pub roots: Vec<String>,
    /// The title and who set it; an empty title was removed.
    pub title: Option<(String, TitleSource)>,
    /// The agent it was created with.
    pub agent: String,
    /// The ids that agents use for it, oldest first.
    pub natives: Vec<String>,
    /// The time of the last change.
    pub updated_at: Millis,
    /// The last sequence number; in lists that of the last folded entry.
    pub head: Seq,
    /// The encoded state at a sequence number not greater than `head`.
    pub snapshot: Option<Vec<u8>>,
    /// Whether the session is archived.
    pub archived: Archived,
    /// Whether the session is deleted.
    pub deleted: Deleted,
    /// The live process that owns it, if any.
    pub owner: Option<Owner>,
    /// For a fork: the parent and the sequence number at which it was forked.
    pub parent: Option<(SessionId, Seq)>,
    /// The configured name of the agent that served it last, if it has one.
    pub agent_name: Option<String>,
    /// When its owner was asked to release it, if that request is open.
    pub release_asked_at: Option<Millis>,
    /// Whether the session has content, so that it is in lists.
    pub listed: Option<Listed>,
}

/// Whether a session is archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archived {
    /// Archived.
    Yes,
    /// Not archived.
    No,
}

/// Whether a session is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Deleted.
    Yes,
    /// Not deleted.
    No,
}

/// A process that owns a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process id.
    pub pid: u32,
    /// The host name.
    pub host: String,
    /// When it claimed the session.
    pub since: Millis,
    /// Whether the owner is this process.
    pub ours: OwnedHere,
    /// Where other hosts reach it, if it serves them.
    pub contact: Option<HostContact>,
}

/// The number of a host in a shared store. A process that is started anew gets another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostNumber(pub i64);

impl fmt::Display for HostNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a host is reached by others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostContact {
    /// Its number.
    pub number: HostNumber,
    /// Its address, as it advertises it.
    pub address: String,
}

/// Whether an owner is this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnedHere {
    /// This process.
    Yes,
    /// Another process.
    No,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only sessions with exactly this working directory; a trailing slash makes no difference.
    pub cwd: Option<String>,
    /// Only sessions that were created with, or served by, an agent whose name contains this text. ASCII letters match
    /// in both cases.
    pub agent: Option<String>,
    /// Whether archived sessions are listed.
    pub archived: ArchivedFilter,
    /// The cursor of the previous page.
    pub after: Option<String>,
    /// The maximum number of rows.
    pub limit: usize,
}

impl ListQuery {
    /// Says whether a row is one that the query lists: it has content, and it is in the right directory and not in the wrong
    /// archive. The agent is not looked at.
    #[must_use]
    pub fn includes(&self, row: &SessionRow) -> bool {
        row.listed.is_some()
            && row.deleted == Deleted::No
            && self.is_in_directory(row)
            && match self.archived {
                ArchivedFilter::Exclude => row.archived == Archived::No,
                ArchivedFilter::Include => true,
                ArchivedFilter::Only => row.archived == Archived::Yes,
            }
    }

    /// Says whether a row is in the directory that the query names, if it names one.
    #[must_use]
    pub fn is_in_directory(&self, row: &SessionRow) -> bool {
        self.spellings().is_none_or(|spellings| spellings.contains(&row.cwd))
    }

    /// The directory with and without a trailing slash.
    fn spellings(&self) -> Option<Vec<String>> {
        let cwd = self.cwd.as_ref()?;
        let bare = cwd.trim_end_matches('/');
        let both = [bare.to_owned(), format!("{bare}/")];
        Some(both.into_iter().filter(|spelling| !spelling.is_empty()).collect())
    }
}

/// How a list treats archived sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArchivedFilter {
    /// Leaves them out.
    #[default]
    Exclude,
    /// Includes them.
    Include,
    /// Lists only them.
    Only,
}

/// One page of a list.
#[derive(Clone, Debug, Default)]
pub struct ListPage {
    /// The rows, without snapshots.
    pub rows: Vec<SessionRow>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// Why nothing can be written to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteObstacle {
    /// There is no room.
    Full,
    /// The file system is mounted read-only.
    ReadOnly,
}

impl fmt::Display for WriteObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::ReadOnly => "read-only",
        })
    }
}

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The session does not exist.
    #[error("session {0} is not in the store")]
    Unknown(SessionId),
    /// The id is in use.
    #[error("session {0} already exists")]
    Exists(SessionId),
    /// Another live process owns the session.
    #[error("session {session} is open in process {} on {}", owner.pid, owner.host)]
    LiveElsewhere {
        /// The session.
        session: SessionId,
        /// The process that owns it.
        owner: Owner,
    },
    /// The session was claimed by another writer, archived or deleted.
    #[error("session {session} was taken over by another writer (epoch {found}, not {held})")]
    StaleEpoch {
        /// The session.
        session: SessionId,
        /// The epoch of the writer's lease.
        held: u64,
        /// The current epoch.
        found: u64,
    },
    /// The head is not where the writer expects it.
    #[error("session {session} is at entry {found}, not at entry {expected}")]
    MovedOn {
        /// The session.
        session: SessionId,
        /// The head that the writer expected.
        expected: Seq,
        /// The actual head.
        found: Seq,
    },
    /// The cursor was not made by this store.
    #[error("the list cursor is not valid")]
    BadCursor,
    /// Another process of an earlier version uses the database, which has to be migrated.
    #[error("process {} on {} uses the database with an earlier version of rethread", owner.pid, owner.host)]
    InUse {
        /// That process.
        owner: Owner,
    },
    /// The database was written by a newer version of the program.
    #[error("the database has version {found}, but this program supports only versions up to {known}")]
    Newer {
        /// The version of the database.
        found: i64,
        /// The latest version that this program supports.
        known: i64,
    },
    /// An I/O or database error.
    #[error("{context} failed")]
    Io {
        /// The operation and the file.
        context: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing can be written to the disk. Reading works.
    #[error("{context} failed: the disk at {} is {obstacle}", disk.display())]
    Unwritable {
        /// The operation and the file.
        context: String,
        /// What is in the way.
        obstacle: WriteObstacle,
        /// The folder at which the disk is mounted.
        disk: PathBuf,
    },
    /// The database server of a shared store failed, or cannot be reached.
    #[error("{context} failed at {address}")]
    Database {
        /// The operation.
        context: String,
        /// The address, without a password.
        address: String,
        /// What is wrong there.
        problem: DatabaseProblem,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Stored data cannot be decoded.
    #[error("session {session} is damaged at entry {at}")]
    Damaged {
        /// The session.
        session: SessionId,
        /// The sequence number of the damaged item.
        at: Seq,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

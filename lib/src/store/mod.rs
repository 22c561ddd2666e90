//! The interface of a session store: journals, rows, leases and lists. `memory` and `sqlite` implement it; `journal`
//! makes it usable from async code.

use std::ops::ControlFlow;
use std::sync::Arc;

use rethread_core::stored::{Stored, StoredError};
use rethread_core::{Entry, Folded, Millis, Seq, SessionId, TitleSource};

mod cursor;
pub mod journal;
mod lineage;
pub mod memory;
mod page;
mod process;
pub mod sqlite;
pub(crate) mod state;

/// A store of sessions. All methods block; [`journal::Journal`] calls them on other threads.
pub trait Store: Send + Sync + 'static {
    /// Creates a session that this process owns, with its first entries. An id is never reused, not even after a
    /// delete. For a fork, the parent must not be deleted and must contain the fork point, else
    /// [`StoreError::MovedOn`].
    fn create(&self, new: NewSession) -> Result<Lease, StoreError>;

    /// Takes ownership of the session. Refused while a live process owns it, this one included; ownership of a dead process
    /// ends at once. Every claim increments the epoch.
    fn claim(&self, session: &SessionId) -> Result<Lease, StoreError>;

    /// Releases ownership if this lease is still valid.
    fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Appends to several sessions in one transaction. Each append has its own result: a refused append changes
    /// nothing, an I/O error fails all of them.
    fn append(&self, appends: &[Append]) -> Vec<Result<(), StoreError>>;

    /// Reads from `from` (inclusive) through ancestors, segments and tail, about `budget` bytes, and at least one item
    /// if there is one. `visit` is called with each item in order; if it breaks, the item counts as not read. If this
    /// fails, the caller must discard what it was given.
    fn walk(
        &self,
        session: &SessionId,
        from: Seq,
        budget: usize,
        visit: ItemVisitor<'_>,
    ) -> Result<ReadProgress, StoreError>;

    /// Reads like [`Store::walk`] and collects the items.
    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> Result<Page, StoreError> {
        let mut items = Vec::new();
        let ReadProgress { next, end } = self.walk(session, from, budget, &mut |item| {
            items.push(item.folded()?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Page { items, next, end })
    }

    /// Folds the entries up to `upto` (inclusive) into segments. The caller ensures that no turn is open below `upto`
    /// and that no client reads inside. Nothing is merged across a fork point.
    fn fold(&self, lease: &Lease, upto: Seq) -> Result<(), StoreError>;

    /// Returns the row of a session, also if it is deleted. For a deleted session, claims, reads and changes return
    /// [`StoreError::Unknown`], and appends of its former owner return [`StoreError::StaleEpoch`].
    fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError>;

    /// Returns one page of sessions, newest first.
    fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError>;

    /// Sets the title as the user's choice, without a journal entry.
    fn set_title(&self, session: &SessionId, title: &str) -> Result<(), StoreError>;

    /// Archives or restores a session. Archiving increments the epoch, which ends the owner's lease.
    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> Result<(), StoreError>;

    /// Marks a session as deleted and increments the epoch.
    fn delete(&self, session: &SessionId, at: Millis) -> Result<(), StoreError>;

    /// Stores the sessions that an agent lists. Adds a row for each that is not known by any id, and updates rows that
    /// came from such a list. Creating a session with the same id replaces the row.
    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> Result<(), StoreError>;

    /// Returns the data stored under this agent key.
    fn profile(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores data under this agent key.
    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> Result<(), StoreError>;
}

/// A callback that is given the items of a journal in order and decides whether to continue. It returns an error if it
/// cannot decode an item.
pub type ItemVisitor<'a> = &'a mut dyn FnMut(Stored<'_>) -> Result<ControlFlow<()>, StoredError>;

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
    /// The encoded state after the entries, if it is to be stored.
    pub snapshot: Option<Vec<u8>>,
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
}

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

/// How far a read got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadProgress {
    /// The sequence number to continue at.
    pub next: Seq,
    /// Whether the journal has no more entries for now.
    pub end: bool,
}

/// A part of a journal.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The items in order of their first sequence number.
    pub items: Vec<Folded>,
    /// The sequence number to continue at.
    pub next: Seq,
    /// Whether the journal has no more entries for now.
    pub end: bool,
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
    /// The last sequence number.
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
    /// Whether archived sessions are listed.
    pub archived: ArchivedFilter,
    /// The cursor of the previous page.
    pub after: Option<String>,
    /// The maximum number of rows.
    pub limit: usize,
}

impl ListQuery {
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
    /// The rows, without snapshots and owners.
    pub rows: Vec<SessionRow>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
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

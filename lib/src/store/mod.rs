//! Where journals are kept: the one interface that every store obeys. Knows sessions and entries, nothing of
//! wires or agents. `memory` and `sqlite` implement it; `journal` puts a writer thread in front of one.

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

/// A store of sessions. All methods block; [`journal::Journal`] calls them off the async threads.
pub trait Store: Send + Sync + 'static {
    /// Makes a session that this process owns, with its first entries. An id is given once, also after a delete.
    /// A fork's parent must be there and not deleted, and must reach the fork: [`StoreError::MovedOn`] if not.
    fn create(&self, new: NewSession) -> Result<Lease, StoreError>;

    /// Takes the session for this process. Refused while a living process has it, this one included; a dead owner loses
    /// it at once. The epoch grows with every claim.
    fn claim(&self, session: &SessionId) -> Result<Lease, StoreError>;

    /// Gives the session back, if this lease still holds it.
    fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Appends to several sessions in one transaction. Each append has its own outcome; an append that is
    /// refused leaves no trace, an I/O error fails them all.
    fn append(&self, appends: &[Append]) -> Vec<Result<(), StoreError>>;

    /// Reads on from `from`, inclusive, through ancestors, segments and tail, about `budget` bytes at a time
    /// and always at least one item if there is one. `see` is given each item in its turn; where it breaks, the item
    /// counts as not read. What it has seen counts for nothing if this fails.
    fn walk(
        &self,
        session: &SessionId,
        from: Seq,
        budget: usize,
        see: See<'_>,
    ) -> Result<Reached, StoreError>;

    /// Reads on as [`Store::walk`] does, and gives all items together.
    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> Result<Page, StoreError> {
        let mut items = Vec::new();
        let Reached { next, end } = self.walk(session, from, budget, &mut |item| {
            items.push(item.folded()?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Page { items, next, end })
    }

    /// Folds the entries up to `upto`, inclusive, into segments. The caller knows that no turn is open below
    /// `upto` and that no cursor stands inside. Nothing is merged across a place where a fork branches off.
    fn fold(&self, lease: &Lease, upto: Seq) -> Result<(), StoreError>;

    /// The row of a session; deleted ones included. To claims, reads and changes from outside they are unknown, to
    /// the writer they had they answer [`StoreError::StaleEpoch`].
    fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError>;

    /// One page of sessions, newest first.
    fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError>;

    /// Sets the title of a session from outside its journal, as the user's.
    fn set_title(&self, session: &SessionId, title: &str) -> Result<(), StoreError>;

    /// Archives or brings back. Archiving bumps the epoch: whoever writes the session stops.
    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> Result<(), StoreError>;

    /// Marks as deleted and bumps the epoch.
    fn delete(&self, session: &SessionId, at: Millis) -> Result<(), StoreError>;

    /// Takes in what an agent lists as its own: a row for each that is not known by the agent's id nor by ours,
    /// and the newest word on those that are rows and nothing more. Whoever creates such a session later takes
    /// its place.
    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> Result<(), StoreError>;

    /// What was remembered under this key of an agent.
    fn profile(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Remembers something under this key of an agent.
    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> Result<(), StoreError>;
}

/// Sees the items of a journal, one after the other, and says whether to go on. It fails if it reads an entry that
/// cannot be read.
pub type See<'a> = &'a mut dyn FnMut(Stored<'_>) -> Result<ControlFlow<()>, StoredError>;

/// A session to be made.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// Its working directory.
    pub cwd: String,
    /// The agent it is made with, as a person would name it.
    pub agent: String,
    /// Where it branches off, for a fork: its own entries follow that sequence number.
    pub parent: Option<(SessionId, Seq)>,
    /// Its first entries.
    pub entries: Vec<Arc<Entry>>,
    /// What its row says beside that.
    pub facts: RowFacts,
    /// The state after the entries.
    pub snapshot: Option<Vec<u8>>,
    /// When it was last changed: now, and always for a fork, which is newer than any session there is.
    pub at: Millis,
}

/// The right to write one session: it holds as long as the epoch has not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The epoch that was taken.
    pub epoch: u64,
    /// The last sequence number that is stored.
    pub head: Seq,
}

/// Entries for one session.
#[derive(Clone, Debug)]
pub struct Append {
    /// The session.
    pub session: SessionId,
    /// The epoch of the writer's lease.
    pub epoch: u64,
    /// The head that the writer believes in; the first entry gets the number after it.
    pub expected: Seq,
    /// The entries.
    pub entries: Vec<Arc<Entry>>,
    /// What they change in the session's row.
    pub facts: RowFacts,
    /// The state after them, where it is worth keeping.
    pub snapshot: Option<Vec<u8>>,
    /// What they must survive once the append has returned.
    pub durability: Durability,
    /// When they changed the session in a way that makes it the newest; none leaves its place in lists. Where the
    /// clock has gone back since another session changed, the time of that one counts, and a little more.
    pub at: Option<Millis>,
}

/// Changes to a session's row; `None` leaves as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFacts {
    /// The title and who gave it; empty for none any more.
    pub title: Option<(String, TitleSource)>,
    /// The additional roots, complete.
    pub roots: Option<Vec<String>>,
    /// One more id that an agent gave the session.
    pub native: Option<NativeId>,
    /// The session has content and may be listed from now on.
    pub listed: Option<Listed>,
}

/// An id that an agent has for a session of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeId {
    /// The agent, by the name it has for itself.
    pub agent: String,
    /// Its id.
    pub id: String,
}

/// A session that an agent lists as its own and that nobody has opened here: a row without a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// The agent's id, which becomes ours.
    pub id: SessionId,
    /// The working directory.
    pub cwd: String,
    /// The title that the agent gave it.
    pub title: Option<String>,
    /// The agent's word on its last change.
    pub updated_at: Millis,
}

/// The session has content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed;

/// What an append must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The end of the process, however it ends.
    Process,
    /// A power cut.
    Power,
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Where to read on.
    pub next: Seq,
    /// Whether that is the end for now.
    pub end: bool,
}

/// A part of a journal.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The items in order of their first sequence number.
    pub items: Vec<Folded>,
    /// Where to read on.
    pub next: Seq,
    /// Whether that is the end for now.
    pub end: bool,
}

/// What a session's row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// Its working directory.
    pub cwd: String,
    /// Its additional roots.
    pub roots: Vec<String>,
    /// Its title and who gave it; an empty one was taken away.
    pub title: Option<(String, TitleSource)>,
    /// The agent it was made with.
    pub agent: String,
    /// The ids that agents gave it, oldest first.
    pub natives: Vec<String>,
    /// The last change.
    pub updated_at: Millis,
    /// The last sequence number.
    pub head: Seq,
    /// The state at some sequence number not above `head`, as the session's owner wrote it.
    pub snapshot: Option<Vec<u8>>,
    /// Put away.
    pub archived: Archived,
    /// Deleted.
    pub deleted: Deleted,
    /// The living process that has it, if any.
    pub owner: Option<Owner>,
    /// Where it branched off.
    pub parent: Option<(SessionId, Seq)>,
}

/// Whether a session is put away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archived {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// Whether a session is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// A process that owns sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// The machine it runs on.
    pub host: String,
    /// Since when it owns the session.
    pub since: Millis,
    /// Whether it is this process.
    pub ours: Ours,
}

/// Whether an owner is this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// It is.
    Yes,
    /// It is another one.
    No,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only those with exactly this working directory. A slash at its end makes no difference.
    pub cwd: Option<String>,
    /// With or without archived ones.
    pub archived: ArchivedFilter,
    /// After this cursor, as an earlier page gave it.
    pub after: Option<String>,
    /// At most this many.
    pub limit: usize,
}

impl ListQuery {
    /// The ways to write the directory that is asked for, if one is.
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
    /// Has them among the others.
    Include,
    /// Has nothing else.
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

/// What a store can fail at.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such session.
    #[error("session {0} is not in the store")]
    Unknown(SessionId),
    /// The id is taken.
    #[error("session {0} already exists")]
    Exists(SessionId),
    /// Another living process writes it.
    #[error("session {session} is open in process {} on {}", owner.pid, owner.host)]
    LiveElsewhere {
        /// The session.
        session: SessionId,
        /// Who has it.
        owner: Owner,
    },
    /// Somebody took the session, archived it or deleted it.
    #[error("session {session} was taken over by another writer (epoch {found}, not {held})")]
    StaleEpoch {
        /// The session.
        session: SessionId,
        /// The epoch of the writer.
        held: u64,
        /// The epoch of the store.
        found: u64,
    },
    /// Somebody else appended.
    #[error("session {session} is at entry {found}, not at entry {expected}")]
    MovedOn {
        /// The session.
        session: SessionId,
        /// The head that the writer believed in.
        expected: Seq,
        /// The head that is.
        found: Seq,
    },
    /// Not a cursor of this store.
    #[error("the list cursor is not valid")]
    BadCursor,
    /// A newer program wrote the database.
    #[error("the database has version {found}, but this program supports only versions up to {known}")]
    Newer {
        /// The version found.
        found: i64,
        /// The newest known.
        known: i64,
    },
    /// The disk, the file or the database failed.
    #[error("{context} failed")]
    Io {
        /// What was being done, and on which file.
        context: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What was read cannot be understood.
    #[error("session {session} is damaged at entry {at}")]
    Damaged {
        /// The session.
        session: SessionId,
        /// Where.
        at: Seq,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

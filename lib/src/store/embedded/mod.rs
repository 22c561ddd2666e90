//! The embedded store: a journal file for each live session, and a SQLite database for rows and folded entries. Several
//! processes share it. Appends write to the journal file at once; everything else runs on threads that may block.
//!
//! `opening` opens a store, `open_store` has the parts of an open one. Ownership is in `ownership`, appending and folding in `writing`, deleting and
//! cleaning in `removal`, searching in `search`. `journal_file`, `chain`, `journals` and `leftovers` are about the files, the other modules
//! about the database.

use std::path::PathBuf;
use std::sync::Arc;

use rethread_core::{Millis, Seq, SessionId};

use self::call_threads::CallThreads;
use self::open_store::OpenStore;
use self::opening::StoreOpening;
use self::writing::AppendStep;
use super::cursor::ListCursor;
use super::{
    Append, Archived, ArchivedFilter, ChangedSession, Changes, Deleted, Durability, FoldUpTo, Lease,
    ListPage, ListQuery, Listed, NativeId, NewSession, OpenOutcome, OwnedHere, Owner, Page, PageVisitor,
    ProgressCallback, PruneTurn, ReleaseAnswer, Revision, RowFacts, SearchPage, SearchQuery, SessionRow,
    Store, StoreError, StoreFuture, Stub, WriteObstacle,
};
use super::{integers, segment};

mod append;
mod backups;
mod call_threads;
mod chain;
mod connection;
mod fault;
mod files;
mod fold;
mod free;
mod imports;
pub mod inspect;
mod journal_file;
mod journals;
mod leftovers;
mod list;
mod locks;
mod migrate;
mod obstacle;
mod open_store;
mod opening;
mod owner;
mod ownership;
mod profile;
mod read;
mod readers;
mod reading;
mod removal;
mod row;
mod rows;
mod search;
mod seek;
mod session;
mod stubs;
mod upkeep;
mod writer;
mod writing;

/// The number of calls that run at the same time. Each uses a thread, and a store has fewer connections than that.
const MAX_CONCURRENT_CALLS: usize = 8;

/// The file locations of an embedded store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedPaths {
    /// The database file. SQLite keeps two more files beside it, and the journal files are in the folder `live` beside it.
    pub database: PathBuf,
    /// The directory of the lock files. All processes that share the database must use the same one.
    pub locks: PathBuf,
}

impl EmbeddedPaths {
    /// The folder of the journal files.
    #[must_use]
    pub fn journals(&self) -> PathBuf {
        self.database.with_file_name("live")
    }
}

/// An embedded store. Each store is a separate owner, even within one process. Its methods must be called inside a tokio
/// runtime.
pub struct EmbeddedStore {
    // In drop order: the threads use the store.
    calls: CallThreads,
    /// One fold at a time, so that folds do not occupy all cores.
    folds: CallThreads,
    /// One search at a time, since the first one takes long and other calls must not wait for it.
    searches: CallThreads,
    opening: Arc<StoreOpening>,
    sync_place: SyncPlace,
}

/// Where the end of a turn is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncPlace {
    Thread,
    /// On the thread that appends, while that holds up nobody else.
    Caller,
}

impl EmbeddedStore {
    /// Opens the store, creates or migrates it if necessary, and registers it as an owner. Blocks.
    pub fn open(paths: &EmbeddedPaths) -> Result<Self, StoreError> {
        Ok(Self::over(StoreOpening::done(opening::open(paths)?)))
    }

    /// Creates the folders and the database file if they are missing. [`EmbeddedStore::open`] does that too.
    pub fn create_files(paths: &EmbeddedPaths) -> Result<(), StoreError> {
        opening::create_files(paths)
    }

    /// Opens the store on another thread. Calls wait until it is open, and fail if it cannot be opened; the cause is in the
    /// second value.
    pub fn open_in_background(paths: &EmbeddedPaths) -> Result<(Self, OpenOutcome), StoreError> {
        let (opening, opened) = StoreOpening::start(paths)?;
        Ok((Self::over(opening), opened))
    }

    /// Settles at once what processes that have ended left behind: folds their journal files, frees what was deleted, and
    /// removes files that are not in use. The store does that by itself from time to time. Safe beside other processes.
    pub async fn clean_up(&self, paths: &EmbeddedPaths) -> Result<(), StoreError> {
        let paths = paths.clone();
        self.call(move |store| {
            store.clean()?;
            inspect::remove_parts(&paths)
        })
        .await
    }

    fn over(opening: StoreOpening) -> Self {
        let [folds, searches] = [CallThreads::up_to(1), CallThreads::up_to(1)];
        let calls = CallThreads::up_to(MAX_CONCURRENT_CALLS);
        Self { calls, folds, searches, opening: Arc::new(opening), sync_place: SyncPlace::Thread }
    }

    /// Has the end of a turn synced on the thread that appends it, as long as only one session is open and syncs are
    /// quick. For a process with one client: a change of threads costs more than a usual sync.
    #[must_use]
    pub fn sync_in_place(self) -> Self {
        Self { sync_place: SyncPlace::Caller, ..self }
    }

    fn syncs_in_place(&self, store: &OpenStore) -> bool {
        match self.sync_place {
            SyncPlace::Thread => false,
            SyncPlace::Caller => store.journals.is_only_one() && store.journals.syncs_quickly(),
        }
    }

    /// Runs a call that uses the search index and may take long.
    fn index_call<R: Send + 'static>(
        &self,
        work: impl FnOnce(&OpenStore) -> Result<R, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, R> {
        let opening = self.opening.clone();
        Box::pin(self.searches.run(move || work(opening.wait()?)))
    }

    /// Runs a call on a thread that may block.
    fn call<R: Send + 'static>(
        &self,
        work: impl FnOnce(&OpenStore) -> Result<R, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, R> {
        let opening = self.opening.clone();
        Box::pin(self.calls.run(move || work(opening.wait()?)))
    }
}

impl Store for EmbeddedStore {
    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        self.call(move |store| store.create(&new))
    }

    fn claim(&self, session: &SessionId) -> StoreFuture<'_, Lease> {
        let session = session.clone();
        self.call(move |store| store.claim(&session))
    }

    fn release(&self, lease: &Lease) -> StoreFuture<'_, ()> {
        let lease = lease.clone();
        self.call(move |store| store.release(&lease))
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            // Whoever owns a session has waited for the store.
            let Some(store) = self.opening.now() else { return Err(StoreError::Unknown(append.session)) };
            if store.row_comes_first(&append) {
                return self.call(move |store| store.append_with_row(&append)).await;
            }
            match store.append_now(&append)? {
                AppendStep::Done => Ok(()),
                AppendStep::Sync if self.syncs_in_place(store) => store.sync_append(&append),
                step @ (AppendStep::Sync | AppendStep::Write) => {
                    self.call(move |store| store.finish_append(&append, step)).await
                }
            }
        })
    }

    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> StoreFuture<'_, Page> {
        let session = session.clone();
        self.call(move |store| store.read(&session, from, budget))
    }

    fn seek_back(&self, session: &SessionId, before: Seq, budget: usize) -> StoreFuture<'_, Seq> {
        let session = session.clone();
        self.call(move |store| store.seek_back(&session, before, budget))
    }

    fn read_to(
        &self,
        session: &SessionId,
        from: Seq,
        budget: usize,
        visit: PageVisitor,
    ) -> StoreFuture<'_, ()> {
        let session = session.clone();
        self.call(move |store| store.read(&session, from, budget).map(visit))
    }

    fn fold(&self, lease: &Lease, fold: FoldUpTo) -> StoreFuture<'_, ()> {
        let (lease, opening) = (lease.clone(), self.opening.clone());
        Box::pin(self.folds.run(move || opening.wait()?.fold(&lease, &fold)))
    }

    fn find(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionRow>> {
        let session = session.clone();
        self.call(move |store| store.find(&session))
    }

    fn find_by_part(&self, part: &str, limit: usize) -> StoreFuture<'_, Vec<SessionRow>> {
        let part = part.to_owned();
        self.call(move |store| {
            store.read_rows("reading", |tx| list::find_by_part(tx, &store.this_process, &part, limit))
        })
    }

    fn list(&self, query: &ListQuery) -> StoreFuture<'_, ListPage> {
        let query = query.clone();
        self.call(move |store| {
            let after = query.after.as_deref().map(ListCursor::decode).transpose()?;
            store.read_rows("listing", |tx| list::list(tx, &store.this_process, &query, after.as_ref()))
        })
    }

    fn changes(&self, since: Option<Revision>) -> StoreFuture<'_, Changes> {
        self.call(move |store| store.changes(since))
    }

    fn search(&self, query: &SearchQuery) -> StoreFuture<'_, SearchPage> {
        let query = query.clone();
        self.index_call(move |store| store.search(&query))
    }

    fn update_index(&self, progress: ProgressCallback) -> StoreFuture<'_, ()> {
        self.index_call(move |store| store.update_index(progress))
    }

    fn rebuild_index(&self, progress: ProgressCallback) -> StoreFuture<'_, ()> {
        self.index_call(move |store| store.rebuild_index(progress))
    }

    fn set_title(&self, session: &SessionId, title: &str) -> StoreFuture<'_, ()> {
        let (session, title) = (session.clone(), title.to_owned());
        self.call(move |store| {
            store.write("renaming a session in", Durability::Process, |tx| {
                session::set_title(tx, &session, &title)
            })
        })
    }

    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> StoreFuture<'_, ()> {
        let session = session.clone();
        self.call(move |store| store.set_archived(&session, archived, at))
    }

    fn delete(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ()> {
        let session = session.clone();
        self.call(move |store| store.delete(&session, at))
    }

    fn delete_unowned(
        &self,
        sessions: &[SessionId],
        at: Millis,
        progress: ProgressCallback,
    ) -> StoreFuture<'_, Vec<SessionId>> {
        let sessions = sessions.to_vec();
        self.call(move |store| store.delete_unowned(&sessions, at, progress))
    }

    fn size(&self, session: &SessionId) -> StoreFuture<'_, u64> {
        let session = session.clone();
        self.call(move |store| store.size(&session))
    }

    fn begin_pruning(&self, at: Millis, since: Millis) -> StoreFuture<'_, PruneTurn> {
        self.call(move |store| {
            store.write("pruning", Durability::Process, |tx| session::begin_pruning(tx, at, since))
        })
    }

    fn ask_release(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ReleaseAnswer> {
        let session = session.clone();
        self.call(move |store| store.ask_release(&session, at))
    }

    fn decline_release(&self, session: &SessionId) -> StoreFuture<'_, ()> {
        let session = session.clone();
        self.call(move |store| store.decline_release(&session))
    }

    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> StoreFuture<'_, ()> {
        let (agent, stubs) = (agent.to_owned(), stubs.to_vec());
        self.call(move |store| {
            stubs.iter().for_each(|stub| store.times.saw(stub.updated_at));
            store.write("listing an agent's sessions in", Durability::Process, |tx| {
                stubs::add(tx, &agent, &stubs)
            })
        })
    }

    fn profile(&self, key: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        let key = key.to_owned();
        self.call(move |store| store.readers.read("reading", |tx| profile::find(tx, &key)))
    }

    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> StoreFuture<'_, ()> {
        let (key, profile) = (key.to_owned(), profile.to_vec());
        self.call(move |store| {
            store.write("saving an agent profile in", Durability::Process, |tx| {
                profile::remember(tx, &key, &profile, at)
            })
        })
    }
}

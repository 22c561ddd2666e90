//! A store wrapper that can observe, delay or refuse each append and read before it reaches the store.

use std::ops::Deref;
use std::sync::Arc;

use rethread::store::{
    Append, Archived, Changes, DriftCount, FoldUpTo, ImportLedger, ImportRecord, Lease, ListPage, ListQuery,
    NewSession, Page, ProgressCallback, PruneTurn, ReleaseAnswer, Revision, SearchPage, SearchQuery,
    SessionRow, Store, StoreError, StoreFuture, Stub,
};
use rethread_core::{Millis, Seq, SessionId};

/// Observes the calls to a store.
pub trait Watchman: Default + Send + Sync + 'static {
    /// Called before an append, which waits for it. If it returns an error, nothing is written.
    ///
    /// # Errors
    ///
    /// The error that the writer gets.
    fn appending(&self, _append: &Append) -> StoreFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called after an append was stored.
    ///
    /// # Errors
    ///
    /// The error that the writer gets, although the entries are stored.
    fn appended(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Called before a read of a journal.
    ///
    /// # Errors
    ///
    /// The error that the reader gets.
    fn reading(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A store with an observer, to which it dereferences.
pub struct Watched<W> {
    // Dropped before the observer, which may keep what the store needs.
    store: Arc<dyn Store>,
    watchman: W,
}

impl<W: Watchman> Watched<W> {
    /// Wraps a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { watchman: W::default(), store }
    }
}

impl<W> Deref for Watched<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.watchman
    }
}

impl<W: Watchman> Store for Watched<W> {
    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        self.store.create(new)
    }

    fn claim(&self, session: &SessionId) -> StoreFuture<'_, Lease> {
        self.store.claim(session)
    }

    fn release(&self, lease: &Lease) -> StoreFuture<'_, ()> {
        self.store.release(lease)
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.watchman.appending(&append).await?;
            self.store.append(append).await?;
            self.watchman.appended()
        })
    }

    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> StoreFuture<'_, Page> {
        match self.watchman.reading() {
            Ok(()) => self.store.read(session, from, budget),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn seek_back(&self, session: &SessionId, before: Seq, budget: usize) -> StoreFuture<'_, Seq> {
        self.store.seek_back(session, before, budget)
    }

    fn fold(&self, lease: &Lease, fold: FoldUpTo) -> StoreFuture<'_, ()> {
        self.store.fold(lease, fold)
    }

    fn find(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionRow>> {
        self.store.find(session)
    }

    fn find_by_part(&self, part: &str, limit: usize) -> StoreFuture<'_, Vec<SessionRow>> {
        self.store.find_by_part(part, limit)
    }

    fn list(&self, query: &ListQuery) -> StoreFuture<'_, ListPage> {
        self.store.list(query)
    }

    fn changes(&self, since: Option<Revision>) -> StoreFuture<'_, Changes> {
        self.store.changes(since)
    }

    fn search(&self, query: &SearchQuery) -> StoreFuture<'_, SearchPage> {
        self.store.search(query)
    }

    fn update_index(&self, progress: ProgressCallback) -> StoreFuture<'_, ()> {
        self.store.update_index(progress)
    }

    fn rebuild_index(&self, progress: ProgressCallback) -> StoreFuture<'_, ()> {
        self.store.rebuild_index(progress)
    }

    fn set_title(&self, session: &SessionId, title: &str) -> StoreFuture<'_, ()> {
        self.store.set_title(session, title)
    }

    fn ask_release(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ReleaseAnswer> {
        self.store.ask_release(session, at)
    }

    fn decline_release(&self, session: &SessionId) -> StoreFuture<'_, ()> {
        self.store.decline_release(session)
    }

    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> StoreFuture<'_, ()> {
        self.store.set_archived(session, archived, at)
    }

    fn delete(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ()> {
        self.store.delete(session, at)
    }

    fn delete_unowned(
        &self,
        sessions: &[SessionId],
        at: Millis,
        progress: ProgressCallback,
    ) -> StoreFuture<'_, Vec<SessionId>> {
        self.store.delete_unowned(sessions, at, progress)
    }

    fn size(&self, session: &SessionId) -> StoreFuture<'_, u64> {
        self.store.size(session)
    }

    fn begin_pruning(&self, at: Millis, since: Millis) -> StoreFuture<'_, PruneTurn> {
        self.store.begin_pruning(at, since)
    }

    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> StoreFuture<'_, ()> {
        self.store.add_stubs(agent, stubs)
    }

    fn profile(&self, key: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        self.store.profile(key)
    }

    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> StoreFuture<'_, ()> {
        self.store.remember_profile(key, profile, at)
    }
}

impl<W: Watchman> ImportLedger for Watched<W> {
    fn imports(&self, tool: &str) -> StoreFuture<'_, Vec<ImportRecord>> {
        self.store.imports(tool)
    }

    fn remember_import(&self, record: &ImportRecord) -> StoreFuture<'_, ()> {
        self.store.remember_import(record)
    }

    fn find_native(&self, agents: &[&str], native: &str) -> StoreFuture<'_, Option<SessionId>> {
        self.store.find_native(agents, native)
    }

    fn add_drift(&self, drift: &[DriftCount], at: Millis) -> StoreFuture<'_, ()> {
        self.store.add_drift(drift, at)
    }

    fn drift(&self) -> StoreFuture<'_, Vec<DriftCount>> {
        self.store.drift()
    }
}

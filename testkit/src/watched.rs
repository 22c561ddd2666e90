//! A store wrapper that can observe, delay or refuse each append and read before it reaches the store.

use std::ops::Deref;
use std::sync::Arc;

use rethread::store::{
    Append, Archived, ItemVisitor, Lease, ListPage, ListQuery, NewSession, ReadProgress, SessionRow, Store,
    StoreError, Stub,
};
use rethread_core::{Millis, Seq, SessionId};

/// Observes the calls to a store.
pub trait Watchman: Default + Send + Sync + 'static {
    /// Called before appends that are written together. If it returns an error, none is written.
    ///
    /// # Errors
    ///
    /// Makes the error of each append.
    fn appending(&self, _appends: &[Append]) -> Result<(), fn() -> StoreError> {
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
    watchman: W,
    store: Arc<dyn Store>,
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
    fn create(&self, new: NewSession) -> Result<Lease, StoreError> {
        self.store.create(new)
    }

    fn claim(&self, session: &SessionId) -> Result<Lease, StoreError> {
        self.store.claim(session)
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.store.release(lease)
    }

    fn append(&self, appends: &[Append]) -> Vec<Result<(), StoreError>> {
        match self.watchman.appending(appends) {
            Ok(()) => self.store.append(appends),
            Err(error) => appends.iter().map(|_| Err(error())).collect(),
        }
    }

    fn walk(
        &self,
        session: &SessionId,
        from: Seq,
        budget: usize,
        visit: ItemVisitor<'_>,
    ) -> Result<ReadProgress, StoreError> {
        self.watchman.reading()?;
        self.store.walk(session, from, budget, visit)
    }

    fn fold(&self, lease: &Lease, upto: Seq) -> Result<(), StoreError> {
        self.store.fold(lease, upto)
    }

    fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.store.find(session)
    }

    fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        self.store.list(query)
    }

    fn set_title(&self, session: &SessionId, title: &str) -> Result<(), StoreError> {
        self.store.set_title(session, title)
    }

    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> Result<(), StoreError> {
        self.store.set_archived(session, archived, at)
    }

    fn delete(&self, session: &SessionId, at: Millis) -> Result<(), StoreError> {
        self.store.delete(session, at)
    }

    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> Result<(), StoreError> {
        self.store.add_stubs(agent, stubs)
    }

    fn profile(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.profile(key)
    }

    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> Result<(), StoreError> {
        self.store.remember_profile(key, profile, at)
    }
}

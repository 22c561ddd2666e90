//! A store with somebody in front of it who sees each append and read first and may hold it up or refuse it.
//! Everything goes on to the store behind. What the watchman does is his own affair.

use std::ops::Deref;
use std::sync::Arc;

use rethread::store::{
    Append, Archived, Lease, ListPage, ListQuery, NewSession, Reached, See, SessionRow, Store, StoreError,
    Stub,
};
use rethread_core::{Millis, Seq, SessionId};

/// Stands in front of a store.
pub trait Watchman: Default + Send + Sync + 'static {
    /// Sees appends that are written together. An error is given for each of them: then none is written.
    ///
    /// # Errors
    /// Makes the error of each append.
    fn appending(&self, _appends: &[Append]) -> Result<(), fn() -> StoreError> {
        Ok(())
    }

    /// Sees a read of a journal.
    ///
    /// # Errors
    /// What the reader is told instead.
    fn reading(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A store with a watchman. It can be spoken to as to the watchman.
pub struct Watched<W> {
    watchman: W,
    store: Arc<dyn Store>,
}

impl<W: Watchman> Watched<W> {
    /// A store that works as the one behind it does, as far as the watchman lets it.
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
        see: See<'_>,
    ) -> Result<Reached, StoreError> {
        self.watchman.reading()?;
        self.store.walk(session, from, budget, see)
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

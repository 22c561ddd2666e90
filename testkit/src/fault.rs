//! A store that fails when it is told to, as a full or broken disk would. Everything else goes to the store
//! behind it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread::store::{
    Append, Archived, Lease, ListPage, ListQuery, NewSession, Page, SessionRow, Store, StoreError, Stub,
};
use rethread_core::{Millis, Seq, SessionId};

/// A store with faults to order.
pub struct FaultStore {
    inner: Arc<dyn Store>,
    appends: AtomicUsize,
    reads: AtomicUsize,
}

impl FaultStore {
    /// A store that works as the inner one does, for now.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, appends: AtomicUsize::new(0), reads: AtomicUsize::new(0) }
    }

    /// Fails this many of the next appends; a call with several of them counts them all.
    pub fn fail_appends(&self, count: usize) {
        self.appends.store(count, Ordering::SeqCst);
    }

    /// Fails this many of the next reads of a journal.
    pub fn fail_reads(&self, count: usize) {
        self.reads.store(count, Ordering::SeqCst);
    }
}

impl Store for FaultStore {
    fn create(&self, new: NewSession) -> Result<Lease, StoreError> {
        self.inner.create(new)
    }

    fn claim(&self, session: &SessionId) -> Result<Lease, StoreError> {
        self.inner.claim(session)
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.inner.release(lease)
    }

    fn append(&self, appends: &[Append]) -> Vec<Result<(), StoreError>> {
        // One fault fails the whole call, as a failed transaction does.
        let faults = appends.iter().filter(|_| spend(&self.appends)).count();
        if faults == 0 {
            return self.inner.append(appends);
        }
        appends.iter().map(|_| Err(full("appending"))).collect()
    }

    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> Result<Page, StoreError> {
        if spend(&self.reads) {
            return Err(full("reading"));
        }
        self.inner.read(session, from, budget)
    }

    fn fold(&self, lease: &Lease, upto: Seq) -> Result<(), StoreError> {
        self.inner.fold(lease, upto)
    }

    fn find(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.inner.find(session)
    }

    fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        self.inner.list(query)
    }

    fn set_title(&self, session: &SessionId, title: &str) -> Result<(), StoreError> {
        self.inner.set_title(session, title)
    }

    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> Result<(), StoreError> {
        self.inner.set_archived(session, archived, at)
    }

    fn delete(&self, session: &SessionId, at: Millis) -> Result<(), StoreError> {
        self.inner.delete(session, at)
    }

    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> Result<(), StoreError> {
        self.inner.add_stubs(agent, stubs)
    }

    fn profile(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.profile(key)
    }

    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> Result<(), StoreError> {
        self.inner.remember_profile(key, profile, at)
    }
}

/// Takes one from a count, unless nothing is left of it.
fn spend(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn full(context: &str) -> StoreError {
    let source = io::Error::new(io::ErrorKind::StorageFull, "no space left on device");
    StoreError::Io { context: context.to_owned(), source: source.into() }
}

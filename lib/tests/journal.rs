//! The writer thread in front of a store: what waits together is written together, and nothing queued is lost.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use rethread::store::journal::Journal;
use rethread::store::memory::MemoryStore;
use rethread::store::{
    Append, Archived, Lease, ListPage, ListQuery, NewSession, Page, SessionRow, Store, StoreError, Stub,
};
use rethread_core::{Millis, Seq, SessionId};
use rethread_testkit::fault::FaultStore;

mod store;

use store::{append_of, entry, new_session, show};

/// A store whose appends wait at a gate, and are counted.
#[derive(Default)]
struct Gated {
    inner: MemoryStore,
    open: Mutex<bool>,
    opened: Condvar,
    calls: AtomicUsize,
}

impl Gated {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl Store for Gated {
    fn append(&self, appends: &[Append]) -> Vec<Result<(), StoreError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
        self.inner.append(appends)
    }

    fn create(&self, new: NewSession) -> Result<Lease, StoreError> {
        self.inner.create(new)
    }

    fn claim(&self, session: &SessionId) -> Result<Lease, StoreError> {
        self.inner.claim(session)
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.inner.release(lease)
    }

    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> Result<Page, StoreError> {
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

/// The append that follows `behind` others.
fn nth(lease: &Lease, behind: u64) -> Append {
    Append { expected: Seq(behind), ..append_of(lease, vec![entry(&behind.to_string())]) }
}

#[tokio::test]
async fn appends_that_wait_are_written_together() {
    let store = Arc::new(Gated::default());
    let journal = Journal::start(Arc::clone(&store) as Arc<dyn Store>);
    let lease = store.create(new_session("s")).unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let (journal, append) = (journal.clone(), nth(&lease, n));
            tokio::spawn(async move { journal.append(append).await })
        })
        .collect();
    while store.calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    // The tasks run in order on this one thread; after this round all of them are queued.
    tokio::task::yield_now().await;
    store.open();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(store.calls.load(Ordering::SeqCst) <= 3, "{} calls", store.calls.load(Ordering::SeqCst));
    assert_eq!(journal.read(lease.session, Seq(0), 10_000).await.unwrap().items.len(), 20);
}

#[tokio::test]
async fn what_is_queued_is_written_when_the_journal_ends() {
    let store = Arc::new(Gated::default());
    let journal = Journal::start(Arc::clone(&store) as Arc<dyn Store>);
    let lease = store.create(new_session("s")).unwrap();
    for n in 0..5 {
        let mut waiting = Box::pin(journal.append(nth(&lease, n)));
        // Polled once, it is queued; then its caller gives up.
        tokio::select! { biased; _ = &mut waiting => panic!("the gate is shut"), () = tokio::task::yield_now() => {} }
    }
    store.open();
    drop(journal);
    assert_eq!(store.find(&lease.session).unwrap().unwrap().head, Seq(5));
}

#[tokio::test]
async fn each_append_has_its_own_outcome() {
    let journal = Journal::start(Arc::new(MemoryStore::new()));
    let lease = journal.call(|store| store.create(new_session("s"))).await.unwrap();
    let (first, wrong) = tokio::join!(journal.append(nth(&lease, 0)), journal.append(nth(&lease, 7)));
    first.unwrap();
    assert!(matches!(wrong, Err(StoreError::MovedOn { .. })));
    journal.fold(lease.clone(), Seq(1)).await.unwrap();
    let page = journal.read(lease.session, Seq(0), 1000).await.unwrap();
    assert_eq!(show(&page.items), ["1 0"]);
}

#[tokio::test]
async fn a_failed_disk_is_told_and_forgotten() {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let journal = Journal::start(Arc::clone(&store) as Arc<dyn Store>);
    let lease = store.create(new_session("s")).unwrap();
    store.fail_appends(1);
    assert!(matches!(journal.append(nth(&lease, 0)).await, Err(StoreError::Io { .. })));
    journal.append(nth(&lease, 0)).await.unwrap();
    store.fail_reads(1);
    assert!(matches!(journal.read(id(), Seq(0), 10).await, Err(StoreError::Io { .. })));
    assert_eq!(journal.read(id(), Seq(0), 10).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_panic_in_a_call_is_an_error() {
    let journal = Journal::start(Arc::new(MemoryStore::new()));
    let outcome = journal.call(|_| -> Result<(), StoreError> { panic!("on purpose") }).await;
    assert!(matches!(outcome, Err(StoreError::Io { .. })));
    assert!(matches!(journal.read(id(), Seq(0), 10).await, Err(StoreError::Unknown(_))));
}

fn id() -> SessionId {
    SessionId::from("s")
}

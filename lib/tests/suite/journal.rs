//! The writer thread in front of a store: what waits together is written together, and nothing queued is lost.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use rethread::store::journal::Journal;
use rethread::store::memory::MemoryStore;
use rethread::store::{Append, Lease, Store, StoreError};
use rethread_core::{Seq, SessionId};
use rethread_testkit::fault::FaultStore;
use rethread_testkit::watched::{Watched, Watchman};

use crate::store::{append_of, entry, new_session, show};

/// A store whose appends wait at a gate, and are counted.
type GatedStore = Watched<Gate>;

#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    calls: AtomicUsize,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl Watchman for Gate {
    fn appending(&self, _appends: &[Append]) -> Result<(), fn() -> StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
        Ok(())
    }
}

/// The append that follows `behind` others.
fn nth(lease: &Lease, behind: u64) -> Append {
    Append { expected: Seq(behind), ..append_of(lease, vec![entry(&behind.to_string())]) }
}

#[tokio::test]
async fn appends_that_wait_are_written_together() {
    let store = Arc::new(GatedStore::new(Arc::new(MemoryStore::new())));
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
    let store = Arc::new(GatedStore::new(Arc::new(MemoryStore::new())));
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

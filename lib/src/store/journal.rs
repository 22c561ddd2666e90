//! The writer thread in front of a store: the one place where async code meets blocking storage. Appends that
//! wait together are committed together. Decides nothing about what is written.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rethread_core::{Seq, SessionId};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task;

use super::{Append, Lease, Page, Store, StoreError};

/// How many appends may wait; each waiting session has at most a few.
const QUEUE: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// How many calls are carried out at a time. A store has fewer connections than that, and each call has a thread.
const CALLS: usize = 8;

/// A store that can be awaited. Clones share one writer thread.
///
/// Dropping the last clone waits until the appends that are queued have been written.
#[derive(Clone)]
pub struct Journal {
    writer: Arc<Writer>,
    store: Arc<dyn Store>,
    folds: Arc<Semaphore>,
    calls: Arc<Semaphore>,
}

impl Journal {
    /// Starts the writer thread of this store.
    ///
    /// # Panics
    ///
    /// If the system has no room for one more thread.
    #[must_use]
    pub fn start(store: Arc<dyn Store>) -> Self {
        let writer = Arc::new(Writer::start(Arc::clone(&store)));
        // One fold at a time: it is work for idle moments, not for every core.
        let folds = Arc::new(Semaphore::new(1));
        Self { writer, store, folds, calls: Arc::new(Semaphore::new(CALLS)) }
    }

    /// Appends, and returns when the append is stored as durably as it asks for. An append that was queued is
    /// carried out even if the caller stops waiting.
    pub async fn append(&self, append: Append) -> Result<(), StoreError> {
        let (done, outcome) = oneshot::channel();
        self.writer.send(Waiting { append, done }).await?;
        outcome.await.unwrap_or_else(|_| Err(writer_gone()))
    }

    /// Folds the entries up to `upto`. It runs beside the writer thread, and appends wait for it no longer than
    /// the store's own write of one piece takes.
    pub async fn fold(&self, lease: Lease, upto: Seq) -> Result<(), StoreError> {
        let folds = Arc::clone(&self.folds);
        let permit = folds.acquire_owned().await.map_err(|closed| failed("folding", closed))?;
        self.call(move |store| {
            let _one_at_a_time = permit;
            store.fold(&lease, upto)
        })
        .await
    }

    /// Reads on from `from`, see [`Store::read`].
    pub async fn read(&self, session: SessionId, from: Seq, budget: usize) -> Result<Page, StoreError> {
        self.call(move |store| store.read(&session, from, budget)).await
    }

    /// Runs anything else that the store can do, off the async threads.
    pub async fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&dyn Store) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let _place = self.calls.acquire().await.map_err(|closed| failed("a call of the store", closed))?;
        finished(self.begin(f)).await
    }

    /// Begins the same, for [`finished`] to wait for.
    pub(crate) fn begin<R: Send + 'static>(
        &self,
        f: impl FnOnce(&dyn Store) -> Result<R, StoreError> + Send + 'static,
    ) -> task::JoinHandle<Result<R, StoreError>> {
        let store = Arc::clone(&self.store);
        task::spawn_blocking(move || f(store.as_ref()))
    }
}

/// Waits for a call that was begun.
pub(crate) async fn finished<R>(
    call: impl Future<Output = Result<Result<R, StoreError>, task::JoinError>>,
) -> Result<R, StoreError> {
    call.await.unwrap_or_else(|stopped| Err(failed("a call of the store", stopped)))
}

/// The thread and the way to it.
struct Writer {
    queue: Option<mpsc::Sender<Waiting>>,
    thread: Option<JoinHandle<()>>,
}

/// An append and whoever waits for it.
struct Waiting {
    append: Append,
    done: oneshot::Sender<Result<(), StoreError>>,
}

impl Writer {
    fn start(store: Arc<dyn Store>) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE.get());
        let thread = thread::Builder::new().name("store writer".to_owned());
        let thread =
            thread.spawn(move || write_all(store.as_ref(), waiting)).expect("the system starts a thread");
        Self { queue: Some(queue), thread: Some(thread) }
    }

    async fn send(&self, waiting: Waiting) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or_else(writer_gone)?;
        queue.send(waiting).await.map_err(|_| writer_gone())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic in the store has already been told to everyone who waited.
            let _ = thread.join();
        }
    }
}

/// Writes until nobody can queue any more and the queue is empty.
fn write_all(store: &dyn Store, mut queue: mpsc::Receiver<Waiting>) {
    let mut group = Vec::with_capacity(QUEUE.get());
    while queue.blocking_recv_many(&mut group, QUEUE.get()) > 0 {
        write_group(store, group.drain(..));
    }
}

fn write_group(store: &dyn Store, group: impl Iterator<Item = Waiting>) {
    let (appends, waiting): (Vec<_>, Vec<_>) = group.map(|one| (one.append, one.done)).unzip();
    let outcomes = store.append(&appends);
    for (done, outcome) in waiting.into_iter().zip(outcomes) {
        // Whoever no longer waits finds the entries when reading on.
        let _ = done.send(outcome);
    }
}

fn writer_gone() -> StoreError {
    failed("appending", "the store writer has ended")
}

fn failed(context: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Io { context: context.to_owned(), source: source.into() }
}

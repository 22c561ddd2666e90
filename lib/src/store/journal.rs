//! The async interface to a store: a writer thread for appends and worker threads for other calls. Appends that wait
//! together are committed in one transaction.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rethread_core::{Seq, SessionId};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task;

use super::{Append, Lease, Page, Store, StoreError};

/// The number of appends that may be queued; each live session queues at most a few.
const QUEUE_LENGTH: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// The number of other calls that run at the same time. Each uses a thread, and a store has fewer connections than
/// that.
const MAX_CONCURRENT_CALLS: usize = 8;

/// An async handle to a store. Clones share one writer thread.
///
/// Dropping the last clone waits until all queued appends are written.
#[derive(Clone)]
pub struct Journal {
    writer: Arc<WriterThread>,
    store: Arc<dyn Store>,
    folds: Arc<Semaphore>,
    calls: Arc<Semaphore>,
}

impl Journal {
    /// Starts the writer thread.
    ///
    /// # Panics
    ///
    /// If the system cannot start another thread.
    #[must_use]
    pub fn start(store: Arc<dyn Store>) -> Self {
        let writer = Arc::new(WriterThread::start(Arc::clone(&store)));
        // One fold at a time, so that folds do not occupy all cores.
        let folds = Arc::new(Semaphore::new(1));
        Self { writer, store, folds, calls: Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS)) }
    }

    /// Appends, and returns once the append is stored with the durability that it requests. A queued append is carried
    /// out even if the caller stops waiting.
    pub async fn append(&self, append: Append) -> Result<(), StoreError> {
        let (done, outcome) = oneshot::channel();
        self.writer.send(QueuedAppend { append, done }).await?;
        outcome.await.unwrap_or_else(|_| Err(writer_gone()))
    }

    /// Folds the entries up to `upto`. Runs beside the writer thread; appends wait only while one piece of the fold is
    /// written.
    pub async fn fold(&self, lease: Lease, upto: Seq) -> Result<(), StoreError> {
        let folds = Arc::clone(&self.folds);
        let permit = folds.acquire_owned().await.map_err(|closed| failed("folding", closed))?;
        self.call(move |store| {
            let _one_at_a_time = permit;
            store.fold(&lease, upto)
        })
        .await
    }

    /// Reads entries from `from` on, see [`Store::read`].
    pub async fn read(&self, session: SessionId, from: Seq, budget: usize) -> Result<Page, StoreError> {
        self.call(move |store| store.read(&session, from, budget)).await
    }

    /// Runs any other call of the store on a blocking thread.
    pub async fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&dyn Store) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let _place = self.calls.acquire().await.map_err(|closed| failed("a call of the store", closed))?;
        finished(self.begin(f)).await
    }

    /// Starts a call without waiting for it; [`finished`] waits for its result.
    pub(crate) fn begin<R: Send + 'static>(
        &self,
        f: impl FnOnce(&dyn Store) -> Result<R, StoreError> + Send + 'static,
    ) -> task::JoinHandle<Result<R, StoreError>> {
        let store = Arc::clone(&self.store);
        task::spawn_blocking(move || f(store.as_ref()))
    }
}

/// Waits for a call that was started with [`Journal::begin`].
pub(crate) async fn finished<R>(
    call: impl Future<Output = Result<Result<R, StoreError>, task::JoinError>>,
) -> Result<R, StoreError> {
    call.await.unwrap_or_else(|stopped| Err(failed("a call of the store", stopped)))
}

/// The writer thread and its queue.
struct WriterThread {
    queue: Option<mpsc::Sender<QueuedAppend>>,
    thread: Option<JoinHandle<()>>,
}

/// An append with the channel for its result.
struct QueuedAppend {
    append: Append,
    done: oneshot::Sender<Result<(), StoreError>>,
}

impl WriterThread {
    fn start(store: Arc<dyn Store>) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_LENGTH.get());
        let thread = thread::Builder::new().name("store writer".to_owned());
        let thread =
            thread.spawn(move || run_writer(store.as_ref(), waiting)).expect("the system starts a thread");
        Self { queue: Some(queue), thread: Some(thread) }
    }

    async fn send(&self, waiting: QueuedAppend) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or_else(writer_gone)?;
        queue.send(waiting).await.map_err(|_| writer_gone())
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // Every caller has received the panic as an error already.
            let _ = thread.join();
        }
    }
}

/// Writes appends until all senders are dropped and the queue is empty.
fn run_writer(store: &dyn Store, mut queue: mpsc::Receiver<QueuedAppend>) {
    let mut group = Vec::with_capacity(QUEUE_LENGTH.get());
    while queue.blocking_recv_many(&mut group, QUEUE_LENGTH.get()) > 0 {
        write_group(store, group.drain(..));
    }
}

fn write_group(store: &dyn Store, group: impl Iterator<Item = QueuedAppend>) {
    let (appends, waiting): (Vec<_>, Vec<_>) = group.map(|one| (one.append, one.done)).unzip();
    let outcomes = store.append(&appends);
    for (done, outcome) in waiting.into_iter().zip(outcomes) {
        // A caller that stopped waiting reads the entries from the store later.
        let _ = done.send(outcome);
    }
}

fn writer_gone() -> StoreError {
    failed("appending", "the store writer has ended")
}

fn failed(context: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Io { context: context.to_owned(), source: source.into() }
}

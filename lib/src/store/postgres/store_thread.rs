//! The thread of a store: all connections, timers and leases live there, so that they go on whatever the callers' runtime
//! does. Calls are handed over and answered by channels.

use std::pin::Pin;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::open_database::OpenDatabase;
use crate::store::open_outcome::not_opened;
use crate::store::{StoreError, StoreFuture};

/// The calls that may wait for the thread.
const QUEUE: usize = 1024;

/// How often a store that is being opened looks whether it is still wanted.
const CLOSED_INTERVAL: Duration = Duration::from_millis(50);

/// How long calls that nobody waits for any more may go on when the store is closed.
const CLOSING_LIMIT: Duration = Duration::from_secs(2);

/// A future that stays on its thread.
type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

type Job = Box<dyn FnOnce(Result<Rc<OpenDatabase>, StoreError>) -> LocalFuture<'static, ()> + Send>;

/// How to open a store on its thread.
pub(super) type Opener = Box<dyn FnOnce() -> LocalFuture<'static, Result<OpenDatabase, StoreError>> + Send>;

/// The thread of a store. Dropping it ends the thread.
pub(super) struct StoreThread {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    /// Starts the thread, which opens the store. The second value tells when it is open.
    pub(super) fn start(
        open: Opener,
    ) -> Result<(Self, oneshot::Receiver<Result<(), StoreError>>), StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (report, opened) = oneshot::channel();
        let failed = |cause: std::io::Error| StoreError::Io {
            context: "starting the thread of the store".to_owned(),
            source: cause.into(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let work = move || {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, run(open, queue, report));
        };
        let thread = std::thread::Builder::new().name("postgres store".to_owned()).spawn(work);
        let thread = Some(thread.map_err(failed)?);
        Ok((Self { jobs: Some(jobs), thread }, opened))
    }

    /// Runs `work` on the thread, as soon as the store is open. It goes on if the returned future is dropped.
    pub(super) fn call<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(Rc<OpenDatabase>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |store| {
            Box::pin(async move {
                let done = match store {
                    Ok(store) => work(store).await,
                    Err(error) => Err(error),
                };
                // A caller that has gone away does not need it.
                let _ = reply.send(done);
            })
        });
        let jobs = self.jobs.clone();
        Box::pin(async move {
            let sent = match jobs {
                Some(jobs) => jobs.send(job).await.is_ok(),
                None => false,
            };
            if !sent {
                return Err(not_opened());
            }
            answer.await.unwrap_or_else(|_| Err(not_opened()))
        })
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there leaves calls without an answer, which is an error for each of them.
            let _ = thread.join();
        }
    }
}

async fn run(open: Opener, mut queue: mpsc::Receiver<Job>, report: oneshot::Sender<Result<(), StoreError>>) {
    // A store that is dropped before it is open is not waited for.
    let opened = tokio::select! {
        opened = open() => opened,
        () = all_gone(&queue) => return,
    };
    let store = match opened {
        Ok(store) => Rc::new(store),
        Err(error) => {
            let _ = report.send(Err(error));
            while let Some(job) = queue.recv().await {
                job(Err(not_opened())).await;
            }
            return;
        }
    };
    let _ = report.send(Ok(()));
    let mut running = JoinSet::new();
    running.spawn_local(store.clone().upkeep());
    while let Some(job) = queue.recv().await {
        running.spawn_local(job(Ok(store.clone())));
        while running.try_join_next().is_some() {}
    }
    store.stop_upkeep();
    let rest = async { while running.join_next().await.is_some() {} };
    let _ = timeout(CLOSING_LIMIT, rest).await;
    store.close().await;
}

/// Waits until nobody can send jobs any more.
async fn all_gone(queue: &mpsc::Receiver<Job>) {
    while queue.sender_strong_count() > 0 {
        tokio::time::sleep(CLOSED_INTERVAL).await;
    }
}

//! The threads that run calls of the store which may block. A thread is started when a call finds none free, up to a limit,
//! and ends when it has had nothing to do for a while.
//!
//! Not `spawn_blocking`: with tokio's feature `test-util`, which a dependency switches on, a call there wakes the runtime
//! twice, and every turn ends with such a call.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;

use super::StoreError;
use crate::lock::locked;

/// How long a thread waits for the next call.
const KEPT: Duration = Duration::from_secs(10);

/// Does the work.
type Call = Box<dyn FnOnce() -> Report + Send>;
/// Tells whoever waits for the outcome.
type Report = Box<dyn FnOnce()>;

/// A set of threads. Dropping it waits for the calls that were begun.
pub(super) struct CallThreads {
    shared: Arc<SharedQueue>,
    limit: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct SharedQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    calls: VecDeque<Call>,
    /// The threads that wait for a call, or look for one as soon as they have reported the last.
    free: usize,
    /// All threads.
    running: usize,
    closed: bool,
}

impl CallThreads {
    /// No threads yet, and later at most this many.
    pub(super) fn up_to(limit: usize) -> Self {
        Self { shared: Arc::default(), limit, threads: Mutex::default() }
    }

    /// Runs a call on one of the threads. It runs to its end even if the future is dropped.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (report, outcome) = oneshot::channel();
        self.add(Box::new(move || {
            let outcome = call();
            // Whoever asked may have gone.
            Box::new(move || _ = report.send(outcome))
        }))?;
        outcome.await.unwrap_or_else(|_panicked| Err(failed("the call did not end".into())))
    }

    fn add(&self, call: Call) -> Result<(), StoreError> {
        let mut state = locked(&self.shared.state);
        state.calls.push_back(call);
        // A free thread that was woken for an earlier call has not taken it yet.
        if state.calls.len() <= state.free {
            drop(state);
            self.shared.changed.notify_one();
        } else if state.running < self.limit {
            state.running += 1;
            drop(state);
            self.start()?;
        }
        Ok(())
    }

    fn start(&self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        match thread::Builder::new().name("store call".to_owned()).spawn(move || shared.work()) {
            Ok(thread) => {
                let mut threads = locked(&self.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                Ok(())
            }
            Err(error) => self.shared.not_started(error),
        }
    }
}

impl Drop for CallThreads {
    fn drop(&mut self) {
        let waiting = {
            let mut state = locked(&self.shared.state);
            state.closed = true;
            std::mem::take(&mut state.calls)
        };
        drop(waiting);
        self.shared.changed.notify_all();
        for thread in std::mem::take(&mut *locked(&self.threads)) {
            // A call that panicked has been reported to whoever waited for it.
            let _ = thread.join();
        }
    }
}

impl SharedQueue {
    fn work(&self) {
        let mut report = None;
        while let Some(call) = self.next(report.take()) {
            // A panic ends this call, not the thread.
            report = catch_unwind(AssertUnwindSafe(call)).ok();
        }
    }

    /// Reports the last call and waits for another; nothing if the thread is no longer needed.
    fn next(&self, report: Option<Report>) -> Option<Call> {
        // Free before it reports: whoever waited for the outcome often has the next call at once, and no thread has to be
        // started for that.
        locked(&self.state).free += 1;
        report.into_iter().for_each(|report| report());
        let mut state = locked(&self.state);
        let call = loop {
            if let Some(call) = state.calls.pop_front() {
                break Some(call);
            }
            if state.closed {
                break None;
            }
            let waited = self.changed.wait_timeout(state, KEPT);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() && state.calls.is_empty() {
                break None;
            }
        };
        state.free -= 1;
        state.running -= usize::from(call.is_none());
        call
    }

    /// The calls wait for other threads; if there are none, they fail.
    fn not_started(&self, error: io::Error) -> Result<(), StoreError> {
        let mut state = locked(&self.state);
        state.running -= 1;
        if state.running > 0 {
            return Ok(());
        }
        let calls = std::mem::take(&mut state.calls);
        drop(state);
        drop(calls);
        Err(failed(error.into()))
    }
}

fn failed(source: Box<dyn std::error::Error + Send + Sync>) -> StoreError {
    StoreError::Io { context: "a call of the store".to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn as_many_calls_run_at_once_as_the_limit_allows() {
        let threads = CallThreads::up_to(3);
        // Nobody passes unless three calls run at the same time.
        let together = Arc::new(Barrier::new(3));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls = (0..9).map(|number| {
            let (together, now, most) = (together.clone(), now.clone(), most.clone());
            threads.run(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                together.wait();
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(number)
            })
        });
        let numbers: Result<Vec<usize>, _> = futures::future::join_all(calls).await.into_iter().collect();
        assert_eq!(numbers.unwrap(), (0..9).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn calls_one_after_the_other_use_one_thread() {
        let threads = CallThreads::up_to(8);
        for number in 0..200 {
            assert_eq!(threads.run(move || Ok(number)).await.unwrap(), number);
        }
        assert_eq!(locked(&threads.shared.state).running, 1);
    }

    #[tokio::test]
    async fn a_panic_fails_its_call_and_no_other() {
        let threads = CallThreads::up_to(1);
        let panicked: Result<(), _> = threads.run(|| panic!("as the test wants it")).await;
        assert!(panicked.is_err());
        assert_eq!(threads.run(|| Ok(7)).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn dropping_waits_for_a_call_that_was_begun() {
        let threads = CallThreads::up_to(1);
        let (begun, ended) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
        let (begin, end) = (begun.clone(), ended.clone());
        let call = async {
            let call = threads.run(move || {
                begin.wait();
                thread::sleep(Duration::from_millis(50));
                end.store(1, Ordering::SeqCst);
                Ok(())
            });
            tokio::time::timeout(Duration::from_millis(1), call).await
        };
        // The call is begun by the first poll of its future.
        let (_, outcome) = tokio::join!(tokio::task::spawn_blocking(move || begun.wait()), call);
        assert!(outcome.is_err(), "nobody waits for it any more");
        drop(threads);
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }
}

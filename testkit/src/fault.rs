//! A store that fails on demand, like a full or broken disk.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread::store::{Append, StoreError, StoreFuture};

use crate::watched::{Watched, Watchman};

/// A store whose operations can be made to fail.
pub type FaultStore = Watched<Faults>;

/// The requested faults.
#[derive(Default)]
pub struct Faults {
    appends: AtomicUsize,
    lost_answers: AtomicUsize,
    reads: AtomicUsize,
}

impl Faults {
    /// Makes the next `count` appends fail.
    pub fn fail_appends(&self, count: usize) {
        self.appends.store(count, Ordering::SeqCst);
    }

    /// Makes the next `count` appends fail although they are stored, as on a connection that breaks after the commit.
    pub fn lose_answers(&self, count: usize) {
        self.lost_answers.store(count, Ordering::SeqCst);
    }

    /// Makes the next `count` reads of a journal fail.
    pub fn fail_reads(&self, count: usize) {
        self.reads.store(count, Ordering::SeqCst);
    }
}

impl Watchman for Faults {
    fn appending(&self, _append: &Append) -> StoreFuture<'_, ()> {
        let outcome = if spend(&self.appends) { Err(full("appending")) } else { Ok(()) };
        Box::pin(std::future::ready(outcome))
    }

    fn appended(&self) -> Result<(), StoreError> {
        if spend(&self.lost_answers) { Err(full("appending")) } else { Ok(()) }
    }

    fn reading(&self) -> Result<(), StoreError> {
        if spend(&self.reads) { Err(full("reading")) } else { Ok(()) }
    }
}

/// Decrements a count; returns whether it was above zero.
fn spend(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn full(context: &str) -> StoreError {
    let source = io::Error::new(io::ErrorKind::StorageFull, "no space left on device");
    StoreError::Io { context: context.to_owned(), source: source.into() }
}

//! A store that fails on demand, like a full or broken disk.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread::store::{Append, StoreError};

use crate::watched::{Watched, Watchman};

/// A store whose operations can be made to fail.
pub type FaultStore = Watched<Faults>;

/// The requested faults.
#[derive(Default)]
pub struct Faults {
    appends: AtomicUsize,
    reads: AtomicUsize,
}

impl Faults {
    /// Makes the next `count` appends fail; a call with several appends counts them all.
    pub fn fail_appends(&self, count: usize) {
        self.appends.store(count, Ordering::SeqCst);
    }

    /// Makes the next `count` reads of a journal fail.
    pub fn fail_reads(&self, count: usize) {
        self.reads.store(count, Ordering::SeqCst);
    }
}

impl Watchman for Faults {
    /// One fault fails the whole call, like a failed transaction.
    fn appending(&self, appends: &[Append]) -> Result<(), fn() -> StoreError> {
        let faults = appends.iter().filter(|_| spend(&self.appends)).count();
        if faults == 0 { Ok(()) } else { Err(|| full("appending")) }
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

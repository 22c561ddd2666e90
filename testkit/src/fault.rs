//! A store that fails when it is told to, as a full or broken disk would.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread::store::{Append, StoreError};

use crate::watched::{Watched, Watchman};

/// A store with faults to order.
pub type FaultStore = Watched<Faults>;

/// The faults that are ordered.
#[derive(Default)]
pub struct Faults {
    appends: AtomicUsize,
    reads: AtomicUsize,
}

impl Faults {
    /// Fails this many of the next appends; a call with several of them counts them all.
    pub fn fail_appends(&self, count: usize) {
        self.appends.store(count, Ordering::SeqCst);
    }

    /// Fails this many of the next reads of a journal.
    pub fn fail_reads(&self, count: usize) {
        self.reads.store(count, Ordering::SeqCst);
    }
}

impl Watchman for Faults {
    /// One fault fails the whole call, as a failed transaction does.
    fn appending(&self, appends: &[Append]) -> Result<(), fn() -> StoreError> {
        let faults = appends.iter().filter(|_| spend(&self.appends)).count();
        if faults == 0 { Ok(()) } else { Err(|| full("appending")) }
    }

    fn reading(&self) -> Result<(), StoreError> {
        if spend(&self.reads) { Err(full("reading")) } else { Ok(()) }
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

//! Until when the agents of this process may run, for a store whose leases expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rethread_core::lease::{self, BootMillis, LeaseTerms};

use crate::clock;

/// Until when the agents of this process may run. The store moves it on with each renewal of its lease.
#[derive(Clone, Debug, Default)]
pub struct HostDeadline(Arc<AtomicU64>);

impl HostDeadline {
    /// The sign of life for a guardian: until when its agent may run if no other follows; nothing if the lease is over.
    #[must_use]
    pub fn beat(&self) -> Option<BootMillis> {
        let deadline = BootMillis(self.0.load(Ordering::Acquire));
        lease::beat(LeaseTerms::STANDARD, clock::since_boot(), deadline)
    }

    /// The first sign of life for a guardian. Nothing if there never was a lease: then no session can have been claimed. A time
    /// that has passed if the lease is over.
    #[must_use]
    pub fn first_beat(&self) -> Option<BootMillis> {
        let granted = self.0.load(Ordering::Acquire) > 0;
        granted.then(|| self.beat().unwrap_or_default())
    }

    /// The place where the store writes it, in milliseconds since the boot.
    #[cfg(feature = "postgres")]
    pub(crate) fn shared(&self) -> Arc<AtomicU64> {
        self.0.clone()
    }
}

impl PartialEq for HostDeadline {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HostDeadline {}

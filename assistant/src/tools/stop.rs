//! The end of work that looks at many files: somebody cancels it, or its time is up.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::prepared::CallEnd;

/// Says when to stop. Shared between the work and whoever waits for it.
#[derive(Debug)]
pub(super) struct Stop {
    cancelled: AtomicBool,
    timed_out: AtomicBool,
    deadline: Instant,
}

impl Stop {
    /// Work that may take this long.
    pub(super) fn after(time: Duration) -> Self {
        let (cancelled, timed_out) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { cancelled, timed_out, deadline: Instant::now() + time }
    }

    /// Asks for the end.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Says whether the work has to stop now.
    pub(super) fn now(&self) -> bool {
        if Instant::now() >= self.deadline {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        self.end() != CallEnd::Done
    }

    /// How the work ended, as far as it was asked to.
    pub(super) fn end(&self) -> CallEnd {
        if self.cancelled.load(Ordering::Relaxed) {
            CallEnd::Cancelled
        } else if self.timed_out.load(Ordering::Relaxed) {
            CallEnd::TimedOut
        } else {
            CallEnd::Done
        }
    }
}

/// A reader that fails once its work has to stop.
pub(super) struct Stoppable<'a, R> {
    /// What is read.
    pub(super) from: R,
    /// When it stops.
    pub(super) stop: &'a Stop,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.now() { Err(io::ErrorKind::TimedOut.into()) } else { self.from.read(buffer) }
    }
}

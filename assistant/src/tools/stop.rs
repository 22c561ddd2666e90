//! Stops a call that reads many files when it is cancelled or reaches its time limit.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::prepared::CallEnd;

/// The cancellation flag and the deadline of a call, shared between the call and its caller.
#[derive(Debug)]
pub(super) struct Stop {
    cancelled: AtomicBool,
    timed_out: AtomicBool,
    deadline: Instant,
}

impl Stop {
    /// A call with this time limit.
    pub(super) fn after(time: Duration) -> Self {
        let (cancelled, timed_out) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { cancelled, timed_out, deadline: Instant::now() + time }
    }

    /// Cancels the call.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the call has to stop now.
    pub(super) fn now(&self) -> bool {
        if Instant::now() >= self.deadline {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        self.end() != CallEnd::Done
    }

    /// How the call ended.
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

/// A reader that fails when its call has to stop.
pub(super) struct Stoppable<'a, R> {
    /// The source.
    pub(super) from: R,
    /// The flag that stops it.
    pub(super) stop: &'a Stop,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.now() { Err(io::ErrorKind::TimedOut.into()) } else { self.from.read(buffer) }
    }
}

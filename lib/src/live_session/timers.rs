//! The deadlines of a live session by name. Knows when one is due, not what follows from it.

use tokio::time::Instant;

/// The deadlines of a session.
pub(super) struct Timers {
    /// An agent that was asked to stop must have stopped by then.
    pub(super) cancel: Option<Instant>,
    /// The store that failed is tried again.
    pub(super) store_retry: Option<Instant>,
    /// An agent that opens the session and says nothing until then says nothing more.
    pub(super) agent_quiet: Option<Instant>,
    /// Clients that were reading inside a finished turn are looked at again.
    pub(super) fold_check: Option<Instant>,
    /// A session that does nothing until then is idle.
    pub(super) idle: Instant,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueTimer {
    Cancel,
    StoreRetry,
    AgentQuiet,
    FoldCheck,
    Idle,
}

impl Timers {
    /// Nothing is due before the session is idle.
    pub(super) fn until_idle(idle: Instant) -> Self {
        Self { cancel: None, store_retry: None, agent_quiet: None, fold_check: None, idle }
    }

    /// The next deadline, and what is due then.
    pub(super) fn next(&self) -> (Instant, DueTimer) {
        let optional = [
            (self.cancel, DueTimer::Cancel),
            (self.store_retry, DueTimer::StoreRetry),
            (self.agent_quiet, DueTimer::AgentQuiet),
            (self.fold_check, DueTimer::FoldCheck),
        ];
        let set = optional.into_iter().filter_map(|(at, due)| at.map(|at| (at, due)));
        set.fold((self.idle, DueTimer::Idle), |next, other| if other.0 < next.0 { other } else { next })
    }

    /// A deadline has passed: it is due once.
    pub(super) fn passed(&mut self, due: DueTimer) {
        match due {
            DueTimer::Cancel => self.cancel = None,
            DueTimer::StoreRetry => self.store_retry = None,
            DueTimer::AgentQuiet => self.agent_quiet = None,
            DueTimer::FoldCheck => self.fold_check = None,
            // Whoever looks whether the session is idle says when to look again.
            DueTimer::Idle => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_earliest_deadline_is_due_first_and_once() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut timers = Timers::until_idle(after(60));
        assert_eq!(timers.next(), (after(60), DueTimer::Idle));
        timers.cancel = Some(after(10));
        timers.agent_quiet = Some(after(2));
        timers.store_retry = Some(after(70));
        assert_eq!(timers.next(), (after(2), DueTimer::AgentQuiet));
        timers.passed(DueTimer::AgentQuiet);
        assert_eq!(timers.next(), (after(10), DueTimer::Cancel));
        timers.passed(DueTimer::Cancel);
        assert_eq!(timers.next(), (after(60), DueTimer::Idle));
        timers.passed(DueTimer::Idle);
        assert_eq!(timers.next(), (after(60), DueTimer::Idle), "it stays until it is moved");
    }
}

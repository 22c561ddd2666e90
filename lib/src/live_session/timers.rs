//! The deadlines of a live session by name, and the one alarm that waits for the next of them. Knows when a deadline is due, not
//! what follows from it.

use std::pin::Pin;

use tokio::time::{Instant, Sleep, sleep_until};

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

    /// What is due by now.
    pub(super) fn due(&self, now: Instant) -> Option<DueTimer> {
        let (at, due) = self.next();
        (at <= now).then_some(due)
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

/// Waits for deadlines. It is set again only for an earlier one: a deadline that moves away with each message costs nothing, and
/// the alarm rings once in vain.
pub(super) struct Alarm {
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    pub(super) fn at(deadline: Instant) -> Self {
        Self { sleep: Box::pin(sleep_until(deadline)) }
    }

    /// Rings at this deadline or before. An alarm that has rung is set for the deadline.
    pub(super) fn no_later_than(&mut self, deadline: Instant) {
        if deadline < self.sleep.deadline() || self.sleep.is_elapsed() {
            self.sleep.as_mut().reset(deadline);
        }
    }

    /// Waits until it rings. Dropping the future changes nothing.
    pub(super) async fn rings(&mut self) {
        self.sleep.as_mut().await;
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
        assert_eq!(timers.due(after(59)), None);
        assert_eq!(timers.due(after(60)), Some(DueTimer::Idle));
    }

    #[tokio::test]
    async fn an_alarm_is_set_again_for_an_earlier_deadline_and_after_it_rang() {
        let start = Instant::now();
        let after = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let mut alarm = Alarm::at(after(60_000));
        alarm.no_later_than(after(90_000));
        assert_eq!(alarm.sleep.deadline(), after(60_000), "a later deadline does not touch it");
        for deadline in [after(10), after(20)] {
            alarm.no_later_than(deadline);
            alarm.rings().await;
            assert!(deadline <= Instant::now() && Instant::now() < after(60_000));
        }
    }
}

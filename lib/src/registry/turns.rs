//! Serializes the opening of sessions: one opener at a time for each id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rethread_core::SessionId;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::lock::locked;

/// The locks by session id. One that nobody holds or waits for is removed.
#[derive(Default)]
pub(super) struct Turns {
    locks: Arc<Mutex<HashMap<SessionId, Arc<AsyncMutex<()>>>>>,
}

/// The turn to open one session.
pub(super) struct TurnToOpen {
    locks: Arc<Mutex<HashMap<SessionId, Arc<AsyncMutex<()>>>>>,
    session: SessionId,
    /// Empty only while it is dropped.
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until nobody else opens this session.
    pub(super) async fn take(&self, session: &SessionId) -> TurnToOpen {
        let lock = locked(&self.locks).entry(session.clone()).or_default().clone();
        let guard = Some(lock.lock_owned().await);
        TurnToOpen { locks: self.locks.clone(), session: session.clone(), guard }
    }
}

impl Drop for TurnToOpen {
    fn drop(&mut self) {
        let mut locks = locked(&self.locks);
        self.guard = None;
        // Whoever waits has a clone.
        if locks.get(&self.session).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_at_a_time_for_each_session_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let (one, other) = (SessionId("one".to_owned()), SessionId("other".to_owned()));
        let first = turns.take(&one).await;
        let second = turns.take(&other).await;
        let waiting = tokio::time::timeout(Duration::from_millis(20), turns.take(&one)).await;
        assert!(waiting.is_err(), "the first still has the turn");
        drop((first, second));
        drop(turns.take(&one).await);
        assert!(locked(&turns.locks).is_empty());
    }
}

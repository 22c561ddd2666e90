//! The end of a server's work: new work is refused, and the turns that run get some time to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rethread_core::SessionId;
use tokio::task::JoinSet;

use super::{Registry, end};
use crate::live_session::{Activity, Handle, OpenWork};
use crate::lock::locked;
use crate::wire::RpcError;

/// What the clients of a session are told that ends with its server.
pub(crate) const STOPPED: &str = "the server stopped";
/// The same for one that is let go before that.
const STOPPING: &str = "the server is stopping";

/// How soon a session is looked at again that had work.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Whether new work is taken.
#[derive(Debug, Default)]
pub(super) struct WorkGate(AtomicBool);

impl WorkGate {
    fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Registry {
    /// Refuses new turns and sessions once the server stops.
    pub(crate) fn check_open(&self) -> Result<(), RpcError> {
        match self.gate.is_closed() {
            false => Ok(()),
            true => {
                let hint = "wait until the server runs again, then load the session";
                Err(RpcError::internal("the server is stopping and takes no new work").hint(hint))
            }
        }
    }

    /// Takes no new work from now on. Each session is let go as soon as no turn of it runs that can make progress, so that
    /// another host can take it. Returns when all are, or at the limit.
    pub(crate) async fn drain(&self, limit: Duration) {
        self.gate.close();
        let mut turns: JoinSet<_> = self.handles().into_iter().map(let_go).collect();
        let all = async { while turns.join_next().await.is_some() {} };
        // Turns that take longer are ended with their sessions.
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// What the live sessions are doing.
    pub(crate) fn activities(&self) -> Vec<Activity> {
        self.handles().iter().map(Handle::activity).collect()
    }

    /// How many clients are attached to each live session.
    pub(crate) fn attached_clients(&self) -> Vec<(SessionId, usize)> {
        self.handles().iter().map(|handle| (handle.id.clone(), handle.status().clients)).collect()
    }

    pub(super) fn handles(&self) -> Vec<Handle> {
        locked(&self.live).values().cloned().collect()
    }
}

/// Ends a session when it has no work. A prompt that was taken before the gate was closed may begin some.
async fn let_go(handle: Handle) {
    loop {
        handle.quiet().await;
        if handle.ended() || end(handle.clone(), STOPPING.to_owned(), None, OpenWork::Kept).await.is_some() {
            return;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

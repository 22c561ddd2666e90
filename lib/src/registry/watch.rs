//! Watches the store for sessions that another process has archived or deleted while they are live here, and ends them; and
//! for requests of other processes to release one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rethread_core::SessionId;

use super::Registry;
use crate::live_session::{Handle, Message};
use crate::lock::locked;
use crate::store::{Changes, Revision, Store};

/// How often the store is asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// The live sessions of a registry.
type LiveSessions = Mutex<HashMap<SessionId, Handle>>;

impl Registry {
    /// Begins to watch, unless that has been done. Called when the first session becomes live; ends with the registry.
    pub(super) fn watch(&self) {
        if self.watching.set(()).is_ok() {
            tokio::spawn(watch(Arc::downgrade(&self.live), self.deps.store.clone()));
        }
    }
}

async fn watch(live: Weak<LiveSessions>, store: Arc<dyn Store>) {
    let mut since: Option<Revision> = None;
    loop {
        let Some(live) = live.upgrade() else { return };
        // A store that fails is asked again. While no session is live nothing can be lost.
        let wanted = since.is_none() || !locked(&live).is_empty();
        if wanted && let Ok(changes) = store.changes(since).await {
            pass_on(&live, &changes).await;
            since = Some(changes.revision);
        }
        drop(live);
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn pass_on(live: &LiveSessions, changes: &Changes) {
    for changed in &changes.sessions {
        let handle = locked(live).get(&changed.id).cloned();
        if let Some(handle) = handle {
            // One that has ended meanwhile is not lost.
            let _ = handle.send(Message::EpochSeen(changed.epoch)).await;
            if changed.release_asked_at.is_some() {
                let _ = handle.send(Message::ReleaseAsked).await;
            }
        }
    }
}

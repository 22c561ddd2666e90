//! Watches the store for sessions that another process has archived or deleted while they are live here, and ends them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Registry;
use crate::live_session::Message;
use crate::lock::locked;
use crate::store::{Changes, Revision};

/// How often the store is asked.
const INTERVAL: Duration = Duration::from_secs(1);

impl Registry {
    /// Begins to watch, unless that has been done. Ends with the registry.
    pub(crate) fn watch(self: &Arc<Self>) {
        if self.watching.set(()).is_ok() {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
    }

    async fn end_lost(&self, changes: &Changes) {
        for changed in &changes.sessions {
            if let Some(handle) = self.find(&changed.id) {
                // One that has ended meanwhile is not lost.
                let _ = handle.send(Message::EpochSeen(changed.epoch)).await;
            }
        }
    }
}

async fn watch(registry: Weak<Registry>) {
    let mut since: Option<Revision> = None;
    loop {
        let Some(registry) = registry.upgrade() else { return };
        // A store that fails is asked again. While no session is live nothing can be lost.
        if since.is_none() || !locked(&registry.live).is_empty() {
            if let Ok(changes) = registry.store().changes(since).await {
                registry.end_lost(&changes).await;
                since = Some(changes.revision);
            }
        }
        drop(registry);
        tokio::time::sleep(INTERVAL).await;
    }
}

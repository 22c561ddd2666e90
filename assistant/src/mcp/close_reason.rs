//! Why a connection was closed, as its transport saw it. Set once; all requests that wait for an answer can read it.

use std::sync::Arc;

use tokio::sync::watch;

/// The close reason of one connection.
#[derive(Clone)]
pub(super) struct CloseReason(Arc<watch::Sender<Option<String>>>);

impl CloseReason {
    /// A connection that is still open.
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Sets the reason, unless there is one already.
    pub(super) fn set(&self, cause: impl Into<String>) {
        self.0.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(cause.into());
            }
            first
        });
    }

    /// The reason, if the connection is closed.
    pub(super) fn cause(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until the connection is closed.
    pub(super) async fn wait(&self) -> String {
        let mut receiver = self.0.subscribe();
        // The sender is part of `self`, so it is still there.
        let cause = receiver.wait_for(Option::is_some).await.ok().and_then(|cause| cause.clone());
        cause.unwrap_or_default()
    }
}

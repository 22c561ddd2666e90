//! Why a connection ended, as its transport saw it. Set once, heard by everybody who waits for an answer.

use std::sync::Arc;

use tokio::sync::watch;

/// The end of one connection.
#[derive(Clone)]
pub(super) struct CloseReason(Arc<watch::Sender<Option<String>>>);

impl CloseReason {
    /// Nothing has ended yet.
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// It ends for this reason, unless it has ended before.
    pub(super) fn set(&self, cause: impl Into<String>) {
        self.0.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(cause.into());
            }
            first
        });
    }

    /// The reason, if it has ended.
    pub(super) fn cause(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits for the end.
    pub(super) async fn wait(&self) -> String {
        let mut receiver = self.0.subscribe();
        // The sender is ours: it cannot be gone before.
        let cause = receiver.wait_for(Option::is_some).await.ok().and_then(|cause| cause.clone());
        cause.unwrap_or_default()
    }
}

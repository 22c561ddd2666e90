//! The outcome of opening a store in the background.

use tokio::sync::oneshot;

use super::StoreError;

/// The outcome of opening a store in the background.
pub struct OpenOutcome(oneshot::Receiver<Result<(), StoreError>>);

impl OpenOutcome {
    /// An outcome that will be sent.
    pub(super) fn new(outcome: oneshot::Receiver<Result<(), StoreError>>) -> Self {
        Self(outcome)
    }

    /// Waits until the store is open.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn wait(self) -> Result<(), StoreError> {
        self.0.await.unwrap_or_else(|_| Err(not_opened()))
    }
}

/// The error of a call to a store that could not be opened.
pub(super) fn not_opened() -> StoreError {
    StoreError::Io { context: "opening the store".to_owned(), source: "it could not be opened".into() }
}

//! When finished turns are folded: once nobody reads inside them, beside everything else, one at a time.

use std::time::Duration;

use tokio::time::Instant;

use super::Runner;

/// How long after a turn it is looked whether everybody has read it.
const FOLD_CHECK: Duration = Duration::from_millis(300);

impl Runner {
    /// A finished turn is folded once nobody reads inside it.
    pub(super) fn fold_if_read(&mut self) {
        let upto = self.foldable;
        if self.folded >= upto {
            self.fold_check = None;
            return;
        }
        let busy = self.folding.as_ref().is_some_and(|folding| !folding.is_finished());
        if busy || self.live.read_below(upto) {
            // A slow reader need not be asked often.
            self.fold_check.get_or_insert_with(|| Instant::now() + FOLD_CHECK);
            return;
        }
        self.fold_check = None;
        self.folded = upto;
        self.live.forget(upto);
        let (journal, lease) = (self.around.journal.clone(), self.lease.clone());
        let session = self.id.clone();
        self.folding = Some(tokio::spawn(async move {
            // A fold that fails costs room, not truth; the next one takes up the rest.
            if let Err(error) = journal.fold(lease, upto).await {
                tracing::warn!(%session, "folding failed: {}", crate::wire::with_causes(&error));
            }
        }));
    }

    /// Waits for a fold under way: a reader must not have the journal change below it.
    pub(super) async fn settle_fold(&mut self) {
        if let Some(folding) = self.folding.take() {
            let _ = folding.await;
        }
    }
}

//! Opens the store for a command, without an agent or a server. Other processes may use it at the same time.

use std::sync::Arc;

use rethread::store::Store;

use crate::failure::Failure;
use crate::paths::Paths;
use crate::store_choice::StoreChoice;

/// Runs the work of a command with the store. If there is none yet, the work gets an empty one, and no file is created.
pub(crate) fn with_store<T>(
    work: impl AsyncFnOnce(Arc<dyn Store>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    run(StoreChoice::read(&Paths::from_environment()?)?.open_existing()?, work)
}

/// Runs the work of a command that adds sessions. If there is no store yet, it is created.
pub(crate) fn with_new_store<T>(
    work: impl AsyncFnOnce(Arc<dyn Store>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    run(StoreChoice::read(&Paths::from_environment()?)?.open()?, work)
}

fn run<T>(
    store: Arc<dyn Store>,
    work: impl AsyncFnOnce(Arc<dyn Store>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work(store))
}

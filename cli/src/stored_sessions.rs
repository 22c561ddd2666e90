//! Opens the store for a command, without an agent or a server. Other processes may use it at the same time.

use std::sync::Arc;

use rethread::store::Store;
use rethread::store::embedded::EmbeddedStore;
use rethread::store::memory::MemoryStore;

use crate::failure::{ExitCode, Failure};
use crate::paths::Paths;

/// Runs the work of a command with the store. If there is none yet, the work gets an empty one, and no file is created.
pub(crate) fn with_store<T>(
    work: impl AsyncFnOnce(Arc<dyn Store>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let paths = Paths::from_environment()?.store();
    let exists = paths.database.try_exists().map_err(|error| {
        Failure::new(ExitCode::Store, format!("opening {} failed: {error}", paths.database.display()))
    })?;
    let store: Arc<dyn Store> =
        if exists { Arc::new(EmbeddedStore::open(&paths)?) } else { Arc::new(MemoryStore::new()) };
    run(store, work)
}

/// Runs the work of a command that adds sessions. If there is no store yet, it is created.
pub(crate) fn with_new_store<T>(
    work: impl AsyncFnOnce(Arc<dyn Store>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let paths = Paths::from_environment()?.store();
    EmbeddedStore::create_files(&paths)?;
    run(Arc::new(EmbeddedStore::open(&paths)?), work)
}

fn run<T>(
    store: Arc<dyn Store>,
    work: impl AsyncFnOnce(Arc<dyn Store>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work(store))
}

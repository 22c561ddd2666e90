//! Where the tokens of remote clients are: in a file of this machine, or in a store that several hosts share.

use std::sync::Arc;

use rethread::store::Store;
use rethread_http::{TokenError, Tokens};

use crate::failure::{ExitCode, Failure};
use crate::paths::Paths;
use crate::store_choice::StoreChoice;

/// The tokens that a server with this store accepts.
pub(crate) fn of_store(store: Arc<dyn Store>, paths: &Paths) -> Tokens {
    store.shared_tokens().map_or_else(|| Tokens::in_file(paths.tokens()), Tokens::in_store)
}

/// Runs the work of a command with the tokens of the chosen store.
pub(crate) fn with_tokens<T>(
    paths: &Paths,
    work: impl AsyncFnOnce(Tokens) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let choice = StoreChoice::read(paths)?;
    let tokens = match &choice {
        StoreChoice::Embedded(_) => Tokens::in_file(paths.tokens()),
        StoreChoice::Postgres(_) => of_store(choice.open()?, paths),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work(tokens))
}

/// The error of a command.
pub(crate) fn failure(error: TokenError) -> Failure {
    let message = rethread::wire::with_causes(&error);
    match error {
        TokenError::Unknown(_) => {
            Failure::new(ExitCode::NotFound, message).hint("`rethread token list` shows the tokens")
        }
        TokenError::Io { .. } => Failure::plain(&message).hint("check the file and its folder"),
        TokenError::Store(error) => error.into(),
        TokenError::NoRandomness => Failure::plain(&message),
    }
}

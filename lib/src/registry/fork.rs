//! Forks a session for a client: the parent may be live here, and the agent may fork its own session. `store::fork` makes
//! the row.

use rethread_core::{Session, SessionId};
use serde_json::json;

use super::Registry;
use crate::agent::pool::SharedHost;
use crate::edge::client_request::Setup;
use crate::live_session::{AgentLines, AgentSlot, Handle, SessionStart, store_error};
use crate::store::StoreError;
use crate::store::fork::{Fork, ForkError, ForkParent, existing_row};
use crate::wire::RpcError;

impl Registry {
    /// Makes a session that goes on from another: after its last finished turn, or after a message of it. Its
    /// settings are those that the parent has now.
    pub(crate) async fn fork(
        &self,
        host: &SharedHost,
        parent: &SessionId,
        at: Option<&str>,
        setup: Setup,
    ) -> Result<(Handle, Session), RpcError> {
        let read = self.fork_parent(parent, at).await.map_err(|e| store_error(&e))?;
        let fork_of = read.forkable_native().filter(|_| at.is_none());
        let made = read.fork(self.store(), at, setup.cwd.clone(), setup.roots.clone()).await;
        let Fork { lease, session } = made.map_err(fork_error)?;
        let begin = SessionStart {
            id: lease.session.clone(),
            session: session.clone(),
            lease,
            setup,
            host: host.user(),
            fork_of,
            slot: AgentSlot::Empty,
            lines: AgentLines::new(),
        };
        Ok((self.start(begin), session))
    }

    /// The parent of a fork: its state from the live session if that is idle, else from the store.
    async fn fork_parent(&self, id: &SessionId, at: Option<&str>) -> Result<ForkParent, StoreError> {
        let row = existing_row(self.store(), id).await?;
        let live = match self.find(id).filter(|_| at.is_none()) {
            Some(handle) => handle.fork_state().await,
            None => None,
        };
        match live {
            Some(live) => Ok(ForkParent::live(row, live.session, live.at_turn_end)),
            None => ForkParent::read(self.store(), row).await,
        }
    }
}

fn fork_error(error: ForkError) -> RpcError {
    match error {
        ForkError::Store(error) => store_error(&error),
        ForkError::NotStored(session) => RpcError::unknown_session(session.as_str())
            .hint("only the agent has this session so far; load it, then fork it"),
        ForkError::NoMessage { message, .. } => {
            let expected = "the id of a message of this session";
            RpcError::field("_meta.rethread.atMessage", &json!(message), expected)
        }
    }
}

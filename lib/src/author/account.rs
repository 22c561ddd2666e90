//! Whether a user has logged in to an in-process agent. Kept across restarts of the agent.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{About, Agent};
use crate::wire::{RpcError, code};

/// The login state; initially logged out.
#[derive(Debug, Default)]
pub(super) struct Account {
    logged_in: AtomicBool,
}

impl Account {
    pub(super) async fn login(&self, agent: &impl Agent, method: &str) -> Result<(), RpcError> {
        agent.login(method).await?;
        self.logged_in.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) async fn logout(&self, agent: &impl Agent) -> Result<(), RpcError> {
        agent.logout().await?;
        self.logged_in.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses if a login is required and missing.
    pub(super) fn check(&self, about: &About) -> Result<(), RpcError> {
        if !about.login_first || self.logged_in.load(Ordering::Relaxed) {
            return Ok(());
        }
        let ways: Vec<_> = about.logins.iter().map(|login| login.description.as_str()).collect();
        let refused = RpcError::new(code::AUTH_REQUIRED, "log in first");
        Err(refused.hint(ways.join(" Or: ")))
    }
}

//! The agent processes of a server. Clients that need the same agent share one host: the same command, the same
//! offered capabilities, the same protocol setting. A host counts its users, connections and live sessions, and its
//! process ends with the last one.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use super::host::{AgentHost, AgentProtocol, AgentSource, HostConfig};
use crate::edge::capabilities::ClientProfile;
use crate::lock::locked;

/// What tells the hosts of a server apart.
#[derive(Debug, PartialEq, Eq, Hash)]
struct HostKey {
    /// The program with its arguments and environment, or the source itself if it is no command.
    source: String,
    /// The capabilities that the agent is offered, as JSON text.
    offers: String,
    protocol: AgentProtocol,
}

/// The hosts of a server.
#[derive(Clone, Default)]
pub struct AgentPool {
    hosts: Arc<Mutex<HashMap<Arc<HostKey>, Counted>>>,
}

struct Counted {
    host: AgentHost,
    users: usize,
}

impl AgentPool {
    /// The host for this agent and client, with one more user. It is made if there is none; no process is started.
    #[must_use]
    pub fn host(
        &self,
        source: &Arc<dyn AgentSource>,
        client: &ClientProfile,
        config: &HostConfig,
    ) -> HostUser {
        let key = HostKey {
            source: source.process_key().unwrap_or_else(|| format!("{:p}", Arc::as_ptr(source))),
            offers: client.offers(),
            protocol: config.protocol,
        };
        let new = || AgentHost::new(source.clone(), client.clone(), config.clone());
        let mut hosts = locked(&self.hosts);
        // Users share it: it has a whole environment.
        let key = hosts.get_key_value(&key).map(|(known, _)| known.clone()).unwrap_or_else(|| Arc::new(key));
        let host = hosts.entry(key.clone()).or_insert_with(|| Counted::of(new())).host.clone();
        drop(hosts);
        SharedHost { host, pool: self.clone(), key }.user()
    }

    /// How many hosts have users.
    pub(crate) fn count(&self) -> usize {
        locked(&self.hosts).len()
    }

    /// Takes one user away. Returns the host if that was the last one.
    fn remove_user(&self, key: &HostKey) -> Option<AgentHost> {
        let mut hosts = locked(&self.hosts);
        let counted = hosts.get_mut(key)?;
        counted.users -= 1;
        if counted.users > 0 {
            return None;
        }
        hosts.remove(key).map(|counted| counted.host)
    }
}

impl Counted {
    fn of(host: AgentHost) -> Self {
        Self { host, users: 0 }
    }
}

/// A host of the pool, for whoever wants to become a user of it. Does not keep its agent running.
#[derive(Clone)]
pub struct SharedHost {
    host: AgentHost,
    pool: AgentPool,
    /// Shared, since it contains a whole environment.
    key: Arc<HostKey>,
}

impl SharedHost {
    /// Uses the host from now on.
    #[must_use]
    pub fn user(&self) -> HostUser {
        let mut hosts = locked(&self.pool.hosts);
        let counted = hosts.entry(self.key.clone()).or_insert_with(|| Counted::of(self.host.clone()));
        counted.users += 1;
        // Another one may have taken the place of a host that nobody used.
        let host = counted.host.clone();
        HostUser { shared: Self { host, ..self.clone() }, left: false }
    }
}

impl Deref for SharedHost {
    type Target = AgentHost;

    fn deref(&self) -> &AgentHost {
        &self.host
    }
}

/// One user of a host. The agent process ends when the last user leaves or is dropped.
pub struct HostUser {
    shared: SharedHost,
    left: bool,
}

impl HostUser {
    /// The host that is used.
    #[must_use]
    pub fn shared(&self) -> &SharedHost {
        &self.shared
    }

    /// Stops using the host. If nobody else uses it, returns when its agent has ended.
    pub async fn leave(mut self) {
        self.left = true;
        if let Some(unused) = self.shared.pool.remove_user(&self.shared.key) {
            unused.end().await;
        }
    }
}

impl Deref for HostUser {
    type Target = AgentHost;

    fn deref(&self) -> &AgentHost {
        &self.shared
    }
}

impl Drop for HostUser {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let Some(unused) = self.shared.pool.remove_user(&self.shared.key) else { return };
        // Outside a runtime nothing runs that could be ended.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { unused.end().await });
        }
    }
}

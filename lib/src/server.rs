//! The door: a server has a store and an agent, and serves clients. Store, edge and transport meet here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::Restore;
use crate::agent::host::{AgentProtocol, AgentSource};
use crate::agent::process::GuardianCommand;
use crate::connection::Connection;
use crate::log::Log;
use crate::secret::Secrets;
use crate::store::Store;
use crate::store::journal::Journal;
use crate::transport::{Wire, stdio};

/// What can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which protocol versions the agent is offered.
    pub agent_protocol: AgentProtocol,
    /// How many bytes a line may have, in either direction.
    pub longest_line: usize,
    /// How long an agent may take to answer `initialize` before it is given up. The first start of some commands
    /// downloads the agent.
    pub start_limit: Duration,
    /// How long an agent may ignore a cancel before it is ended.
    pub cancel_patience: Duration,
    /// How long an agent that restores a session may say nothing when it is asked for an option that was chosen in it.
    pub option_patience: Duration,
    /// How far an agent goes to restore a session.
    pub restore: Restore,
    /// How long a session may do nothing before its agent is let go.
    pub idle_limit: Duration,
    /// Whether sessions that the agent keeps by itself are listed too.
    pub native_sessions: NativeSessions,
    /// Where things are noted that nobody can be told.
    pub log: Log,
    /// What keeps a command that is run for an agent, and all that it starts, together; without it that is its
    /// process group.
    pub guardian: Option<GuardianCommand>,
}

/// Whether sessions that an agent keeps by itself are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeSessions {
    /// Among the others.
    #[default]
    Listed,
    /// Not at all.
    Hidden,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            agent_protocol: AgentProtocol::Auto,
            // Images are big.
            longest_line: 64 * 1024 * 1024,
            start_limit: Duration::from_secs(120),
            cancel_patience: Duration::from_secs(10),
            option_patience: Duration::from_secs(30),
            restore: Restore::Auto,
            idle_limit: Duration::from_secs(30 * 60),
            native_sessions: NativeSessions::Listed,
            log: Log::default(),
            guardian: None,
        }
    }
}

/// Serves clients with one store and one kind of agent.
#[derive(Clone)]
pub struct Server {
    pub(crate) journal: Journal,
    pub(crate) agent: Arc<dyn AgentSource>,
    pub(crate) config: Config,
    /// The secrets of all sessions: one agent may serve several clients.
    pub(crate) secrets: Secrets,
}

impl Server {
    /// A server over this store with this agent.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, agent: Arc<dyn AgentSource>, config: Config) -> Self {
        let secrets = Secrets::default();
        let config = Config { log: config.log.without(secrets.clone()), ..config };
        Self { journal: Journal::start(store), agent, config, secrets }
    }

    /// Serves one client until it hangs up.
    pub async fn serve(&self, wire: Wire) {
        self.serve_until(wire, std::future::pending()).await;
    }

    /// Serves the client on standard input and output until it hangs up. To be called once.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        self.serve(stdio::open()?.into()).await;
        Ok(())
    }

    /// Serves one client until it hangs up or `stop` is ready. Either way its sessions are settled and its
    /// agent is ended before this returns.
    pub async fn serve_until(&self, wire: Wire, stop: impl Future<Output = ()>) {
        Connection::serve(self.clone(), wire, stop).await;
    }
}

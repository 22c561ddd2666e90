//! The server: owns the store, the live sessions and the agent processes, and serves clients. Store, edge and
//! transport meet here.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rethread_core::SessionId;

use crate::agent::Restore;
use crate::agent::host::{AgentProtocol, AgentSource, HostConfig};
use crate::agent::pool::AgentPool;
use crate::agent::process::GuardianCommand;
use crate::connection::{Connection, ConnectionDeps, NoAgent};
use crate::edge::capabilities::AgentProfile;
use crate::live_session::SessionDeps;
use crate::news::NewsDesk;
use crate::registry::{Registry, STOPPED};
pub use crate::secret::Redaction;
use crate::secret::Secrets;
use crate::store::{Store, StoreError};
use crate::transport::messages::ClientTransport;
use crate::transport::stdio;

pub use crate::connection::{
    CarriedClient, ClientAccess, ClientOrigin, ClientRole, ClientScope, Connecting, HostConnector,
    HostLinkError, NativeSessions, RemoteRules, StdioServers, TransportName,
};
pub use crate::live_session::{Activity, WhenUnattended};
pub use crate::news::{DurationTotals, NewsEvent, NewsItem, NewsReader, ServerTotals, SessionNews};

/// The settings of a server.
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
    /// How long an agent that restores a session may take to answer a change of an option.
    pub option_patience: Duration,
    /// How far an agent goes to restore a session.
    pub restore: Restore,
    /// What happens to a session when its last client leaves.
    pub when_unattended: WhenUnattended,
    /// How long a session may be idle before its agent is ended. One without clients is closed as well.
    pub idle_limit: Duration,
    /// Whether sessions that the agent keeps by itself are listed too.
    pub native_sessions: NativeSessions,
    /// Collects the secrets of all sessions. Events of the `tracing` crate may contain them: a subscriber that stores events
    /// should keep a clone and remove them with [`Secrets::redact`].
    pub secrets: Secrets,
    /// The program that keeps a command which is run for an agent together with everything that the command starts.
    /// Without it, that is the process group of the command.
    pub guardian: Option<GuardianCommand>,
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
            when_unattended: WhenUnattended::End,
            idle_limit: Duration::from_secs(30 * 60),
            native_sessions: NativeSessions::Listed,
            secrets: Secrets::default(),
            guardian: None,
        }
    }
}

/// What one client is served with, in place of what the server has for all.
#[derive(Clone)]
pub struct ClientSettings {
    /// The agent of the sessions that it makes, and of those that have none.
    pub agent: Arc<dyn AgentSource>,
    /// As [`Config::agent_protocol`].
    pub agent_protocol: AgentProtocol,
    /// As [`Config::longest_line`].
    pub longest_line: usize,
    /// As [`Config::start_limit`].
    pub start_limit: Duration,
    /// As [`Config::native_sessions`].
    pub native_sessions: NativeSessions,
    /// What the client may do.
    pub access: ClientAccess,
    /// How the client is connected, for other clients.
    pub transport: TransportName,
}

impl ClientSettings {
    /// The usual settings of a local client with this agent.
    #[must_use]
    pub fn with_agent(agent: Arc<dyn AgentSource>) -> Self {
        let Config { agent_protocol, longest_line, start_limit, native_sessions, .. } = Config::default();
        let (access, transport) = (ClientAccess::default(), TransportName::default());
        Self { agent, agent_protocol, longest_line, start_limit, native_sessions, access, transport }
    }
}

/// Serves clients with one store. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    deps: Arc<ConnectionDeps>,
    clients: Arc<AtomicUsize>,
}

/// A client that is counted until this is dropped.
struct CountedConnection(Arc<AtomicUsize>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    /// A server over this store with this agent.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, agent: Arc<dyn AgentSource>, config: Config) -> Self {
        let registry = Arc::new(Registry::new(session_deps(&store, &config)));
        let deps = ConnectionDeps {
            store,
            agent,
            agents: AgentPool::default(),
            host_config: host_config(&config),
            registry,
            native_sessions: config.native_sessions,
            access: ClientAccess::default(),
            transport: TransportName::default(),
            directory: Arc::default(),
            hosts: Arc::default(),
            carried: None,
        };
        Self { deps: Arc::new(deps), clients: Arc::default() }
    }

    /// Serves one client until it hangs up.
    pub async fn serve(&self, transport: impl Into<ClientTransport>) {
        self.serve_until(transport, std::future::pending()).await;
    }

    /// Serves the client on standard input and output until it hangs up. To be called once.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub async fn serve_stdio(&self) -> io::Result<()> {
        self.serve(stdio::open()?).await;
        Ok(())
    }

    /// Serves one client until it hangs up or `stop` is ready. What happens to the sessions that only this client
    /// follows is decided by [`Config::when_unattended`]; with [`WhenUnattended::End`] they and their agent have ended
    /// when this returns.
    pub async fn serve_until(&self, transport: impl Into<ClientTransport>, stop: impl Future<Output = ()>) {
        self.connected(self.deps.clone(), transport.into(), stop).await;
    }

    /// Serves one client with settings of its own until it hangs up or `stop` is ready.
    pub async fn serve_client(
        &self,
        transport: impl Into<ClientTransport>,
        settings: ClientSettings,
        stop: impl Future<Output = ()>,
    ) {
        let ClientSettings {
            agent,
            agent_protocol,
            longest_line,
            start_limit,
            native_sessions,
            access,
            transport: transport_name,
        } = settings;
        let shared = &self.deps;
        let secrets = shared.host_config.secrets.clone();
        let deps = ConnectionDeps {
            store: shared.store.clone(),
            agent,
            agents: shared.agents.clone(),
            host_config: HostConfig { protocol: agent_protocol, longest_line, start_limit, secrets },
            registry: shared.registry.clone(),
            native_sessions,
            access,
            transport: transport_name,
            directory: shared.directory.clone(),
            hosts: shared.hosts.clone(),
            carried: None,
        };
        self.connected(Arc::new(deps), transport.into(), stop).await;
    }

    /// Carries clients to the hosts that own their sessions from now on. The first connector stays.
    pub fn connect_hosts(&self, hosts: Arc<dyn HostConnector>) {
        let _ = self.deps.hosts.set(hosts);
        self.deps.registry.has_several_hosts();
    }

    /// Serves a client that another host carries here, until that host hangs up or `stop` is ready. The transport is between
    /// the hosts, which have proved to each other who they are.
    pub async fn serve_carried(
        &self,
        transport: impl Into<ClientTransport>,
        client: CarriedClient,
        stop: impl Future<Output = ()>,
    ) {
        let Ok(profile) = AgentProfile::read(&client.agent) else {
            return tracing::warn!(
                "a client of another host was refused: its agent is described in no known version"
            );
        };
        let shared = &self.deps;
        let config = &shared.host_config;
        let deps = ConnectionDeps {
            store: shared.store.clone(),
            agent: Arc::new(NoAgent),
            agents: shared.agents.clone(),
            host_config: HostConfig { secrets: config.secrets.clone(), ..*config },
            registry: shared.registry.clone(),
            native_sessions: NativeSessions::Hidden,
            access: client.access,
            transport: client.transport,
            directory: shared.directory.clone(),
            hosts: shared.hosts.clone(),
            carried: Some(Arc::new(profile)),
        };
        self.connected(Arc::new(deps), transport.into(), stop).await;
    }

    async fn connected(
        &self,
        deps: Arc<ConnectionDeps>,
        transport: ClientTransport,
        stop: impl Future<Output = ()>,
    ) {
        self.clients.fetch_add(1, Ordering::Relaxed);
        let _counted = CountedConnection(self.clients.clone());
        Connection::serve(deps, transport, stop).await;
    }

    /// Takes no new work from now on, and lets each session go when no turn of it runs that can make progress. Returns when all
    /// are, or at the limit. Turns that wait for an answer are waited for as long as a client is there to give it.
    pub async fn drain(&self, limit: Duration) {
        self.deps.registry.drain(limit).await;
    }

    /// Returns whether the store answers.
    ///
    /// # Errors
    /// If it does not.
    pub async fn check_store(&self) -> Result<(), StoreError> {
        self.deps.store.find(&SessionId::from("")).await.map(|_| ())
    }

    /// What each live session is doing.
    #[must_use]
    pub fn activities(&self) -> Vec<Activity> {
        self.deps.registry.activities()
    }

    /// Reads what happens in live sessions from now on.
    #[must_use]
    pub fn news(&self) -> NewsReader {
        self.deps.registry.news().reader()
    }

    /// What has happened since the server was made, in numbers.
    #[must_use]
    pub fn totals(&self) -> ServerTotals {
        self.deps.registry.news().totals()
    }

    /// How many agents its clients and sessions use.
    #[must_use]
    pub fn agent_count(&self) -> usize {
        self.deps.agents.count()
    }

    /// How many clients are connected.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// How many clients are attached to each live session. Observers do not count.
    #[must_use]
    pub fn attached_clients(&self) -> Vec<(SessionId, usize)> {
        self.deps.registry.attached_clients()
    }

    /// Ends all sessions, also those that no client follows. Returns when their journals are settled and their agents
    /// have been released.
    pub async fn shut_down(&self) {
        self.deps.registry.end_all(STOPPED).await;
    }
}

/// What every agent host of a server is given. The secrets are those of all sessions: one agent may serve several
/// clients.
fn host_config(config: &Config) -> HostConfig {
    HostConfig {
        protocol: config.agent_protocol,
        longest_line: config.longest_line,
        start_limit: config.start_limit,
        secrets: config.secrets.clone(),
    }
}

fn session_deps(store: &Arc<dyn Store>, config: &Config) -> SessionDeps {
    SessionDeps {
        store: store.clone(),
        secrets: config.secrets.clone(),
        cancel_patience: config.cancel_patience,
        option_patience: config.option_patience,
        restore: config.restore,
        when_unattended: config.when_unattended,
        idle_limit: config.idle_limit,
        guardian: config.guardian.clone(),
        news: NewsDesk::default(),
        several_hosts: Arc::default(),
        changed: Arc::default(),
    }
}

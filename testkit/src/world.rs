//! A complete test environment: a store, an agent and a server.

use std::sync::{Arc, OnceLock};

use rethread::edge::Version;
use rethread::server::{ClientAccess, ClientRole, ClientSettings, Config, Server};
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::memory::MemoryStore;
use rethread::store::postgres::PostgresStore;
use rethread::store::{FoldUpTo, Store};
use rethread_core::SessionId;
use tempfile::TempDir;

use crate::Pairing;
use crate::agent::{AgentConfig, ScriptedAgent};
use crate::client::Client;
use crate::postgres_server::{ON_POSTGRES, PostgresServer};
use crate::watched::{Watched, Watchman};

/// The environment of a scenario.
pub struct World {
    /// The server.
    pub server: Server,
    /// Its store.
    pub store: Arc<dyn Store>,
    /// Its agent.
    pub agent: ScriptedAgent,
    /// The version of clients.
    pub client: Version,
    config: Config,
}

/// Keeps the folder of a store as long as the store.
#[derive(Default)]
struct KeptFolder(OnceLock<TempDir>);

impl Watchman for KeptFolder {}

/// The environment variable that has all scenarios run on the embedded store.
const ON_EMBEDDED: &str = "RETHREAD_TEST_EMBEDDED";

impl World {
    /// A store and an agent that supports everything.
    #[must_use]
    pub fn of(pairing: Pairing) -> Self {
        Self::with(pairing.client, ScriptedAgent::of(pairing))
    }

    /// The same with a modified agent configuration.
    #[must_use]
    pub fn with_config(pairing: Pairing, nature: impl FnOnce(AgentConfig) -> AgentConfig) -> Self {
        let world = Self::of(pairing);
        world.agent.configure(|config| *config = nature(config.clone()));
        world
    }

    /// An embedded store in a temporary folder, and an agent that supports everything.
    #[must_use]
    pub fn on_disk(pairing: Pairing) -> Self {
        Self::embedded(pairing.client, ScriptedAgent::of(pairing))
    }

    fn embedded(client: Version, agent: ScriptedAgent) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let (database, locks) = (folder.path().join("rethread.db"), folder.path().join("locks"));
        let store = EmbeddedStore::open(&EmbeddedPaths { database, locks }).expect("a new store opens");
        let store = Watched::<KeptFolder>::new(Arc::new(store));
        store.0.set(folder).expect("it has no folder yet");
        Self::over(client, agent, Arc::new(store), Config::default())
    }

    fn on_postgres(client: Version, agent: ScriptedAgent) -> Self {
        let server = PostgresServer::shared().expect("the variable is set");
        let store = PostgresStore::open(&server.database()).expect("a new store opens");
        Self::over(client, agent, Arc::new(store), Config::default())
    }

    /// A store and this agent. The store is in memory, unless `RETHREAD_TEST_EMBEDDED` or `RETHREAD_TEST_POSTGRES` is set.
    #[must_use]
    pub fn with(client: Version, agent: ScriptedAgent) -> Self {
        match (std::env::var_os(ON_EMBEDDED), std::env::var_os(ON_POSTGRES)) {
            (Some(_), _) => Self::embedded(client, agent),
            (None, Some(_)) => Self::on_postgres(client, agent),
            (None, None) => Self::over(client, agent, Arc::new(MemoryStore::new()), Config::default()),
        }
    }

    /// This store, this agent and this configuration.
    #[must_use]
    pub fn over(client: Version, agent: ScriptedAgent, store: Arc<dyn Store>, config: Config) -> Self {
        let server = Server::new(store.clone(), Arc::new(agent.clone()), config.clone());
        Self { server, store, agent, client, config }
    }

    /// Changes the configuration.
    #[must_use]
    pub fn set(self, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = self.config;
        change(&mut config);
        Self::over(self.client, self.agent, self.store, config)
    }

    /// The next process on the same store, with the same agent.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::over(self.client, self.agent.clone(), self.store.clone(), self.config.clone())
    }

    /// Ends the client's process and its agent, and returns the next process.
    pub async fn restarted(&self, client: &Client) -> Self {
        client.disconnect().await;
        self.agent.wait_gone().await;
        self.again()
    }

    /// A client that loads the session in the next process, after a fold of all of it.
    pub async fn replayed(&self, client: &Client, session: &str) -> Client {
        let again = self.restarted(client).await;
        again.fold(session).await;
        let next = again.ready().await;
        next.load(session).await;
        next
    }

    /// Folds all of a session that is not open.
    pub async fn fold(&self, session: &str) {
        let lease = self.store.claim(&SessionId(session.to_owned())).await.expect("the session is there");
        let all = FoldUpTo { upto: lease.head, snapshot: None };
        self.store.fold(&lease, all).await.expect("what is over can be folded");
        self.store.release(&lease).await.expect("the session was claimed");
    }

    /// A connected client that has sent nothing.
    #[must_use]
    pub fn connect(&self) -> Client {
        self.connect_as(self.client)
    }

    /// A connected client of this version that has sent nothing.
    #[must_use]
    pub fn connect_as(&self, version: Version) -> Client {
        Client::connect(&self.server, version)
    }

    /// An initialized client of this version that may do only this.
    pub async fn ready_with(&self, version: Version, access: ClientAccess) -> Client {
        let settings = ClientSettings::with_agent(Arc::new(self.agent.clone()));
        let client = Client::connect_with(&self.server, version, ClientSettings { access, ..settings });
        client.initialize().await;
        client
    }

    /// An initialized observer of this version.
    pub async fn observer(&self, version: Version) -> Client {
        let access = ClientAccess { role: ClientRole::Observer, ..ClientAccess::default() };
        self.ready_with(version, access).await
    }

    /// An initialized client.
    pub async fn ready(&self) -> Client {
        let client = self.connect();
        client.initialize().await;
        client
    }

    /// An environment with an initialized client and a session.
    pub async fn begun(pairing: Pairing) -> (Self, Client, String) {
        let world = Self::of(pairing);
        let client = world.ready().await;
        let session = client.new_session().await;
        (world, client, session)
    }

    /// An initialized client of this version.
    pub async fn ready_as(&self, version: Version) -> Client {
        let client = self.connect_as(version);
        client.initialize().await;
        client
    }
}

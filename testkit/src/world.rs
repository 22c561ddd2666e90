//! A complete test environment: a store, an agent and a server.

use std::sync::Arc;

use rethread::edge::Version;
use rethread::server::{Config, Server};
use rethread::store::Store;
use rethread::store::memory::MemoryStore;
use rethread::store::sqlite::{SqlitePaths, SqliteStore};
use rethread_core::SessionId;
use tempfile::TempDir;

use crate::Pairing;
use crate::agent::{AgentConfig, ScriptedAgent};
use crate::client::Client;

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

impl World {
    /// A memory store and an agent that supports everything.
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

    /// A SQLite store in a temporary folder, and an agent that supports everything.
    #[must_use]
    pub fn on_disk(pairing: Pairing) -> (Self, TempDir) {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let (database, locks) = (folder.path().join("rethread.db"), folder.path().join("locks"));
        let store = SqliteStore::open(&SqlitePaths { database, locks }).expect("a new database opens");
        let agent = ScriptedAgent::of(pairing);
        (Self::over(pairing.client, agent, Arc::new(store), Config::default()), folder)
    }

    /// A memory store and this agent.
    #[must_use]
    pub fn with(client: Version, agent: ScriptedAgent) -> Self {
        Self::over(client, agent, Arc::new(MemoryStore::new()), Config::default())
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
        again.fold(session);
        let next = again.ready().await;
        next.load(session).await;
        next
    }

    /// Folds all of a session that is not open.
    pub fn fold(&self, session: &str) {
        let lease = self.store.claim(&SessionId(session.to_owned())).expect("the session is there");
        self.store.fold(&lease, lease.head).expect("what is over can be folded");
        self.store.release(&lease).expect("the session was claimed");
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

//! Prepares the process for a server with a store and one agent, as `acp` and `chat` run it.

use std::num::NonZeroU32;
use std::sync::Arc;

use rethread::agent::environment::Environment;
use rethread::agent::host::AgentSource;
use rethread::secret::{Secret, Secrets};
use rethread::server::{Config, Server};
use rethread::store::OpenOutcome;
use rethread::store::Store;
use rethread::store::embedded::EmbeddedStore;
use rethread::store::postgres::Patience;
use rethread_assistant::mcp::ServerConfig;
use rethread_http::HostNetwork;
use tokio::signal::unix::{SignalKind, signal};

use crate::agents::{AgentChoice, guard_until, guardian};
use crate::cluster::{self, Cluster};
use crate::config;
use crate::environment;
use crate::failure::Failure;
use crate::log::{self, LogLevel};
use crate::paths::Paths;
use crate::pruning::prune_daily;
use crate::store_choice::{STORE_VARIABLE, StoreChoice, SyncIn};

/// More open files than anybody needs; some programs take long with a limit that is higher.
const MAX_OPEN_FILES: libc::rlim_t = 65_536;

/// All that a server is made of.
pub(crate) struct ServerParts {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// The agent.
    agent: Arc<dyn AgentSource>,
    config: Config,
    /// After how many days without a change sessions are deleted.
    keep_days: Option<NonZeroU32>,
    /// The environment of agents that no client hands over.
    environment: Environment,
    /// The way to the hosts of a shared store, for a process that is none itself.
    hosts: Option<Arc<HostNetwork>>,
}

impl ServerParts {
    /// Prepares the process, starts the log and begins to open the store: answering `initialize` does not need it. No thread
    /// may have been started before. The second value tells when the store is open, or why it cannot be opened.
    pub(crate) fn prepare(
        agent: AgentChoice,
        config: Config,
        log_level: LogLevel,
    ) -> Result<(Self, OpenOutcome), Failure> {
        tune_heap();
        raise_file_limit();
        let paths = Paths::from_environment()?;
        match &agent {
            // SAFETY: no thread has been started so far.
            AgentChoice::Assistant => unsafe { environment::take(&secret_variables(&paths)) },
            // The agent may need the keys.
            AgentChoice::Command(_) => {}
        }
        let choice = StoreChoice::read(&paths)?;
        create_files(&choice)?;
        let secrets = Secrets::default();
        add_secrets(&secrets, &agent, &paths);
        add_password(&secrets, &choice);
        add_cluster_key(&secrets, &paths);
        log::start(paths.logs()?.join("rethread.log"), log_level, secrets.clone());
        let (store, opened) = choice.open_in_background(Patience::None, SyncIn::Place)?;
        guard_until(store.host_deadline());
        let agent = agent.source(&paths)?;
        let config = Config { secrets, guardian: Some(guardian()?), ..config };
        // A wrong file is an error where more of it is needed.
        let keep_days = config::keep_days(&paths.config()).unwrap_or_else(|why| {
            tracing::warn!("old sessions are kept: {why}");
            None
        });
        let environment = environment::for_agents();
        let hosts = visited_hosts(&paths, store.as_ref());
        Ok((Self { store, agent, config, keep_days, environment, hosts }, opened))
    }

    /// The same for a server of many clients, which say themselves which agent they want.
    pub(crate) fn prepare_shared(
        paths: &Paths,
        config: Config,
        log_level: LogLevel,
    ) -> Result<(Self, OpenOutcome), Failure> {
        tune_heap();
        raise_file_limit();
        // Agents may need the keys.
        let environment = environment::for_agents();
        // SAFETY: no thread has been started so far.
        unsafe { environment::take(&secret_variables(paths)) };
        let choice = StoreChoice::read(paths)?;
        create_files(&choice)?;
        let secrets = Secrets::default();
        add_secrets(&secrets, &AgentChoice::Assistant, paths);
        add_password(&secrets, &choice);
        add_cluster_key(&secrets, paths);
        log::start(paths.logs()?.join("rethread.log"), log_level, secrets.clone());
        let (store, opened) = choice.open_in_background(Patience::UntilReachable, SyncIn::Thread)?;
        guard_until(store.host_deadline());
        let agent = AgentChoice::Assistant.source(paths)?;
        let config = Config { secrets, guardian: Some(guardian()?), ..config };
        Ok((Self { store, agent, config, keep_days: None, environment, hosts: None }, opened))
    }

    /// The built-in assistant of the server.
    pub(crate) fn agent(&self) -> &Arc<dyn AgentSource> {
        &self.agent
    }

    /// The environment of agents that no client hands over.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The secrets that are removed from logs and errors.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.config.secrets
    }

    /// Deletes old sessions once a day, if the configuration says so. Never ends.
    pub(crate) async fn prune_daily(&self) {
        match self.keep_days {
            Some(days) => prune_daily(self.store.clone(), days).await,
            None => std::future::pending().await,
        }
    }

    /// Makes the server. Must be called in a runtime.
    pub(crate) fn server(&self) -> Server {
        let server = Server::new(self.store.clone(), self.agent.clone(), self.config.clone());
        if let Some(hosts) = &self.hosts {
            server.connect_hosts(hosts.clone());
        }
        server
    }
}

/// Creates the files of an embedded store, so that a folder that cannot be written is an error at once.
fn create_files(choice: &StoreChoice) -> Result<(), Failure> {
    match choice {
        StoreChoice::Embedded(paths) => Ok(EmbeddedStore::create_files(paths)?),
        StoreChoice::Postgres(_) => Ok(()),
    }
}

/// The password of the store is removed from logs and errors.
fn add_password(secrets: &Secrets, choice: &StoreChoice) {
    if let Some(password) = choice.password() {
        secrets.add_variables(&[(STORE_VARIABLE.to_owned(), Secret::new(password))]);
    }
}

/// The variables that are removed from the environment.
fn secret_variables(paths: &Paths) -> Vec<String> {
    let mut names = config::key_variables(&paths.config());
    names.push(cluster::KEY_VARIABLE.to_owned());
    names
}

/// The key of the hosts is removed from logs and errors. A wrong file is an error where the key is needed.
fn add_cluster_key(secrets: &Secrets, paths: &Paths) {
    if let Ok(Some(key)) = cluster::key(&paths.config()) {
        secrets.add_variables(&[(cluster::KEY_VARIABLE.to_owned(), key)]);
    }
}

/// The hosts of a shared store, if their key is known.
fn visited_hosts(paths: &Paths, store: &dyn Store) -> Option<Arc<HostNetwork>> {
    store.host_deadline()?;
    match Cluster::read(&paths.config()) {
        Ok(cluster) => cluster.map(Cluster::visitor),
        Err(failure) => {
            tracing::warn!("sessions on other hosts cannot be reached: {}", failure.message());
            None
        }
    }
}

/// Adds what the configuration gives to the agent: its environment, and that of the assistant's MCP servers.
fn add_secrets(secrets: &Secrets, agent: &AgentChoice, paths: &Paths) {
    match agent {
        AgentChoice::Command(invocation) => secrets.add_variables(&invocation.env),
        AgentChoice::Assistant => {
            for server in config::assistant_defaults(&paths.config()).servers {
                match &server {
                    ServerConfig::Stdio { env, .. } => secrets.add_variables(env),
                    ServerConfig::Http { headers, .. } | ServerConfig::Sse { headers, .. } => {
                        secrets.add_variables(headers);
                    }
                }
            }
        }
    }
}

/// Waits for a signal that asks the process to end.
pub(crate) async fn asked_to_stop() {
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::hangup()) => {}
    }
}

/// Allows as many open files as the system does: each live session has one, and each agent several. If it cannot be
/// changed, the store closes files that are not in use.
fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for both calls.
    unsafe {
        let known = libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0;
        let wanted = limit.rlim_max.min(MAX_OPEN_FILES);
        if known && limit.rlim_cur < wanted {
            limit.rlim_cur = wanted;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Limits glibc to two heap arenas. By default it makes an arena for each new thread, up to eight per core, and memory
/// freed in one is not reused by the others, so that the process would grow with its threads. Buffers as large as a piece
/// of a replay come from the heap, and some free memory stays there: the system clears each page that it gives out.
fn tune_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets numbers; no thread has been started so far.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 512 * 1024);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1024 * 1024);
    }
}

//! One open session: its tools, its MCP servers, and the notices about them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rethread::author::{Emitter, SessionSetup, Turn};
use rethread::command::{Environment, GuardianCommand};
use rethread::lock::locked;
use rethread::wire::RpcError;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::command;
use crate::mcp::{self, ServerConfig, Servers, SessionEnvironment};
use crate::tools::Toolbox;

/// The state of an open session.
pub struct Session {
    pub(crate) emitter: Emitter,
    pub(crate) toolbox: Toolbox,
    pub(crate) servers: Arc<Servers>,
    /// The client's system prompt.
    pub(crate) system_prompt: Option<Value>,
    /// The time until which a prompt waits for servers that are still connecting.
    servers_by: Instant,
    /// The servers that a prompt did not wait for.
    skipped: SkippedServers,
    /// The number of tools that the last notice said were left out.
    left_out: AtomicUsize,
    /// Notes about project instructions that were already shown.
    noted: Mutex<BTreeSet<String>>,
}

/// The names of servers that a prompt did not wait for.
type SkippedServers = Arc<Mutex<BTreeSet<String>>>;

/// The dependencies of a session.
pub(crate) struct SessionDeps {
    /// The limits for MCP servers.
    pub(crate) limits: mcp::Limits,
    /// Environment variables that hold keys.
    pub(crate) keys: Vec<String>,
    /// Files that hold keys.
    pub(crate) private: Vec<PathBuf>,
    /// The guardian of commands and servers.
    pub(crate) guardian: Option<GuardianCommand>,
    /// The environment of commands and servers.
    pub(crate) environment: Environment,
    /// The MCP servers of every session.
    pub(crate) servers: Vec<ServerConfig>,
}

impl Session {
    /// Opens a session and starts to connect its servers without waiting. Notices report the outcome.
    pub(crate) async fn open(setup: SessionSetup, deps: SessionDeps) -> Result<Self, RpcError> {
        let SessionDeps { limits, keys, private, guardian, environment, servers: own_servers } = deps;
        let SessionSetup { cwd, roots, servers, system_prompt, emitter, .. } = setup;
        let roots: Vec<_> = std::iter::once(cwd).chain(roots).collect();
        // Commands and servers must not read the API keys.
        let toolbox = Toolbox::new(roots.clone()).without_variables(keys.clone()).without_files(private);
        let toolbox = toolbox.guarded(guardian.clone()).in_environment(environment.clone());
        let (mut configs, wrong) = mcp::from_acp(&json!(servers).into());
        let is_missing = |server: &ServerConfig| configs.iter().all(|config| config.name() != server.name());
        let missing: Vec<_> = own_servers.into_iter().filter(is_missing).collect();
        configs.extend(missing);
        for error in wrong {
            emitter.notice("warning", &error.to_string(), None).await;
        }
        let environment = SessionEnvironment {
            cwd: roots[0].clone(),
            roots,
            variables: environment,
            hidden: keys,
            guardian,
        };
        let servers = Arc::new(Servers::start(configs, environment, limits));
        let servers_by = Instant::now() + limits.first_prompt;
        let (skipped, left_out, noted) = (SkippedServers::default(), AtomicUsize::new(0), Mutex::default());
        let session = Self { emitter, toolbox, servers, system_prompt, servers_by, skipped, left_out, noted };
        session.follow_servers().await;
        Ok(session)
    }

    /// Sends the commands to the client, and starts the task that watches the servers.
    async fn follow_servers(&self) {
        let mut changes = self.servers.changes();
        changes.mark_changed();
        let (emitter, servers) = (self.emitter.clone(), Arc::downgrade(&self.servers));
        let mut watcher = ServerWatcher::new(&self.servers, self.skipped.clone());
        watcher.announce_commands(&emitter, &self.servers).await;
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(servers) = servers.upgrade() else { return };
                watcher.announce(&emitter, &servers).await;
            }
        });
    }

    /// Waits a limited time for servers that are still connecting. Returns false if the turn was cancelled.
    pub(crate) async fn wait_for_servers(&self, turn: &Turn) -> bool {
        tokio::select! {
            _ = tokio::time::timeout_at(self.servers_by, self.servers.settled()) => {}
            () = turn.cancelled() => return false,
        }
        for server in self.servers.connecting() {
            if locked(&self.skipped).insert(server.clone()) {
                let title = format!("MCP server {server} is still connecting; continuing without it");
                turn.notice("warning", &title, Some("Its tools can be used as soon as it is connected."))
                    .await;
            }
        }
        true
    }

    /// Whether a note was not shown before; marks it as shown.
    pub(crate) fn is_news(&self, note: &str) -> bool {
        locked(&self.noted).insert(note.to_owned())
    }

    /// Whether a notice about this number of left-out tools is due; marks it as shown.
    pub(crate) fn leaves_out(&self, count: usize) -> bool {
        self.left_out.swap(count, Ordering::Relaxed) != count && count > 0
    }

    /// The cost of the session so far, in US dollars.
    pub(crate) fn cost(history: &[Value]) -> Option<f64> {
        let updates = history.iter().rev().filter(|item| item["sessionUpdate"] == "usage_update");
        updates.filter_map(|item| item["cost"]["amount"].as_f64()).next()
    }
}

/// Reports the servers of a session to the client.
struct ServerWatcher {
    /// The commands that were last sent, so that only changes are sent.
    commands: Vec<command::CommandDescription>,
    /// The servers whose first connection was not reported yet.
    open: BTreeSet<String>,
    skipped: SkippedServers,
}

impl ServerWatcher {
    fn new(servers: &Servers, skipped: SkippedServers) -> Self {
        Self { commands: Vec::new(), open: servers.names().into_iter().collect(), skipped }
    }

    async fn announce(&mut self, emitter: &Emitter, servers: &Servers) {
        let connecting = servers.connecting();
        let settled: BTreeSet<_> = self.open.extract_if(.., |server| !connecting.contains(server)).collect();
        let failures = servers.failures();
        for failure in failures.iter().filter(|failure| settled.contains(&failure.server)) {
            emitter.notice("warning", &failure.to_string(), Some(&failure.remedy)).await;
        }
        for note in servers.notes().iter().filter(|note| settled.contains(&note.server)) {
            emitter.notice("info", &format!("MCP server {}: {}", note.server, note.text), None).await;
        }
        let is_there = |server: &&String| !failures.iter().any(|failure| failure.server == **server);
        for server in settled.iter().filter(is_there) {
            if locked(&self.skipped).remove(server) {
                emitter.notice("info", &format!("MCP server {server} is connected now"), None).await;
            }
        }
        self.announce_commands(emitter, servers).await;
    }

    async fn announce_commands(&mut self, emitter: &Emitter, servers: &Servers) {
        let now = command::all(servers);
        if now != self.commands {
            emitter.commands(&now).await;
            self.commands = now;
        }
    }
}

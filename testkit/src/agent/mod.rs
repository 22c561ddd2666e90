//! An in-process ACP agent of either version that carries out the script in a prompt and records all messages to it.
//! `script` defines the language, `config` the configuration, `quirk` the deviations from the protocol.

mod ask;
mod config;
mod library;
mod memory;
pub mod program;
pub mod quirk;
mod restore;
mod script;
mod serve;
mod talk;
mod turn;
mod updates;

use std::sync::Arc;

use rethread::agent::host::{AgentSource, Started, Starting};
use rethread::edge::Version;
use rethread::transport::{Wire, memory as pipe};
use rethread::wire::RpcError;
use serde_json::Value;
use tokio::sync::mpsc::WeakSender;

pub use config::{AgentConfig, Choices, Echo, Forks, Login, Offer, Restores, Speaks};
pub use library::{aside, extension};
pub use memory::Received;
pub use quirk::Quirk;
pub use script::{Aside, Step, script, steps};

use crate::Pairing;
use memory::Memory;

/// A scripted agent. Clones are the same agent; all its runs share its sessions and its record.
#[derive(Clone)]
pub struct ScriptedAgent {
    memory: Arc<Memory>,
    agent_impl: AgentImpl,
}

/// How the scripts are implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentImpl {
    /// By this module, directly on the wire, with all quirks.
    Own,
    /// By the library's example, `lib/examples/scripted.rs`; version 2 only.
    Library,
}

/// How a connection to the agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer disconnected.
    Disconnected,
    /// The script contained `crash`.
    Crashed,
}

impl ScriptedAgent {
    /// An agent with this configuration, not started.
    #[must_use]
    pub fn new(config: AgentConfig) -> Self {
        Self { memory: Arc::new(Memory::new(config)), agent_impl: AgentImpl::Own }
    }

    /// The agent of this pairing, which supports everything.
    #[must_use]
    pub fn of(pairing: Pairing) -> Self {
        Self { agent_impl: pairing.agent_impl, ..Self::able(pairing.agent) }
    }

    /// An agent of this version that supports everything.
    #[must_use]
    pub fn able(version: Version) -> Self {
        Self::new(AgentConfig::able(speaks(version)))
    }

    /// An agent of this version that supports only what is required.
    #[must_use]
    pub fn bare(version: Version) -> Self {
        Self::new(AgentConfig::bare(speaks(version)))
    }

    /// Changes its configuration from the next request on; reported capabilities change with the next run.
    pub fn configure(&self, change: impl FnOnce(&mut AgentConfig)) {
        let mut inner = self.memory.inner();
        change(&mut inner.config);
        let fits = self.agent_impl == AgentImpl::Own || inner.config.fits_library();
        assert!(fits, "no agent of the library is like this: mark the scenario with `wire:`");
    }

    /// Makes this many of the next starts fail.
    pub fn break_starts(&self, count: usize) {
        self.memory.inner().broken_starts = count;
    }

    /// Serves one connection, like an agent process.
    pub async fn run(&self, wire: Wire) -> End {
        match self.agent_impl {
            AgentImpl::Own => serve::serve(self.memory.clone(), wire).await,
            AgentImpl::Library => library::serve(self.memory.clone(), wire).await,
        }
    }

    /// The number of runs.
    #[must_use]
    pub fn starts(&self) -> usize {
        self.memory.inner().starts
    }

    /// The number of runs that have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.memory.inner().running
    }

    /// All messages to it, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.memory.inner().received.clone()
    }

    /// The parameters of all messages to it of this method, in order.
    #[must_use]
    pub fn received_params(&self, method: &str) -> Vec<Value> {
        let inner = self.memory.inner();
        let of = inner.received.iter().filter(|received| received.method == method);
        of.map(|received| received.params.clone()).collect()
    }

    /// Waits until it has received this many messages of this method, and returns the last parameters.
    pub async fn wait_received(&self, method: &str, times: usize) -> Value {
        self.wait(&format!("{method} ({times})"), || {
            let told = self.received_params(method);
            (told.len() >= times).then(|| told[times - 1].clone())
        })
        .await
    }

    /// Waits until all runs have ended.
    pub async fn wait_gone(&self) {
        self.wait("the agent's end", || (self.running() == 0).then_some(())).await;
    }

    /// Opens a gate that scripts wait at.
    pub fn open_gate(&self, gate: &str) {
        self.memory.inner().gates.insert(gate.to_owned());
        self.memory.bell.notify_waiters();
    }

    /// Makes it send a message, also outside a turn.
    pub async fn send(&self, message: Value) {
        self.send_line(message.to_string()).await;
    }

    /// Makes it send an update of its last session, also outside a turn.
    pub async fn send_update(&self, update: Value) {
        let session = self.sessions().last().cloned().unwrap_or_default();
        self.memory.keep(&session, &update);
        self.send_line(talk::raw_line(&session, &update.to_string())).await;
    }

    async fn send_line(&self, line: String) {
        let out = self.memory.inner().out.clone();
        let out = out.expect("the agent was started");
        let _ = out.send(talk::Out::Line(line)).await;
    }

    /// The agent's own ids of its sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        self.memory.inner().sessions.keys().cloned().collect()
    }

    /// Forgets all its sessions.
    pub fn forget(&self) {
        let mut inner = self.memory.inner();
        let inward = inner.inward.as_ref().and_then(WeakSender::upgrade);
        for session in std::mem::take(&mut inner.sessions).into_keys() {
            if let Some(inward) = &inward {
                inward.try_send(library::forget(&session)).expect("the agent hears");
            }
        }
    }

    async fn wait<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let waiting = async {
            loop {
                let rung = self.memory.bell.notified();
                tokio::pin!(rung);
                rung.as_mut().enable();
                if let Some(found) = found() {
                    return found;
                }
                rung.await;
            }
        };
        match tokio::time::timeout(crate::DEADLINE, waiting).await {
            Ok(found) => found,
            Err(_) => {
                let told = self.received().into_iter();
                let told: Vec<_> =
                    told.map(|one| format!("{} {} {}\n", one.start, one.method, one.params)).collect();
                panic!("{what} did not reach the agent; it was told\n{}", told.concat());
            }
        }
    }
}

impl AgentSource for ScriptedAgent {
    fn start(&self) -> Starting<'_> {
        Box::pin(async {
            {
                let mut inner = self.memory.inner();
                if inner.broken_starts > 0 {
                    inner.broken_starts -= 1;
                    return Err(RpcError::internal("the agent did not start: it was told not to"));
                }
            }
            let (here, there) = pipe::pair();
            let agent = self.clone();
            tokio::spawn(async move { agent.run(there.into()).await });
            Ok(Started { wire: here.into(), process: None })
        })
    }

    fn name(&self) -> String {
        "scripted".to_owned()
    }

    fn key(&self) -> Option<String> {
        self.memory.inner().config.key.map(str::to_owned)
    }

    /// The command stays the same if the key, which identifies the program file, changes.
    fn command_key(&self) -> Option<String> {
        self.memory.inner().config.key.map(|_| "scripted".to_owned())
    }
}

fn speaks(version: Version) -> Speaks {
    match version {
        Version::V1 => Speaks::One,
        Version::V2 => Speaks::Two,
    }
}

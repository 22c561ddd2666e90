//! Peers built on the official SDK: agents and clients of both versions, on taps that write down every line.

pub(crate) mod agent_v1;
pub(crate) mod agent_v2;
pub(crate) mod client_v1;
pub(crate) mod client_v2;
pub(crate) mod strict;
pub(crate) mod tap;
pub(crate) mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rethread::agent::host::{AgentSource, Started, Starting};
use rethread::edge::Version;
use rethread::server::{Config, Server};
use rethread::store::Store;
use rethread::transport::memory;
use tap::Tap;

/// The folder of all sessions here.
pub(crate) const CWD: &str = "/project";

/// An agent built on the SDK, started in this process as often as it is asked for.
pub(crate) struct SdkAgent {
    pub(crate) version: Version,
    pub(crate) tap: Arc<Tap>,
    next: Arc<AtomicUsize>,
}

impl SdkAgent {
    pub(crate) fn new(version: Version) -> SdkAgent {
        SdkAgent { version, tap: Arc::default(), next: Arc::default() }
    }
}

impl AgentSource for SdkAgent {
    fn start(&self) -> Starting<'_> {
        let (ours, theirs) = memory::pair();
        let lines = self.tap.lines(theirs.into());
        let next = self.next.clone();
        match self.version {
            Version::V1 => drop(tokio::spawn(agent_v1::serve(lines, next))),
            Version::V2 => drop(tokio::spawn(agent_v2::serve(lines, next))),
        }
        Box::pin(async { Ok(Started { wire: ours.into(), process: None }) })
    }

    fn name(&self) -> String {
        "sdk".to_owned()
    }
}

/// A number that no other start of the agent has used: for the ids of its sessions.
pub(crate) fn number(next: &AtomicUsize) -> usize {
    next.fetch_add(1, Ordering::SeqCst) + 1
}

/// Rethread with an SDK agent behind it.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) agent: Arc<SdkAgent>,
}

impl Scene {
    pub(crate) fn new(store: Arc<dyn Store>, agent: Version) -> Scene {
        let agent = Arc::new(SdkAgent::new(agent));
        Scene { server: Server::new(store, agent.clone(), Config::default()), agent }
    }

    /// One more connection to the server.
    pub(crate) fn connect(&self) -> (tap::Transport, Arc<Tap>) {
        let (ours, theirs) = memory::pair();
        let server = self.server.clone();
        tokio::spawn(async move { server.serve(ours).await });
        let tap = Arc::<Tap>::default();
        (tap.lines(theirs.into()), tap)
    }
}

/// Fails a test that would wait for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it takes too long")
}

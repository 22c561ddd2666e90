//! What a client can connect to: an agent process or an agent in this process, a server in this process, or any
//! transport.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use rethread_core::AgentKind;
use tokio::task::JoinHandle;

use crate::agent::host::{AgentSource, Started, Starting};
use crate::lock::locked;
use crate::server::Server;
use crate::transport::memory;
use crate::transport::messages::ClientTransport;
use crate::wire::RpcError;

/// A server in this process. The client is one of its clients.
#[derive(Clone)]
pub struct ServerSource {
    server: Server,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl ServerSource {
    /// Connects to this server.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self { server, connections: Arc::default() }
    }

    /// Waits until the server has ended the connections: with [`WhenUnattended::End`](crate::server::WhenUnattended)
    /// their sessions and agents have ended by then.
    pub async fn closed(&self) {
        let connections = std::mem::take(&mut *locked(&self.connections));
        for connection in connections {
            // A connection that panicked has ended, too.
            let _ = connection.await;
        }
    }
}

impl AgentSource for ServerSource {
    fn start(&self) -> Starting<'_> {
        Box::pin(async {
            let (here, there) = memory::pair();
            let server = self.server.clone();
            let connection = tokio::spawn(async move { server.serve(there).await });
            locked(&self.connections).push(connection);
            Ok(Started { wire: here.into(), process: None })
        })
    }

    fn name(&self) -> String {
        "rethread".to_owned()
    }

    fn kind(&self) -> AgentKind {
        AgentKind::InProcess
    }
}

/// A connection that is there already. It can be used once.
pub struct TransportSource {
    transport: Mutex<Option<ClientTransport>>,
}

impl TransportSource {
    /// Uses this transport: a byte stream in each direction, or whole messages.
    #[must_use]
    pub fn new(transport: impl Into<ClientTransport>) -> Self {
        Self { transport: Mutex::new(Some(transport.into())) }
    }
}

impl AgentSource for TransportSource {
    fn start(&self) -> Starting<'_> {
        Box::pin(async {
            let transport = locked(&self.transport).take();
            let wire = match transport {
                Some(ClientTransport::Bytes(wire)) => wire,
                Some(ClientTransport::Messages(channel)) => channel.into_wire(),
                None => return Err(RpcError::internal("the connection to the agent has ended")),
            };
            Ok(Started { wire, process: None })
        })
    }

    fn name(&self) -> String {
        "agent".to_owned()
    }
}

/// Any source, of which the client keeps `_meta.rethread`: it shows it, and neither stores nor trusts it.
pub(super) struct Unfiltered(pub(super) Arc<dyn AgentSource>);

impl AgentSource for Unfiltered {
    fn start(&self) -> Pin<Box<dyn Future<Output = Result<Started, RpcError>> + Send + '_>> {
        self.0.start()
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn kind(&self) -> AgentKind {
        AgentKind::InProcess
    }
}

//! The way to the other hosts of a shared store: what a transport between hosts has to do, and what it says of a client.

use std::pin::Pin;

use rethread_core::Json;

use super::{ClientAccess, TransportName};
use crate::store::HostContact;
use crate::transport::messages::MessageChannel;

/// Connects to other hosts of the same store.
pub trait HostConnector: Send + Sync + 'static {
    /// Opens a connection on which the other host sees this client. Both hosts have proved to each other who they are.
    fn connect(&self, host: HostContact, client: CarriedClient) -> Connecting<'_>;
}

/// A connection to another host, when it is there. `incoming` is what the other host says.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<MessageChannel, HostLinkError>> + Send + 'a>>;

/// A client that one host carries to another. Its own `initialize` is the first message on the connection.
#[derive(Clone, Debug)]
pub struct CarriedClient {
    /// What it may do. The other host checks it again, by its own rules.
    pub access: ClientAccess,
    /// What the agent of its connection said of itself, as the client was told.
    pub agent: Json,
    /// How it is connected.
    pub transport: TransportName,
}

/// Why there is no connection to another host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostLinkError {
    /// It cannot be reached at the moment.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// Whoever is there is not that host, or has another key: trying again is to no avail.
    #[error("{0}")]
    NotTrusted(String),
}

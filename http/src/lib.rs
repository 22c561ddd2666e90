//! Serves the sessions of a [`Server`](rethread::server::Server) over HTTP: the Agent Client Protocol by WebSocket and by
//! streamable HTTP, with tokens and TLS. A remote client is an ordinary connection of the server with a transport of whole
//! messages; nothing of the protocol is decided here.
//!
//! Everything that arrives here may come from anybody: `guard` checks where a request says that it comes from, `tokens` who sent
//! it, and [`RemoteRules`](rethread::server::RemoteRules) what it may ask for.

mod client;
mod codes;
mod connections;
mod conversation;
mod failures;
mod framing;
mod guard;
mod host_network;
mod host_proof;
mod known_tokens;
mod listener;
mod metrics;
mod open_requests;
mod page;
mod remote;
mod replies;
mod routes;
mod sent_id;
mod sent_messages;
mod shown_session;
mod starting;
mod streamable;
mod tls;
mod token_file;
mod tokens;
mod websocket;

pub use client::{RemoteError, RemoteTarget, connect};
pub use codes::OneTimeCodes;
pub use guard::Guard;
pub use host_network::{HostNetwork, advertised_host};
pub use host_proof::{ClusterKey, ShortKey};
pub use listener::{AgentDirectory, HttpConfig, HttpLimits, HttpListener};
pub use page::{PageCaching, PageEncoding, PageFile, PageFiles};
pub use starting::answer_while_starting;
pub use tls::{TlsError, tls_acceptor};
pub use tokens::{NewToken, SharedSession, StoredToken, TokenError, TokenKind, Tokens};
pub use tokio_rustls::TlsAcceptor;

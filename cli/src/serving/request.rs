//! Requests of commands to the running server, for sessions that it has open.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rethread::client::{
    AcpClient, AskedQuestion, ClientConfig, ClientHandler, Introduction, SessionEvent, TransportSource,
};
use rethread::server::Config;
use rethread::store::SessionRow;
use rethread::transport::Wire;
use rethread_core::{Json, SessionId};
use serde_json::{Value, json};

use super::find::FoundServer;
use super::handshake::{Ask, Handover};
use crate::agents::AgentChoice;
use crate::chat::failure;
use crate::failure::Failure;
use crate::paths::Paths;

/// A session that the running server has open.
#[derive(Debug)]
pub(crate) struct ServedSession {
    server: FoundServer,
    session: SessionId,
}

impl ServedSession {
    /// The session, if the running server has it open.
    pub(crate) fn find(row: &SessionRow) -> Result<Option<Self>, Failure> {
        let Some(owner) = &row.owner else { return Ok(None) };
        // A server that cannot be used is a process like any other.
        let found = FoundServer::usable(&Paths::from_environment()?).ok();
        let found = found.filter(|found| found.greeting.pid == owner.pid);
        Ok(found.map(|server| Self { server, session: row.id.clone() }))
    }

    /// Sends one request about the session, and waits for its answer.
    pub(crate) async fn request(self, method: &str, mut params: Value) -> Result<Json, Failure> {
        params["sessionId"] = json!(self.session);
        let handover = Handover::of(&AgentChoice::Assistant, &Config::default())?;
        let stream = self.server.serve(Ask::Serve(Box::new(handover)))?;
        let me = Introduction {
            name: "rethread".to_owned(),
            title: Some("rethread command".to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            services: Vec::new(),
        };
        let source = Arc::new(TransportSource::new(wire(stream)?));
        let connecting = AcpClient::connect(source, &me, ClientConfig::default(), NothingFollowed);
        let client = connecting.await.map_err(failure)?;
        let answer = client.request(method, &params.into()).await.map_err(failure);
        client.close().await;
        answer
    }
}

/// A connection as a transport. Must be called in a runtime.
pub(crate) fn wire(stream: UnixStream) -> std::io::Result<Wire> {
    stream.set_nonblocking(true)?;
    let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
    Ok(Wire::new(reader, writer))
}

/// A command follows no session, so nothing happens in one and nobody asks it.
struct NothingFollowed;

impl ClientHandler for NothingFollowed {
    async fn event(&self, _: &SessionId, _: &SessionEvent) {}

    async fn question(&self, question: AskedQuestion) {
        question.cancel().await;
    }
}

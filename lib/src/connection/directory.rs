//! The clients of a server, for each other: who they are and which sessions they follow. Whoever has shown that it knows of
//! this is told when the clients of a session change that it follows itself.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rethread_core::{Json, Millis, SessionId};
use serde_json::{Value, json};

use super::{Attachments, ClientContext, ClientRole, Connection};
use crate::client_id::{ClientId, ClientTag};
use crate::clock;
use crate::edge::Version;
use crate::lock::locked;
use crate::outbox::{OpenRequest, Outbound, Outbox};

/// The notification that the clients of a session have changed.
const CLIENTS_CHANGED: &str = "_rethread/clients_changed";

/// How a client is connected, as other clients are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportName {
    /// By standard input and output.
    #[default]
    Stdio,
    /// By the unix socket of the server.
    Socket,
    /// By a WebSocket.
    WebSocket,
    /// By streamable HTTP.
    Http,
}

impl TransportName {
    /// The name of the transport.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Socket => "socket",
            Self::WebSocket => "websocket",
            Self::Http => "http",
        }
    }
}

/// The clients of a server.
#[derive(Default)]
pub(crate) struct ClientDirectory(Mutex<BTreeMap<ClientId, ClientRecord>>);

/// A client, from its `initialize` on.
pub(super) struct ClientRecord {
    pub(super) tag: ClientTag,
    /// The version of the program.
    pub(super) program: Option<String>,
    pub(super) protocol: Version,
    pub(super) role: ClientRole,
    pub(super) transport: TransportName,
    pub(super) since: Millis,
    pub(super) attached: Attachments,
    pub(super) observing: Attachments,
    pub(super) outbox: Outbox,
    /// Whether it has used an extension of ours.
    pub(super) knows_us: AtomicBool,
}

impl ClientRecord {
    fn follows(&self, session: &SessionId) -> bool {
        self.attached.has(session) || self.observing.has(session)
    }

    fn json(&self, you: ClientId, only: Option<&SessionId>) -> Value {
        let mut sessions = self.attached.list();
        sessions.extend(self.observing.list());
        sessions.retain(|session| only.is_none_or(|only| only == session));
        sessions.sort();
        let mut client = json!({
            "id": self.tag.id.to_string(),
            "name": self.tag.name,
            "protocol": self.protocol.number(),
            "role": self.role.name(),
            "transport": self.transport.name(),
            "since": clock::rfc3339(self.since),
            "you": self.tag.id == you,
            "sessions": sessions,
        });
        if let Some(version) = &self.program {
            client["version"] = json!(version);
        }
        client
    }
}

impl ClientDirectory {
    /// A client has been initialized, perhaps once more.
    pub(super) fn add(&self, record: ClientRecord) {
        locked(&self.0).insert(record.tag.id, record);
    }

    /// A client is gone.
    pub(super) fn remove(&self, client: ClientId) {
        locked(&self.0).remove(&client);
    }

    /// A client has used an extension of ours.
    pub(super) fn knows_us(&self, client: ClientId) {
        if let Some(record) = locked(&self.0).get(&client) {
            record.knows_us.store(true, Ordering::Relaxed);
        }
    }

    /// Tells those who follow a session that its clients have changed. One that does not read is not told.
    pub(super) fn session_changed(&self, session: &SessionId) {
        let params: Json = json!({"sessionId": session}).into();
        let clients = locked(&self.0);
        let told = clients.values().filter(|client| client.knows_us.load(Ordering::Relaxed));
        for client in told.filter(|client| client.follows(session)) {
            let (method, params) = (CLIENTS_CHANGED.to_owned(), params.clone());
            let _ = client.outbox.offer(Outbound::Notify { method, params });
        }
    }

    /// The clients, or those that follow this session.
    fn list(&self, you: ClientId, session: Option<&SessionId>, only: Option<&SessionId>) -> Json {
        let clients = locked(&self.0);
        let listed = clients.values().filter(|client| session.is_none_or(|session| client.follows(session)));
        let listed: Vec<_> = listed.map(|client| client.json(you, only)).collect();
        json!({"clients": listed}).into()
    }
}

impl Connection {
    /// Answers `_rethread/clients`. A client that may see one session is told of no others.
    pub(super) fn clients(&self, context: &ClientContext, request: OpenRequest, session: Option<String>) {
        let scope = context.access.scope.as_ref().map(|scope| SessionId(scope.session.clone()));
        let session = session.map(SessionId).or_else(|| scope.clone());
        let list = self.deps.directory.list(self.client, session.as_ref(), scope.as_ref());
        request.answer(Ok(list));
    }
}

//! A client of the Agent Client Protocol: connects to any agent, or to a server in this process, in either version, and
//! offers typed calls that refuse what the agent does not offer. [`view::SessionView`] folds the events of a session.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use rethread::client::{AcpClient, AskedQuestion, ClientConfig, ClientHandler, Introduction, ServerSource, SessionEvent};
//! # use rethread::edge::client_request::Setup;
//! # use rethread_core::SessionId;
//! # struct Printer;
//! # impl ClientHandler for Printer {
//! #     async fn event(&self, _: &SessionId, _: &SessionEvent) {}
//! #     async fn question(&self, question: AskedQuestion) { question.cancel().await }
//! # }
//! # async fn example(server: rethread::server::Server) -> Result<(), rethread::client::ClientError> {
//! let me = Introduction { name: "example".to_owned(), version: "1".to_owned(), ..Introduction::default() };
//! let source = Arc::new(ServerSource::new(server));
//! let client = AcpClient::connect(source, &me, ClientConfig::default(), Printer).await?;
//! let session = client.new_session(&Setup { cwd: "/work".to_owned(), ..Setup::default() }).await?;
//! let stop = session.prompt_text("hello").await?;
//! # Ok(())
//! # }
//! ```

mod decoder;
mod error;
mod handler;
mod introduction;
mod login;
mod open_turns;
mod session;
mod session_task;
mod sessions;
mod source;

/// The view of a session, folded from its events.
pub mod view {
    pub use crate::session_view::*;
}

use std::sync::Arc;

use rethread_core::Json;
use serde_json::json;
use tokio::sync::mpsc;

pub use decoder::{Decoded, SessionDecoder};
pub use error::ClientError;
pub use handler::{AgentRequest, AskedQuestion, ClientHandler};
pub use introduction::{ClientConfig, ClientService, Introduction};
pub use login::{LoginKind, LoginMethod};
pub use session::ClientSession;
pub use sessions::{ListedSession, SessionPage};
pub use source::{ServerSource, TransportSource};

use crate::agent::host::{AgentHost, AgentSource, LiveAgent};
use crate::agent::peer::AgentPeer;
use crate::agent::sessionless::ProcessMessage;
use crate::client_id::ClientId;
use crate::edge::Version;
use crate::edge::capabilities::AgentProfile;
pub use crate::session_view::SessionEvent;
use crate::wire::{RpcMessage, parse};
use source::Unfiltered;

/// How many messages outside sessions may wait for the handler.
const PROCESS_MESSAGES: usize = 64;

/// A connection to an agent.
pub struct AcpClient<H> {
    agent: LiveAgent,
    handler: Arc<H>,
    /// Owns the agent's process.
    host: AgentHost,
}

impl<H: ClientHandler> AcpClient<H> {
    /// Starts the agent, if it is not running, and initializes the connection.
    pub async fn connect(
        source: Arc<dyn AgentSource>,
        introduction: &Introduction,
        config: ClientConfig,
        handler: H,
    ) -> Result<Self, ClientError> {
        let host = AgentHost::new(Arc::new(Unfiltered(source)), introduction.profile()?, config.host());
        let (messages, outside) = mpsc::channel(PROCESS_MESSAGES);
        host.clients().add(ClientId::next(), messages);
        let agent = host.live().await?;
        let handler = Arc::new(handler);
        tokio::spawn(watch(agent.clone(), outside, handler.clone()));
        Ok(Self { agent, handler, host })
    }

    /// What the agent said of itself.
    #[must_use]
    pub fn profile(&self) -> &AgentProfile {
        &self.agent.profile
    }

    /// The agent's answer to `initialize`, as it wrote it.
    #[must_use]
    pub fn initialize_answer(&self) -> &Json {
        &self.agent.answer
    }

    /// The version that the agent speaks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.agent.profile.version
    }

    /// The end of what the agent printed to stdout that is no message, and that only confuses its clients.
    #[must_use]
    pub fn printed(&self) -> String {
        self.peer().printed()
    }

    /// The handler.
    #[must_use]
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Sends any request that is not about an open session, and waits for its answer.
    pub async fn request(&self, method: &str, params: &Json) -> Result<Json, ClientError> {
        Ok(self.peer().call(method, params).await?)
    }

    /// Sends any notification.
    pub fn notify(&self, method: &str, params: &Json) -> Result<(), ClientError> {
        Ok(self.peer().notify(method, params)?)
    }

    /// Logs in with one of the methods that the agent carries out itself.
    pub async fn authenticate(&self, login: &str) -> Result<(), ClientError> {
        self.check_login(login)?;
        let method = self.version().login_method("authenticate");
        self.request(method, &json!({"methodId": login}).into()).await.map(drop)
    }

    /// Logs out.
    pub async fn logout(&self) -> Result<(), ClientError> {
        if self.profile().forwarded.get("auth").is_none() {
            return Err(ClientError::NotOffered("a logout".to_owned()));
        }
        self.request(self.version().login_method("logout"), &json!({}).into()).await.map(drop)
    }

    /// Ends the connection and, if it is a process, the agent. Returns when it has ended.
    pub async fn close(self) {
        self.host.end().await;
    }

    fn peer(&self) -> &AgentPeer {
        &self.agent.peer
    }

    /// Refuses what the agent does not offer.
    fn require(&self, capability: &str, method: &str) -> Result<(), ClientError> {
        match self.profile().has(capability) {
            true => Ok(()),
            false => Err(ClientError::NotOffered(method.to_owned())),
        }
    }
}

/// Hands what the agent sends outside sessions to the handler, until the agent ends.
async fn watch<H: ClientHandler>(
    agent: LiveAgent,
    mut outside: mpsc::Receiver<ProcessMessage>,
    handler: Arc<H>,
) {
    loop {
        let message = tokio::select! {
            message = outside.recv() => message,
            () = agent.ended() => break,
        };
        match message {
            Some(ProcessMessage::FromAgent(message)) => {
                sessionless(&message.line, &message.peer, &*handler).await;
            }
            // Reported by a server among its own clients.
            Some(ProcessMessage::LoginChanged(_)) => {}
            None => break,
        }
    }
    let printed = agent.peer.printed();
    let reason =
        if printed.is_empty() { "the agent ended".to_owned() } else { format!("the agent ended: {printed}") };
    handler.ended(&reason).await;
}

async fn sessionless<H: ClientHandler>(line: &[u8], peer: &AgentPeer, handler: &H) {
    let owned = |params: Option<&serde_json::value::RawValue>| {
        params.map_or_else(|| json!({}).into(), |raw| Json::from(raw.to_owned()))
    };
    match parse(line) {
        Ok(RpcMessage::Request { id, method, params }) => {
            let (method, params) = (method.into_owned(), owned(params));
            let reply = Some((peer.clone(), id));
            handler.request(AgentRequest { session: None, method, params, reply }).await;
        }
        Ok(RpcMessage::Notification { method, params }) => {
            handler.notification(None, &method, &owned(params)).await;
        }
        Ok(RpcMessage::Response { .. }) | Err(_) => {}
    }
}

//! The client side of a chat: the connection to the server in this process or to the running one, the open session, and the
//! events that arrive.

use std::pin::{Pin, pin};
use std::sync::Arc;

use rethread::agent::host::AgentSource;
use rethread::client::view::{SessionView, ViewChange};
use rethread::client::{
    AcpClient, AskedQuestion, ClientConfig, ClientError, ClientHandler, ClientService, ClientSession,
    Introduction, ServerSource, SessionEvent, TransportSource,
};
use rethread::server::Server;
use rethread::transport::Wire;
use rethread::wire::code;
use rethread_core::SessionId;
use tokio::sync::mpsc;

use super::login::LoginPolicy;
use crate::failure::{ExitCode, Failure};

/// How many events may wait; the agent waits then.
const EVENTS: usize = 256;

/// What happens while a chat is open.
pub(crate) enum ChatEvent {
    /// Something happened in a session.
    Happened(SessionId, SessionEvent),
    /// The agent asks the user.
    Asked(AskedQuestion),
    /// The server ended, for this reason.
    Ended(String),
}

/// Passes everything on to the chat.
pub(crate) struct ChatHandler {
    events: mpsc::Sender<ChatEvent>,
}

impl ClientHandler for ChatHandler {
    async fn event(&self, session: &SessionId, event: &SessionEvent) {
        // A chat that has ended needs no events.
        let _ = self.events.send(ChatEvent::Happened(session.clone(), event.clone())).await;
    }

    async fn question(&self, question: AskedQuestion) {
        let _ = self.events.send(ChatEvent::Asked(question)).await;
    }

    async fn ended(&self, reason: &str) {
        let _ = self.events.send(ChatEvent::Ended(reason.to_owned())).await;
    }
}

/// Connects to a server outside of this process.
pub(crate) type Connect = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Wire, Failure>>>>>;

/// The server of a chat. A chat connects again after a login.
pub(crate) enum ChatServer {
    /// One in this process.
    Own(Server),
    /// The running server of this store, or a remote one.
    Running(Connect),
}

/// What is waited for when a chat ends.
pub(super) enum ServerEnding {
    /// The sessions and agents of the server in this process.
    OwnServer(ServerSource),
    /// Nothing: the running server keeps the session.
    Detached,
}

impl ServerEnding {
    async fn wait(self) {
        match self {
            Self::OwnServer(source) => source.closed().await,
            Self::Detached => {}
        }
    }
}

/// A client with one open session.
pub(crate) struct Conversation {
    /// The connection.
    pub(crate) client: AcpClient<ChatHandler>,
    /// The session that the user talks in.
    pub(crate) session: ClientSession,
    /// What is known of it.
    pub(crate) view: SessionView,
    /// What happens.
    pub(crate) events: mpsc::Receiver<ChatEvent>,
    pub(super) ending: ServerEnding,
}

/// A connection without a session.
pub(crate) struct Connected {
    /// The connection.
    pub(crate) client: AcpClient<ChatHandler>,
    pub(super) events: mpsc::Receiver<ChatEvent>,
    pub(super) ending: ServerEnding,
}

impl Connected {
    /// Connects to the server. The agent is started if its abilities are not known.
    pub(crate) async fn to(server: &ChatServer, login: LoginPolicy) -> Result<Self, Failure> {
        let (sender, events) = mpsc::channel(EVENTS);
        let me = Introduction {
            name: "rethread-chat".to_owned(),
            title: Some("Rethread chat".to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            services: match login {
                LoginPolicy::Ask => vec![ClientService::Forms, ClientService::TerminalLogin],
                LoginPolicy::Fail => vec![ClientService::Forms],
            },
        };
        let (source, ending): (Arc<dyn AgentSource>, _) = match server {
            ChatServer::Own(server) => {
                let source = ServerSource::new(server.clone());
                (Arc::new(source.clone()), ServerEnding::OwnServer(source))
            }
            ChatServer::Running(connect) => {
                (Arc::new(TransportSource::new(connect().await?)), ServerEnding::Detached)
            }
        };
        let handler = ChatHandler { events: sender };
        let client =
            AcpClient::connect(source, &me, ClientConfig::default(), handler).await.map_err(failure)?;
        Ok(Self { client, events, ending })
    }

    /// Closes the connection.
    pub(crate) async fn close(self) {
        self.client.close().await;
        self.ending.wait().await;
    }
}

impl Conversation {
    /// Applies what happened in the open session to the view.
    pub(crate) fn apply(&mut self, session: &SessionId, event: &SessionEvent) -> Option<ViewChange> {
        if session == self.session.id() { self.view.apply(event) } else { None }
    }

    /// Closes the connection. The agent has ended when this returns, unless the running server keeps it.
    pub(crate) async fn close(self) {
        let Self { client, session, mut events, ending, .. } = self;
        // Nobody reads the events any more; the handler must not wait.
        events.close();
        drop(session);
        client.close().await;
        ending.wait().await;
    }
}

/// Waits for a call, and handles the events that come before its answer.
pub(crate) async fn with_events<T>(
    events: &mut mpsc::Receiver<ChatEvent>,
    call: impl Future<Output = T>,
    mut each: impl FnMut(ChatEvent),
) -> T {
    let mut call = pin!(call);
    loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => each(event),
            result = &mut call => {
                while let Ok(event) = events.try_recv() {
                    each(event);
                }
                return result;
            }
        }
    }
}

/// The failure of a command for a failed call.
pub(crate) fn failure(error: ClientError) -> Failure {
    let exit = match error.code() {
        Some(code::LIVE_ELSEWHERE) => ExitCode::Refused,
        Some(code::NOT_FOUND) => ExitCode::NotFound,
        Some(code::CANCELLED) => ExitCode::Interrupted,
        Some(_) | None => ExitCode::Error,
    };
    // The server speaks of itself as the agent.
    let message = error.to_string();
    let message = message.strip_prefix("the agent refused to initialize: ").unwrap_or(&message);
    let failure = Failure::new(exit, message);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None if error.requires_login() => failure.hint("log in with the agent's own command, then try again"),
        None => failure,
    }
}

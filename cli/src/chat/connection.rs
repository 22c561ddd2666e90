//! The client side of a chat: the connection to the server in this process, the open session, and the events that arrive.

use std::pin::pin;
use std::sync::Arc;

use rethread::client::view::{SessionView, ViewChange};
use rethread::client::{
    AcpClient, AskedQuestion, ClientConfig, ClientError, ClientHandler, ClientService, ClientSession,
    Introduction, ServerSource, SessionEvent,
};
use rethread::server::Server;
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
    pub(super) source: ServerSource,
}

/// A connection without a session.
pub(crate) struct Connected {
    /// The connection.
    pub(crate) client: AcpClient<ChatHandler>,
    pub(super) events: mpsc::Receiver<ChatEvent>,
    pub(super) source: ServerSource,
}

impl Connected {
    /// Connects to the server. The agent is started if its abilities are not known.
    pub(crate) async fn to(server: Server, login: LoginPolicy) -> Result<Self, Failure> {
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
        let source = ServerSource::new(server);
        let handler = ChatHandler { events: sender };
        let connecting = AcpClient::connect(Arc::new(source.clone()), &me, ClientConfig::default(), handler);
        let client = connecting.await.map_err(failure)?;
        Ok(Self { client, events, source })
    }

    /// Closes the connection.
    pub(crate) async fn close(self) {
        self.client.close().await;
        self.source.closed().await;
    }
}

impl Conversation {
    /// Applies what happened in the open session to the view.
    pub(crate) fn apply(&mut self, session: &SessionId, event: &SessionEvent) -> Option<ViewChange> {
        if session == self.session.id() { self.view.apply(event) } else { None }
    }

    /// Closes the session and the connection; the agent has ended when this returns.
    pub(crate) async fn close(self) {
        let Self { client, session, mut events, source, .. } = self;
        // Nobody reads the events any more; the handler must not wait.
        events.close();
        drop(session);
        client.close().await;
        source.closed().await;
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

//! One connection to a server: starting its transport, the handshake, requests, and closing.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::Url;
use rethread::lock::locked;
use rethread::secret::Secret;
use rethread_core::Json;
use rmcp::service::{ClientInitializeError, Peer, RoleClient, RunningService};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::client_handler::SessionClientHandler;
use super::close_reason::CloseReason;
use super::config::ServerConfig;
use super::content::cut;
use super::inbound::result_text;
use super::limits::Limits;
use super::process::{Launch, Process, StartedProcess};
use super::request::{RequestError, RequestTimeout, ask, innermost};
use super::server::SessionEnvironment;
use super::sse::EventStream;
use super::stdio::{CLOSED_INPUT, CLOSED_OUTPUT, Stdio};
use super::{http, http_common};

/// The maximum number of bytes of an invalid answer in an error.
const LONGEST_ANSWER: usize = 200;
/// The time limit for closing; a process is ended after it.
const GOODBYE: Duration = Duration::from_millis(500);

/// An open connection to a server.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, SessionClientHandler>>>,
    process: Mutex<Option<Process>>,
    close_reason: CloseReason,
    changed: watch::Receiver<u64>,
}

/// Why connecting failed, and what the user can do. May still contain secrets.
pub(super) struct ConnectError {
    pub(super) cause: String,
    pub(super) remedy: &'static str,
}

impl Connection {
    /// Connects and does the handshake, until the deadline.
    pub(super) async fn open(
        config: &ServerConfig,
        environment: &SessionEnvironment,
        limits: &Limits,
        deadline: Instant,
    ) -> Result<Connection, ConnectError> {
        let longest = limits.message;
        match config {
            ServerConfig::Stdio { command, args, env, .. } => {
                let (hidden, cwd, guardian) =
                    (&environment.hidden, &environment.cwd, environment.guardian.as_ref());
                let variables = &environment.variables;
                let launch = Launch { command, args, environment: variables, env, hidden, cwd, guardian };
                open_stdio(&launch, environment, longest, deadline).await
            }
            ServerConfig::Http { url, headers, .. } => {
                let (url, client, headers) = prepared(url, headers)?;
                let close_reason = CloseReason::new();
                let transport = http::transport(url.as_str(), client, headers, longest, close_reason.clone());
                let greeting = Handshake::new(environment, close_reason);
                greeting.over(transport, deadline).await.map_err(|error| ConnectError::by_web(error.words()))
            }
            ServerConfig::Sse { url, headers, .. } => {
                open_sse(url, headers, environment, longest, deadline).await
            }
        }
    }

    /// Whether requests can be sent.
    pub(super) fn is_live(&self) -> bool {
        self.close_reason.cause().is_none() && !self.peer.is_transport_closed()
    }

    /// A counter of the server's list changes.
    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// The server's information from the handshake.
    pub(super) fn info(&self) -> Option<std::sync::Arc<rmcp::model::ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// Sends a request.
    pub(super) async fn ask(
        &self,
        method: &'static str,
        params: Value,
        timeout: RequestTimeout,
        cancel: impl Future<Output = ()>,
    ) -> Result<Json, RequestError> {
        ask((&self.peer, &self.close_reason), (method, params), timeout, cancel).await
    }

    /// The reason why it ended, with the last output of its process.
    pub(super) async fn output_suffix(&self, cause: String) -> String {
        let Some(mut process) = locked(&self.process).take() else { return cause };
        let words = process.output_suffix().await;
        locked(&self.process).get_or_insert(process);
        joined(cause, words)
    }

    /// Closes the connection, and returns when its process has ended.
    pub(super) async fn close(&self) {
        self.close_reason.set("it was closed");
        let service = locked(&self.service).take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(GOODBYE).await;
        }
        let process = locked(&self.process).take();
        if let Some(mut process) = process {
            process.end().await;
        }
    }
}

/// The handshake with a server.
struct Handshake {
    handler: SessionClientHandler,
    close_reason: CloseReason,
    changed: watch::Receiver<u64>,
}

/// Why a handshake failed.
enum HandshakeError {
    TooSlow,
    Refused(Box<ClientInitializeError>, CloseReason),
}

impl HandshakeError {
    /// Whether the server closed the connection.
    fn was_ended(&self) -> bool {
        match self {
            HandshakeError::TooSlow => false,
            HandshakeError::Refused(error, close_reason) => {
                let is_closed = matches!(
                    **error,
                    ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
                );
                is_closed || close_reason.cause().is_some()
            }
        }
    }

    fn words(&self) -> String {
        match self {
            HandshakeError::TooSlow => TOO_SLOW.to_owned(),
            HandshakeError::Refused(error, close_reason) => {
                close_reason.cause().unwrap_or_else(|| refused(error))
            }
        }
    }
}

const TOO_SLOW: &str = "it did not answer in time";

impl Handshake {
    fn new(environment: &SessionEnvironment, close_reason: CloseReason) -> Self {
        let (sender, changed) = watch::channel(0);
        Self {
            handler: SessionClientHandler { roots: environment.roots.clone(), changed: sender },
            close_reason,
            changed,
        }
    }

    async fn over<T>(self, transport: T, deadline: Instant) -> Result<Connection, HandshakeError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let Handshake { handler, close_reason, changed } = self;
        match timeout_at(deadline, rmcp::serve_client(handler, transport)).await {
            Err(_) => Err(HandshakeError::TooSlow),
            Ok(Err(error)) => Err(HandshakeError::Refused(Box::new(error), close_reason)),
            Ok(Ok(service)) => Ok(Connection {
                peer: service.peer().clone(),
                service: Mutex::new(Some(service)),
                process: Mutex::new(None),
                close_reason,
                changed,
            }),
        }
    }
}

async fn open_stdio(
    launch: &Launch<'_>,
    environment: &SessionEnvironment,
    longest: usize,
    deadline: Instant,
) -> Result<Connection, ConnectError> {
    let StartedProcess { mut process, stdin, stdout } =
        Process::start(launch).await.map_err(|error| ConnectError::by_start(&error, launch.cwd))?;
    let close_reason = CloseReason::new();
    let transport = Stdio::new(stdin, stdout, longest, close_reason.clone());
    match Handshake::new(environment, close_reason).over(transport, deadline).await {
        Ok(connection) => {
            locked(&connection.process).get_or_insert(process);
            Ok(connection)
        }
        Err(error) => {
            let words = match error.was_ended() {
                true => process.output_suffix().await,
                // The process exits because the connection was closed, so its exit status says nothing.
                false => process.said().await,
            };
            process.end().await;
            Err(ConnectError::by_program(&error, words))
        }
    }
}

async fn open_sse(
    url: &str,
    headers: &[(String, Secret)],
    environment: &SessionEnvironment,
    longest: usize,
    deadline: Instant,
) -> Result<Connection, ConnectError> {
    let (url, client, headers) = prepared(url, headers)?;
    let close_reason = CloseReason::new();
    let opening = EventStream::open(&url, client, headers, longest, close_reason.clone());
    let opened = timeout_at(deadline, opening).await.unwrap_or_else(|_| Err(TOO_SLOW.to_owned()));
    let transport = opened.map_err(ConnectError::by_web)?;
    let greeting = Handshake::new(environment, close_reason);
    greeting.over(transport, deadline).await.map_err(|error| ConnectError::by_web(error.words()))
}

type HttpParts = (Url, reqwest::Client, reqwest::header::HeaderMap);

fn prepared(url: &str, headers: &[(String, Secret)]) -> Result<HttpParts, ConnectError> {
    let wrong = |cause| ConnectError { cause, remedy: "correct its configuration" };
    let url = Url::parse(url).map_err(|error| wrong(format!("its address is invalid: {error}")))?;
    let client = http_common::client(&url).map_err(wrong)?;
    Ok((url, client, http_common::headers(headers).map_err(wrong)?))
}

impl ConnectError {
    fn by_start(error: &io::Error, cwd: &Path) -> Self {
        if error.kind() != io::ErrorKind::NotFound {
            let cause = format!("its program could not be started: {error}");
            return Self { cause, remedy: "check that its command is a program that you may run" };
        }
        if !cwd.is_dir() {
            let cause = format!("the working directory {} does not exist", cwd.display());
            return Self { cause, remedy: "open the session in a directory that exists" };
        }
        let cause = "its program was not found".to_owned();
        Self { cause, remedy: "install it, or give the full path of its command" }
    }

    fn by_program(error: &HandshakeError, words: String) -> Self {
        let remedy = match error {
            HandshakeError::TooSlow => {
                "check that its command is an MCP server on stdio; one that installs itself may be quicker the \
                 next time"
            }
            HandshakeError::Refused(..) => "run its command in a terminal to see what it needs",
        };
        Self { cause: joined(error.words(), words), remedy }
    }

    fn by_web(cause: String) -> Self {
        let is_about_keys = cause.contains("HTTP 401") || cause.contains("HTTP 403");
        let remedy = match is_about_keys {
            true => "check its headers: it requires authentication",
            false => "check its address and its type, and that it runs",
        };
        Self { cause, remedy }
    }
}

/// Combines a cause with the exit status, which replaces a closed pipe as the cause.
fn joined(cause: String, words: String) -> String {
    match (cause.as_str(), words.is_empty()) {
        (_, true) => cause,
        (CLOSED_OUTPUT | CLOSED_INPUT, false) if words.starts_with("it ") => words,
        (_, false) => format!("{cause}; {words}"),
    }
}

fn refused(error: &ClientInitializeError) -> String {
    if let ClientInitializeError::JsonRpcError(error) = error {
        return format!("it rejected initialize: {}", error.message);
    }
    if let ClientInitializeError::TransportError { error, .. } = error {
        return innermost(&*error.error);
    }
    if let ClientInitializeError::ConnectionClosed(_) = error {
        return "it closed the connection".to_owned();
    }
    let said = if let ClientInitializeError::ExpectedInitResult(Some(result)) = error {
        format!("its answer to initialize is {}", cut(result_text(result.clone()).text(), LONGEST_ANSWER))
    } else {
        error.to_string()
    };
    format!("its handshake is not that of an MCP server: {said}")
}

/// Closes a connection that is not needed, with a short time limit.
pub(super) async fn discard(connection: &Connection) {
    let _ = timeout(Duration::from_secs(3), connection.close()).await;
}

//! One server of a session: its connection, its lists, and reconnecting. The next call reconnects a lost server once; an
//! answer allows another reconnect.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread::command::{Environment, GuardianCommand};
use rethread::lock::locked;
use rethread_core::Json;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::catalog::{Catalog, CatalogReader};
use super::config::ServerConfig;
use super::connection::{ConnectError, Connection, discard};
use super::content::{self, cut};
use super::failure::{CallError, ServerFailure};
use super::limits::Limits;
use super::listing;
use super::request::{RequestError, RequestTimeout};
use super::scrub::Scrub;

/// How long to wait for more list changes before the lists are read again.
const SETTLE: Duration = Duration::from_millis(100);
/// The maximum of that wait, which grows for a server that changes all the time.
const LONGEST_SETTLE: Duration = Duration::from_secs(10);
/// The maximum length of a server's error message, in bytes.
const LONGEST_WORDS: usize = 4 * 1024;

/// The directories and environment of a session's servers.
#[derive(Clone, Debug)]
pub struct SessionEnvironment {
    /// The working directory of server processes.
    pub cwd: PathBuf,
    /// The directories that servers get as roots.
    pub roots: Vec<PathBuf>,
    /// The environment that processes are started in.
    pub variables: Environment,
    /// Environment variables that processes do not inherit; a configuration can still set them.
    pub hidden: Vec<String>,
    /// The guardian that tracks the descendants of processes; without one, only their process groups are ended.
    pub guardian: Option<GuardianCommand>,
}

/// The data that all servers of a session share.
#[derive(Clone)]
pub(super) struct SharedByServers {
    pub(super) environment: SessionEnvironment,
    pub(super) limits: Limits,
    /// Counts the changes of all lists.
    pub(super) changes: watch::Sender<u64>,
}

/// One server of a session.
pub(super) struct Server {
    /// The server's part of tool names.
    pub(super) shown: String,
    config: ServerConfig,
    common: SharedByServers,
    scrub: Scrub,
    state: Mutex<ServerState>,
    /// One permit, so that parallel calls reconnect only once.
    reconnecting: Semaphore,
    catalog: Mutex<Catalog>,
    /// Why the first connection failed, if it did.
    failure: Mutex<Option<ServerFailure>>,
}

/// The state of the connection.
enum ServerState {
    /// Not connected yet.
    Connecting,
    /// Connected, or lost since then.
    Connected { connection: Arc<Connection>, restart: RestartState },
    /// Lost, and not reconnected, for this reason.
    Gone(String),
    /// The session is closed.
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RestartState {
    Allowed,
    Used,
}

impl Server {
    /// A server before it is connected.
    pub(super) fn new(config: ServerConfig, shown: String, common: SharedByServers) -> Arc<Server> {
        Arc::new(Server {
            shown,
            scrub: config.scrub(),
            config,
            common,
            state: Mutex::new(ServerState::Connecting),
            reconnecting: Semaphore::new(1),
            catalog: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    /// Connects it for the first time, reads its lists, and counts that as a change.
    pub(super) async fn connect(self: Arc<Self>) {
        match connect_and_list(&self.config, &self.common, &self.scrub).await {
            // An error means that it was closed meanwhile.
            Ok((connection, catalog)) => {
                drop(self.install(Arc::new(connection), catalog, RestartState::Allowed).await);
            }
            Err(error) => {
                let failure = error.failure(&self.config, &self.scrub);
                self.give_up(failure.cause.clone());
                *locked(&self.failure) = Some(failure);
            }
        }
        self.common.changes.send_modify(|count| *count += 1);
    }

    /// Whether the first connection is still being made.
    pub(super) fn is_connecting(&self) -> bool {
        matches!(&*locked(&self.state), ServerState::Connecting)
    }

    /// Whether it is connected or can be reconnected.
    pub(super) fn is_available(&self) -> bool {
        matches!(&*locked(&self.state), ServerState::Connected { .. })
    }

    /// Why the first connection failed, if it did.
    pub(super) fn failure(&self) -> Option<ServerFailure> {
        locked(&self.failure).clone()
    }

    /// The configured name.
    pub(super) fn name(&self) -> &str {
        self.config.name()
    }

    /// The current lists.
    pub(super) fn catalog(&self) -> Catalog {
        locked(&self.catalog).clone()
    }

    /// The server's instructions, if it is connected.
    pub(super) fn instructions(&self) -> Option<String> {
        let connection = match &*locked(&self.state) {
            ServerState::Connected { connection, .. } => Arc::clone(connection),
            ServerState::Connecting | ServerState::Gone(_) | ServerState::Closed => return None,
        };
        let said = connection.info()?.instructions.clone()?;
        Some(cut(&self.scrub.result(&said), LONGEST_WORDS).to_owned())
    }

    /// Why no request can be sent now, if that is so.
    pub(super) fn gone(&self) -> Option<CallError> {
        let cause = match &*locked(&self.state) {
            ServerState::Connecting => return Some(CallError::Connecting { server: self.name().to_owned() }),
            ServerState::Connected { .. } => return None,
            ServerState::Gone(cause) => cause.clone(),
            ServerState::Closed => "the session is closed".to_owned(),
        };
        Some(CallError::Gone { server: self.name().to_owned(), cause })
    }

    /// A reader for one answer of this server.
    pub(super) fn answers(&self) -> content::ResultReader<'_> {
        content::ResultReader::new(&self.common.limits, &self.scrub)
    }

    /// The error for an invalid answer.
    pub(super) fn invalid_answer(&self, method: &'static str, answer: &Json) -> CallError {
        let what = cut(&self.scrub.text(answer.text()), 200).to_owned();
        CallError::Nonsense { server: self.name().to_owned(), method, what }
    }

    /// Sends a request, after reconnecting if the connection was lost.
    pub(super) async fn ask(
        self: &Arc<Self>,
        method: &'static str,
        params: Value,
        cancel: impl Future<Output = ()>,
    ) -> Result<Json, CallError> {
        tokio::pin!(cancel);
        let connection = tokio::select! {
            connection = self.connection() => connection?,
            () = &mut cancel => return Err(CallError::Cancelled { server: self.name().to_owned() }),
        };
        let timeout = RequestTimeout::of_call(&self.common.limits);
        match connection.ask(method, params, timeout, cancel).await {
            Ok(answer) => {
                self.allow_restart();
                Ok(answer)
            }
            Err(trouble) => Err(self.error(&connection, trouble).await),
        }
    }

    /// Closes it for good. Returns when its process has ended.
    pub(super) async fn close(&self) {
        let before = std::mem::replace(&mut *locked(&self.state), ServerState::Closed);
        *locked(&self.catalog) = Catalog::default();
        if let ServerState::Connected { connection, .. } = before {
            connection.close().await;
        }
    }

    /// The open connection, reconnected if necessary.
    async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, CallError> {
        if let Some(connection) = self.live()? {
            return Ok(connection);
        }
        let _alone = self.reconnecting.acquire().await;
        if let Some(connection) = self.live()? {
            return Ok(connection);
        }
        self.reconnect().await
    }

    /// The connection if it is open; `None` if it may be reconnected.
    fn live(&self) -> Result<Option<Arc<Connection>>, CallError> {
        if let Some(error) = self.gone() {
            return Err(error);
        }
        let state = locked(&self.state);
        let ServerState::Connected { connection, restart } = &*state else { return Ok(None) };
        match (connection.is_live(), restart) {
            (true, _) => Ok(Some(Arc::clone(connection))),
            (false, RestartState::Allowed) => Ok(None),
            (false, RestartState::Used) => {
                drop(state);
                Err(self.give_up("it disconnected again right after a restart".to_owned()))
            }
        }
    }

    async fn reconnect(self: &Arc<Self>) -> Result<Arc<Connection>, CallError> {
        let lost = match &*locked(&self.state) {
            ServerState::Connected { connection, .. } => Some(Arc::clone(connection)),
            ServerState::Connecting | ServerState::Gone(_) | ServerState::Closed => None,
        };
        if let Some(lost) = lost {
            lost.close().await;
        }
        match connect_and_list(&self.config, &self.common, &self.scrub).await {
            Ok((connection, catalog)) => {
                self.install(Arc::new(connection), catalog, RestartState::Used).await
            }
            Err(error) => Err(self.give_up(error.failure(&self.config, &self.scrub).cause)),
        }
    }

    async fn install(
        self: &Arc<Self>,
        connection: Arc<Connection>,
        catalog: Catalog,
        restart: RestartState,
    ) -> Result<Arc<Connection>, CallError> {
        let closed = {
            let mut state = locked(&self.state);
            let closed = matches!(&*state, ServerState::Closed);
            if !closed {
                *state = ServerState::Connected { connection: Arc::clone(&connection), restart };
            }
            closed
        };
        if closed {
            connection.close().await;
            return Err(self.gone().unwrap_or_else(|| CallError::Unknown(self.name().to_owned())));
        }
        self.replace(catalog);
        self.follow();
        Ok(connection)
    }

    fn give_up(&self, cause: String) -> CallError {
        {
            let mut state = locked(&self.state);
            if !matches!(&*state, ServerState::Closed) {
                *state = ServerState::Gone(cause.clone());
            }
        }
        self.replace(Catalog::default());
        CallError::Gone { server: self.name().to_owned(), cause }
    }

    /// Allows another reconnect, since the server answered.
    fn allow_restart(&self) {
        if let ServerState::Connected { restart, .. } = &mut *locked(&self.state) {
            *restart = RestartState::Allowed;
        }
    }

    async fn error(&self, connection: &Arc<Connection>, trouble: RequestError) -> CallError {
        let server = self.name().to_owned();
        match trouble {
            RequestError::Cancelled => CallError::Cancelled { server },
            RequestError::TimedOut(after) => CallError::TimedOut { server, after },
            RequestError::Refused { code, message } => {
                CallError::Refused { server, code, message: self.words(&message) }
            }
            RequestError::Lost(cause) if connection.is_live() => {
                CallError::NotAccepted { server, cause: self.words(&cause) }
            }
            RequestError::Lost(cause) => {
                let cause = connection.output_suffix(cause).await;
                let left = Arc::clone(connection);
                // The process or its descendants may still run.
                tokio::spawn(async move { left.close().await });
                CallError::Lost { server, cause: self.words(&cause) }
            }
        }
    }

    fn words(&self, text: &str) -> String {
        words(&self.scrub, text)
    }

    /// Reads the lists again after each change, until the connection ends. Holds no reference to the server or the
    /// connection, so that both can be dropped.
    fn follow(self: &Arc<Self>) {
        let mut changed = match &*locked(&self.state) {
            ServerState::Connected { connection, .. } => connection.changed(),
            ServerState::Connecting | ServerState::Gone(_) | ServerState::Closed => return,
        };
        let server = Arc::downgrade(self);
        tokio::spawn(async move {
            let (mut pause, mut looked) = (SETTLE, Instant::now());
            while changed.changed().await.is_ok() {
                let is_calm = looked.elapsed() > LONGEST_SETTLE;
                pause = if is_calm { SETTLE } else { LONGEST_SETTLE.min(pause * 2) };
                tokio::time::sleep(pause).await;
                changed.borrow_and_update();
                let Some(server) = server.upgrade() else { return };
                server.refresh().await;
                looked = Instant::now();
            }
        });
    }

    async fn refresh(&self) {
        let Ok(Some(connection)) = self.live() else { return };
        let reader = CatalogReader { server: self.name(), limits: &self.common.limits, scrub: &self.scrub };
        let timeout = RequestTimeout::at_most(self.common.limits.connect);
        // If listing fails, the old lists stay; the next call notices a lost connection.
        if let Ok(catalog) = listing::all(&connection, &reader, timeout).await
            && connection.is_live()
        {
            self.replace(catalog);
        }
    }

    fn replace(&self, mut catalog: Catalog) {
        scrub_notes(&mut catalog, &self.scrub);
        let before = std::mem::replace(&mut *locked(&self.catalog), catalog.clone());
        if before != catalog {
            self.common.changes.send_modify(|count| *count += 1);
        }
    }
}

/// Connects and reads the lists, within the time limit.
async fn connect_and_list(
    config: &ServerConfig,
    common: &SharedByServers,
    scrub: &Scrub,
) -> Result<(Connection, Catalog), ConnectError> {
    let limits = &common.limits;
    let deadline = Instant::now() + limits.connect;
    let connection = Connection::open(config, &common.environment, limits, deadline).await?;
    let reader = CatalogReader { server: config.name(), limits, scrub };
    let timeout = RequestTimeout::at_most(deadline.saturating_duration_since(Instant::now()));
    match listing::all(&connection, &reader, timeout).await {
        Ok(mut catalog) => {
            scrub_notes(&mut catalog, scrub);
            Ok((connection, catalog))
        }
        Err(trouble) => {
            let cause = match trouble {
                RequestError::Lost(cause) => connection.output_suffix(cause).await,
                RequestError::Refused { message, .. } => format!("it rejected tools/list: {message}"),
                RequestError::TimedOut(_) | RequestError::Cancelled => {
                    "it did not list its tools in time".to_owned()
                }
            };
            discard(&connection).await;
            Err(ConnectError { cause, remedy: "check the server, or take it out of the list" })
        }
    }
}

fn scrub_notes(catalog: &mut Catalog, scrub: &Scrub) {
    for note in &mut catalog.notes {
        *note = words(scrub, note);
    }
}

fn words(scrub: &Scrub, text: &str) -> String {
    // Struck out first: a cut may go through the middle of a secret.
    cut(&scrub.text(text), LONGEST_WORDS).to_owned()
}

impl ConnectError {
    fn failure(self, config: &ServerConfig, scrub: &Scrub) -> ServerFailure {
        let (server, remedy) = (config.name().to_owned(), self.remedy.to_owned());
        ServerFailure { server, cause: words(scrub, &self.cause), remedy }
    }
}

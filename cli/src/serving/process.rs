//! The process of `rethread serve`: registers, listens, handles signals, and ends in order.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread::clock;
use rethread::lock::locked;
use rethread::secret::Secrets;
use rethread::server::{Config, Server, WhenUnattended};
use rethread::store::{OpenOutcome, StoreError};
use rethread::transport::local_socket::{LocalListener, LocalSocketError};
use rethread_core::Millis;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::accept::{self, ClientCount};
use super::address::socket_path;
use super::handshake::ServerState;
use super::http::{BoundHttp, HttpOptions, ListeningHttp, ReachedHttp};
use super::notify;
use super::registration::{NotRegistered, Registered, Registration};
use super::settings::ServeSettings;
use crate::cluster::Cluster;
use crate::failure::{ExitCode, Failure};
use crate::importing::keep_watching;
use crate::log::LogLevel;
use crate::output::stream::print;
use crate::paths::Paths;
use crate::pruning::prune_daily;
use crate::server_parts::ServerParts;
use crate::store_choice::StoreChoice;

/// How long connections may take to close when all sessions have ended.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// What the command line says.
#[derive(Clone, Debug)]
pub(crate) struct ServeOptions {
    /// The socket, if it is not the usual one.
    pub(crate) socket: Option<PathBuf>,
    /// Where HTTP is served.
    pub(crate) http: Option<HttpOptions>,
    /// How many clients may be connected.
    pub(crate) most_clients: usize,
    /// How many seconds the turns that run get when the server is asked to end.
    pub(crate) stop_seconds: Option<u64>,
    /// The settings of the server.
    pub(crate) config: Config,
    /// What is logged.
    pub(crate) log_level: LogLevel,
}

/// What all connections of the process share.
pub(crate) struct ServeShared {
    pub(crate) server: Server,
    pub(crate) paths: Paths,
    pub(crate) secrets: Secrets,
    pub(crate) clients: Arc<ClientCount>,
    pub(crate) most_clients: usize,
    pub(crate) addresses: Vec<String>,
    pub(crate) since: Millis,
    /// HTTP, if it is served.
    pub(crate) http: Option<ReachedHttp>,
    settings: Arc<Mutex<ServeSettings>>,
    stage: watch::Sender<Stage>,
}

/// How far the end of the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Not begun.
    Running,
    /// New work is refused, and turns may end.
    Draining,
    /// Sessions end now.
    Ending,
    /// Connections are closed.
    Closing,
}

impl ServeShared {
    /// Whether clients are taken.
    pub(crate) fn state(&self) -> ServerState {
        match *self.stage.borrow() {
            Stage::Running => ServerState::Running,
            Stage::Draining | Stage::Ending | Stage::Closing => ServerState::Stopping,
        }
    }

    /// How long a token of the web page works.
    pub(crate) fn page_life(&self) -> Duration {
        locked(&self.settings).page_life
    }

    /// Begins to end; the second time, turns get no more time.
    pub(crate) fn stop(&self) {
        self.stage.send_modify(|stage| match stage {
            Stage::Running => *stage = Stage::Draining,
            Stage::Draining => *stage = Stage::Ending,
            Stage::Ending | Stage::Closing => {}
        });
    }

    /// Begins to end, with another time for the turns that run. One that ends already keeps its time.
    pub(crate) fn drain(&self, limit: Duration) {
        self.stage.send_modify(|stage| {
            if *stage == Stage::Running {
                locked(&self.settings).stop_limit = limit;
                *stage = Stage::Draining;
            }
        });
    }

    /// Ready when connections are closed.
    pub(crate) fn closing(&self) -> impl Future<Output = ()> + Send + use<> {
        self.reached(Stage::Closing)
    }

    fn reached(&self, least: Stage) -> impl Future<Output = ()> + Send + use<> {
        let mut stage = self.stage.subscribe();
        async move {
            // The sender outlives all connections.
            let _ = stage.wait_for(|stage| *stage >= least).await;
        }
    }
}

/// Runs the server until it is asked to end.
pub(crate) fn run(options: ServeOptions) -> Result<(), Failure> {
    let paths = Paths::from_environment()?;
    paths.make_state()?;
    let settings = ServeSettings::read(&paths.config(), options.stop_seconds)?;
    let mut registration =
        Registration::take(&paths.registration()).map_err(|why| not_registered(&paths, why))?;
    let config = Config { when_unattended: WhenUnattended::Keep, ..options.config.clone() };
    let (parts, opened) = ServerParts::prepare_shared(&paths, config, options.log_level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let bound = match &options.http {
            Some(http) => Some(http.bind().await?),
            None => None,
        };
        wait_for_store(opened, bound.as_ref()).await?;
        let socket = options.socket.clone().unwrap_or_else(|| socket_path(&paths));
        let listener = LocalListener::bind(&socket).map_err(not_bound)?;
        let server = parts.server();
        let settings = Arc::new(Mutex::new(settings));
        let listen = |(http, bound): (&HttpOptions, BoundHttp)| {
            http.listen(bound, &server, &parts, &paths, settings.clone(), options.most_clients)
        };
        let http = options.http.as_ref().zip(bound).map(listen).transpose()?;
        let cluster = Cluster::read(&paths.config())?;
        match (&http, cluster) {
            (Some(http), cluster) => http.join_hosts(&server, parts.store.as_ref(), cluster).await?,
            (None, Some(cluster)) if parts.store.host_deadline().is_some() => {
                server.connect_hosts(cluster.visitor());
            }
            (None, _) => {}
        }
        let registered = Registered {
            pid: std::process::id(),
            socket: Some(listener.path().to_owned()),
            addresses: http.iter().map(|http| http.url.clone()).collect(),
            store: StoreChoice::read(&paths)?.shown(),
        };
        registration.write(&registered)?;
        let shared = Arc::new(ServeShared {
            server,
            secrets: parts.secrets().clone(),
            paths,
            clients: Arc::default(),
            http: http.as_ref().map(ListeningHttp::reached),
            most_clients: options.most_clients,
            addresses: registered.all_addresses(),
            since: clock::now(),
            settings,
            stage: watch::Sender::new(Stage::Running),
        });
        announce(&shared)?;
        let signals = Signals::watch()?;
        let http = http.map(|http| tokio::spawn(http.listener.serve(shared.closing())));
        let notifying = tokio::spawn(notify::notify(shared.server.news(), shared.settings.clone()));
        serve(&shared, listener, &parts, signals, options.stop_seconds).await;
        notifying.abort();
        if let Some(http) = http {
            let _ = http.await;
        }
        Ok(())
    });
    // Blocking reads of nobody may hold the process.
    runtime.shutdown_timeout(CLOSE_LIMIT);
    outcome
}

/// Waits until the store is open. Whoever asks meanwhile is told that the server is not ready.
async fn wait_for_store(opened: OpenOutcome, http: Option<&BoundHttp>) -> Result<(), StoreError> {
    let telling = async {
        match http {
            Some(http) => http.wait().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        opened = opened.wait() => opened,
        never = telling => match never {},
    }
}

fn announce(shared: &ServeShared) -> Result<(), Failure> {
    let lines: String = shared.addresses.iter().map(|address| format!("listening on {address}\n")).collect();
    tracing::info!("serving in process {}", std::process::id());
    print(&lines)
}

/// Serves until the end.
async fn serve(
    shared: &Arc<ServeShared>,
    listener: LocalListener,
    parts: &ServerParts,
    mut signals: Signals,
    stop_seconds: Option<u64>,
) {
    let mut clients = JoinSet::new();
    let mut ended = pin!(end(shared.clone()));
    let mut pruning = pin!(prune(parts, shared));
    let mut watching = watch_tools(parts, shared);
    loop {
        tokio::select! {
            () = &mut ended => break,
            connection = listener.accept() => match connection {
                Ok(stream) => _ = clients.spawn(accept::serve(stream, shared.clone())),
                Err(error) => not_accepted(&error).await,
            },
            Some(_) = clients.join_next() => {}
            signal = signals.next() => match signal {
                Asked::Stop => shared.stop(),
                Asked::Reload => {
                    reload(shared, stop_seconds);
                    pruning.set(prune(parts, shared));
                    watching = watch_tools(parts, shared);
                }
            },
            () = &mut pruning => {}
        }
    }
    drop((listener, watching));
    let closed = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSE_LIMIT, closed).await;
}

/// Waits until the process is asked to end, and ends its work: turns get their time, sessions and agents end, connections
/// are closed.
async fn end(shared: Arc<ServeShared>) {
    shared.reached(Stage::Draining).await;
    let limit = locked(&shared.settings).stop_limit;
    tracing::info!("stopping; turns get {} s", limit.as_secs());
    tokio::select! {
        () = shared.server.drain(limit) => {}
        () = shared.reached(Stage::Ending) => {}
    }
    shared.server.shut_down().await;
    shared.stage.send_replace(Stage::Closing);
}

async fn prune(parts: &ServerParts, shared: &ServeShared) {
    let days = locked(&shared.settings).keep_days;
    match days {
        Some(days) => prune_daily(parts.store.clone(), days).await,
        None => std::future::pending().await,
    }
}

/// Imports what other tools write, in a task of its own: reading their files takes processor time.
fn watch_tools(parts: &ServerParts, shared: &ServeShared) -> JoinSet<()> {
    let tools = locked(&shared.settings).watch.clone();
    let mut watching = JoinSet::new();
    if !tools.is_empty() {
        watching.spawn(keep_watching(parts.store.clone(), tools));
    }
    watching
}

/// Reads the configuration again. A wrong one changes nothing.
fn reload(shared: &ServeShared, stop_seconds: Option<u64>) {
    match ServeSettings::read(&shared.paths.config(), stop_seconds) {
        Ok(settings) => {
            *locked(&shared.settings) = settings;
            tracing::info!("the configuration was read again");
        }
        Err(mistake) => {
            tracing::error!("the configuration was not read again: {mistake}");
            eprintln!("{}", Failure::from(mistake));
        }
    }
}

/// A process of another user, or too many open files: neither may end the server or keep it busy.
async fn not_accepted(error: &LocalSocketError) {
    tracing::warn!("a connection was not accepted: {}", rethread::wire::with_causes(error));
    match error {
        LocalSocketError::OtherUser { .. } => {}
        LocalSocketError::NobodyListens(_)
        | LocalSocketError::InUse(_)
        | LocalSocketError::TooLong(_)
        | LocalSocketError::NotASocket(_)
        | LocalSocketError::NotPrivate { .. }
        | LocalSocketError::Io { .. } => tokio::time::sleep(Duration::from_millis(100)).await,
    }
}

/// The signals of the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a signal asks for.
enum Asked {
    Stop,
    Reload,
}

impl Signals {
    fn watch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}

fn not_registered(paths: &Paths, why: NotRegistered) -> Failure {
    match why {
        NotRegistered::Taken(other) => {
            let other = other.unwrap_or_default();
            let addresses = match other.all_addresses() {
                none if none.is_empty() => "it does not listen yet".to_owned(),
                some => format!("it listens on {}", some.join(", ")),
            };
            let message = format!("process {} serves this store already; {addresses}", other.pid);
            Failure::new(ExitCode::Refused, message)
                .hint("`rethread serve --status` shows it, `rethread serve --stop` ends it")
        }
        NotRegistered::Io(error) => {
            let file = paths.registration();
            Failure::plain(&format!("{} cannot be used: {error}", file.display()))
                .hint("check the folder, or set RETHREAD_HOME to another one")
        }
    }
}

fn not_bound(error: LocalSocketError) -> Failure {
    let failure = Failure::plain(&rethread::wire::with_causes(&error));
    match error {
        LocalSocketError::InUse(_) => failure.hint("name another one with --socket"),
        LocalSocketError::TooLong(_) => failure.hint("name a shorter one with --socket"),
        LocalSocketError::NotPrivate { path, .. } => {
            failure.hint(format!("run `chmod 700 {}`, or name another socket with --socket", path.display()))
        }
        LocalSocketError::NotASocket(_)
        | LocalSocketError::NobodyListens(_)
        | LocalSocketError::OtherUser { .. }
        | LocalSocketError::Io { .. } => failure.hint("name another socket with --socket"),
    }
}

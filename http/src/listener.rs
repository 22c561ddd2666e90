//! Listens for HTTP, with or without TLS, in versions 1.1 and 2.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rethread::agent::host::AgentSource;
use rethread::server::{RemoteRules, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::codes::OneTimeCodes;
use crate::connections::Connections;
use crate::failures::Failures;
use crate::guard::Guard;
use crate::page::PageFiles;
use crate::routes;
use crate::tokens::TokenFile;

/// How long a peer may take for the headers of a request, and for the handshake of TLS.
const HEADER_LIMIT: Duration = Duration::from_secs(30);
/// Sockets may be more than clients: streamable HTTP needs several.
const SOCKETS_PER_CLIENT: usize = 4;

/// Which agents and directories remote clients may use.
pub trait AgentDirectory: Send + Sync + 'static {
    /// The agent with this configured name, or the default one. The error is for the client.
    fn agent(&self, name: Option<&str>) -> Result<Arc<dyn AgentSource>, String>;

    /// What clients may name.
    fn rules(&self) -> RemoteRules;
}

/// The settings of a listener.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// How many clients may be connected.
    pub most_clients: usize,
    /// How many bytes a message may have.
    pub longest_message: usize,
    /// How long a client stays without a transport, so that it can come back.
    pub grace: Duration,
    /// The web page.
    pub page: Option<Arc<dyn PageFiles>>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        let longest_message = 64 * 1024 * 1024;
        Self { most_clients: 1024, longest_message, grace: Duration::from_secs(600), page: None }
    }
}

/// What all requests share.
pub(crate) struct HttpShared {
    pub(crate) server: Server,
    pub(crate) guard: Guard,
    pub(crate) tokens: Arc<TokenFile>,
    pub(crate) agents: Arc<dyn AgentDirectory>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) failures: Failures,
    pub(crate) codes: Arc<OneTimeCodes>,
    pub(crate) config: HttpConfig,
}

/// A listener for HTTP.
pub struct HttpListener {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<HttpShared>,
}

impl HttpListener {
    /// Serves this server on a socket that is bound already.
    #[must_use]
    pub fn new(
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        server: Server,
        guard: Guard,
        tokens: Arc<TokenFile>,
        agents: Arc<dyn AgentDirectory>,
        config: HttpConfig,
    ) -> Self {
        let connections = Arc::new(Connections::new(config.most_clients, config.grace));
        let (failures, codes) = (Failures::default(), Arc::default());
        let shared = HttpShared { server, guard, tokens, agents, connections, failures, codes, config };
        Self { listener, tls, shared: Arc::new(shared) }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the socket has no address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The codes with which its web page gets a token.
    #[must_use]
    pub fn codes(&self) -> Arc<OneTimeCodes> {
        self.shared.codes.clone()
    }

    /// Counts the clients that are connected, now and later.
    pub fn client_count(&self) -> impl Fn() -> usize + Send + Sync + 'static + use<> {
        let connections = self.shared.connections.clone();
        move || connections.count()
    }

    /// Serves until `stop` is ready; then all connections are closed.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let most = self.shared.config.most_clients.saturating_mul(SOCKETS_PER_CLIENT);
        let sockets = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let sweeping = {
            let shared = self.shared.clone();
            async move { shared.connections.sweep(&shared.tokens).await }
        };
        let accepting = async {
            loop {
                // A socket that cannot be served waits in the system's queue.
                let Ok(room) = sockets.clone().acquire_owned().await else { return };
                match self.listener.accept().await {
                    Ok((stream, address)) => {
                        let (tls, shared) = (self.tls.clone(), self.shared.clone());
                        tokio::spawn(async move {
                            serve_socket(stream, address, tls, shared).await;
                            drop(room);
                        });
                    }
                    Err(error) => {
                        tracing::warn!("a connection was not accepted: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            () = sweeping => {}
            () = stop => {}
        }
        self.shared.connections.close_all();
    }
}

async fn serve_socket(
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    shared: Arc<HttpShared>,
) {
    // Chunks are small and must not wait for more.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve_stream(stream, address, shared).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(HEADER_LIMIT, tls.accept(stream)).await {
                serve_stream(stream, address, shared).await;
            }
        }
    }
}

async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    address: SocketAddr,
    shared: Arc<HttpShared>,
) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(routes::answer(shared, address.ip(), request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_LIMIT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(15));
    // Whatever a peer does wrong concerns only its own connection.
    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
}

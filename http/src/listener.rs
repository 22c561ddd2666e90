//! Listens for HTTP, with or without TLS, in versions 1.1 and 2.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rethread::agent::host::AgentSource;
use rethread::server::{RemoteRules, Server};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::codes::OneTimeCodes;
use crate::connections::Connections;
use crate::failures::Failures;
use crate::framing::{SeenHeads, WatchedStream};
use crate::guard::Guard;
use crate::host_network::HostNetwork;
use crate::metrics::HttpCounts;
use crate::open_requests::OpenRequests;
use crate::page::PageFiles;
use crate::routes;
use crate::tokens::Tokens;

/// Sockets may be more than clients: streamable HTTP needs several.
const SOCKETS_PER_CLIENT: usize = 4;
/// How many sockets too many are told so at a time; others are closed without a word.
const MOST_REFUSALS: usize = 64;
/// How long a socket too many is read from, so that its peer gets to see the answer.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// The answer to a socket too many.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

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
    /// How long peers may take.
    pub limits: HttpLimits,
    /// The web page.
    pub page: Option<Arc<dyn PageFiles>>,
}

/// How long peers may take.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// For the headers of a request, and the handshake of TLS; a connection without requests is closed after as long.
    pub headers: Duration,
    /// For `initialize` on a WebSocket.
    pub first_message: Duration,
    /// How often a client is asked whether it is there.
    pub ping: Duration,
    /// How long a client may say nothing, or not take what it is sent.
    pub silence: Duration,
    /// How often tokens and unused connections are looked at.
    pub sweep: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(30),
            first_message: Duration::from_secs(30),
            ping: Duration::from_secs(15),
            silence: Duration::from_secs(45),
            // A revoked token must not work for more than five seconds.
            sweep: Duration::from_secs(2),
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        let longest_message = 64 * 1024 * 1024;
        Self {
            most_clients: 1024,
            longest_message,
            grace: Duration::from_secs(600),
            limits: HttpLimits::default(),
            page: None,
        }
    }
}

/// What all requests share.
pub(crate) struct HttpShared {
    pub(crate) server: Server,
    pub(crate) guard: Guard,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) agents: Arc<dyn AgentDirectory>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) failures: Failures,
    pub(crate) codes: Arc<OneTimeCodes>,
    pub(crate) counts: Arc<HttpCounts>,
    pub(crate) config: HttpConfig,
    /// The other hosts of the store, if it is shared.
    pub(crate) hosts: OnceLock<Arc<HostNetwork>>,
    /// Becomes true when the listener ends.
    pub(crate) stopping: watch::Sender<bool>,
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
        tokens: Arc<Tokens>,
        agents: Arc<dyn AgentDirectory>,
        config: HttpConfig,
    ) -> Self {
        let connections = Arc::new(Connections::new(config.most_clients, config.grace));
        let shared = HttpShared {
            server,
            guard,
            tokens,
            agents,
            connections,
            failures: Failures::default(),
            codes: Arc::default(),
            counts: Arc::default(),
            config,
            hosts: OnceLock::new(),
            stopping: watch::Sender::new(false),
        };
        Self { listener, tls, shared: Arc::new(shared) }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the socket has no address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves other hosts from now on, too.
    pub fn serve_hosts(&self, hosts: Arc<HostNetwork>) {
        let _ = self.shared.hosts.set(hosts);
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
        let refusals = Arc::new(Semaphore::new(MOST_REFUSALS));
        let sweeping = {
            let shared = self.shared.clone();
            async move { shared.connections.sweep(&shared.tokens, shared.config.limits.sweep).await }
        };
        let accepting = async {
            loop {
                match self.listener.accept().await {
                    Ok((stream, address)) => match sockets.clone().try_acquire_owned() {
                        Ok(room) => {
                            let (tls, shared) = (self.tls.clone(), self.shared.clone());
                            tokio::spawn(async move {
                                serve_socket(stream, address, tls, shared).await;
                                drop(room);
                            });
                        }
                        Err(_) => self.refuse(stream, &refusals),
                    },
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
        self.shared.stopping.send_replace(true);
    }
}

impl HttpListener {
    /// Says that there are too many sockets. With TLS there is no answer before the handshake.
    fn refuse(&self, mut stream: TcpStream, refusals: &Arc<Semaphore>) {
        let Ok(room) = refusals.clone().try_acquire_owned() else { return };
        if self.tls.is_some() {
            return;
        }
        tokio::spawn(async move {
            let refusing = async {
                stream.write_all(TOO_MANY).await?;
                stream.shutdown().await?;
                // Closing a socket with something unread would take the answer back.
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            let _ = tokio::time::timeout(REFUSAL_LIMIT, refusing).await;
            drop(room);
        });
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
    end_when_not_taken(&stream, shared.config.limits.silence);
    match tls {
        None => serve_stream(stream, address, shared).await,
        Some(tls) => {
            if let Ok(Ok(stream)) =
                tokio::time::timeout(shared.config.limits.headers, tls.accept(stream)).await
            {
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
    let limits = shared.config.limits;
    let requests = OpenRequests::default();
    let (opened, heads) = (requests.clone(), SeenHeads::default());
    let stream = WatchedStream::new(stream, heads.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (shared, open) = (shared.clone(), opened.begin());
        let refusal = heads.refusal(request.headers());
        async move {
            let response = match refusal {
                Some(refusal) => {
                    shared.counts.answered(refusal.status());
                    refusal
                }
                None => routes::answer(shared, address.ip(), request).await,
            };
            Ok::<_, Infallible>(response.map(|body| open.until_the_end_of(body)))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.headers);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(limits.ping);
    builder.http2().keep_alive_timeout(limits.silence.saturating_sub(limits.ping));
    tokio::select! {
        // Whatever a peer does wrong concerns only its own connection.
        _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service) => {}
        () = requests.none_for(limits.headers) => {}
    }
}

/// Has the system close a connection whose peer does not take what was sent: it is gone, or does not read.
#[cfg(target_os = "linux")]
fn end_when_not_taken(stream: &TcpStream, limit: Duration) {
    let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(limit));
}

/// Other systems give such a connection up by themselves, later.
#[cfg(not(target_os = "linux"))]
fn end_when_not_taken(_: &TcpStream, _: Duration) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_limits_are_those_that_are_promised() {
        let HttpLimits { headers, first_message, ping, silence, sweep } = HttpLimits::default();
        let seconds = [headers, first_message, ping, silence].map(|limit| limit.as_secs());
        assert_eq!(seconds, [30, 30, 15, 45]);
        assert!(sweep < Duration::from_secs(5), "a revoked token works for at most five seconds");
        assert_eq!(HttpConfig::default().grace, Duration::from_secs(600));
    }
}

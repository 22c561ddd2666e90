//! The connections between hosts: how a host asks another to serve a client, and how it is asked. A WebSocket on `/cluster`, on
//! which both prove who they are (`host_proof`) before anything of the client is said; then messages of the client.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use rethread::server::{
    CarriedClient, ClientAccess, ClientOrigin, ClientRole, ClientScope, Connecting, HostConnector,
    HostLinkError, Redaction, RemoteRules, Server, TransportName,
};
use rethread::store::HostContact;
use rethread::transport::messages::MessageChannel;
use rethread_core::Json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::client::{Address, RemoteError, RemoteTarget, Socket};
use crate::host_proof::{AskedHost, AskingHost, Challenge, ClusterKey, Hello, Nonce};

/// Where hosts meet.
pub(crate) const PATH: &str = "/cluster";
/// How long the proofs of a host that asks may take.
const PROOF_LIMIT: Duration = Duration::from_secs(10);
/// How long a host that is asked may take to be connected and proven.
const MEET_LIMIT: Duration = Duration::from_secs(4);
/// How many bytes a message may have before the other has proved who it is.
const UNPROVEN_BYTES: usize = 256 * 1024;
/// How many bytes a message of a proven host may have.
const PROVEN_BYTES: usize = 64 * 1024 * 1024;
/// How many connections may be unproven at a time.
const UNPROVEN: usize = 64;
/// How often a host shows that it is there, and how long the other may say nothing. Less than a lease, so that a client learns
/// of a host that hangs when another may take over.
const PING: Duration = Duration::from_secs(4);
const SILENCE: Duration = Duration::from_secs(13);
/// How many messages wait between the socket and the client's connection.
const WAITING: usize = 256;

/// This host among the others.
pub struct HostNetwork {
    key: ClusterKey,
    own: HostContact,
    ca: Option<PathBuf>,
    unproven: Arc<Semaphore>,
}

/// The last message of the host that asks: its proof, and the client; none if it only asks whether it would be served.
#[derive(Serialize, Deserialize)]
struct Introduction {
    proof: String,
    #[serde(default)]
    client: Option<WrittenClient>,
}

/// What a host says of a client.
#[derive(Serialize, Deserialize)]
struct WrittenClient {
    role: WrittenRole,
    origin: WrittenOrigin,
    #[serde(default)]
    scope: Option<WrittenScope>,
    agent: Json,
    transport: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenRole {
    Full,
    Observer,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenOrigin {
    Local,
    Remote,
}

#[derive(Serialize, Deserialize)]
struct WrittenScope {
    session: String,
    redacted: bool,
}

/// The answer to an introduction.
#[derive(Serialize, Deserialize)]
struct Accepted {
    accepted: bool,
}

impl HostNetwork {
    /// A host with this key. Certificates of others are checked against this file, or against those of the system.
    #[must_use]
    pub fn new(key: ClusterKey, own: HostContact, ca: Option<PathBuf>) -> Self {
        Self { key, own, ca, unproven: Arc::new(Semaphore::new(UNPROVEN)) }
    }

    /// Asks another host whether it would serve a client of this one.
    ///
    /// # Errors
    /// If it cannot be reached, or is not trusted.
    pub async fn probe(&self, host: &HostContact) -> Result<(), HostLinkError> {
        self.meet(host, None).await.map(drop)
    }

    /// Connects and exchanges proofs. A host that hangs must not hold this up: its lease is over soon.
    async fn meet(&self, host: &HostContact, client: Option<WrittenClient>) -> Result<Socket, HostLinkError> {
        let slow = || HostLinkError::Unreachable("it does not answer".to_owned());
        timeout(MEET_LIMIT, self.connect_and_prove(host, client)).await.unwrap_or_else(|_| Err(slow()))
    }

    async fn connect_and_prove(
        &self,
        host: &HostContact,
        client: Option<WrittenClient>,
    ) -> Result<Socket, HostLinkError> {
        check_address(&host.address)?;
        let target = RemoteTarget {
            url: format!("{}{PATH}", host.address),
            token: None,
            ca: self.ca.clone(),
            patience: Duration::ZERO,
        };
        let address = Address::read(&target).map_err(|error| not_trusted(host, &error.to_string()))?;
        let (mut socket, _) = address.open(None).await.map_err(|error| match error {
            RemoteError::Refused(status) if status.is_client_error() => not_trusted(
                host,
                &format!("it answers with {status}: it has no cluster_key, or is no such host"),
            ),
            RemoteError::Address(_) | RemoteError::Certificates { .. } => {
                not_trusted(host, &error.to_string())
            }
            RemoteError::Refused(status) => HostLinkError::Unreachable(format!("it answers with {status}")),
            RemoteError::Unreachable { why, .. } => HostLinkError::Unreachable(why),
        })?;
        let broken = || HostLinkError::Unreachable("it did not finish the proof".to_owned());
        let nonce = Nonce::random().ok_or_else(broken)?;
        let asking = AskingHost { key: &self.key, own: &self.own, other: host, nonce };
        say(&mut socket, &asking.hello()).await.ok_or_else(broken)?;
        let challenge: Challenge = hear(&mut socket).await.ok_or_else(broken)?;
        let proof = asking.check(&challenge).map_err(|why| not_trusted(host, &why.to_string()))?;
        say(&mut socket, &Introduction { proof, client }).await.ok_or_else(broken)?;
        let answer: Accepted = hear(&mut socket).await.ok_or_else(broken)?;
        if answer.accepted { Ok(socket) } else { Err(not_trusted(host, "it does not trust this host")) }
    }

    /// Serves a host that asks, until it hangs up.
    pub(crate) async fn serve(
        &self,
        upgrade: hyper::upgrade::OnUpgrade,
        peer: IpAddr,
        server: &Server,
        rules: RemoteRules,
        stop: impl Future<Output = ()>,
    ) {
        let Ok(room) = self.unproven.clone().try_acquire_owned() else { return };
        let Ok(Ok(upgraded)) = timeout(PROOF_LIMIT, upgrade).await else { return };
        let small = Some(limited(UNPROVEN_BYTES));
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, small).await;
        let Ok(Some((client, asker))) = timeout(PROOF_LIMIT, self.asked(&mut socket, peer)).await else {
            return;
        };
        drop(room);
        // The host that asks says nothing before it is accepted, so that nothing read is lost here.
        let stream = socket.into_inner();
        let mut socket =
            WebSocketStream::from_raw_socket(stream, Role::Server, Some(limited(PROVEN_BYTES))).await;
        if say(&mut socket, &Accepted { accepted: true }).await.is_none() {
            return;
        }
        let Some(client) = client else { return };
        let client = read_client(client, rules);
        tracing::debug!("serving a client of host {} at {}", asker.number, asker.address);
        let (outgoing, to_peer) = mpsc::channel(WAITING);
        let (from_peer, incoming) = mpsc::channel(WAITING);
        let served = server.serve_carried(MessageChannel { incoming, outgoing }, client, stop);
        tokio::join!(carry(socket, to_peer, from_peer), served);
    }

    /// The client of a host that has proved who it is.
    async fn asked(
        &self,
        socket: &mut WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>,
        peer: IpAddr,
    ) -> Option<(Option<WrittenClient>, HostContact)> {
        let hello: Hello = hear(socket).await?;
        let asked = AskedHost { key: &self.key, own: &self.own, hello, nonce: Nonce::random()? };
        let asker = asked.asker();
        let refused = |why: &dyn std::fmt::Display| {
            let name = rethread::visible::visible(&asker.address).into_owned();
            tracing::warn!("{peer} was refused as host {} at {name}: {why}", asker.number);
        };
        match asked.challenge() {
            Ok(challenge) => say(socket, &challenge).await?,
            Err(why) => {
                refused(&why);
                return None;
            }
        }
        let Some(introduction) = hear::<Introduction>(socket).await else {
            refused(&"it did not prove who it is");
            return None;
        };
        if let Err(why) = asked.check(&introduction.proof) {
            refused(&why);
            let _ = say(socket, &Accepted { accepted: false }).await;
            return None;
        }
        Some((introduction.client, asker))
    }
}

impl HostConnector for HostNetwork {
    fn connect(&self, host: HostContact, client: CarriedClient) -> Connecting<'_> {
        Box::pin(async move {
            let socket = self.meet(&host, Some(write_client(client))).await?;
            let (outgoing, to_peer) = mpsc::channel(WAITING);
            let (from_peer, incoming) = mpsc::channel(WAITING);
            tokio::spawn(carry(socket, to_peer, from_peer));
            Ok(MessageChannel { incoming, outgoing })
        })
    }
}

/// The host of an address that a host can advertise: http or https, a host, perhaps a port, and nothing else.
#[must_use]
pub fn advertised_host(address: &str) -> Option<String> {
    let uri: http::Uri = address.parse().ok()?;
    let plain = matches!(uri.scheme_str(), Some("http" | "https"))
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none()
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    uri.host().filter(|host| plain && !host.is_empty()).map(str::to_owned)
}

/// Hosts beyond this machine speak TLS with each other.
fn check_address(address: &str) -> Result<(), HostLinkError> {
    let uri: Option<http::Uri> = address.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match uri.as_ref().and_then(http::Uri::scheme_str) {
        Some("https") => Ok(()),
        Some("http") if here => Ok(()),
        Some(_) | None => Err(HostLinkError::NotTrusted(format!(
            "its address {address} is not used: hosts reach each other by https beyond this machine"
        ))),
    }
}

/// Says in the log which host is not used, and why.
fn not_trusted(host: &HostContact, why: &str) -> HostLinkError {
    tracing::error!("host {} at {} is not used: {why}", host.number, host.address);
    HostLinkError::NotTrusted(format!("that host is not used: {why}"))
}

fn limited(bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(bytes)).max_frame_size(Some(bytes))
}

async fn say<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    content: &impl Serialize,
) -> Option<()> {
    let text = serde_json::to_string(content).ok()?;
    socket.send(Message::Text(text.into())).await.ok()
}

async fn hear<T: DeserializeOwned>(
    socket: &mut WebSocketStream<impl AsyncRead + AsyncWrite + Unpin>,
) -> Option<T> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return serde_json::from_str(&text).ok(),
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Binary(_) | Message::Close(_) | Message::Frame(_) => return None,
        }
    }
}

/// Carries messages both ways until one side ends. Neither direction waits for the other.
async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<S>,
    to_peer: mpsc::Receiver<Bytes>,
    from_peer: mpsc::Sender<Bytes>,
) {
    let (sink, stream) = socket.split();
    tokio::select! {
        () = write(sink, to_peer) => {}
        () = read(stream, from_peer) => {}
    }
}

async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut to_peer: mpsc::Receiver<Bytes>,
) {
    let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
    loop {
        let frame = tokio::select! {
            message = to_peer.recv() => match message.map(TryInto::try_into) {
                Some(Ok(text)) => Message::Text(text),
                // Not text, so it is no message.
                Some(Err(_)) => continue,
                None => {
                    let _ = sink.close().await;
                    return;
                }
            },
            _ = ping.tick() => Message::Ping(Bytes::new()),
        };
        // A client that does not read may hold this up for long; a host that is gone is noticed by its silence.
        if sink.send(frame).await.is_err() {
            return;
        }
    }
}

async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: SplitStream<WebSocketStream<S>>,
    from_peer: mpsc::Sender<Bytes>,
) {
    while let Ok(Some(Ok(message))) = timeout(SILENCE, stream.next()).await {
        match message {
            Message::Text(text) => {
                if from_peer.send(text.into()).await.is_err() {
                    return;
                }
            }
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Binary(_) | Message::Close(_) | Message::Frame(_) => return,
        }
    }
}

fn write_client(client: CarriedClient) -> WrittenClient {
    let CarriedClient { access, agent, transport } = client;
    WrittenClient {
        role: match access.role {
            ClientRole::Full => WrittenRole::Full,
            ClientRole::Observer => WrittenRole::Observer,
        },
        origin: match access.origin {
            ClientOrigin::Local => WrittenOrigin::Local,
            ClientOrigin::Remote(_) => WrittenOrigin::Remote,
        },
        scope: access.scope.map(|scope| WrittenScope {
            session: scope.session,
            redacted: scope.redaction == Redaction::Secrets,
        }),
        agent,
        transport: transport.name().to_owned(),
    }
}

/// A client of another host. What a remote client may name is decided by this host's own rules.
fn read_client(client: WrittenClient, rules: RemoteRules) -> CarriedClient {
    let role = match client.role {
        WrittenRole::Full => ClientRole::Full,
        WrittenRole::Observer => ClientRole::Observer,
    };
    let origin = match client.origin {
        WrittenOrigin::Local => ClientOrigin::Local,
        WrittenOrigin::Remote => ClientOrigin::Remote(rules),
    };
    let scope = client.scope.map(|scope| ClientScope {
        session: scope.session,
        redaction: if scope.redacted { Redaction::Secrets } else { Redaction::Off },
    });
    let names = [TransportName::Stdio, TransportName::Socket, TransportName::WebSocket, TransportName::Http];
    let transport = names.into_iter().find(|name| name.name() == client.transport).unwrap_or_default();
    CarriedClient { access: ClientAccess { role, origin, scope }, agent: client.agent, transport }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine() {
        for good in ["http://127.0.0.1:7373", "http://localhost:1", "http://[::1]:7373", "https://b.example"]
        {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in ["http://10.0.0.2:7373", "http://b.example", "ftp://127.0.0.1", "b.example:7373", ""] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_client_may_do_survives_the_way_and_the_rules_are_those_of_the_owner() {
        let elsewhere = RemoteRules { roots: vec!["/elsewhere".into()], stdio_servers: Default::default() };
        let here = RemoteRules { roots: vec!["/here".into()], stdio_servers: Default::default() };
        let access = ClientAccess {
            role: ClientRole::Full,
            origin: ClientOrigin::Remote(elsewhere),
            scope: Some(ClientScope { session: "s".to_owned(), redaction: Redaction::Secrets }),
        };
        let client = CarriedClient { access, agent: Json::of("agent"), transport: TransportName::WebSocket };
        let text = serde_json::to_string(&write_client(client)).unwrap();
        let read = read_client(serde_json::from_str(&text).unwrap(), here);
        assert_eq!(read.access.role(), ClientRole::Observer, "one session only");
        assert_eq!(read.access.redaction(), Redaction::Secrets);
        assert_eq!(read.transport, TransportName::WebSocket);
        assert!(
            matches!(read.access.origin, ClientOrigin::Remote(rules) if rules.roots == [std::path::Path::new("/here")])
        );
    }
}

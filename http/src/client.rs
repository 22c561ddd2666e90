//! A client's connection to a server by WebSocket. It comes back after the connection was lost, and goes on where it was: the
//! server sends what was not received, and what the server has not taken is sent again. On a server that has forgotten the
//! connection, or was started anew, it initializes, loads the open sessions and passes on only what is new
//! (`conversation`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use rethread::transport::messages::MessageChannel;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::conversation::{Conversation, Heard};
use crate::sent_messages::SentMessages;

/// How long the server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// How long the server may say nothing; it asks every 15 seconds whether we are there.
const SILENCE: Duration = Duration::from_secs(45);
/// The first pause before the connection is tried again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long a new beginning may take: `initialize`, and loading the open sessions.
const BEGIN_LIMIT: Duration = Duration::from_secs(120);
/// The code with which a server closes a connection that it does not know any more.
pub(crate) const FORGOTTEN: u16 = 4404;

/// A server to connect to.
#[derive(Clone)]
pub struct RemoteTarget {
    /// Its address: `http`, `https`, `ws` or `wss`. Without a path it is `/acp`.
    pub url: String,
    /// The token.
    pub token: Option<String>,
    /// A file with certificates to trust in place of those of the system.
    pub ca: Option<PathBuf>,
    /// How long a lost connection is tried again.
    pub patience: Duration,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address cannot be used.
    #[error("{0} is not an address of a server")]
    Address(String),
    /// The certificates cannot be used.
    #[error("the certificates in {} cannot be used: {why}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// Nobody answers there.
    #[error("{address} cannot be reached: {why}")]
    Unreachable {
        /// The address, without anything secret.
        address: String,
        /// The cause.
        why: String,
    },
    /// The server refused, with this status.
    #[error("the server refused the connection: {0}")]
    Refused(StatusCode),
}

/// Connects. A lost connection is made again; the channel ends when that was tried for too long, or when the server does not
/// want this client any more.
///
/// ```no_run
/// # use std::{sync::Arc, time::Duration};
/// # use rethread::client::{AcpClient, ClientConfig, ClientHandler, Introduction, TransportSource};
/// # async fn example<H: ClientHandler>(token: String, handler: H) -> Result<(), Box<dyn std::error::Error>> {
/// let target = rethread_http::RemoteTarget {
///     url: "https://team.example:7373".to_owned(),
///     token: Some(token),
///     ca: None,
///     patience: Duration::from_secs(600),
/// };
/// let wire = rethread_http::connect(target).await?.into_wire();
/// let source = Arc::new(TransportSource::new(wire));
/// let client = AcpClient::connect(source, &Introduction::default(), ClientConfig::default(), handler).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the first connection fails.
pub async fn connect(target: RemoteTarget) -> Result<MessageChannel, RemoteError> {
    let address = Address::read(&target)?;
    let (socket, response) = address.open(None).await?;
    let (outgoing, to_send) = mpsc::channel(64);
    let (to_caller, incoming) = mpsc::channel(64);
    let link = Link {
        address,
        life: Some(Life::begun(&response)),
        sent: SentMessages::default(),
        conversation: Conversation::default(),
        to_send,
        to_caller,
        patience: target.patience,
        lost: None,
        pause: FIRST_PAUSE,
    };
    tokio::spawn(link.run(socket));
    Ok(MessageChannel { incoming, outgoing })
}

pub(crate) type Socket = WebSocketStream<Box<dyn Duplex>>;

/// Plain or encrypted bytes.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What is needed to come back.
pub(crate) struct Life {
    connection: String,
    epoch: String,
    /// How many messages were received.
    received: u64,
}

impl Life {
    fn begun(response: &Response<Option<Vec<u8>>>) -> Self {
        let (connection, epoch) =
            (header(response, "acp-connection-id"), header(response, "acp-event-epoch"));
        Self { connection, epoch, received: 0 }
    }
}

struct Link {
    address: Address,
    /// The connection that the server knows; nothing if it has forgotten it.
    life: Option<Life>,
    sent: SentMessages,
    conversation: Conversation,
    to_send: mpsc::Receiver<Bytes>,
    to_caller: mpsc::Sender<Bytes>,
    patience: Duration,
    /// Since when the caller and the server cannot speak with each other.
    lost: Option<Instant>,
    /// How long to wait before the next attempt.
    pause: Duration,
}

/// Why a socket is not used any more.
enum Lost {
    /// The connection broke: try again.
    Broken,
    /// The server does not know it any more.
    Forgotten,
    /// The caller has ended, or the server does not want it.
    ForGood,
}

impl Link {
    async fn run(mut self, mut socket: Socket) {
        loop {
            match self.carry(&mut socket).await {
                Lost::ForGood => {
                    let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
                    let _ = tokio::time::timeout(Duration::from_secs(1), socket.close(Some(frame))).await;
                    return;
                }
                Lost::Broken => {}
                Lost::Forgotten => self.forget().await,
            }
            drop(socket);
            match self.come_back().await {
                Some(again) => socket = again,
                None => return,
            }
        }
    }

    /// Carries messages both ways until the socket is lost.
    async fn carry(&mut self, socket: &mut Socket) -> Lost {
        let begin_limit = Instant::now() + BEGIN_LIMIT;
        loop {
            let beginning = self.conversation.is_beginning();
            if !beginning {
                (self.lost, self.pause) = (None, FIRST_PAUSE);
            }
            let heard = tokio::time::timeout(SILENCE, socket.next());
            tokio::select! {
                message = self.to_send.recv(), if !beginning => {
                    let Some(message) = message else { return Lost::ForGood };
                    let Some(message) = self.conversation.sent(declared(message)) else { continue };
                    if !self.send(socket, message).await {
                        return Lost::Broken;
                    }
                }
                () = self.to_caller.closed(), if beginning => return Lost::ForGood,
                () = tokio::time::sleep_until(begin_limit), if beginning => return Lost::Forgotten,
                heard = heard => match heard {
                    Ok(Some(Ok(Message::Text(text)))) => {
                        if let Err(lost) = self.received(text.into(), socket).await {
                            return lost;
                        }
                    }
                    Ok(Some(Ok(Message::Close(frame)))) => return closed(frame),
                    Ok(Some(Ok(_))) => {}
                    Ok(Some(Err(Error::Capacity(_)))) => return Lost::ForGood,
                    Ok(Some(Err(_)) | None) | Err(_) => return Lost::Broken,
                }
            }
        }
    }

    async fn received(&mut self, message: Bytes, socket: &mut Socket) -> Result<(), Lost> {
        if let Some(life) = &mut self.life {
            life.received += 1;
        }
        let Heard { to_caller, to_server } = self.conversation.received(message);
        for message in to_caller {
            self.to_caller.send(message).await.map_err(|_| Lost::ForGood)?;
        }
        for message in to_server {
            if !self.send(socket, message).await {
                return Err(Lost::Broken);
            }
        }
        if self.conversation.is_refused() { Err(Lost::Forgotten) } else { Ok(()) }
    }

    async fn send(&mut self, socket: &mut Socket, message: Bytes) -> bool {
        self.sent.push(message.clone());
        send(socket, message).await
    }

    /// The server has forgotten the connection: the caller is told what got lost.
    async fn forget(&mut self) {
        self.life = None;
        for message in self.conversation.lost() {
            // A caller that has ended is noticed elsewhere.
            let _ = self.to_caller.send(message).await;
        }
    }

    /// Connects again, with longer and longer pauses. Nothing if that is to no avail.
    async fn come_back(&mut self) -> Option<Socket> {
        let lost = *self.lost.get_or_insert_with(Instant::now);
        while lost.elapsed() < self.patience && !self.to_caller.is_closed() {
            match self.address.open(self.life.as_ref()).await {
                Ok((socket, response)) => {
                    if let Some(socket) = self.go_on(socket, &response).await {
                        return Some(socket);
                    }
                }
                Err(RemoteError::Refused(status)) if self.life.is_some() && is_forgotten(status) => {
                    self.forget().await;
                    continue;
                }
                Err(RemoteError::Refused(status)) if is_final(status) => return None,
                Err(_) => {}
            }
            let rest = self.patience.saturating_sub(lost.elapsed());
            tokio::time::sleep(with_jitter(self.pause).min(rest)).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        None
    }

    /// Goes on where the connection was, or begins again.
    async fn go_on(&mut self, mut socket: Socket, response: &Response<Option<Vec<u8>>>) -> Option<Socket> {
        let messages = match &self.life {
            Some(_) => {
                let taken = header(response, "acp-received").parse().unwrap_or(0);
                match self.sent.after(taken) {
                    Some(rest) => rest,
                    None => {
                        self.forget().await;
                        return None;
                    }
                }
            }
            None => {
                self.life = Some(Life::begun(response));
                self.sent = SentMessages::default();
                let messages = self.conversation.begin_again();
                messages.iter().for_each(|message| self.sent.push(message.clone()));
                messages
            }
        };
        for message in messages {
            if !send(&mut socket, message).await {
                return None;
            }
        }
        Some(socket)
    }
}

/// What the code means with which the server has closed a connection.
fn closed(frame: Option<CloseFrame>) -> Lost {
    match frame.map(|frame| frame.code) {
        Some(CloseCode::Normal | CloseCode::Size) => Lost::ForGood,
        Some(code) if u16::from(code) == FORGOTTEN => Lost::Forgotten,
        // It stops, or the connection is of no use any more; what it answers next time decides.
        Some(_) | None => Lost::Broken,
    }
}

/// Whether a server that answers this does not know the connection, or not what was sent on it.
fn is_forgotten(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::BAD_REQUEST)
}

/// Whether it is to no avail to try again.
fn is_final(status: StatusCode) -> bool {
    status.is_client_error()
        && status != StatusCode::TOO_MANY_REQUESTS
        && status != StatusCode::REQUEST_TIMEOUT
}

/// Half to one and a half times as long, so that the clients of a server do not come back all at once.
fn with_jitter(pause: Duration) -> Duration {
    let mut random = [0];
    // Without random numbers they do.
    let _ = getrandom::fill(&mut random);
    pause / 2 + pause * u32::from(random[0]) / 255
}

async fn send(socket: &mut Socket, message: Bytes) -> bool {
    match message.try_into() {
        Ok(text) => socket.send(Message::Text(text)).await.is_ok(),
        // Not text, so it is no message.
        Err(_) => true,
    }
}

/// Has `initialize` say that this client comes back.
fn declared(message: Bytes) -> Bytes {
    if !message.windows(12).any(|part| part == br#""initialize""#) {
        return message;
    }
    let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(&message) else { return message };
    if value["method"] != "initialize" || !value["params"].is_object() {
        return message;
    }
    value["params"]["_meta"]["rethread"]["resume"] = serde_json::json!({});
    value.to_string().into()
}

fn header(response: &Response<Option<Vec<u8>>>, name: &str) -> String {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Where and how to connect.
pub(crate) struct Address {
    host: String,
    port: u16,
    uri: Uri,
    token: Option<String>,
    tls: Option<TlsConnector>,
}

impl Address {
    pub(crate) fn read(target: &RemoteTarget) -> Result<Self, RemoteError> {
        let wrong =
            || RemoteError::Address(target.url.split(['?', '@']).next().unwrap_or_default().to_owned());
        let uri: Uri = target.url.parse().map_err(|_| wrong())?;
        let encrypted = match uri.scheme_str() {
            Some("http" | "ws") => false,
            Some("https" | "wss") => true,
            Some(_) | None => return Err(wrong()),
        };
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        let path = match uri.path_and_query().map(http::uri::PathAndQuery::as_str) {
            None | Some("/" | "") => "/acp",
            Some(path) => path,
        };
        let scheme = if encrypted { "wss" } else { "ws" };
        let whole = Uri::builder().scheme(scheme).authority(authority.clone()).path_and_query(path).build();
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if encrypted { 443 } else { 80 }),
            uri: whole.map_err(|_| wrong())?,
            token: target.token.clone(),
            tls: if encrypted { Some(connector(target.ca.as_deref())?) } else { None },
        })
    }

    pub(crate) async fn open(
        &self,
        life: Option<&Life>,
    ) -> Result<(Socket, Response<Option<Vec<u8>>>), RemoteError> {
        let address = format!("{}:{}", self.host, self.port);
        let unreachable = |why: String| RemoteError::Unreachable { address: address.clone(), why };
        match tokio::time::timeout(CONNECT_LIMIT, self.try_open(life)).await {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(Error::Http(response))) => Err(RemoteError::Refused(response.status())),
            Ok(Err(error)) => Err(unreachable(error.to_string())),
            Err(_) => Err(unreachable("it does not answer".to_owned())),
        }
    }

    async fn try_open(&self, life: Option<&Life>) -> Result<(Socket, Response<Option<Vec<u8>>>), Error> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Duplex> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let invalid = |_| Error::Url(tokio_tungstenite::tungstenite::error::UrlError::NoHostName);
                let name = ServerName::try_from(self.host.clone()).map_err(invalid)?;
                Box::new(tls.connect(name, stream).await?)
            }
        };
        let limit = Some(64 * 1024 * 1024);
        let config = WebSocketConfig::default().max_message_size(limit).max_frame_size(limit);
        let request = self.request(life)?;
        tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await
    }

    fn request(&self, life: Option<&Life>) -> Result<Request<()>, Error> {
        let mut request = self.uri.clone().into_client_request()?;
        let headers = request.headers_mut();
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            value.set_sensitive(true);
            headers.insert(http::header::AUTHORIZATION, value);
        }
        if let Some(life) = life {
            headers.insert("acp-connection-id", HeaderValue::from_str(&life.connection)?);
            let last = format!("{}.{}", life.epoch, life.received);
            headers.insert("last-event-id", HeaderValue::from_str(&last)?);
        }
        Ok(request)
    }
}

fn connector(ca: Option<&Path>) -> Result<TlsConnector, RemoteError> {
    let mut roots = rustls::RootCertStore::empty();
    match ca {
        Some(path) => {
            let wrong = |why: String| RemoteError::Certificates { path: path.to_owned(), why };
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| wrong(error.to_string()))?;
            for certificate in certificates {
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| RemoteError::Address(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

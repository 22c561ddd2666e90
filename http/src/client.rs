//! A client's connection to a server by WebSocket. It comes back after the connection was lost, and goes on where it was: the
//! server sends what was not received, and what the server has not taken is sent again.

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
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::sent_messages::SentMessages;

/// How long the server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// How long the server may say nothing; it asks every 15 seconds whether we are there.
const SILENCE: Duration = Duration::from_secs(45);
/// The first pause before the connection is tried again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long the connection is tried again; the server forgets it after ten minutes.
const GIVE_UP: Duration = Duration::from_secs(600);

/// A server to connect to.
#[derive(Clone)]
pub struct RemoteTarget {
    /// Its address: `http`, `https`, `ws` or `wss`. Without a path it is `/acp`.
    pub url: String,
    /// The token.
    pub token: Option<String>,
    /// A file with certificates to trust in place of those of the system.
    pub ca: Option<PathBuf>,
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

/// Connects. The channel ends when the server has ended the connection for good.
///
/// # Errors
/// If the first connection fails.
pub async fn connect(target: RemoteTarget) -> Result<MessageChannel, RemoteError> {
    let address = Address::read(&target)?;
    let (socket, response) = address.open(None).await?;
    let life = Life {
        connection: header(&response, "acp-connection-id"),
        epoch: header(&response, "acp-event-epoch"),
        received: 0,
    };
    let (outgoing, to_send) = mpsc::channel(64);
    let (to_caller, incoming) = mpsc::channel(64);
    let link = Link { address, life, sent: SentMessages::default(), to_send, to_caller };
    tokio::spawn(link.run(socket));
    Ok(MessageChannel { incoming, outgoing })
}

type Socket = WebSocketStream<Box<dyn Duplex>>;

/// Plain or encrypted bytes.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What is needed to come back.
struct Life {
    connection: String,
    epoch: String,
    /// How many messages were received.
    received: u64,
}

struct Link {
    address: Address,
    life: Life,
    sent: SentMessages,
    to_send: mpsc::Receiver<Bytes>,
    to_caller: mpsc::Sender<Bytes>,
}

/// Why a socket is not used any more.
enum Lost {
    /// The connection broke: try again.
    Broken,
    /// The caller has ended, or the server has ended the connection.
    ForGood,
}

impl Link {
    async fn run(mut self, mut socket: Socket) {
        loop {
            match self.carry(&mut socket).await {
                Lost::ForGood => {
                    let _ = tokio::time::timeout(Duration::from_secs(1), socket.close(None)).await;
                    return;
                }
                Lost::Broken => match self.come_back().await {
                    Some(again) => socket = again,
                    None => return,
                },
            }
        }
    }

    /// Carries messages both ways until the socket is lost.
    async fn carry(&mut self, socket: &mut Socket) -> Lost {
        loop {
            let heard = tokio::time::timeout(SILENCE, socket.next());
            tokio::select! {
                message = self.to_send.recv() => {
                    let Some(message) = message else { return Lost::ForGood };
                    let message = declared(message);
                    self.sent.push(message.clone());
                    if !send(socket, message).await {
                        return Lost::Broken;
                    }
                }
                heard = heard => match heard {
                    Ok(Some(Ok(Message::Text(text)))) => {
                        self.life.received += 1;
                        if self.to_caller.send(text.into()).await.is_err() {
                            return Lost::ForGood;
                        }
                    }
                    Ok(Some(Ok(Message::Close(Some(frame))))) if u16::from(frame.code) != 1006 => {
                        return Lost::ForGood;
                    }
                    Ok(Some(Ok(_))) => {}
                    Ok(Some(Err(Error::Capacity(_)))) => return Lost::ForGood,
                    Ok(Some(Err(_)) | None) | Err(_) => return Lost::Broken,
                }
            }
        }
    }

    /// Connects again, with longer and longer pauses. Nothing if the server has forgotten the connection.
    async fn come_back(&mut self) -> Option<Socket> {
        let (mut pause, begun) = (FIRST_PAUSE, tokio::time::Instant::now());
        while begun.elapsed() < GIVE_UP && !self.to_caller.is_closed() {
            match self.address.open(Some(&self.life)).await {
                Ok((mut socket, response)) => {
                    let taken = header(&response, "acp-received").parse().unwrap_or(0);
                    let mut sent = true;
                    for message in self.sent.after(taken)? {
                        sent = sent && send(&mut socket, message).await;
                    }
                    if sent {
                        return Some(socket);
                    }
                }
                Err(RemoteError::Refused(status)) if !status.is_server_error() => return None,
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        None
    }
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
struct Address {
    host: String,
    port: u16,
    uri: Uri,
    token: Option<String>,
    tls: Option<TlsConnector>,
}

impl Address {
    fn read(target: &RemoteTarget) -> Result<Self, RemoteError> {
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

    async fn open(&self, life: Option<&Life>) -> Result<(Socket, Response<Option<Vec<u8>>>), RemoteError> {
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

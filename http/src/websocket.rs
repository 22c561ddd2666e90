//! WebSocket: text frames with one message each; several that are joined by line breaks, and binary frames with text, are
//! taken, too.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, Stream, StreamExt};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::client::FORGOTTEN;
use crate::listener::{HttpConfig, HttpLimits};
use crate::remote::{EndReason, Envelope, RemoteConnection, StreamReceiver};
use crate::replies::{Body, refused};

/// How much is read and written at once. The usual 128 KiB would be most of the memory of a client that says little.
const BUFFER: usize = 4 * 1024;
/// The subprotocols that are answered; never one with a token.
const VERSIONS: [&str; 2] = ["acp.v1", "acp.v2"];

/// Whether a request wants to become a WebSocket.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let has = |name, word: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    has(UPGRADE, "websocket") && has(CONNECTION, "upgrade")
}

/// The answer that makes a WebSocket of a connection, or why it does not.
pub(crate) fn accepted(headers: &HeaderMap, connection: &RemoteConnection) -> Response<Body> {
    let mut response = switching(headers);
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let answer = response.headers_mut();
    answer.insert("acp-connection-id", header_text(&connection.id));
    answer.insert("acp-event-epoch", header_text(&connection.epoch()));
    answer.insert("acp-received", header_text(&connection.received().to_string()));
    if let Some(version) = offered_version(headers) {
        answer.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(version));
    }
    response
}

/// The answer that makes any WebSocket, or why it does not.
pub(crate) fn switching(headers: &HeaderMap) -> Response<Body> {
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24) else {
        return refused(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing or wrong");
    };
    if headers.get("sec-websocket-version").is_none_or(|version| version != "13") {
        return refused(StatusCode::UPGRADE_REQUIRED, "Sec-WebSocket-Version must be 13");
    }
    let mut response = Response::new(Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(SEC_WEBSOCKET_ACCEPT, header_text(&derive_accept_key(key.as_bytes())));
    response
}

fn header_text(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("hexadecimal digits and base64 are valid in a header")
}

fn offered_version(headers: &HeaderMap) -> Option<&'static str> {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    VERSIONS.into_iter().find(|version| offered.contains(version))
}

/// Whether the client has been seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It begins.
    New,
    /// It comes back.
    Again,
}

/// Serves a WebSocket until it ends. The connection ends with it, unless the client said that it comes back.
pub(crate) async fn serve(
    upgrade: hyper::upgrade::OnUpgrade,
    connection: Arc<RemoteConnection>,
    mut receiver: StreamReceiver,
    config: &HttpConfig,
    arrival: Arrival,
) {
    let Ok(upgraded) = upgrade.await else { return connection.close(EndReason::Gone) };
    let (limits, longest) = (config.limits, Some(config.longest_message));
    let frames = WebSocketConfig::default()
        .max_message_size(longest)
        .max_frame_size(longest)
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER);
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(frames)).await;
    let (mut sink, stream) = socket.split();
    let mut reading = pin!(read(stream, &connection, limits, arrival));
    let mut ping = tokio::time::interval_at(Instant::now() + limits.ping, limits.ping);
    let outcome = loop {
        let message = tokio::select! {
            ended = &mut reading => break ended,
            next = receiver.next() => match next {
                Some((_, message)) => text_frame(message),
                None => break Ended::ByServer(connection.ended()),
            },
            _ = ping.tick() => Message::Ping(Bytes::new()),
        };
        // While a client does not read, it is still read from.
        let sent = tokio::select! {
            sent = sink.send(message) => sent.is_ok(),
            ended = &mut reading => break ended,
        };
        if !sent {
            break Ended::Lost;
        }
    };
    if let Some(code) = outcome.close_code() {
        let frame = CloseFrame { code, reason: outcome.reason().into() };
        let _ = tokio::time::timeout(Duration::from_secs(1), sink.send(Message::Close(Some(frame)))).await;
    }
    drop(receiver);
    if outcome == Ended::ByClient || !connection.comes_back() {
        connection.close(EndReason::Gone);
    }
}

fn text_frame(message: Bytes) -> Message {
    match message.try_into() {
        Ok(text) => Message::Text(text),
        // Nothing else is ever written.
        Err(_) => Message::Ping(Bytes::new()),
    }
}

/// How a WebSocket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The client is gone, or goes.
    Lost,
    /// The client has ended the connection, and does not come back.
    ByClient,
    /// The connection has ended here; without a reason, another socket has taken over.
    ByServer(Option<EndReason>),
    /// What arrived is no frame, such as a compressed one.
    Broken,
    /// A message was too large.
    TooLarge,
    /// The client said nothing for too long.
    Silent,
}

impl Ended {
    fn close_code(self) -> Option<CloseCode> {
        match self {
            Self::Lost | Self::ByClient => None,
            Self::ByServer(Some(EndReason::Stop)) => Some(CloseCode::Away),
            Self::ByServer(Some(EndReason::Gone)) => Some(CloseCode::from(FORGOTTEN)),
            Self::ByServer(Some(EndReason::Token) | None) => Some(CloseCode::Policy),
            Self::Broken => Some(CloseCode::Protocol),
            Self::TooLarge => Some(CloseCode::Size),
            Self::Silent => Some(CloseCode::Policy),
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Lost | Self::ByClient => "",
            Self::ByServer(Some(EndReason::Stop)) => "the server stops",
            Self::ByServer(Some(EndReason::Gone)) => "the connection has ended; initialize again",
            Self::ByServer(Some(EndReason::Token)) => "the token does not work any more",
            Self::ByServer(None) => "another socket has taken over",
            Self::Broken => "this is no valid frame; compression is not accepted",
            Self::TooLarge => "the message is too large",
            Self::Silent => "nothing was heard for too long",
        }
    }
}

/// Hands on what the client sends.
async fn read(
    mut stream: impl Stream<Item = Result<Message, Error>> + Unpin,
    connection: &RemoteConnection,
    limits: HttpLimits,
    arrival: Arrival,
) -> Ended {
    let mut first = (arrival == Arrival::New).then(|| Instant::now() + limits.first_message);
    loop {
        let silent = Instant::now() + limits.silence;
        let deadline = first.map_or(silent, |first| first.min(silent));
        let message = match tokio::time::timeout_at(deadline, stream.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(Error::Capacity(_)))) => return Ended::TooLarge,
            Ok(Some(Err(Error::Protocol(_) | Error::Utf8(_)))) => return Ended::Broken,
            Ok(Some(Err(_)) | None) => return Ended::Lost,
            Err(_) => return Ended::Silent,
        };
        let bytes: Bytes = match message {
            Message::Text(text) => text.into(),
            Message::Binary(bytes) => bytes,
            Message::Close(Some(frame)) if frame.code == CloseCode::Normal => return Ended::ByClient,
            Message::Close(_) => return Ended::Lost,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            let line = bytes.slice_ref(line);
            if first.is_some() && is_initialize(&line) {
                first = None;
                connection.introduced(&line);
            }
            if !connection.receive(line).await {
                return Ended::ByServer(connection.ended());
            }
        }
    }
}

fn is_initialize(line: &[u8]) -> bool {
    serde_json::from_slice::<Envelope<'_>>(line)
        .is_ok_and(|message| message.method.as_deref() == Some("initialize"))
}

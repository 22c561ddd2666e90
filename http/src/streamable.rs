//! Streamable HTTP: messages arrive by POST, and leave by streams of events, one for the connection and one for each session.
//! A problem with a session is an error on its stream, never a status: clients give the whole connection up on some.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use crate::remote::{Envelope, RemoteConnection, StreamName, StreamReceiver};
use crate::replies::{Body, refused, with_body};

/// The header with the id of a connection.
pub(crate) const CONNECTION_ID: &str = "acp-connection-id";
/// The header with the id of a session.
pub(crate) const SESSION_ID: &str = "acp-session-id";

/// What a POST contains.
pub(crate) struct Posted {
    pub(crate) id: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) session: Option<String>,
}

impl Posted {
    /// Reads one message.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Box<Response<Body>>> {
        let wrong = |code: i64, message: &str| {
            let error = serde_json::json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
            let text = Bytes::from(error.to_string());
            Err(Box::new(with_body(StatusCode::BAD_REQUEST, "application/json", text)))
        };
        match body.trim_ascii_start().first() {
            Some(b'{') => {}
            Some(b'[') => return wrong(-32600, "batches are not part of the protocol"),
            Some(_) | None => return wrong(-32700, "not a JSON object"),
        }
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(body) else {
            return wrong(-32700, "not JSON");
        };
        Ok(Self {
            id: envelope.id.map(|id| id.get().to_owned()),
            session: envelope.session(),
            method: envelope.method.map(std::borrow::Cow::into_owned),
        })
    }

    /// Where the answer to this request goes.
    fn answered_on(&self) -> StreamName {
        match (self.method.as_deref(), &self.session) {
            (Some("initialize"), _) => StreamName::Initialize,
            (Some("session/new" | "session/load"), _) | (_, None) => StreamName::Connection,
            (_, Some(session)) => StreamName::Session(session.clone()),
        }
    }
}

/// Refuses a POST whose headers contradict its message.
pub(crate) fn check_session(headers: &HeaderMap, posted: &Posted) -> Result<(), Box<Response<Body>>> {
    let named = headers.get(SESSION_ID).map(|value| value.to_str().unwrap_or_default());
    match (named, &posted.session) {
        (Some(named), Some(session)) if named != session => {
            Err(Box::new(refused(StatusCode::BAD_REQUEST, "Acp-Session-Id and params.sessionId differ")))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

/// Refuses a POST that is not JSON.
pub(crate) fn check_content(headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json =
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if !is_json {
        let why = "Content-Type must be application/json";
        return Err(Box::new(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, why)));
    }
    match headers.contains_key(http::header::CONTENT_ENCODING) {
        true => {
            Err(Box::new(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not accepted")))
        }
        false => Ok(()),
    }
}

/// Takes a message of a connection.
pub(crate) async fn post(connection: &RemoteConnection, posted: &Posted, body: Bytes) -> Response<Body> {
    if let (Some(id), Some(_)) = (&posted.id, &posted.method) {
        connection.expect_answer(id.clone(), posted.answered_on());
        if let (Some("session/load"), Some(session)) = (posted.method.as_deref(), &posted.session) {
            connection.expect_replay(id.clone(), session.clone());
        }
    }
    match connection.receive(one_line(body)).await {
        true => with_body(StatusCode::ACCEPTED, "text/plain", Bytes::new()),
        false => refused(StatusCode::NOT_FOUND, "the connection has ended"),
    }
}

/// A message has no line breaks inside; JSON allows them only between its parts.
fn one_line(body: Bytes) -> Bytes {
    if !body.contains(&b'\n') && !body.contains(&b'\r') {
        return body;
    }
    let plain = body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
    plain.collect::<Vec<u8>>().into()
}

/// Answers `initialize` in the answer to its own request.
pub(crate) async fn initialized(
    mut receiver: StreamReceiver,
    connection: &RemoteConnection,
) -> Response<Body> {
    let Some((_, answer)) = receiver.next().await else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "the connection has ended");
    };
    let mut response = with_body(StatusCode::OK, "application/json", answer);
    if let Ok(id) = HeaderValue::from_str(&connection.id) {
        response.headers_mut().insert(CONNECTION_ID, id);
    }
    response
}

/// Whether the client takes a stream of events.
pub(crate) fn takes_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream") || kind == "*/*" || kind == "text/*"
    })
}

/// The stream that a GET asks for.
pub(crate) fn stream_name(headers: &HeaderMap) -> Result<StreamName, StatusCode> {
    match headers.get(SESSION_ID) {
        None => Ok(StreamName::Connection),
        Some(id) => {
            let id = id.to_str().ok().filter(|id| !id.is_empty() && id.len() <= 1024);
            id.map(|id| StreamName::Session(id.to_owned())).ok_or(StatusCode::BAD_REQUEST)
        }
    }
}

/// An answer that goes on: the events of a stream. It says this often that it is there.
pub(crate) fn events(receiver: StreamReceiver, keep_alive: Duration) -> Response<Body> {
    let frames = stream::unfold(receiver, move |mut receiver| async move {
        let text = match tokio::time::timeout(keep_alive, receiver.next()).await {
            Ok(Some((id, message))) => event(&id.to_string(), &message),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok::<_, Infallible>(Frame::data(text)), receiver))
    });
    // So that the client sees the headers at once.
    let opened = stream::iter([Ok(Frame::data(Bytes::from_static(b":\n\n")))]);
    let body = StreamBody::new(futures::StreamExt::chain(opened, frames)).boxed_unsync();
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event(id: &str, message: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(message.len() + id.len() + 16);
    for part in [b"id: ", id.as_bytes(), b"\ndata: ", message, b"\n\n"] {
        text.extend_from_slice(part);
    }
    text.into()
}

//! Answers one request: checks where it comes from and who sent it, then hands it to what it asks for.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use rethread::server::{ClientAccess, ClientOrigin, ClientRole, ClientSettings, Server, TransportName};

use crate::failures::Attempts;
use crate::host_network;
use crate::listener::HttpShared;
use crate::metrics;
use crate::page;
use crate::remote::{EndReason, Layout, RemoteConnection, StreamName};
use crate::replies::{Body, refused, text, with_body};
use crate::sent_id::EventId;
use crate::streamable::{self, CONNECTION_ID, Posted};
use crate::tokens::StoredToken;
use crate::websocket::{self, Arrival};

type Refused = Box<Response<Body>>;

/// How long a store may take to answer when it is asked whether it does.
const READY_LIMIT: Duration = Duration::from_secs(2);

/// Answers one request of this address, and counts the answer.
pub(crate) async fn answer(
    shared: Arc<HttpShared>,
    address: IpAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    let counts = shared.counts.clone();
    let response = route(shared, address, request).await;
    counts.answered(response.status());
    response
}

async fn route(shared: Arc<HttpShared>, address: IpAddr, request: Request<Incoming>) -> Response<Body> {
    if let Err(status) = shared.guard.check(request.uri(), request.headers()) {
        return refused(status, "this host or origin is not allowed");
    }
    match request.uri().path() {
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/acp" | "/acp/ws" => match authorize(&shared, address, request.headers()).await {
            Ok(token) => acp(&shared, &token, request).await.unwrap_or_else(|refused| *refused),
            Err(refused) => *refused,
        },
        host_network::PATH => meet_host(&shared, address, request),
        "/readyz" => match authorize(&shared, address, request.headers()).await {
            Ok(_) => ready(&shared.server).await,
            Err(refused) => *refused,
        },
        "/metrics" => match authorize(&shared, address, request.headers()).await {
            // They are about all sessions.
            Ok(token) if token.scope().is_some() => {
                refused(StatusCode::FORBIDDEN, "this token shows one session")
            }
            Ok(_) => {
                let text = metrics::text(&shared.server, &shared.connections, &shared.counts);
                with_body(StatusCode::OK, metrics::CONTENT_TYPE, text.into())
            }
            Err(refused) => *refused,
        },
        "/code" => page::exchange(&shared, address, request).await,
        _ => page::file(shared.config.page.as_deref(), &request),
    }
}

/// The token of a request. Only headers are looked at: addresses end up in logs.
async fn authorize(
    shared: &HttpShared,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<StoredToken, Refused> {
    let given = bearer(headers).or_else(|| by_subprotocol(headers));
    if let Some(text) = &given
        && let Some(token) = shared.tokens.check(text).await
    {
        return Ok(token);
    }
    if given.is_some() && shared.tokens.cannot_be_read() {
        return Err(Box::new(away("the tokens of the store cannot be read now")));
    }
    if given.is_some() {
        shared.counts.wrong_token();
    }
    if given.is_some() && shared.failures.add(address, Instant::now()) == Attempts::TooMany {
        return Err(Box::new(refused(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens; wait a minute")));
    }
    let mut response = refused(StatusCode::UNAUTHORIZED, "a valid token is required");
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Err(Box::new(response))
}

/// Whether sessions can be stored and read now.
async fn ready(server: &Server) -> Response<Body> {
    match tokio::time::timeout(READY_LIMIT, server.check_store()).await {
        Ok(Ok(())) => text(StatusCode::OK, "ready\n"),
        Ok(Err(error)) => {
            tracing::warn!("not ready: {}", rethread::wire::with_causes(&error));
            away("the store does not work; the log of the server says why")
        }
        Err(_) => away("the store does not answer"),
    }
}

fn away(why: &str) -> Response<Body> {
    let mut response = refused(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Browsers cannot set headers of a WebSocket: `<name>-bearer.<base64url>`.
fn by_subprotocol(headers: &HeaderMap) -> Option<String> {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let encoded = offered
        .flat_map(|value| value.split(','))
        .find_map(|protocol| protocol.trim().split_once("-bearer.").map(|(_, encoded)| encoded))?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).ok()?).ok()
}

async fn acp(
    shared: &Arc<HttpShared>,
    token: &StoredToken,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refused> {
    let method = request.method().clone();
    match method {
        Method::GET if websocket::is_upgrade(request.headers()) => open_websocket(shared, token, request),
        Method::GET => open_stream(shared, token, &request),
        Method::POST => post(shared, token, request).await,
        Method::DELETE => {
            existing(shared, token, request.headers())?.close(EndReason::Gone);
            Ok(text(StatusCode::ACCEPTED, ""))
        }
        _ => {
            let mut response = refused(StatusCode::METHOD_NOT_ALLOWED, "use GET, POST or DELETE");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            Err(Box::new(response))
        }
    }
}

/// Has another host prove who it is, and serves its client. It has no token: the proof is by the key that hosts share.
fn meet_host(shared: &Arc<HttpShared>, address: IpAddr, mut request: Request<Incoming>) -> Response<Body> {
    let Some(hosts) = shared.hosts.get().cloned() else {
        return refused(StatusCode::NOT_FOUND, "this server serves no other hosts");
    };
    if !websocket::is_upgrade(request.headers()) {
        return refused(StatusCode::UPGRADE_REQUIRED, "hosts meet on a WebSocket");
    }
    let response = websocket::switching(request.headers());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgrade = hyper::upgrade::on(&mut request);
        let (shared, rules) = (shared.clone(), shared.agents.rules());
        tokio::spawn(async move {
            let mut stopping = shared.stopping.subscribe();
            let stop = async { _ = stopping.wait_for(|stopping| *stopping).await };
            hosts.serve(upgrade, address, &shared.server, rules, stop).await;
        });
    }
    response
}

fn open_websocket(
    shared: &Arc<HttpShared>,
    token: &StoredToken,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refused> {
    let (connection, arrival) = match request.headers().contains_key(CONNECTION_ID) {
        true => (existing(shared, token, request.headers())?, Arrival::Again),
        false => (begin(shared, token, request.uri().query(), Layout::Single)?, Arrival::New),
    };
    let after = last_event(request.headers())?;
    let receiver = connection.receiver(StreamName::Connection, after.as_ref());
    let receiver = receiver.map_err(no_stream)?;
    let response = websocket::accepted(request.headers(), &connection);
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        connection.close(EndReason::Gone);
        return Ok(response);
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let shared = shared.clone();
    tokio::spawn(async move {
        websocket::serve(upgrade, connection, receiver, &shared.config, arrival).await;
    });
    Ok(response)
}

fn open_stream(
    shared: &Arc<HttpShared>,
    token: &StoredToken,
    request: &Request<Incoming>,
) -> Result<Response<Body>, Refused> {
    let headers = request.headers();
    if !streamable::takes_events(headers) {
        return Err(Box::new(refused(StatusCode::NOT_ACCEPTABLE, "Accept must have text/event-stream")));
    }
    let connection = existing(shared, token, headers)?;
    let name = streamable::stream_name(headers).map_err(no_stream)?;
    let after = last_event(headers)?;
    let receiver = connection.receiver(name, after.as_ref()).map_err(no_stream)?;
    Ok(streamable::events(receiver, shared.config.limits.ping))
}

async fn post(
    shared: &Arc<HttpShared>,
    token: &StoredToken,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refused> {
    let (parts, body) = request.into_parts();
    streamable::check_content(&parts.headers)?;
    let body = collect(body, shared.config.longest_message).await?;
    let posted = Posted::read(&body)?;
    streamable::check_session(&parts.headers, &posted)?;
    let begins = posted.method.as_deref() == Some("initialize") && !parts.headers.contains_key(CONNECTION_ID);
    if !begins {
        let connection = existing(shared, token, &parts.headers)?;
        return Ok(streamable::post(&connection, &posted, body).await);
    }
    let connection = begin(shared, token, parts.uri.query(), Layout::PerSession)?;
    let receiver = connection.receiver(StreamName::Initialize, None).map_err(no_stream)?;
    let accepted = streamable::post(&connection, &posted, body).await;
    match accepted.status() {
        StatusCode::ACCEPTED => Ok(streamable::initialized(receiver, &connection).await),
        _ => Ok(accepted),
    }
}

/// The whole body, if it is not too long.
pub(crate) async fn collect(body: Incoming, longest: usize) -> Result<Bytes, Refused> {
    match Limited::new(body, longest).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Box::new(refused(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large")))
        }
        Err(_) => Err(Box::new(refused(StatusCode::BAD_REQUEST, "the body is incomplete"))),
    }
}

fn existing(
    shared: &HttpShared,
    token: &StoredToken,
    headers: &HeaderMap,
) -> Result<Arc<RemoteConnection>, Refused> {
    let Some(id) = headers.get(CONNECTION_ID) else {
        return Err(Box::new(refused(StatusCode::BAD_REQUEST, "Acp-Connection-Id is missing")));
    };
    let found = id.to_str().ok().and_then(|id| shared.connections.find(id, token));
    found.ok_or_else(|| {
        Box::new(refused(StatusCode::NOT_FOUND, "there is no such connection; initialize again"))
    })
}

/// Begins a client, with the agent that the address names.
fn begin(
    shared: &Arc<HttpShared>,
    token: &StoredToken,
    query: Option<&str>,
    layout: Layout,
) -> Result<Arc<RemoteConnection>, Refused> {
    let agent = shared.agents.agent(parameter(query, "agent").as_deref());
    let agent = agent.map_err(|why| Box::new(refused(StatusCode::BAD_REQUEST, &why)))?;
    // What the client says can only lower what its token allows.
    let role = match parameter(query, "role").as_deref() {
        Some("observer") => ClientRole::Observer,
        Some(_) | None => token.client_role(),
    };
    let access =
        ClientAccess { role, origin: ClientOrigin::Remote(shared.agents.rules()), scope: token.scope() };
    let longest_line = shared.config.longest_message;
    let transport = match layout {
        Layout::Single => TransportName::WebSocket,
        Layout::PerSession => TransportName::Http,
    };
    let settings = ClientSettings { access, longest_line, transport, ..ClientSettings::with_agent(agent) };
    let begun = shared.connections.begin(&shared.server, settings, token, layout);
    begun.map_err(|status| Box::new(refused(status, "there are too many connections; try again later")))
}

/// The value of a parameter of the address. Names of agents need no escapes.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).next()
}

fn last_event(headers: &HeaderMap) -> Result<Option<EventId>, Refused> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let id = value.to_str().map_err(|_| StatusCode::BAD_REQUEST).and_then(EventId::read);
    id.map(Some).map_err(no_stream)
}

fn no_stream(status: StatusCode) -> Refused {
    let why = match status {
        StatusCode::CONFLICT => "the stream has a receiver already",
        StatusCode::GONE => "the event is too old, or of another connection; load the session again",
        StatusCode::TOO_MANY_REQUESTS => "the connection has too many streams",
        StatusCode::NOT_FOUND => "the connection has ended",
        _ => "Last-Event-ID or Acp-Session-Id is wrong",
    };
    Box::new(refused(status, why))
}

//! An HTTP relay in this process between `genai` and the network. `genai` parses a long event again with every piece that
//! arrives, which takes quadratic time; the relay passes on whole events, each in one piece and with a maximum length. It
//! listens on loopback and accepts only requests with the token of a route.

mod events;

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use events::EventSplitter;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use reqwest::{Client, Response, Url, header};
use rethread::ids;
use rethread::lock::locked;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::task::{AbortHandle, JoinSet};

use super::fault::root;
use super::raw_frames::{ConnectionFailure, RawFrames};
use crate::web;

/// The maximum length of an event, in bytes. It fits into one HTTP/2 frame.
pub(super) const LONGEST_EVENT: usize = 16_000_000;
/// The maximum length of an HTTP/2 frame.
const FRAME: u32 = (1 << 24) - 1;
/// The flow-control window, in bytes.
const WINDOW: u32 = 2 * FRAME;
/// The maximum length of an error body, in bytes.
const LONGEST_REFUSAL: usize = 1024 * 1024;
/// The maximum number of connections.
const MOST_CONNECTIONS: usize = 64;
/// The time limit for the handshake of a connection.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Headers of one hop, which are not passed on.
const OF_ONE_HOP: [header::HeaderName; 7] = [
    header::HOST,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    header::ACCEPT_ENCODING,
    header::TE,
];

/// The relay. It listens from its first use until it is dropped.
#[derive(Default)]
pub(super) struct Relay {
    started: OnceCell<RunningRelay>,
    routes: Arc<Mutex<HashMap<String, Arc<RouteTarget>>>>,
}

struct RunningRelay {
    port: u16,
    /// The HTTP client of `genai`, which can reach only the relay.
    client: Client,
    listening: AbortHandle,
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Where the requests of a route go, and where their frames are recorded.
pub(super) struct RouteTarget {
    pub(super) client: Client,
    pub(super) address: Url,
    pub(super) frames: Arc<RawFrames>,
}

/// A route through the relay, open until this is dropped.
pub(super) struct Route {
    /// The HTTP client for requests on this route.
    pub(super) client: Client,
    /// The base URL to use in place of the provider's.
    pub(super) address: String,
    token: String,
    routes: Arc<Mutex<HashMap<String, Arc<RouteTarget>>>>,
}

impl Drop for Route {
    fn drop(&mut self) {
        locked(&self.routes).remove(&self.token);
    }
}

impl Relay {
    /// Opens a route.
    pub(super) async fn route(&self, way: RouteTarget) -> Result<Route, String> {
        let started = self.started.get_or_try_init(|| start(self.routes.clone())).await?;
        let token = ids::unique().simple().to_string();
        let mut address = way.address.clone();
        let path = format!("/{token}{}", address.path());
        address.set_path(&path);
        // User name and password are added again when the relay sends the request.
        let cleared =
            address.set_scheme("http").and(address.set_username("")).and(address.set_password(None));
        let moved = cleared.and(address.set_ip_host(Ipv4Addr::LOCALHOST.into()));
        moved.and(address.set_port(Some(started.port))).map_err(|()| "its address has no host".to_owned())?;
        locked(&self.routes).insert(token.clone(), Arc::new(way));
        let (client, address) = (started.client.clone(), address.to_string());
        Ok(Route { client, address, token, routes: self.routes.clone() })
    }
}

async fn start(routes: Arc<Mutex<HashMap<String, Arc<RouteTarget>>>>) -> Result<RunningRelay, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let client = web::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .http2_prior_knowledge()
        .http2_max_frame_size(FRAME)
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(WINDOW)
        .build()
        .map_err(|error| root(&error))?;
    let listening = tokio::spawn(listen(listener, routes)).abort_handle();
    Ok(RunningRelay { port, client, listening })
}

async fn listen(listener: TcpListener, routes: Arc<Mutex<HashMap<String, Arc<RouteTarget>>>>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        // `genai` needs one or two connections; other processes must not open more than the limit.
        if connections.len() < MOST_CONNECTIONS {
            connections.spawn(serve(socket, routes.clone()));
        }
    }
}

async fn serve(socket: TcpStream, routes: Arc<Mutex<HashMap<String, Arc<RouteTarget>>>>) {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    builder.max_send_buffer_size(WINDOW as usize);
    let greeting = tokio::time::timeout(HANDSHAKE, builder.handshake::<_, Bytes>(socket));
    let Ok(Ok(mut connection)) = greeting.await else { return };
    let mut requests = JoinSet::new();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let way = find(&routes, request.uri().path());
        match way {
            Some((way, path)) => drop(requests.spawn(pass_on(way, path, request, respond))),
            None => respond.send_reset(Reason::REFUSED_STREAM),
        }
        while requests.try_join_next().is_some() {}
    }
}

/// The route of a path's token, and the rest of the path.
fn find(routes: &Mutex<HashMap<String, Arc<RouteTarget>>>, path: &str) -> Option<(Arc<RouteTarget>, String)> {
    let (token, rest) = path.strip_prefix('/')?.split_once('/')?;
    Some((locked(routes).get(token)?.clone(), format!("/{rest}")))
}

/// Why an answer ends.
enum RelayEnd {
    /// The answer is complete.
    Complete,
    /// `genai` closed its side.
    ReceiverGone,
    /// The connection to the provider failed.
    Failed(ConnectionFailure),
}

async fn pass_on(
    way: Arc<RouteTarget>,
    path: String,
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let response = tokio::select! {
        response = ask(&way, &path, request) => response,
        _ = poll_fn(|context| respond.poll_reset(context)) => return,
    };
    let response = match response {
        Ok(response) => response,
        Err(broken) => {
            way.frames.breaks(broken);
            return respond.send_reset(Reason::INTERNAL_ERROR);
        }
    };
    let Ok(mut out) = respond.send_response(head(&response), false) else { return };
    match carry(response, &mut out).await {
        RelayEnd::Complete => drop(out.send_data(Bytes::new(), true)),
        RelayEnd::ReceiverGone => {}
        RelayEnd::Failed(broken) => {
            way.frames.breaks(broken);
            out.send_reset(Reason::INTERNAL_ERROR);
        }
    }
}

async fn ask(
    way: &RouteTarget,
    path: &str,
    request: http::Request<RecvStream>,
) -> Result<Response, ConnectionFailure> {
    let lost = |error: reqwest::Error| ConnectionFailure::Lost(root(&error.without_url()));
    let mut url = way.address.clone();
    url.set_path(path);
    url.set_query(request.uri().query());
    let (head, mut body) = request.into_parts();
    let mut whole = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|error| ConnectionFailure::Lost(error.to_string()))?;
        // Frees the flow-control window.
        drop(body.flow_control().release_capacity(piece.len()));
        whole.extend_from_slice(&piece);
    }
    let mut headers = head.headers;
    OF_ONE_HOP.iter().for_each(|name| drop(headers.remove(name)));
    way.client.request(head.method, url).headers(headers).body(whole).send().await.map_err(lost)
}

fn head(response: &Response) -> http::Response<()> {
    let mut head = http::Response::new(());
    *head.status_mut() = response.status();
    *head.headers_mut() = response.headers().clone();
    OF_ONE_HOP.iter().for_each(|name| drop(head.headers_mut().remove(name)));
    head
}

/// Passes on the body, event by event.
async fn carry(mut response: Response, out: &mut SendStream<Bytes>) -> RelayEnd {
    let is_refusal = !response.status().is_success();
    let mut events = EventSplitter::default();
    loop {
        let piece = tokio::select! {
            piece = response.chunk() => piece,
            _ = poll_fn(|context| out.poll_reset(context)) => return RelayEnd::ReceiverGone,
        };
        let ready = match piece {
            Ok(Some(piece)) => events.push(&piece),
            Ok(None) => {
                let rest = events.rest();
                return if say(out, rest).await { RelayEnd::Complete } else { RelayEnd::ReceiverGone };
            }
            Err(error) => return RelayEnd::Failed(ConnectionFailure::Lost(root(&error.without_url()))),
        };
        if is_refusal && events.waiting() > LONGEST_REFUSAL {
            let rest = events.rest();
            return if say(out, rest).await { RelayEnd::Complete } else { RelayEnd::ReceiverGone };
        }
        if events.waiting() > LONGEST_EVENT {
            return RelayEnd::Failed(ConnectionFailure::TooLong);
        }
        if !say(out, ready).await {
            return RelayEnd::ReceiverGone;
        }
    }
}

/// Sends a piece when the window has room. Returns whether the receiver is still connected.
async fn say(out: &mut SendStream<Bytes>, piece: Bytes) -> bool {
    if piece.is_empty() {
        return true;
    }
    out.reserve_capacity(piece.len());
    while out.capacity() < piece.len() {
        match poll_fn(|context| out.poll_capacity(context)).await {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return false,
        }
    }
    out.send_data(piece, false).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::super::config::ProviderKind;
    use super::*;

    /// A server that answers one request with this body, in small pieces.
    fn server(body: String) -> u16 {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head =
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-kept: yes\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            for piece in body.as_bytes().chunks(16 * 1024) {
                write!(stream, "{:x}\r\n", piece.len()).unwrap();
                stream.write_all(piece).unwrap();
                stream.write_all(b"\r\n").unwrap();
            }
            // The client may have closed the connection.
            drop(stream.write_all(b"0\r\n\r\n"));
        });
        port
    }

    async fn route(relay: &Relay, port: u16, frames: &Arc<RawFrames>) -> Route {
        let address = Url::parse(&format!("http://127.0.0.1:{port}/v1/?a=b")).unwrap();
        let client = web::builder().no_proxy().build().unwrap();
        relay.route(RouteTarget { client, address, frames: frames.clone() }).await.unwrap()
    }

    #[tokio::test]
    async fn a_long_event_arrives_in_one_piece() {
        let (first, long) = ("data: short\n\n".to_owned(), format!("data: {}\n\n", "x".repeat(8_000_000)));
        let (relay, frames) = (Relay::default(), Arc::new(RawFrames::new(ProviderKind::OpenAi)));
        let route = route(&relay, server(format!("{first}{long}data: end")), &frames).await;
        let mut response = route.client.get(&route.address).send().await.unwrap();
        assert_eq!(response.headers()["x-kept"], "yes");
        let mut pieces = Vec::new();
        while let Some(piece) = response.chunk().await.unwrap() {
            pieces.extend(Some(piece.len()).filter(|length| *length > 0));
        }
        assert_eq!(pieces, [first.len(), long.len(), 9]);
    }

    #[tokio::test]
    async fn an_event_without_end_fails() {
        let (relay, frames) = (Relay::default(), Arc::new(RawFrames::new(ProviderKind::OpenAi)));
        let route = route(&relay, server("x".repeat(LONGEST_EVENT + 100_000)), &frames).await;
        let mut response = route.client.get(&route.address).send().await.unwrap();
        response.chunk().await.unwrap_err();
        assert_eq!(frames.observed().broken, Some(ConnectionFailure::TooLong));
    }

    #[tokio::test]
    async fn a_request_without_a_token_is_rejected() {
        let (relay, frames) = (Relay::default(), Arc::new(RawFrames::new(ProviderKind::OpenAi)));
        let route = route(&relay, 1, &frames).await;
        let stranger = route.address.replace(&route.token, "0123");
        route.client.get(stranger).send().await.unwrap_err();
        assert_eq!(frames.observed().broken, None);
        route.client.get(&route.address).send().await.unwrap_err();
        assert!(matches!(frames.observed().broken, Some(ConnectionFailure::Lost(_))));
        let (client, address) = (route.client.clone(), route.address.clone());
        drop(route);
        frames.clear();
        client.get(address).send().await.unwrap_err();
        assert_eq!(frames.observed().broken, None, "a route ends with the answer");
    }
}

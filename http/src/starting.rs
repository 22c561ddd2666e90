//! Answers requests while a server waits for its store: it is alive, and not ready.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::replies::{Body, refused, text};

/// How many sockets are answered at a time; others are closed without a word.
const MOST_SOCKETS: usize = 64;
/// How long a socket may be used.
const SOCKET_LIMIT: Duration = Duration::from_secs(10);

/// Answers `/healthz` as a server does, and everything else with 503, as long as it is polled. Never ends.
pub async fn answer_while_starting(listener: &TcpListener, tls: Option<&TlsAcceptor>) -> Infallible {
    let room = Arc::new(Semaphore::new(MOST_SOCKETS));
    loop {
        let accepted = listener.accept().await;
        let (Ok((stream, _)), Ok(place)) = (accepted, room.clone().try_acquire_owned()) else { continue };
        let tls = tls.cloned();
        // One that was accepted is answered, also when the server is ready meanwhile.
        tokio::spawn(async move {
            let answering = async {
                match tls {
                    None => answer_on(stream).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            answer_on(stream).await;
                        }
                    }
                }
            };
            let _ = tokio::time::timeout(SOCKET_LIMIT, answering).await;
            drop(place);
        });
    }
}

async fn answer_on(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).keep_alive(false);
    // Whatever a peer does wrong concerns only its own connection.
    let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if request.uri().path() == "/healthz" {
        return Ok(text(StatusCode::OK, "ok\n"));
    }
    let why = "the server is starting: it waits for its store";
    let mut response = refused(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    Ok(response)
}

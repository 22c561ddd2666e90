//! What anybody who reaches the port can and cannot do.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use rethread::edge::Version;
use rethread::server::ClientRole;
use rethread_http::{HttpConfig, RemoteError, RemoteTarget};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::Listening;
use crate::websocket::{plain_socket, subprotocol};

#[tokio::test]
async fn everything_but_health_needs_a_token() {
    let listening = Listening::start(Version::V1).await;
    assert_eq!(listening.status("GET", "/healthz", &[]).await, 200);
    for (method, path) in
        [("GET", "/acp"), ("POST", "/acp"), ("DELETE", "/acp"), ("GET", "/acp/ws"), ("GET", "/readyz")]
    {
        assert_eq!(listening.status(method, path, &[]).await, 401, "{method} {path}");
    }
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
    let upgrade = [&upgrade[..], &[("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")]].concat();
    assert_eq!(listening.status("GET", "/acp", &upgrade).await, 401);
    let bearer = format!("Bearer {}", listening.token);
    assert_eq!(listening.status("GET", "/readyz", &[("authorization", &bearer)]).await, 200);
    // Neither addresses nor cookies carry one.
    let cookie = format!("token={}", listening.token);
    for path in ["/readyz", "/acp"] {
        let by_address = format!("{path}?token={}", listening.token);
        assert_eq!(listening.status("GET", &by_address, &[]).await, 401);
        assert_eq!(listening.status("GET", &by_address, &upgrade).await, 401);
        assert_eq!(listening.status("GET", path, &[("cookie", &cookie)]).await, 401);
    }
}

#[tokio::test]
async fn wrong_tokens_are_counted_and_never_lock_a_right_one_out() {
    let listening = Listening::start(Version::V1).await;
    let wrong = [("authorization", "Bearer rethread_wrong")];
    for _ in 0..10 {
        assert_eq!(listening.status("GET", "/readyz", &wrong).await, 401);
    }
    assert_eq!(listening.status("GET", "/readyz", &wrong).await, 429);
    let bearer = format!("Bearer {}", listening.token);
    assert_eq!(listening.status("GET", "/readyz", &[("authorization", &bearer)]).await, 200);
    for header in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        let forwarded = [wrong[0], (header, "for=203.0.113.7")];
        assert_eq!(listening.status("GET", "/readyz", &forwarded).await, 429, "{header} is not looked at");
    }
    if cfg!(target_os = "linux") {
        let socket = tokio::net::TcpSocket::new_v4().expect("there is a socket");
        socket.bind("127.0.0.2:0".parse().expect("an address")).expect("it is of this machine");
        let mut other = socket.connect(listening.address).await.expect("it listens");
        let request = format!(
            "GET /readyz HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n",
            listening.address
        );
        other.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        other.read_to_string(&mut answer).await.expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 401"), "each address is counted by itself: {answer}");
    }
}

/// The time of a comparison says nothing that a test could measure reliably, so the code is looked at.
#[test]
fn tokens_and_codes_are_compared_in_constant_time() {
    for file in ["known_tokens.rs", "codes.rs"] {
        let path = format!("{}/src/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("it is there");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(code.contains("hash.as_bytes().ct_eq(hash.as_bytes())"), "{file}");
        let plain =
            code.lines().find(|line| line.contains("hash") && (line.contains("==") || line.contains("!=")));
        assert_eq!(plain, None, "{file} compares otherwise");
    }
}

#[tokio::test]
async fn hosts_and_origins_are_checked_on_every_verb_before_the_token() {
    let listening = Listening::start(Version::V1).await;
    let bearer = format!("Bearer {}", listening.token);
    let right = ("authorization", bearer.as_str());
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["/acp", "/acp/ws", "/healthz", "/readyz", "/metrics", "/code", "/", "/nothing"] {
            let host = [("host", "evil.example"), right];
            assert_eq!(listening.status(method, path, &host).await, 421, "{method} {path}");
            let origin = [("origin", "https://evil.example"), right];
            assert_eq!(listening.status(method, path, &origin).await, 403, "{method} {path}");
            let forwarded = [("host", "evil.example"), ("x-forwarded-host", "localhost"), right];
            assert_eq!(listening.status(method, path, &forwarded).await, 421, "{method} {path}");
        }
    }
    assert_eq!(listening.status("GET", "/healthz", &[("origin", "https://app.example")]).await, 200);
}

#[tokio::test]
async fn a_revoked_token_closes_its_connections_within_five_seconds() {
    let listening = Listening::start(Version::V1).await;
    let (mut socket, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    let (_other, id) = (
        listening.tokens.add("other", ClientRole::Full, None).await.expect("it can be made"),
        listening.tokens.list().await.expect("they can be read")[0].id.clone(),
    );
    listening.tokens.revoke(&id).await.expect("it is there");
    let bearer = format!("Bearer {}", listening.token);
    assert_eq!(listening.status("GET", "/readyz", &[("authorization", &bearer)]).await, 401, "at once");
    let closed = async { while let Some(Ok(_)) = socket.next().await {} };
    tokio::time::timeout(Duration::from_secs(5), closed).await.expect("it is closed in time");
}

#[tokio::test]
async fn a_token_that_expires_closes_its_connections_within_five_seconds() {
    let listening = Listening::start(Version::V1).await;
    let expires = rethread::clock::now() + 1500;
    let token =
        listening.tokens.add("short", ClientRole::Full, Some(expires)).await.expect("it can be made").text;
    let (mut socket, _) = plain_socket(&listening, &subprotocol(&token)).await;
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(listening.status("GET", "/readyz", &headers).await, 200);
    let closed = async { while let Some(Ok(_)) = socket.next().await {} };
    tokio::time::timeout(Duration::from_millis(6500), closed).await.expect("it is closed in time");
    assert!(rethread::clock::now() >= expires, "not before");
    assert_eq!(listening.status("GET", "/readyz", &headers).await, 401);
}

#[tokio::test]
async fn a_connection_belongs_to_the_token_that_began_it() {
    let listening = Listening::start(Version::V1).await;
    let message =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}});
    let json = ("content-type", "application/json");
    let begun = listening.send(listening.request("POST", &[json], message.to_string())).await;
    let connection = begun.headers()["acp-connection-id"].to_str().expect("text").to_owned();
    let other = listening.tokens.add("other", ClientRole::Full, None).await.expect("it can be made").text;
    let bearer = format!("Bearer {other}");
    let headers = [("authorization", bearer.as_str()), ("acp-connection-id", connection.as_str())];
    assert_eq!(listening.status("DELETE", "/acp", &headers).await, 404);
    let own = listening.request("DELETE", &[("acp-connection-id", &connection)], Bytes::new());
    assert_eq!(listening.send(own).await.status(), 202);
}

#[tokio::test]
async fn remote_clients_open_sessions_only_below_the_roots_and_run_no_commands() {
    let listening = Listening::start(Version::V1).await;
    let client = listening.websocket(Version::V1).await;
    let outside = client.refused("session/new", json!({"cwd": "/", "mcpServers": []})).await;
    assert_eq!((&outside["code"], &outside["data"]["field"]), (&json!(-32602), &json!("cwd")), "{outside}");
    let server = json!({"name": "s", "command": "rm", "args": ["-rf", "/"], "env": []});
    let command = json!({"cwd": listening.cwd(), "mcpServers": [server]});
    let refused = client.refused("session/new", command).await;
    assert_eq!(
        (&refused["code"], &refused["data"]["field"]),
        (&json!(-32602), &json!("mcpServers")),
        "{refused}"
    );
    client.new_session_in(&listening.cwd()).await;
}

#[tokio::test]
async fn agents_are_chosen_by_configured_name_only() {
    let listening = Listening::start(Version::V1).await;
    let connect = |agent: &str| {
        let url = format!("ws://{}/acp?agent={agent}", listening.address);
        rethread_http::connect(RemoteTarget {
            url,
            token: Some(listening.token.clone()),
            ca: None,
            patience: Duration::from_secs(60),
        })
    };
    assert!(connect("scripted").await.is_ok());
    for name in ["sh", "/bin/sh", "..%2fsh"] {
        assert!(matches!(connect(name).await, Err(RemoteError::Refused(status)) if status == 400), "{name}");
    }
}

#[tokio::test]
async fn an_observer_may_look_and_nothing_else() {
    let listening = Listening::start(Version::V1).await;
    let token = listening.tokens.add("looks", ClientRole::Observer, None).await.expect("it can be made").text;
    for (token, query) in
        [(token.as_str(), ""), (listening.token.as_str(), "?role=observer"), (token.as_str(), "?role=full")]
    {
        let url = format!("ws://{}/acp{query}", listening.address);
        let target =
            RemoteTarget { url, token: Some(token.to_owned()), ca: None, patience: Duration::from_secs(60) };
        let channel = rethread_http::connect(target).await.expect("it is accepted");
        let client = rethread_testkit::client::Client::over(channel.into_wire(), Version::V1, None);
        client.initialize().await;
        client.ask("session/list", json!({})).await;
        let params = json!({"cwd": listening.cwd(), "mcpServers": []});
        let refused = client.refused("session/new", params).await;
        assert_eq!(
            (&refused["code"], &refused["data"]["role"]),
            (&json!(-32011), &json!("observer")),
            "{query}"
        );
    }
}

#[tokio::test]
async fn too_many_clients_are_refused() {
    let config = HttpConfig { most_clients: 1, ..HttpConfig::default() };
    let listening = Listening::with(Version::V1, config).await;
    let _first = listening.websocket(Version::V1).await;
    let url = format!("http://{}", listening.address);
    let second = rethread_http::connect(RemoteTarget {
        url,
        token: Some(listening.token.clone()),
        ca: None,
        patience: Duration::from_secs(60),
    });
    assert!(matches!(second.await, Err(RemoteError::Refused(status)) if status == 503));
}

/// The first line of the answer to raw bytes.
async fn raw(listening: &Listening, bytes: &str) -> String {
    let mut stream = TcpStream::connect(listening.address).await.expect("it listens");
    stream.write_all(bytes.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(2), reading).await;
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn requests_of_unclear_length_are_refused() {
    let listening = Listening::start(Version::V1).await;
    let host = format!("Host: {}\r\n", listening.address);
    let shapes = [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: +5\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
    ];
    for shape in shapes {
        let line = raw(&listening, &format!("POST /healthz HTTP/1.1\r\n{host}{shape}\r\n0\r\n\r\n")).await;
        assert!(line.starts_with("HTTP/1.1 400"), "{shape:?}: {line}");
    }
    let twice = raw(&listening, &format!("GET /healthz HTTP/1.1\r\n{host}Host: evil.example\r\n\r\n")).await;
    assert!(twice.starts_with("HTTP/1.1 400"), "{twice}");
}

#[tokio::test]
async fn http_2_without_tls_is_spoken() {
    let listening = Listening::start(Version::V1).await;
    let stream = TcpStream::connect(listening.address).await.expect("it listens");
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(executor, io).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let request = http::Request::get(format!("http://{}/healthz", listening.address));
    let request = request.body(http_body_util::Empty::<Bytes>::new()).expect("it is valid");
    assert_eq!(sender.send_request(request).await.expect("it answers").status(), 200);
}

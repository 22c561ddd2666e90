//! Peers that say nothing, are gone, never read, or send what is broken. The limits are shorter here than in use.

use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use rethread::edge::Version;
use rethread_http::{HttpConfig, HttpLimits};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::fixture::Listening;
use crate::streamable::HttpClient;
use crate::websocket::{next_json, plain_socket, subprotocol};

const SHORT: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(20);

async fn with_limits(change: impl FnOnce(&mut HttpLimits)) -> Listening {
    let mut limits = HttpLimits::default();
    change(&mut limits);
    Listening::with(Version::V1, HttpConfig { limits, ..HttpConfig::default() }).await
}

/// Sends bytes on a connection of its own, and waits until the server closes it. Gives what it said.
async fn closed_after(listening: &Listening, bytes: &[u8]) -> (Duration, Vec<u8>) {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(listening.address).await.expect("it listens");
    stream.write_all(bytes).await.expect("it reads");
    let mut said = Vec::new();
    let reading = tokio::time::timeout(LONG, stream.read_to_end(&mut said));
    let _ = reading.await.expect("the server closes it");
    (begun.elapsed(), said)
}

/// A request that becomes a WebSocket.
fn upgrade(listening: &Listening, more: &str) -> String {
    format!(
        "GET /acp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n",
        listening.address, listening.token
    )
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;

/// A frame of a client with this first byte. The mask changes nothing.
fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("it is short");
    let mut frame = vec![first];
    match length {
        0..=125 => frame.push(0x80 | length),
        _ => frame.extend([0x80 | 126, 0, length]),
    }
    frame.extend([0; 4]);
    frame.extend_from_slice(content);
    frame
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let listening = with_limits(|limits| limits.headers = SHORT).await;
    let half = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n", listening.address);
    let whole = format!("{half}\r\n");
    for (what, bytes) in [
        ("nothing", &b""[..]),
        ("half of the headers", half.as_bytes()),
        ("one request and nothing more", whole.as_bytes()),
        ("the beginning of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
    ] {
        let (took, _) = closed_after(&listening, bytes).await;
        assert!(took >= SHORT / 2 && took < LONG, "{what}: {took:?}");
    }
}

#[tokio::test]
async fn a_socket_without_initialize_is_closed() {
    let listening = with_limits(|limits| limits.first_message = SHORT).await;
    let (mut socket, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    let code = loop {
        match tokio::time::timeout(LONG, socket.next()).await.expect("it is closed") {
            Some(Ok(Message::Close(Some(frame)))) => break u16::from(frame.code),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, 1008);
    let (mut talks, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    talks.send(Message::Text(INITIALIZE.into())).await.expect("it is open");
    assert_eq!(next_json(&mut talks).await["id"], 0);
    tokio::time::sleep(2 * SHORT).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}});
    talks.send(Message::Text(list.to_string().into())).await.expect("it is open");
    assert_eq!(next_json(&mut talks).await["id"], 1, "one that has begun stays");
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_is_closed_and_one_that_does_stays() {
    let listening = with_limits(|limits| (limits.ping, limits.silence) = (SHORT / 4, SHORT)).await;
    let mut opening = upgrade(&listening, "").into_bytes();
    opening.extend(frame(0x81, INITIALIZE.as_bytes()));
    let (took, said) = closed_after(&listening, &opening).await;
    assert!(took >= SHORT && took < LONG, "{took:?}");
    let pings = said.windows(2).filter(|pair| *pair == [0x89, 0]).count();
    assert!(pings >= 2, "it was asked {pings} times");

    let (mut answers, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    answers.send(Message::Text(INITIALIZE.into())).await.expect("it is open");
    let begun = Instant::now();
    let reading = async {
        while begun.elapsed() < 3 * SHORT {
            // The library answers pings while it reads.
            answers.next().await.expect("it is open").expect("it works");
        }
    };
    tokio::time::timeout(LONG, reading).await.expect("there are pings");
}

#[tokio::test]
async fn a_peer_that_does_not_take_its_events_is_closed() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let listening = with_limits(|limits| limits.silence = 2 * SHORT).await;
    let mut client = HttpClient::begin(&listening).await;
    let (session, _events) = client.new_session().await;
    let connection = client.connection.clone();
    let mut stuck = TcpStream::connect(listening.address).await.expect("it listens");
    let request = format!(
        "GET /acp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\
         Acp-Connection-Id: {connection}\r\nAcp-Session-Id: {session}\r\n\r\n",
        listening.address, listening.token
    );
    stuck.write_all(request.as_bytes()).await.expect("it reads");
    stuck.read_u8().await.expect("it answers");
    // More than the buffers of the system can hold.
    let long = format!("say {};", "x".repeat(64_000)).repeat(250);
    client.prompt(&session, &long).await;
    let status = async || client.status_of_stream(Some(&session), None).await.err();
    let deadline = Instant::now() + LONG;
    while status().await == Some(409) {
        assert!(Instant::now() < deadline, "the stream has no receiver any more");
        tokio::time::sleep(SHORT / 4).await;
    }
    drop(stuck);
}

#[tokio::test]
async fn too_many_sockets_are_told_so() {
    let config = HttpConfig { most_clients: 1, ..HttpConfig::default() };
    let listening = Listening::with(Version::V1, config).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(TcpStream::connect(listening.address).await.expect("it listens"));
    }
    let request =
        format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", listening.address);
    let (_, said) = closed_after(&listening, request.as_bytes()).await;
    assert!(said.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&said));
    silent.clear();
    let deadline = Instant::now() + LONG;
    while !closed_after(&listening, request.as_bytes()).await.1.starts_with(b"HTTP/1.1 200") {
        assert!(Instant::now() < deadline, "there is room again");
    }
}

#[tokio::test]
async fn compression_is_neither_agreed_to_nor_taken() {
    let listening = Listening::start(Version::V1).await;
    let offered = upgrade(&listening, "Sec-WebSocket-Extensions: permessage-deflate\r\n");
    let mut opening = offered.into_bytes();
    // The bit says that the content is compressed.
    opening.extend(frame(0xC1, INITIALIZE.as_bytes()));
    let (_, said) = closed_after(&listening, &opening).await;
    let text = String::from_utf8_lossy(&said).to_ascii_lowercase();
    assert!(text.starts_with("http/1.1 101") && !text.contains("deflate"), "{text}");
    let close = said.windows(4).find(|part| part[0] == 0x88).expect("it is closed with a code");
    assert_eq!(u16::from_be_bytes([close[2], close[3]]), 1002);
}

#[tokio::test]
async fn text_that_is_no_text_ends_the_socket_and_bytes_that_are_none_do_not() {
    let listening = Listening::start(Version::V1).await;
    let (mut socket, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    socket.send(Message::Text(INITIALIZE.into())).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["id"], 0);
    for broken in [&b"\xff\xfe"[..], b"{\"id\":", b"[]", b"7"] {
        socket.send(Message::Binary(broken.to_vec().into())).await.expect("it is open");
        let answer = next_json(&mut socket).await;
        assert!(matches!(answer["error"]["code"].as_i64(), Some(-32700 | -32600)), "{answer}");
    }
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}});
    socket.send(Message::Text(list.to_string().into())).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["id"], 1, "the connection goes on");
    let mut opening = upgrade(&listening, "").into_bytes();
    opening.extend(frame(0x81, b"\xff\xfe"));
    let (_, said) = closed_after(&listening, &opening).await;
    let close = said.windows(4).find(|part| part[0] == 0x88).expect("it is closed with a code");
    assert_eq!(u16::from_be_bytes([close[2], close[3]]), 1002);
}

#[tokio::test]
async fn a_length_and_chunks_in_one_request_are_refused_and_never_read_as_two_requests() {
    let listening = with_limits(|limits| limits.headers = 2 * SHORT).await;
    let host = format!("Host: {}\r\n", listening.address);
    let second = format!("GET /healthz HTTP/1.1\r\n{host}\r\n");
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "transfer-encoding:CHUNKED\r\nX: y\r\ncontent-length:5\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length : 5\r\n",
        "Content-Length: 5\r\nContent-Length: 0\r\n",
        "Content-Length: 5, 5\r\n",
    ] {
        for before in ["", &second] {
            let request = format!("{before}POST /healthz HTTP/1.1\r\n{host}{lengths}\r\n0\r\n\r\n{second}");
            let (_, said) = closed_after(&listening, request.as_bytes()).await;
            let said = String::from_utf8_lossy(&said);
            let statuses: Vec<&str> = said.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
            let expected: &[&str] = if before.is_empty() { &["400"] } else { &["200", "400"] };
            assert_eq!(statuses, expected, "{lengths:?}: {said}");
        }
    }
    let chunks =
        format!("POST /healthz HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{second}");
    let (_, said) = closed_after(&listening, chunks.as_bytes()).await;
    let answers = String::from_utf8_lossy(&said).matches("HTTP/1.1 200").count();
    assert_eq!(answers, 2, "chunks alone are taken");
}

//! WebSocket: whole conversations in both versions, connections that are lost and come back, and frames that are wrong.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use rethread::edge::Version;
use rethread_http::HttpConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::fixture::Listening;
use crate::streamable::cuts;

const BOTH: [Version; 2] = [Version::V1, Version::V2];

#[tokio::test]
async fn a_whole_conversation() {
    for version in BOTH {
        for agent in BOTH {
            let listening = Listening::start(agent).await;
            let client = listening.websocket(version).await;
            let session = client.new_session_in(&listening.cwd()).await;
            let turn = client.prompt(&session, "say one; tool call_1; permit; say two").await;
            assert_eq!(turn.stop, "end_turn");
            let hanging = client.begin_prompt(&session, "say three; hang").await;
            let said = |update: &Value| update["content"]["text"] == "three";
            client.wait_update(0, &session, "three", said).await;
            client.cancel(&session).await;
            assert_eq!(client.finish(&session, &hanging).await.stop, "cancelled");

            let other = listening.websocket(Version::V1).await;
            other.load_in(&listening.cwd(), &session).await;
            assert_eq!(other.view(&session).agent(), client.view(&session).agent());
        }
    }
}

#[tokio::test]
async fn a_turn_goes_on_without_its_client() {
    let listening = Listening::start(Version::V1).await;
    let client = listening.websocket(Version::V2).await;
    let session = client.new_session_in(&listening.cwd()).await;
    client.begin_prompt(&session, "say one; wait go; say two").await;
    let said = |update: &Value| update["content"]["text"] == "one";
    client.wait_update(0, &session, "one", said).await;
    client.disconnect().await;
    drop(client);
    tokio::time::sleep(Duration::from_millis(100)).await;
    listening.world.agent.open_gate("go");
    let next = listening.websocket(Version::V2).await;
    next.load_in(&listening.cwd(), &session).await;
    let said = |update: &Value| update["content"]["text"] == "two";
    next.wait_update(0, &session, "two", said).await;
}

/// A relay that breaks each connection after so many bytes from the server.
async fn breaking_relay(to: SocketAddr, breaks: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let broken = Arc::new(AtomicUsize::new(0));
    let count = broken.clone();
    tokio::spawn(async move {
        let mut room: usize = 3000;
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(to).await.expect("it listens");
            room = (room * 7919 + 104_729) % 4000 + 1000;
            let limit = if count.load(Ordering::Relaxed) < breaks { room } else { usize::MAX };
            let count = count.clone();
            tokio::spawn(async move {
                relay(client, server, limit).await;
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    (address, broken)
}

async fn relay(client: TcpStream, server: TcpStream, mut room: usize) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let up = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let down = async {
        let mut bytes = [0; 1024];
        while room > 0 {
            let count = from_server.read(&mut bytes).await?;
            let count = count.min(room);
            if count == 0 {
                break;
            }
            to_client.write_all(&bytes[..count]).await?;
            room -= count;
        }
        Ok::<_, std::io::Error>(())
    };
    tokio::select! {
        _ = up => {}
        _ = down => {}
    }
}

#[tokio::test]
async fn a_connection_that_breaks_again_and_again_loses_and_doubles_nothing() {
    let listening = Listening::start(Version::V1).await;
    let (wanted, chunks) = cuts();
    let (address, broken) = breaking_relay(listening.address, wanted).await;
    let client = listening.websocket_to(address, Version::V1).await;
    client.set_deadline(Duration::from_secs(300));
    client.initialize().await;
    let session = client.new_session_in(&listening.cwd()).await;
    let turn = client.prompt(&session, &format!("slow {chunks}; permit; say end")).await;
    assert_eq!(turn.stop, "end_turn");
    assert!(broken.load(Ordering::Relaxed) >= wanted, "it broke {} times", broken.load(Ordering::Relaxed));
    let expected: Vec<String> = (1..=chunks).map(|n| format!("c{n}")).collect();
    assert_eq!(client.view(&session).agent()[0], expected.join(" "));
    let other = listening.websocket(Version::V1).await;
    other.load_in(&listening.cwd(), &session).await;
    assert_eq!(client.view(&session).agent(), other.view(&session).agent());
}

/// A relay that can be shut, which breaks its connections.
async fn gate(to: SocketAddr) -> (SocketAddr, tokio::sync::watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (is_open, watched) = tokio::sync::watch::channel(true);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let mut watched = watched.clone();
            tokio::spawn(async move {
                if *watched.borrow() {
                    let server = TcpStream::connect(to).await.expect("it listens");
                    tokio::select! {
                        () = relay(client, server, usize::MAX) => {}
                        _ = watched.wait_for(|is_open| !is_open) => {}
                    }
                }
            });
        }
    });
    (address, is_open)
}

#[tokio::test]
async fn a_client_that_stayed_away_too_long_begins_again_and_sees_the_rest_once() {
    for version in BOTH {
        let config = HttpConfig { grace: Duration::from_millis(100), ..HttpConfig::default() };
        let listening = Listening::with(Version::V1, config).await;
        let (address, is_open) = gate(listening.address).await;
        let client = listening.websocket_to(address, version).await;
        client.set_deadline(Duration::from_secs(60));
        client.initialize().await;
        let session = client.new_session_in(&listening.cwd()).await;
        let open = client.begin_prompt(&session, "say one; chunks 20; wait go; tool call_1; say two").await;
        let last =
            |update: &Value| update["content"]["text"].as_str().is_some_and(|text| text.contains("c20"));
        client.wait_update(0, &session, "the last chunk", last).await;
        is_open.send_replace(false);
        // The server looks for connections that nobody uses every two seconds.
        let forgotten = async {
            while listening.clients() > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), forgotten).await.expect("it is forgotten");
        listening.world.agent.open_gate("go");
        is_open.send_replace(true);
        let said =
            |update: &Value| update["content"]["text"] == "two" || update["content"][0]["text"] == "two";
        client.wait_update(0, &session, "two", said).await;
        if version == Version::V1 {
            assert_eq!(client.answer(&open).await.expect_err("it was lost")["code"], -32603);
        }
        assert_eq!(client.prompt(&session, "say three; permit").await.stop, "end_turn");
        let other = listening.websocket(version).await;
        other.load_in(&listening.cwd(), &session).await;
        assert_eq!(client.view(&session).items, other.view(&session).items);
    }
}

pub(crate) type PlainSocket = tokio_tungstenite::WebSocketStream<TcpStream>;

pub(crate) async fn plain_socket(
    listening: &Listening,
    subprotocols: &str,
) -> (PlainSocket, http::HeaderMap) {
    let mut request =
        format!("ws://{}/acp/ws", listening.address).into_client_request().expect("it is valid");
    let headers = request.headers_mut();
    headers.insert("sec-websocket-protocol", subprotocols.parse().expect("it is valid"));
    let stream = TcpStream::connect(listening.address).await.expect("it listens");
    let (socket, response) = tokio_tungstenite::client_async(request, stream).await.expect("it accepts");
    (socket, response.headers().clone())
}

pub(crate) fn subprotocol(token: &str) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token);
    format!("acp.v1, rethread-bearer.{encoded}")
}

pub(crate) async fn next_json(socket: &mut PlainSocket) -> Value {
    loop {
        let next =
            tokio::time::timeout(Duration::from_secs(20), socket.next()).await.expect("something comes");
        if let Message::Text(text) = next.expect("it is open").expect("it works") {
            return serde_json::from_str(&text).expect("it is JSON");
        }
    }
}

#[tokio::test]
async fn a_browser_sends_its_token_as_a_subprotocol_which_is_not_echoed() {
    let listening = Listening::start(Version::V1).await;
    let (_socket, headers) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    assert_eq!(headers["sec-websocket-protocol"], "acp.v1");
    assert_eq!(headers["acp-connection-id"].len(), 32);
}

#[tokio::test]
async fn joined_binary_and_broken_frames_are_heard() {
    let listening = Listening::start(Version::V1).await;
    let (mut socket, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    let list =
        |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}}).to_string();
    let initialize =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}});
    socket.send(Message::Text(format!("{initialize}\n").into())).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["id"], 0);
    socket.send(Message::Text(format!("{}\n{}\n", list(1), list(2)).into())).await.expect("it is open");
    let mut ids = [next_json(&mut socket).await["id"].clone(), next_json(&mut socket).await["id"].clone()];
    ids.sort_by_key(Value::as_u64);
    assert_eq!(ids, [json!(1), json!(2)]);
    socket.send(Message::Text("no message".into())).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["error"]["code"], -32700);
    socket.send(Message::Binary(list(3).into())).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["id"], 3);
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_socket_with_1009() {
    let config = rethread_http::HttpConfig { longest_message: 1000, ..rethread_http::HttpConfig::default() };
    let listening = Listening::with(Version::V1, config).await;
    let (mut socket, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    socket.send(Message::Text("x".repeat(2000).into())).await.expect("it is open");
    assert_eq!(close_code(&mut socket).await, 1009);
}

/// The code with which the server closes a socket.
async fn close_code(socket: &mut PlainSocket) -> u16 {
    loop {
        match tokio::time::timeout(Duration::from_secs(20), socket.next()).await.expect("it is closed") {
            Some(Ok(Message::Close(Some(frame)))) => break u16::from(frame.code),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_close_code_says_whether_coming_back_is_of_any_use() {
    let listening = Listening::start(Version::V1).await;
    let (mut ended, headers) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    let connection = headers["acp-connection-id"].to_str().expect("it is text").to_owned();
    let delete = listening.request("DELETE", &[("acp-connection-id", &connection)], bytes::Bytes::new());
    assert_eq!(listening.send(delete).await.status(), 202);
    assert_eq!(close_code(&mut ended).await, 4404, "there is no such connection any more: initialize again");

    let (mut revoked, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    let id = listening.tokens.list().await.expect("they can be read")[0].id.clone();
    listening.tokens.revoke(&id).await.expect("it is there");
    assert_eq!(close_code(&mut revoked).await, 1008, "the token does not work any more");
}

//! Hosts that meet on `/cluster`: who has the key is served with what its client may do, everybody else gets nothing.

use futures::{SinkExt, StreamExt};
use rethread::edge::Version;
use rethread::secret::Secret;
use rethread::server::{
    CarriedClient, ClientAccess, ClientOrigin, ClientRole, ClientScope, HostConnector, HostLinkError,
    Redaction, TransportName,
};
use rethread::store::{HostContact, HostNumber};
use rethread_http::{ClusterKey, HostNetwork};
use rethread_testkit::client::Client;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::fixture::{CLUSTER_KEY, Listening};

fn network(key: &str) -> HostNetwork {
    let key = ClusterKey::new(&Secret::new(key)).expect("it is long enough");
    HostNetwork::new(
        key,
        HostContact { number: HostNumber(1), address: "http://127.0.0.1:1".to_owned() },
        None,
    )
}

fn carried(access: ClientAccess) -> CarriedClient {
    let agent = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}).into();
    CarriedClient { access, agent, transport: TransportName::WebSocket }
}

#[tokio::test]
async fn only_the_host_that_is_meant_is_trusted() {
    let listening = Listening::start(Version::V1).await;
    let there = listening.contact();
    assert_eq!(network(CLUSTER_KEY).probe(&there).await, Ok(()));
    let stranger = network("another key that is long enough for it").probe(&there).await;
    assert!(matches!(stranger, Err(HostLinkError::NotTrusted(why)) if why.contains("another cluster_key")));
    let other = HostContact { number: HostNumber(77), ..there };
    let other = network(CLUSTER_KEY).probe(&other).await;
    assert!(matches!(other, Err(HostLinkError::NotTrusted(why)) if why.contains("two hosts")));
}

#[tokio::test]
async fn what_a_carried_client_may_do_is_checked_by_the_owner() {
    let listening = Listening::start(Version::V1).await;
    let owner = listening.websocket(Version::V1).await;
    let (shown, hidden) =
        (owner.new_session_in(&listening.cwd()).await, owner.new_session_in(&listening.cwd()).await);
    let connect = async |access| {
        let channel = network(CLUSTER_KEY).connect(listening.contact(), carried(access)).await;
        let client = Client::over(unmarked(channel.expect("it is trusted")).into_wire(), Version::V1, None);
        client.initialize().await;
        client
    };
    let scope = Some(ClientScope { session: shown.clone(), redaction: Redaction::Off });
    let guest = connect(ClientAccess { role: ClientRole::Full, origin: ClientOrigin::Local, scope }).await;
    assert_eq!(guest.ask("session/status", json!({"sessionId": shown})).await["status"], "open");
    let refused = guest.refused("session/status", json!({"sessionId": hidden})).await;
    assert_eq!(refused["code"], -32002, "it may see one session: {refused}");
    let refused = guest.refused("session/delete", json!({"sessionId": shown})).await;
    assert_eq!(refused["code"], -32011, "it may only look: {refused}");

    let full = connect(ClientAccess::default()).await;
    full.load_in(&listening.cwd(), &shown).await;
    assert_eq!(full.prompt(&shown, "say hello").await.stop, "end_turn");
    // Nothing is opened for it here: it has no agent of its own.
    owner.close(&hidden).await.expect("it is open");
    let refused = full.load_in_refused(&listening.cwd(), &hidden).await;
    assert_eq!(refused["code"], -32012, "{refused}");
}

/// Leaves the marks out, which are for hosts.
fn unmarked(
    channel: rethread::transport::messages::MessageChannel,
) -> rethread::transport::messages::MessageChannel {
    let (mut from, outgoing) = (channel.incoming, channel.outgoing);
    let (to, incoming) = tokio::sync::mpsc::channel(64);
    tokio::spawn(async move {
        while let Some(message) = from.recv().await {
            if !message.starts_with(b"[") && to.send(message).await.is_err() {
                return;
            }
        }
    });
    rethread::transport::messages::MessageChannel { incoming, outgoing }
}

/// What the server answers to these messages on `/cluster`, until it hangs up.
async fn heard(listening: &Listening, messages: &[String]) -> Vec<String> {
    let stream = TcpStream::connect(listening.address).await.expect("it listens");
    let address = format!("ws://{}/cluster", listening.address);
    let (mut socket, _) = tokio_tungstenite::client_async(address, stream).await.expect("it is a WebSocket");
    for message in messages {
        if socket.send(Message::text(message.clone())).await.is_err() {
            break;
        }
    }
    let mut heard = Vec::new();
    while let Ok(Some(Ok(message))) =
        tokio::time::timeout(std::time::Duration::from_secs(20), socket.next()).await
    {
        if let Message::Text(text) = message {
            heard.push(text.to_string());
        }
    }
    heard
}

#[tokio::test]
async fn nobody_gets_anything_without_a_proof() {
    let listening = Listening::start(Version::V1).await;
    let hello = |protocol: &str| {
        json!({"protocol": protocol, "from": {"number": 1, "address": "x"}, "nonce": "00"}).to_string()
    };
    for (messages, answers) in [
        (vec!["garbage".to_owned()], 0),
        (vec![json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}).to_string()], 0),
        (vec![hello("rethread hosts 99")], 0),
        (vec!["x".repeat(300 * 1024)], 0),
        // Its challenge, and that it does not accept.
        (vec![hello("rethread hosts 1"), json!({"proof": "00".repeat(32)}).to_string()], 2),
        (vec![hello("rethread hosts 1"), "garbage".to_owned()], 1),
    ] {
        let heard = heard(&listening, &messages).await;
        assert_eq!(heard.len(), answers, "{heard:?}");
        if let Some(last) = heard.get(1) {
            assert_eq!(serde_json::from_str::<Value>(last).expect("it is JSON"), json!({"accepted": false}));
        }
    }
    assert_eq!(listening.clients(), 0);
}

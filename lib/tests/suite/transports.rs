//! A client on a transport that carries whole messages is served as one on a byte stream.

use bytes::Bytes;
use rethread::edge::Version;
use rethread::transport::messages::MessageChannel;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A client that sends and receives whole messages.
struct MessageClient {
    to_server: mpsc::Sender<Bytes>,
    from_server: mpsc::Receiver<Bytes>,
}

impl MessageClient {
    fn connect(world: &World) -> Self {
        let (to_server, incoming) = mpsc::channel(8);
        let (outgoing, from_server) = mpsc::channel(8);
        let server = world.server.clone();
        tokio::spawn(async move { server.serve(MessageChannel { incoming, outgoing }).await });
        Self { to_server, from_server }
    }

    /// Sends a request and gives its answer, and all other messages before it.
    async fn ask(&mut self, id: u64, method: &str, params: Value) -> (Value, Vec<Value>) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.to_server.send(Bytes::from(request.to_string())).await.expect("the server reads");
        let mut others = Vec::new();
        loop {
            let message = self.from_server.recv().await.expect("the server answers");
            assert!(!message.contains(&b'\n'), "one message at a time");
            let message: Value = serde_json::from_slice(&message).expect("a message is JSON");
            if message["id"] == id && message.get("method").is_none() {
                return (message, others);
            }
            others.push(message);
        }
    }
}

async fn whole_messages_do_as_well_as_bytes(pairing: Pairing) {
    let world = World::of(pairing);
    let mut client = MessageClient::connect(&world);
    let introduction = world.connect().introduction();
    let (answer, _) = client.ask(1, "initialize", introduction).await;
    assert!(answer["result"].is_object(), "{answer}");
    let (answer, _) = client.ask(2, "session/new", json!({"cwd": "/work", "mcpServers": []})).await;
    let session = answer["result"]["sessionId"].clone();
    let prompt = json!([{"type": "text", "text": "say hello"}]);
    let (answer, before) =
        client.ask(3, "session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    assert!(answer["result"].is_object(), "{answer}");
    if pairing.client == Version::V1 {
        assert!(before.iter().any(|message| message["params"]["update"]["content"]["text"] == "hello"));
    }
    // A message that is too long or no message at all is answered, and the next one is heard.
    client.to_server.send(Bytes::from_static(b"no message")).await.expect("the server reads");
    let (answer, others) = client.ask(4, "session/list", json!({})).await;
    assert!(answer["result"]["sessions"].is_array());
    assert!(others.iter().any(|message| message["error"]["code"] == -32700), "{others:?}");
}

pairings!(whole_messages_do_as_well_as_bytes);

//! Agent processes of a server: who shares one, and that one which is being started ends too.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread::agent::host::{AgentSource, Started, Starting};
use rethread::edge::Version;
use rethread::server::{Config, Server};
use rethread::store::memory::MemoryStore;
use rethread::transport::memory::{self, Endpoint};
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// An agent of which the test has the other end.
#[derive(Default)]
struct RawAgent {
    starts: AtomicUsize,
    ends: Mutex<Vec<Endpoint>>,
}

#[derive(Clone, Default)]
struct RawSource(Arc<RawAgent>);

impl AgentSource for RawSource {
    fn start(&self) -> Starting<'_> {
        let (here, there) = memory::pair();
        self.0.starts.fetch_add(1, Ordering::SeqCst);
        self.0.ends.lock().expect("no test panics here").push(there);
        Box::pin(async { Ok(Started { wire: here.into(), process: None }) })
    }

    fn name(&self) -> String {
        "raw".to_owned()
    }
}

impl RawSource {
    /// The other end of the agent that was started.
    async fn started(&self) -> Endpoint {
        loop {
            if let Some(end) = self.0.ends.lock().expect("no test panics here").pop() {
                return end;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn server(agent: &RawSource) -> Server {
    Server::new(Arc::new(MemoryStore::new()), Arc::new(agent.clone()), Config::default())
}

#[tokio::test]
async fn an_agent_that_is_being_started_ends_with_its_last_client() {
    let agent = RawSource::default();
    let client = Client::connect(&server(&agent), Version::V1);
    client.begin("initialize", client.introduction()).await;
    let mut end = agent.started().await;
    client.disconnect().await;
    // It was never answered, and sees the end of its input.
    let mut read = Vec::new();
    let whole = tokio::time::timeout(Duration::from_secs(5), end.read_to_end(&mut read)).await;
    whole.expect("the agent's input ends").expect("a pipe");
    assert!(String::from_utf8_lossy(&read).contains("initialize"));
    assert_eq!(agent.0.starts.load(Ordering::SeqCst), 1, "it is not started again with the other version");
}

/// What an agent says right behind the answer to `session/new` comes first, however much follows.
#[tokio::test]
async fn what_is_said_right_behind_the_answer_comes_first() {
    let agent = RawSource::default();
    let client = Client::connect(&server(&agent), Version::V1);
    let playing = tokio::spawn(talkative(agent.clone()));
    client.initialize().await;
    let session = client.new_session().await;
    // Chunks that come together may be joined.
    let last = |update: &Value| update["content"]["text"].as_str().is_some_and(|text| text.ends_with('l'));
    client.wait_update(0, &session, "the last words", last).await;
    assert_eq!(client.view(&session).agent(), ["abcdefghijkl"]);
    playing.abort();
}

/// Answers `initialize` and `session/new`, and goes on talking at once.
async fn talkative(agent: RawSource) {
    let (reader, mut writer) = tokio::io::split(agent.started().await);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).expect("we send JSON");
        let answer =
            |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
        let said = |letter: char| {
            let content = json!({"type": "text", "text": letter});
            let update =
                json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content});
            let params = json!({"sessionId": "s", "update": update});
            json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
        };
        match message["method"].as_str() {
            Some("initialize") => {
                let result = json!({"protocolVersion": 1, "agentCapabilities": {}});
                write(&mut writer, &[answer(result)]).await;
            }
            Some("session/new") => {
                write(&mut writer, &[answer(json!({"sessionId": "s"})), said('a')]).await;
                for letter in 'b'..='l' {
                    write(&mut writer, &[said(letter)]).await;
                    tokio::task::yield_now().await;
                }
            }
            _ => {}
        }
    }
}

async fn write(writer: &mut (impl AsyncWriteExt + Unpin), lines: &[String]) {
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    writer.write_all(text.as_bytes()).await.expect("we read");
    writer.flush().await.expect("we read");
}

async fn clients_that_offer_the_same_share_a_process_until_the_last_one_leaves(pairing: Pairing) {
    let world = World::of(pairing);
    let (one, two) = (world.ready().await, world.ready().await);
    let sessions = (one.new_session().await, two.new_session().await);
    assert_eq!(world.agent.running(), 1);
    one.disconnect().await;
    assert_eq!(world.agent.running(), 1, "the other one needs it");
    assert_eq!(two.prompt(&sessions.1, "say on").await.stop, "end_turn");
    let bare = world.connect();
    bare.initialize_bare().await;
    bare.new_session().await;
    assert_eq!(world.agent.running(), 2, "one that offers something else has its own");
    two.disconnect().await;
    bare.disconnect().await;
    world.agent.wait_gone().await;
}

pairings!(clients_that_offer_the_same_share_a_process_until_the_last_one_leaves);

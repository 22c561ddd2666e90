//! What the scenarios of these rules share.

use rethread_testkit::World;
use rethread_testkit::client::{CWD, Client};
use serde_json::{Value, json};

/// What a client hears when it opens a session.
pub(super) struct Opened {
    /// The updates before the answer.
    pub(super) before: Vec<Value>,
    /// The answer.
    pub(super) answer: Value,
}

impl Opened {
    /// The tags of the updates before the answer that belong to the conversation.
    pub(super) fn conversation(&self) -> Vec<&str> {
        let tags = self.before.iter().filter_map(|update| update["sessionUpdate"].as_str());
        tags.filter(|tag| is_conversation(tag)).collect()
    }
}

pub(super) fn is_conversation(tag: &str) -> bool {
    ["message", "thought", "tool", "plan", "compaction"].iter().any(|part| tag.contains(part))
}

pub(super) async fn open(client: &Client, method: &str, params: Value) -> Opened {
    let mark = client.mark();
    let id = client.begin(method, params).await;
    let answer = client.answer(&id).await.expect("the session opens");
    let heard = client.server_messages_since(mark);
    let at = heard.iter().position(|message| message["id"] == id).expect("it was answered");
    let before = heard[..at].iter().map(|message| message["params"]["update"].clone()).collect();
    Opened { before, answer }
}

/// Loads with the whole replay.
pub(super) async fn load(client: &Client, session: &str) -> Opened {
    let (method, params) = client.load_params(session);
    open(client, method, params).await
}

pub(super) fn resume_params(session: &str) -> Value {
    json!({"sessionId": session, "cwd": CWD, "mcpServers": []})
}

/// A session with a conversation, whose client and agent are gone.
pub(super) async fn past(world: &World, prompts: &[&str]) -> (String, Client) {
    let client = world.ready().await;
    let session = client.new_session().await;
    for prompt in prompts {
        client.prompt(&session, prompt).await;
    }
    client.disconnect().await;
    world.agent.wait_gone().await;
    (session, client)
}

/// Asserts that these parameters are refused for this member, and that the connection still works.
pub(super) async fn refused(client: &Client, method: &str, params: Value, field: &str) -> Value {
    let error = client.refused(method, params).await;
    assert_eq!(error["code"], -32602, "{error}");
    assert_eq!(error["data"]["field"], field, "{error}");
    assert!(error["data"]["expected"].is_string(), "{error}");
    client.ask("session/list", json!({})).await;
    error
}

pub(super) const TALK: [&str; 2] =
    ["say hello; think hm; tool call_1; plan a,b", "chunks 20; usage 5/50; title Named"];

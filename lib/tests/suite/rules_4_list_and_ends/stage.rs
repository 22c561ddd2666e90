//! What the tests of lists and of ends share: sessions, lists of them, what is told of one.

use rethread::edge::Version;
use rethread_testkit::World;
use rethread_testkit::client::Client;
use serde_json::{Value, json};

/// A session that can be listed: one with a prompt.
pub(super) async fn listed_session(client: &Client) -> String {
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
    session
}

/// The only page of a list.
pub(super) async fn page(client: &Client, params: Value) -> Value {
    let page = client.ask("session/list", params).await;
    assert!(page.get("nextCursor").is_none(), "one page was expected: {page}");
    page
}

pub(super) async fn list(client: &Client, params: Value) -> Vec<Value> {
    page(client, params).await["sessions"].as_array().expect("a list has sessions").clone()
}

pub(super) fn ids(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().expect("a list has sessions");
    sessions.iter().map(|session| session["sessionId"].as_str().unwrap_or_default().to_owned()).collect()
}

pub(super) async fn listed(client: &Client, params: Value) -> Vec<String> {
    ids(&page(client, params).await)
}

/// What is listed of one session.
pub(super) async fn info(client: &Client, session: &str) -> Value {
    let found = list(client, json!({"archived": "include"})).await;
    found.into_iter().find(|info| info["sessionId"] == session).expect("the session is listed")
}

pub(super) async fn on(client: &Client, method: &str, session: &str) -> Value {
    client.ask(method, json!({"sessionId": session})).await
}

/// How much the agent was told of particular sessions.
pub(super) fn told_of_sessions(world: &World) -> usize {
    world.agent.received().iter().filter(|received| received.params["sessionId"].is_string()).count()
}

/// Asserts that a method knows no such session, and says so.
pub(super) async fn unknown(client: &Client, method: &str, mut params: Value) {
    let error = client.refused(method, params.take()).await;
    assert_eq!(error["code"], -32002, "{method}: {error}");
    assert!(error["data"]["sessionId"].is_string(), "{method}: {error}");
}

/// What the answer to `initialize` says of sessions, in the words of the client's version.
pub(super) fn of_sessions<'a>(client: &Client, answer: &'a Value) -> &'a Value {
    match client.version {
        Version::V1 => &answer["agentCapabilities"]["sessionCapabilities"],
        Version::V2 => &answer["capabilities"]["session"],
    }
}

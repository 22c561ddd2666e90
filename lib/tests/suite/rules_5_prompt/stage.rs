//! What the scenarios of these rules share.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, AgentImpl, Echo};
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World};
use serde_json::{Value, json};

pub(super) fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// Sends a prompt under an id that is nothing like ours.
pub(super) async fn prompt_as(client: &Client, id: &str, session: &str, words: &str) -> Value {
    let params = json!({"sessionId": session, "prompt": text(words)});
    client.send(json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})).await;
    json!(id)
}

/// Lets everything that is under way arrive: a request through the connection and one through the session.
pub(super) async fn settled(client: &Client, session: &str) {
    client.ask("session/list", json!({})).await;
    client.ask("_agent/echo", json!({"sessionId": session})).await;
}

pub(super) fn is_answered(client: &Client, id: &Value) -> bool {
    client.server_messages().iter().any(|message| message.get("method").is_none() && message["id"] == *id)
}

/// The prompts that reached the agent, as text.
pub(super) fn prompted(world: &World) -> Vec<String> {
    let told = world.agent.received_params("session/prompt");
    told.iter().map(|params| params["prompt"][0]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

pub(super) fn echoes(client: &Client, session: &str) -> Vec<Value> {
    let updates = client.updates(session).into_iter();
    updates
        .filter(|update| update["sessionUpdate"].as_str().unwrap_or("").starts_with("user_message"))
        .collect()
}

/// A version 1 agent does, and so does an agent of the library, which is told of the others and lets them wait.
pub(super) fn takes_one_at_a_time(pairing: Pairing) -> bool {
    pairing.agent == Version::V1 || pairing.agent_impl == AgentImpl::Library
}

/// An agent that lets prompts wait.
pub(super) fn holding(pairing: Pairing) -> World {
    match pairing.agent_impl {
        AgentImpl::Own => World::with_config(pairing, |config| AgentConfig { echo: Echo::AtGate, ..config }),
        AgentImpl::Library => World::of(pairing),
    }
}

/// A prompt that waits: behind another one for an agent that takes one at a time, or unacknowledged.
pub(super) async fn waiting_prompt(
    pairing: Pairing,
    world: &World,
    client: &Client,
    session: &str,
) -> (Option<Value>, Value) {
    if takes_one_at_a_time(pairing) {
        let first = client.begin_prompt(session, "wait go; say one").await;
        world.agent.wait_received("session/prompt", 1).await;
        let held = prompt_as(client, "mine", session, "say two").await;
        if pairing.agent == Version::V2 {
            world.agent.wait_received("session/prompt", 2).await;
        }
        return (Some(first), held);
    }
    let only = prompt_as(client, "mine", session, "say two").await;
    world.agent.wait_received("session/prompt", 1).await;
    (None, only)
}

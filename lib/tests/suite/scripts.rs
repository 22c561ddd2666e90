//! The test kit's own test: every step of the scripts works on all pairings, and a replay shows what was live.

use expect_test::expect;
use rethread::edge::Version;
use rethread_testkit::agent::Offer;
use rethread_testkit::normal::transcript;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::json;

const EVERYTHING: &str = "say hello; chunks 5; tool call_1; think hm; plan a,b; usage 10/100; commands; \
    title Named; permit; elicit; mode b; notice; compact; unknown _x; ext; tell; subagent; whole done; noid; say bare";

async fn every_step_can_be_played(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&[Offer::Modes, Offer::Effort]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let turn = client.prompt(&session, EVERYTHING).await;
    assert_eq!(turn.stop, "end_turn");
    let live = client.view(&session);
    let heard = live.agent();
    for said in ["hello", "c1 c2 c3 c4 c5", "permission: selected yes", "done", "bare"] {
        assert!(heard.iter().any(|text| text == said), "{said} in {live}");
    }
    assert_eq!(live.plan, ["a (completed)", "b (pending)"]);
    assert_eq!(live.usage, Some((10, 100)));
    assert_eq!(live.commands, ["plan", "test"]);
    assert_eq!(live.options.get("mode").map(String::as_str), Some("b"));
    client.wait_method("_test/told").await;

    let next = world.restarted(&client).await.ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session), live, "replay:\n{}live:\n{live}", next.view(&session));
}

async fn terminals_can_be_played(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let folder = tempfile::tempdir().expect("there is room");
    let session = client.new_session_in(&folder.path().to_string_lossy()).await;
    client.prompt(&session, "term").await;
    // An agent of version 1 has terminals if somebody offers them.
    let offered = &world.agent.received_params("initialize")[0]["clientCapabilities"]["terminal"];
    let said = client.view(&session).agent();
    if pairing.agent == Version::V2 || *offered == json!(true) {
        assert_eq!(said, ["terminal: 0 hi"]);
    } else {
        assert_eq!(said, ["terminal: not offered"]);
    }
}

async fn endings_can_be_played(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    assert_eq!(client.prompt(&session, "stop refusal").await.stop, "refusal");
    let failed = client.prompt(&session, "toolopen call_7; fail").await.stop;
    assert!(["error -32603", "error"].contains(&failed.as_str()), "{failed}");
    let hanging = client.begin_prompt(&session, "say a; hang").await;
    world.agent.wait_received("session/prompt", 3).await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &hanging).await.stop, "cancelled");
    let held = client.begin_prompt(&session, "wait now; say b").await;
    world.agent.open_gate("now");
    assert_eq!(client.finish(&session, &held).await.stop, "end_turn");
    let crashed = client.prompt(&session, "say c; crash").await.stop;
    assert!(["error -32603", "error"].contains(&crashed.as_str()), "{crashed}");
    assert_eq!(client.prompt(&session, "slow 3").await.stop, "end_turn");
    let starts: Vec<_> = world.agent.received().iter().map(|received| received.start).collect();
    assert!(starts.first() < starts.last());
    client.close(&session).await.expect("a session can be closed");
    world.agent.wait_received("session/close", 1).await;
}

async fn two_clients_of_both_versions_see_the_same(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say hello; tool call_1; plan a,b; title Named").await;
    client.disconnect().await;
    for version in [Version::V1, Version::V2] {
        let other = world.ready_as(version).await;
        other.load(&session).await;
        assert_eq!(other.view(&session), client.view(&session));
        other.disconnect().await;
    }
    assert_eq!(world.agent.received_params("session/prompt").len(), 1);
    let expected = json!([{"type": "text", "text": "say hello; tool call_1; plan a,b; title Named"}]);
    assert_eq!(world.agent.received_params("session/prompt")[0]["prompt"], expected);
}

/// A short conversation of a client of this version with an agent of version 1, as text.
async fn conversation(client: Version) -> String {
    let world = World::of(Pairing::of(client, Version::V1));
    let client = world.ready().await;
    let mark = client.mark();
    let session = client.new_session().await;
    client.prompt(&session, "say hello").await;
    transcript(&client.said()[mark..])
}

#[tokio::test]
async fn a_conversation_of_version_1_reads_so() {
    expect![[r#"
        > {"id":2,"method":"session/new","params":{"cwd":"/work","mcpServers":[]}}
        < {"id":2,"result":{"sessionId":"session#1"}}
        > {"id":3,"method":"session/prompt","params":{"sessionId":"session#1","prompt":[{"type":"text","text":"say hello"}]}}
        < {"method":"session/update","params":{"sessionId":"session#1","update":{"sessionUpdate":"session_info_update","title":"say hello"}}}
        < {"method":"session/update","params":{"sessionId":"session#1","update":{"sessionUpdate":"agent_message_chunk","messageId":"message#1","content":{"type":"text","text":"hello"}}}}
        < {"id":3,"result":{"stopReason":"end_turn"}}
    "#]].assert_eq(&conversation(Version::V1).await);
}

#[tokio::test]
async fn a_conversation_of_version_2_reads_so() {
    expect![[r#"
        > {"id":2,"method":"session/new","params":{"cwd":"/work","mcpServers":[]}}
        < {"id":2,"result":{"configOptions":[],"availableCommands":[],"sessionId":"session#1"}}
        > {"id":3,"method":"session/prompt","params":{"sessionId":"session#1","prompt":[{"type":"text","text":"say hello"}]}}
        < {"method":"session/update","params":{"sessionId":"session#1","update":{"sessionUpdate":"session_info_update","title":"say hello"}}}
        < {"method":"session/update","params":{"sessionId":"session#1","update":{"sessionUpdate":"state_update","state":"running"}}}
        < {"method":"session/update","params":{"sessionId":"session#1","update":{"sessionUpdate":"user_message","messageId":"message#1","content":[{"type":"text","text":"say hello"}]}}}
        < {"id":3,"result":{"messageId":"message#1"}}
        < {"method":"session/update","params":{"sessionId":"session#1","update":{"sessionUpdate":"agent_message_chunk","messageId":"message#2","content":{"type":"text","text":"hello"}}}}
        < {"method":"session/update","params":{"sessionId":"session#1","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}
    "#]].assert_eq(&conversation(Version::V2).await);
}

pairings!(
    every_step_can_be_played,
    terminals_can_be_played,
    endings_can_be_played,
    two_clients_of_both_versions_see_the_same
);

//! Rules 1.1 to 1.3 and 1.8 to 1.12: the versions and what each side can do, at `initialize`.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, ScriptedAgent, Speaks};
use rethread_testkit::client::CWD;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::json;

use super::stage::{introduction, works};

async fn r1_01_the_agent_is_introduced_first_with_the_clients_version(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    client.new_session().await;
    let received = world.agent.received();
    let mut starts: Vec<_> = received.iter().map(|received| received.start).collect();
    starts.dedup();
    for start in starts {
        let first =
            received.iter().find(|received| received.start == start).expect("a start was told something");
        assert_eq!(first.method, "initialize");
    }
    assert_eq!(received[0].params["protocolVersion"], pairing.client.number());
}

async fn r1_02_the_client_gets_its_own_version_whatever_the_agent_speaks(pairing: Pairing) {
    let world = World::of(pairing);
    let answer = world.connect().initialize().await;
    assert_eq!(answer["protocolVersion"], pairing.client.number());
}

#[tokio::test]
async fn r1_02_an_agent_that_refuses_a_version_is_asked_for_the_other() {
    for (speaks, client) in [(Speaks::OneStrictly, Version::V2), (Speaks::Two, Version::V1)] {
        let world = World::with(client, ScriptedAgent::new(AgentConfig::able(speaks)));
        let client = world.ready().await;
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
        let offered: Vec<_> = world
            .agent
            .received_params("initialize")
            .iter()
            .map(|params| params["protocolVersion"].clone())
            .collect();
        assert_eq!(offered.len(), 2, "{speaks:?}");
    }
}

async fn r1_03_what_the_agent_lacks_is_not_advertised_and_not_used(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["image", "audio", "http", "sse"]));
    let client = world.connect();
    let answer = client.initialize().await;
    match pairing.client {
        Version::V1 => {
            let capabilities = &answer["agentCapabilities"];
            assert_eq!(capabilities["promptCapabilities"]["image"], false);
            assert_eq!(capabilities["promptCapabilities"]["embeddedContext"], true);
            assert_eq!(capabilities["mcpCapabilities"]["http"], false);
        }
        Version::V2 => {
            let session = &answer["capabilities"]["session"];
            assert!(session["prompt"].get("image").is_none());
            assert_eq!(session["prompt"]["embeddedContext"], json!({}));
            assert!(session["mcp"].get("http").is_none());
        }
    }
    let session = client.new_session().await;
    let image = json!([{"type": "image", "data": "aGk=", "mimeType": "image/png"}]);
    let error = client.refused("session/prompt", json!({"sessionId": session, "prompt": image})).await;
    assert_eq!(error["code"], -32602);
    assert_eq!(error["data"]["field"], "prompt[0].type");
    assert!(world.agent.received_params("session/prompt").is_empty());
    works(&client).await;
}

async fn r1_03_what_a_client_did_not_offer_is_not_sent_to_it(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    client.initialize_bare().await;
    let session = client.new_session().await;
    client.prompt(&session, "notice Beware; compact; subagent; say hello").await;
    for update in client.updates(&session) {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default().to_owned();
        let gated = ["notice", "compaction_update", "subagent_update", "plan_update"].contains(&tag.as_str());
        assert!(!gated, "{tag} was sent to a client that did not offer to take it");
    }
}

async fn r1_08_two_and_more_is_two(pairing: Pairing) {
    for version in [2, 3, 999, 65_535] {
        let client = World::of(pairing).connect();
        let answer = client.ask("initialize", introduction(version)).await;
        assert_eq!(answer["protocolVersion"], 2);
        works(&client).await;
    }
}

async fn r1_08_zero_is_refused_with_what_is_supported(pairing: Pairing) {
    let client = World::of(pairing).connect();
    let error = client.refused("initialize", introduction(0)).await;
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"]["requested"], 0);
    assert_eq!(error["data"]["supported"], json!([1, 2]));
    client.initialize().await;
    works(&client).await;
}

async fn r1_08_versions_that_are_no_numbers_are_refused(pairing: Pairing) {
    let client = World::of(pairing).connect();
    for version in [json!(-1), json!("2"), json!(null), json!(1.5), json!(65_536), json!([2])] {
        let mut params = introduction(2);
        params["protocolVersion"] = version.clone();
        let error = client.refused("initialize", params).await;
        assert_eq!(error["code"], -32602, "{version}");
        assert_eq!(error["data"]["field"], "protocolVersion", "{version}");
    }
    client.initialize().await;
    works(&client).await;
}

async fn r1_09_two_is_read_strictly_and_more_is_not(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    for info in [json!(null), json!("me"), json!({"name": "me"}), json!({"version": "1"})] {
        let params = json!({"protocolVersion": 2, "info": info, "capabilities": {}});
        let error = client.refused("initialize", params).await;
        assert_eq!(error["code"], -32602, "{info}");
        assert_eq!(error["data"]["field"], "info");
    }
    let newer = json!({"protocolVersion": 3, "capabilities": {"fancy": true}, "future": {"a": 1}});
    assert_eq!(client.ask("initialize", newer).await["protocolVersion"], 2);
    let told = world.agent.received_params("initialize")[0].clone();
    let named = told.get("info").unwrap_or(&told["clientInfo"]);
    assert_eq!(*named, json!({"name": "unknown", "version": "unknown"}));
    works(&client).await;
}

async fn r1_10_the_last_initialize_before_use_wins(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    assert_eq!(client.ask("initialize", introduction(1)).await["protocolVersion"], 1);
    let answer = client.initialize().await;
    assert_eq!(answer["protocolVersion"], 2);
    let made = client.ask("session/new", json!({"cwd": CWD})).await;
    assert!(made["configOptions"].is_array(), "it is answered in version 2");
    let session = made["sessionId"].as_str().expect("an id");
    assert_eq!(client.prompt(session, "say hello").await.stop, "end_turn");
    assert_eq!(world.agent.running(), 1, "agents of earlier agreements are gone");
}

async fn r1_11_a_failed_repeat_leaves_what_was_agreed(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    assert_eq!(client.refused("initialize", introduction(0)).await["code"], -32022);
    let no_info = json!({"protocolVersion": 2, "capabilities": {}});
    assert_eq!(client.refused("initialize", no_info).await["code"], -32602);
    world.agent.break_starts(2);
    assert_eq!(client.refused("initialize", introduction(1)).await["code"], -32603);
    let made = client.ask("session/new", json!({"cwd": CWD})).await;
    assert!(made["configOptions"].is_array(), "version 2 is still agreed");
    works(&client).await;
}

async fn r1_11_initialize_after_use_is_refused(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let session = client.new_session().await;
    let error = client.refused("initialize", client.introduction()).await;
    assert_eq!(error["code"], -32600);
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

async fn r1_12_both_sides_are_named(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    let info = match pairing.client {
        Version::V1 => &answer["agentInfo"],
        Version::V2 => &answer["info"],
    };
    assert_eq!(info["name"], "scripted");
    assert!(info["version"].is_string());
    let told = world.agent.received_params("initialize").pop().expect("the agent was introduced");
    let named = if pairing.agent == Version::V2 { &told["info"] } else { &told["clientInfo"] };
    assert_eq!(named["name"], "test");
}

pairings!(
    r1_01_the_agent_is_introduced_first_with_the_clients_version,
    r1_02_the_client_gets_its_own_version_whatever_the_agent_speaks,
    r1_03_what_the_agent_lacks_is_not_advertised_and_not_used,
    r1_08_zero_is_refused_with_what_is_supported,
    r1_08_versions_that_are_no_numbers_are_refused,
    r1_11_initialize_after_use_is_refused,
    r1_12_both_sides_are_named,
);

pairings!(client V1:
    r1_03_what_a_client_did_not_offer_is_not_sent_to_it,
);

pairings!(client V2:
    r1_08_two_and_more_is_two,
    r1_09_two_is_read_strictly_and_more_is_not,
    r1_10_the_last_initialize_before_use_wins,
    r1_11_a_failed_repeat_leaves_what_was_agreed,
);

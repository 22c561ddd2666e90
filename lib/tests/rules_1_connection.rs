//! Rules 1.1 to 1.22: connection, versions, ids, and what the server makes of bad lines. After each bad input the
//! connection still works.

use agent_client_protocol_schema::{v1, v2};
use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, Offer, ScriptedAgent, Speaks};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Asserts that the connection still answers.
async fn works(client: &Client) {
    client.ask("session/list", json!({})).await;
}

/// Sends a line as it is and gives the error that answers it with this id.
async fn refused_line(client: &Client, line: &[u8], id: &Value) -> Value {
    client.send_bytes(line).await;
    client.send_bytes(b"\n").await;
    client.answer(id).await.expect_err("a bad line is refused")
}

/// The parameters of `initialize` for this version.
fn introduction(version: u64) -> Value {
    json!({"protocolVersion": version, "info": {"name": "test", "version": "0"}, "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"}, "clientCapabilities": {}})
}

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
        let offered: Vec<_> =
            world.agent.told("initialize").iter().map(|params| params["protocolVersion"].clone()).collect();
        assert_eq!(offered.len(), 2, "{speaks:?}");
    }
}

async fn r1_03_what_the_agent_lacks_is_not_advertised_and_not_used(pairing: Pairing) {
    let world = World::having(pairing, |config| config.without(&["image", "audio", "http", "sse"]));
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
    assert!(world.agent.told("session/prompt").is_empty());
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

async fn r1_04_ids_come_back_as_they_are(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    for id in [json!("text"), json!(7), json!(-3), json!(9_007_199_254_740_993_u64), json!(""), json!("7")] {
        client.send(json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}})).await;
        client.answer(&id).await.expect("any id is answered");
    }
}

async fn r1_04_null_is_an_id_in_version_1(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    client.send(json!({"jsonrpc": "2.0", "id": null, "method": "session/list", "params": {}})).await;
    client.answer(&Value::Null).await.expect("null is answered");
    works(&client).await;
}

async fn r1_05_every_line_is_one_message(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    // Line ends of all kinds, inside strings and between members.
    let text = "say one\u{2028}two\u{85}three\r\u{0}";
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    let id = client.begin("session/prompt", prompt).await;
    client.finish(&session, &id).await;
    for message in client.heard() {
        assert!(message.get("not json").is_none(), "{message}");
        assert_eq!(message["jsonrpc"], "2.0");
    }
    let echoed = client.view(&session).user();
    assert_eq!(echoed, [text]);
    assert_eq!(client.view(&session).agent().len(), 1);
}

/// Asserts that the schema keeps every member: none of them is made up.
fn holds<T: DeserializeOwned + Serialize>(value: &Value) {
    let typed: T = serde_json::from_value(value.clone()).expect("the schema knows it");
    let kept = serde_json::to_value(typed).expect("a value");
    let defaults = [json!([]), json!({}), json!(false), json!("pending"), json!("other")];
    for (name, member) in value.as_object().expect("an object") {
        assert!(
            kept.get(name).is_some() || defaults.contains(member),
            "{name} is not in the schema: {value}"
        );
    }
}

async fn r1_06_no_member_is_made_up(pairing: Pairing) {
    let world = World::having(pairing, |config| config.offering(&[Offer::Modes, Offer::Effort]));
    let client = world.connect();
    let hello = client.initialize().await;
    let made = client.ask("session/new", json!({"cwd": CWD, "mcpServers": []})).await;
    let session = made["sessionId"].as_str().expect("an id").to_owned();
    client.prompt(&session, "say hello; tool call_1; plan a,b; usage 1/2").await;
    let list = client.ask("session/list", json!({})).await;
    let loaded = client.load(&session).await;
    match pairing.client {
        Version::V1 => {
            holds::<v1::InitializeResponse>(&hello);
            holds::<v1::AgentCapabilities>(&hello["agentCapabilities"]);
            holds::<v1::SessionCapabilities>(&hello["agentCapabilities"]["sessionCapabilities"]);
            holds::<v1::SessionInfo>(&list["sessions"][0]);
            holds::<v1::LoadSessionResponse>(&loaded);
            client.updates(&session).iter().for_each(holds::<v1::SessionUpdate>);
        }
        Version::V2 => {
            holds::<v2::InitializeResponse>(&hello);
            holds::<v2::SessionInfo>(&list["sessions"][0]);
            holds::<v2::NewSessionResponse>(&made);
            holds::<v2::ResumeSessionResponse>(&loaded);
            client.updates(&session).iter().for_each(holds::<v2::SessionUpdate>);
        }
    }
}

async fn r1_07_extensions_reach_the_agent_and_unknown_ones_are_refused(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let params = json!({"sessionId": session, "a": [1, {"b": null}], "deep": {"sessionId": session}});
    let echo = client.ask("_agent/echo", params.clone()).await;
    let native = &world.agent.sessions()[0];
    let mut expected = params;
    expected["sessionId"] = json!(native);
    assert_eq!(echo["params"], expected, "only the session's id is translated");
    let alone = client.ask("_agent/echo", json!({"x": 1})).await;
    assert_eq!(alone["params"], json!({"x": 1}));
    assert_eq!(client.refused("_nobody/knows", json!({})).await["code"], -32601);
    assert_eq!(client.refused("session/nonsense", json!({"sessionId": session})).await["code"], -32601);
    client.notify("_nobody/heard", json!({"sessionId": session, "x": 1})).await;
    let heard = world.agent.wait_told("_nobody/heard", 1).await;
    assert_eq!(heard, json!({"sessionId": native, "x": 1}));
    client.notify("nonsense", json!({})).await;
    works(&client).await;
    assert!(client.heard().iter().all(|message| message.get("id").is_none_or(|id| !id.is_null())));
}

async fn r1_07_extensions_of_the_agent_reach_the_client(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "ext; ext _nobody/knows; tell").await;
    let asked = client.wait_method("_test/echo").await;
    let expected = json!({"sessionId": session, "text": "hi", "nested": {"sessionId": "untouched"}});
    assert_eq!(asked["params"], expected);
    let echoed = format!("echo: {}", json!({"echoed": expected}));
    assert_eq!(client.view(&session).agent(), [echoed.as_str(), "echo: error -32601"]);
    assert_eq!(client.wait_method("_test/told").await["params"]["sessionId"], session);
}

async fn r1_07b_requests_before_initialize_are_refused(pairing: Pairing) {
    let client = World::of(pairing).connect();
    for (method, params) in [
        ("session/new", json!({"cwd": CWD, "mcpServers": []})),
        ("session/list", json!({})),
        ("_agent/echo", json!({})),
        ("nonsense", json!({})),
    ] {
        let error = client.refused(method, params).await;
        assert_eq!(error["code"], -32600, "{method}");
        assert!(error["data"]["hint"].is_string());
    }
    client.notify("session/cancel", json!({"sessionId": "x"})).await;
    client.initialize().await;
    works(&client).await;
}

async fn r1_07b_requests_pipelined_behind_initialize_are_refused(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let first = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client.introduction()});
    let second = json!({"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}});
    client.send_bytes(format!("{first}\n{second}\n").as_bytes()).await;
    let error = client.answer(&json!(2)).await.expect_err("it came too early");
    assert_eq!(error["code"], -32600);
    client.answer(&json!(1)).await.expect("initialize goes on");
    works(&client).await;
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
    let told = world.agent.told("initialize")[0].clone();
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
    let told = world.agent.told("initialize").pop().expect("the agent was introduced");
    let named = if pairing.agent == Version::V2 { &told["info"] } else { &told["clientInfo"] };
    assert_eq!(named["name"], "test");
}

async fn r1_13_null_and_fractions_are_no_ids_in_version_2(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let line = br#"{"jsonrpc":"2.0","id":null,"method":"session/list","params":{}}"#;
    assert_eq!(refused_line(&client, line, &Value::Null).await["code"], -32600);
    let line = br#"{"jsonrpc":"2.0","id":1.5,"method":"session/list","params":{}}"#;
    assert_eq!(refused_line(&client, line, &json!(1.5)).await["code"], -32600);
    works(&client).await;
}

async fn r1_13_an_id_in_flight_is_not_used_twice(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    client.send(json!({"jsonrpc": "2.0", "id": "same", "method": "_agent/hang", "params": {}})).await;
    world.agent.wait_told("_agent/hang", 1).await;
    client.send(json!({"jsonrpc": "2.0", "id": "same", "method": "session/list", "params": {}})).await;
    let error = client.answer(&json!("same")).await.expect_err("the id is in use");
    assert_eq!(error["code"], -32600);
    // The first one is still open and gets its own answer, once.
    client.notify("$/cancel_request", json!({"requestId": "same"})).await;
    assert_eq!(client.answer(&json!("same")).await.expect_err("it was cancelled")["code"], -32800);
    client.send(json!({"jsonrpc": "2.0", "id": "same", "method": "session/list", "params": {}})).await;
    client.answer(&json!("same")).await.expect("an answered id is free again");
}

async fn r1_13_each_side_has_its_own_ids(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.on("session/request_permission", |_| None);
    let prompt = client.begin_prompt(&session, "permit").await;
    let asked = client.wait_method("session/request_permission").await;
    // A request of the client's under the very id that the server uses.
    let same = asked["id"].clone();
    client.send(json!({"jsonrpc": "2.0", "id": same, "method": "session/list", "params": {}})).await;
    client.answer(&same).await.expect("the ids of the two sides do not meet");
    let yes = json!({"outcome": {"outcome": "selected", "optionId": "yes"}});
    client.reply(&same, Ok(yes)).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["permission: selected yes"]);
}

async fn r1_14_a_batch_gets_one_error(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let one = json!({"jsonrpc": "2.0", "id": 50, "method": "session/list", "params": {}});
    let batches = [json!([one, one]), json!([]), json!([1])];
    for batch in &batches {
        let error = refused_line(&client, batch.to_string().as_bytes(), &Value::Null).await;
        assert_eq!(error["code"], -32600);
    }
    works(&client).await;
    let answers = client.heard().into_iter().filter(|message| message.get("error").is_some());
    assert_eq!(answers.count(), batches.len(), "one error for each batch");
}

async fn r1_16_unknown_updates_arrive_and_replay_whole(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "unknown _own_kind; unknown future_kind").await;
    client.hang_up().await;
    let next = world.ready().await;
    next.load(&session).await;
    for (client, what) in [(&client, "live"), (&next, "replayed")] {
        for tag in ["_own_kind", "future_kind"] {
            let is = |update: &Value| update["sessionUpdate"] == tag;
            let update = client.updates(&session).into_iter().find(is);
            let expected = json!({"sessionUpdate": tag, "deep": {"er": [1, {"_x": null, "y": 1.5e300}]},
                "_own": "kept", "_meta": {"trace": "t"}});
            assert_eq!(update, Some(expected), "{what}");
        }
    }
}

async fn r1_17_meta_reaches_the_agent_and_what_is_none_counts_as_omitted(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let meta = json!({"traceparent": "00-1-2-01", "own": {"a": null}});
    let params = json!({"cwd": CWD, "mcpServers": [], "_meta": meta});
    let made = client.ask("session/new", params).await;
    assert_eq!(world.agent.told("session/new")[0]["_meta"], meta);
    let session = made["sessionId"].as_str().expect("an id");
    let text = json!([{"type": "text", "text": "say hi"}]);
    let prompt = json!({"sessionId": session, "prompt": text, "_meta": meta});
    let id = client.begin("session/prompt", prompt).await;
    client.finish(session, &id).await;
    assert_eq!(world.agent.told("session/prompt")[0]["_meta"], meta);

    client.ask("session/new", json!({"cwd": CWD, "mcpServers": [], "_meta": "text"})).await;
    assert!(world.agent.told("session/new")[1].get("_meta").is_none());
    let id =
        client.begin("session/prompt", json!({"sessionId": session, "prompt": text, "_meta": [1]})).await;
    assert_eq!(client.finish(session, &id).await.stop, "end_turn");
    assert!(world.agent.told("session/prompt")[1].get("_meta").is_none());
}

async fn r1_18_meta_of_upserts_is_patched_by_key(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "meta call_9").await;
    client.hang_up().await;
    let next = world.ready().await;
    next.load(&session).await;
    for (client, what) in [(&client, "live"), (&next, "replayed")] {
        let mut meta = serde_json::Map::new();
        for update in client.updates(&session) {
            for (key, value) in update["_meta"].as_object().into_iter().flatten() {
                if key == "rethread" {
                    continue;
                }
                if value.is_null() {
                    meta.remove(key);
                } else {
                    meta.insert(key.clone(), value.clone());
                }
            }
        }
        assert_eq!(Value::Object(meta), json!({"b": {"other": 2}, "c": 3}), "{what}");
    }
}

async fn r1_19_a_request_that_is_taken_back_is_answered(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    for params in [json!({}), json!({"sessionId": session})] {
        let id = client.begin("_agent/hang", params).await;
        let times = world.agent.told("$/cancel_request").len() + 1;
        world.agent.wait_told("_agent/hang", times).await;
        client.notify("$/cancel_request", json!({"requestId": id})).await;
        assert_eq!(client.answer(&id).await.expect_err("it was taken back")["code"], -32800);
    }
    works(&client).await;
}

async fn r1_19_a_running_prompt_that_is_taken_back_is_answered(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say one; hang").await;
    client.wait_update(0, &session, "the first word", |update| update["content"]["text"] == "one").await;
    client.notify("$/cancel_request", json!({"requestId": prompt})).await;
    if pairing.client == Version::V2 {
        // It is answered when it is inserted, and so cannot be taken back any more.
        client.answer(&prompt).await.expect("it was inserted");
        client.ask("session/list", json!({})).await;
        assert!(world.agent.told("session/cancel").is_empty());
        return;
    }
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
}

async fn r1_19_a_held_prompt_that_is_taken_back_is_answered(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "say one; wait gate").await;
    client.wait_update(0, &session, "the first word", |update| update["content"]["text"] == "one").await;
    let second = client.begin_prompt(&session, "say two").await;
    client.notify("$/cancel_request", json!({"requestId": second})).await;
    match pairing.client {
        Version::V1 => {
            let answer = client.answer(&second).await.expect("cancelled is a result");
            assert_eq!(answer["stopReason"], "cancelled");
        }
        Version::V2 => assert_eq!(client.answer(&second).await.expect_err("it was held")["code"], -32800),
    }
    world.agent.open_gate("gate");
    assert_eq!(client.finish(&session, &first).await.stop, "end_turn");
    assert_eq!(world.agent.told("session/prompt").len(), 1, "it was never sent");
    assert_eq!(client.view(&session).agent(), ["one"]);
}

#[tokio::test]
async fn r1_19_held_prompts_of_both_versions_can_be_taken_back() {
    for client in [Version::V1, Version::V2] {
        // Only an agent of version 1 has prompts held for it.
        r1_19_a_held_prompt_that_is_taken_back_is_answered(Pairing::of(client, Version::V1)).await;
    }
}

async fn r1_20_a_cancel_of_nothing_is_ignored(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let id = client.begin("session/list", json!({})).await;
    client.answer(&id).await.expect("a list");
    let mark = client.mark();
    for id in [id, json!("never"), json!(null), json!({"a": 1})] {
        client.notify("$/cancel_request", json!({"requestId": id})).await;
    }
    client.notify("$/cancel_request", json!({})).await;
    works(&client).await;
    assert_eq!(client.heard_since(mark).len(), 1, "nothing is answered but the list");
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
    assert!(world.agent.told("$/cancel_request").is_empty());
}

async fn r1_21_a_cancel_is_sent_on_with_our_own_number(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let theirs = json!("the client's own id");
    for params in [json!({}), json!({"sessionId": session})] {
        let times = world.agent.told("$/cancel_request").len() + 1;
        client.send(json!({"jsonrpc": "2.0", "id": theirs, "method": "_agent/hang", "params": params})).await;
        world.agent.wait_told("_agent/hang", times).await;
        let mut received = world.agent.received().into_iter();
        let ours = received.rfind(|received| received.method == "_agent/hang");
        let ours = ours.and_then(|received| received.id).expect("a request has an id");
        assert!(ours.is_u64());
        client.notify("$/cancel_request", json!({"requestId": theirs})).await;
        let cancel = world.agent.wait_told("$/cancel_request", times).await;
        assert_eq!(cancel, json!({"requestId": ours}));
        client.answer(&theirs).await.expect_err("it was taken back");
    }
}

async fn bad_lines_are_answered_and_skipped(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let none = Value::Null;
    for line in ["not json", "{\"jsonrpc\":\"2.0\",", "[1,", "}", "{\"id\":01}", "\u{feff}{}"] {
        assert_eq!(refused_line(&client, line.as_bytes(), &none).await["code"], -32700, "{line}");
    }
    assert_eq!(refused_line(&client, b"{\"id\":1,\"method\":\"\xff\xfe\"}", &none).await["code"], -32700);
    for line in ["42", "\"text\"", "null", "true", "{}", r#"{"jsonrpc":"2.0"}"#, r#"{"method":5}"#] {
        assert_eq!(refused_line(&client, line.as_bytes(), &none).await["code"], -32600, "{line}");
    }
    for id in ["{}", "[1]", "true"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/list"}}"#);
        assert_eq!(refused_line(&client, line.as_bytes(), &none).await["code"], -32600, "{line}");
    }
    for params in ["[]", "5", "\"x\""] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":"p","method":"session/list","params":{params}}}"#);
        assert_eq!(refused_line(&client, line.as_bytes(), &json!("p")).await["code"], -32602, "{line}");
    }
    client.send_bytes(b"\n   \n\r\n").await;
    works(&client).await;
}

async fn bad_answers_of_a_client_are_ignored(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let mark = client.mark();
    client.reply(&json!(77), Ok(json!({}))).await;
    client.reply(&json!("x"), Err(json!("no object"))).await;
    client.reply(&Value::Null, Ok(Value::Null)).await;
    works(&client).await;
    assert_eq!(client.heard_since(mark).len(), 1);
}

async fn a_line_that_is_too_long_is_refused_and_skipped(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.longest_line = 4096);
    let client = world.ready().await;
    let session = client.new_session().await;
    let text = "x".repeat(5000);
    let prompt = json!([{"type": "text", "text": text}]);
    let line = json!({"jsonrpc": "2.0", "id": 9, "method": "session/prompt",
        "params": {"sessionId": session, "prompt": prompt}});
    let error = refused_line(&client, line.to_string().as_bytes(), &Value::Null).await;
    assert_eq!(error["code"], -32700);
    assert_eq!(error["data"]["longest"], 4096);
    assert!(error["data"]["hint"].is_string());
    assert!(world.agent.told("session/prompt").is_empty());
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

#[tokio::test]
async fn a_line_of_100_megabytes_is_refused_and_skipped() {
    let world = World::of(Pairing::of(Version::V2, Version::V2));
    let client = world.ready().await;
    client
        .send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\",\"params\":{\"x\":\"")
        .await;
    let piece = vec![b'x'; 1_000_000];
    for _ in 0..100 {
        client.send_bytes(&piece).await;
    }
    client.send_bytes(b"\"}}\n").await;
    let error = client.answer(&Value::Null).await.expect_err("it is too long");
    assert_eq!(error["code"], -32700);
    works(&client).await;
}

pairings!(
    r1_01_the_agent_is_introduced_first_with_the_clients_version,
    r1_02_the_client_gets_its_own_version_whatever_the_agent_speaks,
    r1_03_what_the_agent_lacks_is_not_advertised_and_not_used,
    r1_04_ids_come_back_as_they_are,
    r1_05_every_line_is_one_message,
    r1_06_no_member_is_made_up,
    r1_07_extensions_reach_the_agent_and_unknown_ones_are_refused,
    r1_07_extensions_of_the_agent_reach_the_client,
    r1_07b_requests_before_initialize_are_refused,
    r1_07b_requests_pipelined_behind_initialize_are_refused,
    r1_08_zero_is_refused_with_what_is_supported,
    r1_08_versions_that_are_no_numbers_are_refused,
    r1_11_initialize_after_use_is_refused,
    r1_12_both_sides_are_named,
    r1_13_an_id_in_flight_is_not_used_twice,
    r1_13_each_side_has_its_own_ids,
    r1_14_a_batch_gets_one_error,
    r1_16_unknown_updates_arrive_and_replay_whole,
    r1_17_meta_reaches_the_agent_and_what_is_none_counts_as_omitted,
    r1_18_meta_of_upserts_is_patched_by_key,
    r1_19_a_request_that_is_taken_back_is_answered,
    r1_19_a_running_prompt_that_is_taken_back_is_answered,
    r1_20_a_cancel_of_nothing_is_ignored,
    r1_21_a_cancel_is_sent_on_with_our_own_number,
    bad_lines_are_answered_and_skipped,
    bad_answers_of_a_client_are_ignored,
    a_line_that_is_too_long_is_refused_and_skipped,
);

pairings!(client V1: r1_03_what_a_client_did_not_offer_is_not_sent_to_it, r1_04_null_is_an_id_in_version_1);

pairings!(
    client V2:
    r1_08_two_and_more_is_two,
    r1_09_two_is_read_strictly_and_more_is_not,
    r1_10_the_last_initialize_before_use_wins,
    r1_11_a_failed_repeat_leaves_what_was_agreed,
    r1_13_null_and_fractions_are_no_ids_in_version_2,
);

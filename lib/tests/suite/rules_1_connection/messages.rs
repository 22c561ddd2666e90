//! Rules 1.4 to 1.7 and 1.13 to 1.18: ids, lines, members, extensions and `_meta`.

use agent_client_protocol_schema::{v1, v2};
use rethread::edge::Version;
use rethread_testkit::agent::Offer;
use rethread_testkit::client::CWD;
use rethread_testkit::{Pairing, World, pairings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::stage::{refused_line, works};

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
    for message in client.server_messages() {
        assert!(message.get("not json").is_none(), "{message}");
        assert_eq!(message["jsonrpc"], "2.0");
    }
    let echoed = client.view(&session).user();
    assert_eq!(echoed, [text]);
    assert_eq!(client.view(&session).agent().len(), 1);
}

async fn r1_06_no_member_is_made_up(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&[Offer::Modes, Offer::Effort]));
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
    let heard = world.agent.wait_received("_nobody/heard", 1).await;
    assert_eq!(heard, json!({"sessionId": native, "x": 1}));
    client.notify("nonsense", json!({})).await;
    works(&client).await;
    assert!(client.server_messages().iter().all(|message| message.get("id").is_none_or(|id| !id.is_null())));
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
    world.agent.wait_received("_agent/hang", 1).await;
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
    let answers = client.server_messages().into_iter().filter(|message| message.get("error").is_some());
    assert_eq!(answers.count(), batches.len(), "one error for each batch");
}

async fn r1_16_unknown_updates_arrive_and_replay_whole(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "unknown _own_kind; unknown future_kind").await;
    client.disconnect().await;
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
    assert_eq!(world.agent.received_params("session/new")[0]["_meta"], meta);
    let session = made["sessionId"].as_str().expect("an id");
    let text = json!([{"type": "text", "text": "say hi"}]);
    let prompt = json!({"sessionId": session, "prompt": text, "_meta": meta});
    let id = client.begin("session/prompt", prompt).await;
    client.finish(session, &id).await;
    assert_eq!(world.agent.received_params("session/prompt")[0]["_meta"], meta);

    client.ask("session/new", json!({"cwd": CWD, "mcpServers": [], "_meta": "text"})).await;
    assert!(world.agent.received_params("session/new")[1].get("_meta").is_none());
    let id =
        client.begin("session/prompt", json!({"sessionId": session, "prompt": text, "_meta": [1]})).await;
    assert_eq!(client.finish(session, &id).await.stop, "end_turn");
    assert!(world.agent.received_params("session/prompt")[1].get("_meta").is_none());
}

async fn r1_17_what_is_ours_in_meta_nobody_else_writes(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let meta = json!({"rethread": {"history": [], "rule": {}}, "k": 1});
    let new = json!({"cwd": CWD, "mcpServers": [], "_meta": meta});
    let session = client.ask("session/new", new).await["sessionId"].as_str().unwrap_or_default().to_owned();
    assert_eq!(world.agent.received_params("session/new")[0]["_meta"], json!({"k": 1}));

    let raw = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "T",
        "content": [{"type": "content", "content": {"type": "text", "text": "t", "_meta": meta}}],
        "rawOutput": {"_meta": {"rethread": "data"}}, "_meta": meta});
    let block = json!({"type": "text", "text": format!("raw {raw}"), "_meta": meta});
    let prompt = json!({"sessionId": session, "prompt": [block], "_meta": meta});
    let id = client.begin("session/prompt", prompt).await;
    client.finish(&session, &id).await;
    let told = &world.agent.received_params("session/prompt")[0];
    assert_eq!((&told["_meta"], &told["prompt"][0]["_meta"]), (&json!({"k": 1}), &json!({"k": 1})));
    let next = world.replayed(&client, &session).await;
    for (client, what) in [(&client, "live"), (&next, "replayed")] {
        let updates = client.updates(&session);
        let call = updates.iter().find(|update| update["toolCallId"] == "c").expect("it is told");
        assert_eq!(call["_meta"]["rethread"]["rule"], Value::Null, "{what}: {call}");
        assert_eq!(call["_meta"]["k"], 1, "{what}: {call}");
        assert_eq!(call["content"][0]["content"]["_meta"], json!({"k": 1}), "{what}: {call}");
        assert_eq!(call["rawOutput"], json!({"_meta": {"rethread": "data"}}), "{what}: {call}");
    }
}

async fn r1_18_meta_of_upserts_is_patched_by_key(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "meta call_9").await;
    client.disconnect().await;
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

pairings!(
    r1_04_ids_come_back_as_they_are,
    r1_05_every_line_is_one_message,
    r1_06_no_member_is_made_up,
    r1_07_extensions_reach_the_agent_and_unknown_ones_are_refused,
    r1_07_extensions_of_the_agent_reach_the_client,
    r1_07b_requests_before_initialize_are_refused,
    r1_07b_requests_pipelined_behind_initialize_are_refused,
    r1_13_an_id_in_flight_is_not_used_twice,
    r1_13_each_side_has_its_own_ids,
    r1_14_a_batch_gets_one_error,
    r1_16_unknown_updates_arrive_and_replay_whole,
    r1_17_meta_reaches_the_agent_and_what_is_none_counts_as_omitted,
    r1_17_what_is_ours_in_meta_nobody_else_writes,
    r1_18_meta_of_upserts_is_patched_by_key,
);

pairings!(client V1:
    r1_04_null_is_an_id_in_version_1,
);

pairings!(client V2:
    r1_13_null_and_fractions_are_no_ids_in_version_2,
);

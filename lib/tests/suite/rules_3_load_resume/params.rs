//! Rules 3.18 to 3.22: what a client may ask for, and what it is refused.

use rethread::edge::Version;
use rethread_testkit::client::CWD;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::json;

use super::stage::{load, past, refused, resume_params};

async fn r3_18_another_directory_is_refused_and_the_right_one_named(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    for (method, mut params) in [client.load_params(&session), ("session/resume", resume_params(&session))] {
        let mark = client.mark();
        params["cwd"] = json!("/elsewhere");
        let error = refused(&client, method, params.clone(), "cwd").await;
        assert_eq!(error["data"]["got"], "/elsewhere");
        assert!(error["data"]["hint"].as_str().expect("a hint").contains(CWD));
        params["cwd"] = json!("work");
        refused(&client, method, params.clone(), "cwd").await;
        params.as_object_mut().expect("an object").remove("cwd");
        refused(&client, method, params.clone(), "cwd").await;
        assert!(client.updates_since(mark, &session).is_empty());
        params["cwd"] = json!("/work/");
        client.ask(method, params).await;
        client.close(&session).await.expect("it closes");
    }
}

async fn r3_19_servers_are_those_of_the_last_request(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let mut server = json!({"name": "tools", "command": "/bin/tools", "args": [], "env": []});
    if pairing.client == Version::V2 {
        server["type"] = json!("stdio");
    }
    let made = client.ask("session/new", json!({"cwd": CWD, "mcpServers": [server]})).await;
    let session = made["sessionId"].as_str().expect("an id").to_owned();
    client.disconnect().await;
    world.agent.wait_gone().await;
    let next = world.ready().await;
    next.ask("session/resume", json!({"sessionId": session, "cwd": CWD})).await;
    let told = world.agent.wait_received("session/resume", 1).await;
    assert_eq!(told["mcpServers"], json!([]), "servers are not restored");
    next.disconnect().await;
    world.agent.wait_gone().await;
    let last = world.ready().await;
    let (method, mut params) = last.load_params(&session);
    params["mcpServers"] = json!([server]);
    last.ask(method, params).await;
    let told = world.agent.wait_received("session/resume", 2).await;
    assert_eq!(told["mcpServers"][0]["name"], "tools");
}

async fn r3_19_a_transport_that_the_agent_lacks_is_refused(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["http"]));
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    let (method, mut params) = client.load_params(&session);
    params["mcpServers"] =
        json!([{"type": "http", "name": "x", "url": "https://example.com", "headers": []}]);
    refused(&client, method, params, "mcpServers[0].type").await;
    assert!(client.updates(&session).is_empty());
    load(&client, &session).await;
}

async fn r3_20_each_additional_directory_is_absolute(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    let (method, mut params) = client.load_params(&session);
    params["additionalDirectories"] = json!(["/a", "./b"]);
    refused(&client, method, params, "additionalDirectories[1]").await;
    load(&client, &session).await;
}

async fn r3_21_an_unknown_session_is_not_found(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let long = "x".repeat(100_000);
    let null = "\u{0}";
    for id in ["nobody", "", "../../etc/passwd", "/etc/passwd", "%2e%2e", "native-1", null, &long] {
        let error = client.load_refused(id).await;
        assert_eq!(error["code"], -32002);
        assert_eq!(error["data"]["sessionId"], id);
        for method in ["session/resume", "session/prompt", "session/status", "session/set_title"] {
            let mut params = resume_params(id);
            params["prompt"] = json!([{"type": "text", "text": "hi"}]);
            params["title"] = json!("A title");
            let error = client.refused(method, params).await;
            assert_eq!(error["code"], -32002, "{method}");
            assert_eq!(error["data"]["sessionId"], id, "{method}");
        }
    }
    for id in [json!(null), json!(5), json!({"a": 1}), json!(["x"])] {
        let (method, mut params) = client.load_params("x");
        params["sessionId"] = id;
        refused(&client, method, params, "sessionId").await;
    }
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

async fn r3_22_each_connection_opens_a_session_for_itself(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "say hi"}]});
    let error = client.refused("session/prompt", prompt).await;
    assert_eq!(error["code"], -32002);
    assert_eq!(error["data"]["sessionId"], session);
    assert!(error["data"]["hint"].is_string());
    client.cancel(&session).await;
    client.ask("session/list", json!({})).await;
    assert!(client.updates(&session).is_empty());
    client.resume(&session).await;
    assert_eq!(client.prompt(&session, "say hi").await.stop, "end_turn");
    let prompts = world.agent.received_params("session/prompt");
    assert_eq!(prompts.len(), 2);
    assert_eq!(prompts[1]["sessionId"], world.agent.sessions()[0], "to the session that the agent has open");
}

async fn r3_22_a_session_can_be_opened_right_behind_its_close(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say hello").await;
    for _ in 0..20 {
        let close = client.begin("session/close", json!({"sessionId": session})).await;
        let late = client.begin_prompt(&session, "say late").await;
        let (method, params) = client.load_params(&session);
        let load = client.begin(method, params).await;
        client.answer(&close).await.expect("it closes");
        assert_eq!(client.answer(&late).await.expect_err("it is closed")["code"], -32002);
        client.answer(&load).await.expect("it opens again");
    }
    let mark = client.mark();
    assert_eq!(client.prompt(&session, "say again").await.stop, "end_turn");
    assert_eq!(client.view_since(mark, &session).agent(), ["again"]);
    let told = world.agent.received_params("session/prompt");
    assert!(!json!(told).to_string().contains("late"));
}

pairings!(
    r3_18_another_directory_is_refused_and_the_right_one_named,
    r3_19_servers_are_those_of_the_last_request,
    r3_19_a_transport_that_the_agent_lacks_is_refused,
    r3_20_each_additional_directory_is_absolute,
    r3_21_an_unknown_session_is_not_found,
    r3_22_each_connection_opens_a_session_for_itself,
    r3_22_a_session_can_be_opened_right_behind_its_close,
);

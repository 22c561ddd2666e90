//! What is relayed between client and agent, with only the session id translated: extensions, files and
//! terminals, logging in, providers and MCP messages. The output of a client's terminals is kept.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, Login};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::view::Item;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

/// The number under which the agent was asked last by this method.
fn number(world: &World, method: &str) -> Value {
    let received = world.agent.received();
    let last = received.iter().rfind(|received| received.method == method);
    last.and_then(|last| last.id.clone()).expect("the agent was asked")
}

/// Sends a request under an id that is nothing like ours.
async fn ask_as(client: &Client, id: &str, method: &str, params: Value) -> Value {
    client.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    json!(id)
}

/// The content of the only tool call.
fn tool_content(client: &Client, mark: usize, session: &str) -> Vec<String> {
    let items = client.view_since(mark, session).items.into_iter();
    let content = |item| match item {
        Item::Tool { content, .. } => Some(content),
        Item::Message { .. } | Item::Other(_) => None,
    };
    items.filter_map(content).next().expect("there is a tool call")
}

async fn extension_requests_of_the_client_reach_the_agent(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let inside = json!({"sessionId": session, "_meta": {"k": null}});
    let params = json!({"sessionId": session, "deep": inside, "n": 1.5e300, "none": null});
    let answer = client.ask("_agent/echo", params).await;
    let native = world.agent.sessions();
    let seen = json!({"sessionId": native[0], "deep": inside, "n": 1.5e300, "none": null});
    assert_eq!(answer, json!({"method": "_agent/echo", "params": seen}), "all else is untouched");
    let answer = client.ask("_agent/echo", json!({"x": [1, {"y": null}]})).await;
    assert_eq!(answer["params"], json!({"x": [1, {"y": null}]}), "no session, no id");
    let error = client.refused("_agent/unknown", json!({"sessionId": session})).await;
    assert_eq!((&error["code"], &error["data"]["method"]), (&json!(-32601), &json!("_agent/unknown")));
    let error = client.refused("_agent/echo", json!({"sessionId": "nobody"})).await;
    assert_eq!(error["code"], -32002);
}

async fn extension_requests_of_the_agent_reach_the_client(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "ext").await;
    let request = client.wait_method("_test/echo").await;
    let params = json!({"sessionId": session, "text": "hi", "nested": {"sessionId": "untouched"}});
    assert_eq!(request["params"], params);
    assert_eq!(world.agent.received_params("answer")[0]["result"], json!({"echoed": params}));
    client.on("_test/echo", |_| Some(Err(json!({"code": -31999, "message": "no", "data": {"a": 1}}))));
    client.prompt(&session, "ext").await;
    let error = json!({"code": -31999, "message": "no", "data": {"a": 1}});
    assert_eq!(world.agent.received_params("answer")[1]["error"], error);
}

async fn extension_notifications_go_both_ways(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "tell").await;
    let told = client.wait_method("_test/told").await;
    assert_eq!(told["params"], json!({"sessionId": session, "text": "told"}));
    assert!(told.get("id").is_none());
    client.notify("_client/told", json!({"sessionId": session, "deep": {"sessionId": session}})).await;
    let told = world.agent.wait_received("_client/told", 1).await;
    let native = world.agent.sessions();
    assert_eq!(told, json!({"sessionId": native[0], "deep": {"sessionId": session}}));
    client.notify("_client/apart", json!({"x": 1})).await;
    assert_eq!(world.agent.wait_received("_client/apart", 1).await, json!({"x": 1}));
}

async fn what_is_relayed_keeps_its_place_among_the_updates(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say a; tell _test/one; say b; ext; say c; tell _test/two; say d").await;
    client.wait_method("_test/two").await;
    let place = |message: &Value| {
        let text = message["params"]["update"]["content"]["text"].as_str();
        let method = message["method"].as_str().filter(|method| method.starts_with("_test/"));
        text.filter(|text| text.len() == 1).or(method).map(str::to_owned)
    };
    let heard: Vec<_> = client.server_messages().iter().filter_map(place).collect();
    assert_eq!(heard, ["a", "_test/one", "b", "_test/echo", "c", "_test/two", "d"]);
}

async fn an_extension_request_wakes_the_agent(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say a; crash").await;
    let answer = client.ask("_agent/echo", json!({"sessionId": session})).await;
    assert_eq!(answer["params"]["sessionId"], world.agent.sessions()[0]);
}

async fn a_relayed_request_is_taken_back_by_our_own_number(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    for params in [json!({"sessionId": session}), json!({})] {
        let count = world.agent.received_params("_agent/hang").len();
        let request = ask_as(&client, "mine", "_agent/hang", params).await;
        world.agent.wait_received("_agent/hang", count + 1).await;
        client.notify("$/cancel_request", json!({"requestId": request})).await;
        let error = client.answer(&request).await.expect_err("it was taken back");
        assert_eq!(error["code"], -32800);
        let told = world.agent.received_params("$/cancel_request");
        assert_eq!(told.last(), Some(&json!({"requestId": number(&world, "_agent/hang")})));
    }
    let received = world.agent.received();
    assert!(received.iter().all(|received| !received.params.to_string().contains("mine")));
}

async fn a_request_that_the_agent_takes_back_is_still_answered(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.on("_test/hold", |_| None);
    let prompt = client.begin_prompt(&session, "takeback _test/hold").await;
    let request = client.wait_method("_test/hold").await;
    let back = client.wait_method("$/cancel_request").await;
    assert_eq!(back["params"]["requestId"], request["id"], "by our number");
    client.reply(&request["id"], Err(json!({"code": -32800, "message": "as you wish"}))).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["taken back: error -32800"]);
}

async fn files_of_the_client_are_read_by_an_agent_of_version_1(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "fs sub/a.txt").await;
    if pairing.agent == Version::V2 {
        assert_eq!(client.view(&session).agent(), ["file: read by myself"]);
        return;
    }
    let request = client.wait_method("fs/read_text_file").await;
    assert_eq!(request["params"], json!({"sessionId": session, "path": "/work/sub/a.txt"}));
    assert_eq!(client.view(&session).agent(), ["file: from the client"]);
    client.on("fs/read_text_file", |_| Some(Err(json!({"code": -32002, "message": "no such file"}))));
    client.prompt(&session, "fs b.txt").await;
    assert_eq!(client.view(&session).agent()[1], "file: error -32002");
}

/// The client's own terminal while it is live; its text ever after.
#[tokio::test]
async fn the_output_of_a_clients_terminal_is_kept() {
    for script in ["term", "termopen"] {
        let world = World::of(Pairing::of(Version::V1, Version::V1));
        let client = world.ready().await;
        let session = client.new_session().await;
        client.prompt(&session, script).await;
        let create = client.wait_method("terminal/create").await;
        let params = json!({"sessionId": session, "command": "echo", "args": ["hi"], "env": []});
        assert_eq!(create["params"], params);
        assert_eq!(tool_content(&client, 0, &session), ["terminal client-term-1"]);
        // Before it is released, or else when the turn is over, somebody looks at it for the last time.
        let output = client.wait_method("terminal/output").await;
        assert_eq!(output["params"], json!({"sessionId": session, "terminalId": "client-term-1"}));
        client.ask("_agent/echo", json!({"sessionId": session})).await;
        client.disconnect().await;
        for version in [Version::V1, Version::V2] {
            let next = world.again().ready_as(version).await;
            next.load(&session).await;
            let shown = tool_content(&next, 0, &session).concat();
            assert!(shown.contains("hi"), "{script}, {version:?}: {shown}");
            if version == Version::V1 {
                let told = json!(next.updates(&session)).to_string();
                assert!(!told.contains(r#""type":"terminal""#), "none is shown that is gone: {told}");
            }
            next.disconnect().await;
        }
    }
}

async fn terminals_of_the_agent_are_shown(pairing: Pairing) {
    if pairing.agent == Version::V1 {
        return;
    }
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "term").await;
    let live = tool_content(&client, 0, &session).concat();
    assert!(live.contains("hi"), "{live}");
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(tool_content(&next, 0, &session).concat(), live);
}

async fn logging_in_and_out_has_the_agents_own_names(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig { login: Login::Needed, ..config });
    let client = world.connect();
    let answer = client.initialize().await;
    let (id, login, logout, other) = match pairing.client {
        Version::V1 => ("id", "authenticate", "logout", ["auth/login", "auth/logout"]),
        Version::V2 => ("methodId", "auth/login", "auth/logout", ["authenticate", "logout"]),
    };
    assert_eq!(answer["authMethods"][0][id], "key");
    let new = json!({"cwd": CWD, "mcpServers": []});
    let error = client.refused("session/new", new.clone()).await;
    assert_eq!((&error["code"], &error["message"]), (&json!(-32000), &json!("log in first")));
    let (agents_login, agents_logout) = match pairing.agent {
        Version::V1 => ("authenticate", "logout"),
        Version::V2 => ("auth/login", "auth/logout"),
    };
    client.ask(login, json!({"methodId": "key", "_meta": {"k": 1}})).await;
    assert_eq!(world.agent.received_params(agents_login), [json!({"methodId": "key", "_meta": {"k": 1}})]);
    client.ask("session/new", new.clone()).await;
    client.ask(logout, json!({})).await;
    assert_eq!(world.agent.received_params(agents_logout), [json!({})]);
    assert_eq!(client.refused("session/new", new).await["code"], -32000);
    for method in other {
        assert_eq!(client.refused(method, json!({"methodId": "key"})).await["code"], -32601, "{method}");
    }
}

async fn status_providers_and_mcp_are_the_agents(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    for method in ["auth/status", "providers/list", "providers/set", "providers/disable", "mcp/message"] {
        let params = json!({"serverId": "s", "requestId": "r", "method": "tools/list", "_meta": {"k": 1}});
        let answer = client.ask(method, params.clone()).await;
        assert_eq!(answer, json!({"method": method, "params": params}));
    }
    client.notify("mcp/message", json!({"serverId": "s", "requestId": "r", "method": "progress"})).await;
    let told = world.agent.wait_received("mcp/message", 2).await;
    assert_eq!(told, json!({"serverId": "s", "requestId": "r", "method": "progress"}));
}

async fn what_the_agent_asks_apart_from_sessions_reaches_the_client(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.on("mcp/message", |_| Some(Ok(json!({"tools": []}))));
    client.prompt(&session, "apart mcp/message").await;
    let request = client.wait_method("mcp/message").await;
    let params = json!({"serverId": "s", "requestId": "r", "method": "tools/list", "params": {}});
    assert_eq!(request["params"], params);
    assert_eq!(client.view(&session).agent(), [r#"apart: {"tools":[]}"#]);
}

/// The ways to log in that are told at the next start after this request, when the agent offers others.
async fn ways_after(pairing: Pairing, method: [&str; 2], before: Login, after: Login) -> usize {
    let nature = |config| AgentConfig { key: Some("program"), login: before, ..config };
    let world = World::with_config(pairing, nature);
    let client = world.ready().await;
    // What it says of itself has been remembered by the time that it is asked for its sessions.
    world.agent.wait_received("session/list", 1).await;
    let method = if pairing.client == Version::V1 { method[0] } else { method[1] };
    client.ask(method, json!({"methodId": "key"})).await;
    client.disconnect().await;
    world.agent.wait_gone().await;
    world.agent.configure(|config| config.login = after);
    let answer = world.connect().initialize().await;
    answer["authMethods"].as_array().map_or(0, Vec::len)
}

async fn after_a_login_the_ways_to_log_in_are_those_of_the_agent(pairing: Pairing) {
    let login = ["authenticate", "auth/login"];
    assert_eq!(ways_after(pairing, login, Login::Needed, Login::NotNeeded).await, 0);
}

async fn after_a_logout_the_ways_to_log_in_are_those_of_the_agent(pairing: Pairing) {
    let logout = ["logout", "auth/logout"];
    assert_eq!(ways_after(pairing, logout, Login::NotNeeded, Login::Needed).await, 1);
}

pairings!(after_a_login_the_ways_to_log_in_are_those_of_the_agent,);

pairings!(wire:
    // An agent of the library that wants no login has no logout either.
    after_a_logout_the_ways_to_log_in_are_those_of_the_agent,
);

pairings!(
    extension_requests_of_the_client_reach_the_agent,
    extension_requests_of_the_agent_reach_the_client,
    extension_notifications_go_both_ways,
    what_is_relayed_keeps_its_place_among_the_updates,
    an_extension_request_wakes_the_agent,
    a_relayed_request_is_taken_back_by_our_own_number,
    a_request_that_the_agent_takes_back_is_still_answered,
    terminals_of_the_agent_are_shown,
    logging_in_and_out_has_the_agents_own_names,
    status_providers_and_mcp_are_the_agents,
    what_the_agent_asks_apart_from_sessions_reaches_the_client,
);

pairings!(client V1:
    files_of_the_client_are_read_by_an_agent_of_version_1,
);

//! Rules 2.1 to 2.16: `session/new`. After each bad input the connection still works, and the agent has heard
//! nothing of it.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentImpl, Login, Offer};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

/// Parameters of `session/new` with this one changed.
fn new_with(name: &str, value: Value) -> Value {
    let mut params = json!({"cwd": CWD, "mcpServers": []});
    params[name] = value;
    params
}

/// Asserts that these parameters are refused for this member, that the agent was not asked, and that the
/// connection still works.
async fn refused(world: &World, client: &Client, params: Value, field: &str) -> Value {
    let asked = world.agent.received_params("session/new").len();
    let error = client.refused("session/new", params).await;
    assert_eq!(error["code"], -32602, "{error}");
    assert_eq!(error["data"]["field"], field, "{error}");
    assert!(error["data"]["expected"].is_string(), "{error}");
    assert_eq!(world.agent.received_params("session/new").len(), asked);
    client.ask("session/list", json!({})).await;
    error
}

/// A stdio server in the words of this version.
fn stdio(version: Version) -> Value {
    let mut server = json!({"name": "tools", "command": "/bin/tools", "args": ["-v"],
        "env": [{"name": "KEY", "value": "1"}]});
    if version == Version::V2 {
        server["type"] = json!("stdio");
    }
    server
}

async fn r2_01_ids_are_unique_and_ours(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(client.new_session().await);
    }
    let natives = world.agent.sessions();
    assert!(ids.iter().all(|id| !natives.contains(id)));
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), 10);
    client.disconnect().await;
    // An id that was answered can be loaded, prompts or no prompts.
    let next = world.again().ready().await;
    for id in &ids {
        next.load(id).await;
    }
}

async fn r2_02_the_working_directory_reaches_the_agent_as_it_is(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    for cwd in ["/work", "/", "/with space/ünï", "/trailing/", "/a/../b"] {
        let made = client.ask("session/new", new_with("cwd", json!(cwd))).await;
        assert_eq!(world.agent.received_params("session/new").pop().expect("it was asked")["cwd"], cwd);
        let session = made["sessionId"].as_str().expect("an id");
        client.prompt(session, "say hello").await;
        let list = client.ask("session/list", json!({})).await;
        let listed =
            list["sessions"].as_array().expect("a list").iter().find(|row| row["sessionId"] == session);
        assert_eq!(listed.expect("it is listed")["cwd"], cwd);
    }
}

async fn r2_03_additional_directories_are_passed_on_where_the_agent_takes_them(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let hello = client.initialize().await;
    let path = match pairing.client {
        Version::V1 => "/agentCapabilities/sessionCapabilities/additionalDirectories",
        Version::V2 => "/capabilities/session/additionalDirectories",
    };
    assert!(hello.pointer(path).is_some());
    let roots = json!(["/b", "/a", "/b"]);
    client.ask("session/new", new_with("additionalDirectories", roots.clone())).await;
    assert_eq!(world.agent.received_params("session/new")[0]["additionalDirectories"], roots);
}

async fn r2_03_each_additional_directory_is_absolute(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    for (roots, field) in [
        (json!(["/a", "b"]), "additionalDirectories[1]"),
        (json!(["file:///a"]), "additionalDirectories[0]"),
        (json!([""]), "additionalDirectories[0]"),
        (json!([5]), "additionalDirectories[0]"),
        (json!("/a"), "additionalDirectories"),
    ] {
        refused(&world, &client, new_with("additionalDirectories", roots), field).await;
    }
}

async fn r2_15_additional_directories_that_are_not_advertised_are_ignored(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["additionalDirectories"]));
    let client = world.connect();
    let hello = client.initialize().await.to_string();
    assert!(!hello.contains("additionalDirectories"));
    client.ask("session/new", new_with("additionalDirectories", json!(["/a"]))).await;
    assert!(world.agent.received_params("session/new")[0].get("additionalDirectories").is_none());
}

async fn r2_04_stdio_servers_reach_the_agent_in_its_own_words(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let servers = json!([stdio(pairing.client)]);
    client.ask("session/new", new_with("mcpServers", servers)).await;
    let told = &world.agent.received_params("session/new")[0]["mcpServers"];
    assert_eq!(*told, json!([stdio(pairing.agent)]));
}

async fn r2_04_http_and_sse_servers_are_used_where_the_agent_has_them(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let headers = json!([{"name": "Authorization", "value": "secret"}]);
    let http = json!({"type": "http", "name": "web", "url": "https://example.com", "headers": headers});
    client.ask("session/new", new_with("mcpServers", json!([http]))).await;
    assert_eq!(world.agent.received_params("session/new")[0]["mcpServers"], json!([http]));
    let mut sse = http;
    sse["type"] = json!("sse");
    // Version 2 has no such servers; an agent of the library says that it takes those of version 1.
    let takes = pairing.agent == Version::V1 || pairing.agent_impl == AgentImpl::Library;
    if pairing.client == Version::V1 && takes {
        client.ask("session/new", new_with("mcpServers", json!([sse]))).await;
        assert_eq!(world.agent.received_params("session/new")[1]["mcpServers"], json!([sse]));
    } else {
        refused(&world, &client, new_with("mcpServers", json!([sse])), "mcpServers[0].type").await;
    }
}

async fn r2_05_all_servers_are_passed_on_in_order(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let named = |version: Version, name: &str| {
        let mut server = stdio(version);
        server["name"] = json!(name);
        server
    };
    let servers: Vec<_> = ["c", "a", "b"].iter().map(|name| named(pairing.client, name)).collect();
    client.ask("session/new", new_with("mcpServers", json!(servers))).await;
    let told = world.agent.received_params("session/new")[0]["mcpServers"].clone();
    let names: Vec<_> =
        told.as_array().expect("a list").iter().map(|server| server["name"].clone()).collect();
    assert_eq!(json!(names), json!(["c", "a", "b"]));
}

async fn r2_06_new_prompt_cancel_and_update_exist_for_any_agent(pairing: Pairing) {
    let world =
        World::with_config(pairing, |config| rethread_testkit::agent::AgentConfig::bare(config.speaks));
    let client = world.ready().await;
    let session = client.new_session().await;
    let prompt = client.begin_prompt(&session, "say hello; hang").await;
    client
        .wait_update(0, &session, "what the agent says", |update| update["content"]["text"] == "hello")
        .await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
}

async fn r2_07_an_agent_that_wants_a_login_is_heard(pairing: Pairing) {
    let world = World::of(pairing);
    world.agent.configure(|config| config.login = Login::Needed);
    let client = world.connect();
    let hello = client.initialize().await;
    let id = match pairing.client {
        Version::V1 => &hello["authMethods"][0]["id"],
        Version::V2 => &hello["authMethods"][0]["methodId"],
    };
    assert_eq!(*id, "key");
    let error = client.refused("session/new", new_with("cwd", json!(CWD))).await;
    assert_eq!(error["code"], -32000);
    assert_eq!(error["message"], "log in first");
    let login = match pairing.client {
        Version::V1 => "authenticate",
        Version::V2 => "auth/login",
    };
    client.ask(login, json!({"methodId": "key"})).await;
    let theirs = match pairing.agent {
        Version::V1 => "authenticate",
        Version::V2 => "auth/login",
    };
    assert_eq!(world.agent.received_params(theirs), [json!({"methodId": "key"})]);
    client.new_session().await;
}

async fn r2_08_boolean_options_are_for_clients_that_take_them(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.offering(&[Offer::Effort, Offer::Verbose]));
    let client = world.connect();
    client.initialize_bare().await;
    let made = client.ask("session/new", new_with("cwd", json!(CWD))).await;
    let options = made["configOptions"].as_array().expect("options");
    assert!(options.iter().all(|option| option["type"] != "boolean"), "{made}");
    assert!(options.iter().any(|option| option["id"] == "effort"), "{made}");
    let able = world.ready().await;
    let made = able.ask("session/new", new_with("cwd", json!(CWD))).await;
    let options = made["configOptions"].as_array().expect("options");
    assert!(options.iter().any(|option| option["type"] == "boolean"), "{made}");
}

async fn r2_09_a_v2_client_has_the_whole_session_surface(pairing: Pairing) {
    let world =
        World::with_config(pairing, |config| rethread_testkit::agent::AgentConfig::bare(config.speaks));
    let client = world.connect();
    let hello = client.initialize().await;
    assert!(hello["capabilities"]["session"].is_object());
    let session = client.new_session().await;
    client.prompt(&session, "say hello").await;
    client.ask("session/list", json!({})).await;
    client.resume(&session).await;
    client.close(&session).await.expect("a session can be closed");
}

async fn r2_10_a_new_session_is_idle(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let status = client.ask("session/status", json!({"sessionId": session})).await;
    assert_eq!(status["status"], "open");
    if pairing.client == Version::V2 && status.get("state").is_some() {
        assert_eq!(status["state"]["state"], "idle");
    }
    let active = |update: &Value| update["sessionUpdate"] == "state_update" && update["state"] != "idle";
    assert!(!client.updates(&session).iter().any(active));
}

async fn r2_11_lists_are_there_and_later_ones_replace_them(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let made = client.ask("session/new", json!({"cwd": CWD})).await;
    assert_eq!(made["configOptions"], json!([]));
    assert_eq!(made["availableCommands"], json!([]));
    let world = World::with_config(pairing, |config| config.offering(&[Offer::Modes, Offer::Effort]));
    world.agent.configure(|config| config.commands = vec!["fix"]);
    let client = world.ready().await;
    let made = client.ask("session/new", json!({"cwd": CWD})).await;
    assert_eq!(made["configOptions"].as_array().map(Vec::len), Some(2));
    let session = made["sessionId"].as_str().expect("an id");
    client.prompt(session, "commands one,two; commands three; mode b").await;
    let view = client.view(session);
    assert_eq!(view.commands, ["three"]);
    assert_eq!(view.options["mode"], "b");
    assert_eq!(view.options["effort"], "low");
}

async fn r2_12_a_transport_that_the_agent_lacks_is_refused(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["http", "sse"]));
    let client = world.ready().await;
    for transport in ["http", "sse", "acp", "_custom", "future"] {
        let server = json!({"type": transport, "name": "x", "url": "https://example.com", "headers": []});
        let servers = json!([stdio(pairing.client), server]);
        let error = refused(&world, &client, new_with("mcpServers", servers), "mcpServers[1].type").await;
        assert_eq!(error["data"]["got"], transport);
        assert!(error["data"]["hint"].is_string());
    }
    client.new_session().await;
}

async fn r2_12_stdio_too_is_a_capability_of_a_v2_agent(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["stdio"]));
    let client = world.ready().await;
    let params = new_with("mcpServers", json!([stdio(pairing.client)]));
    match pairing.agent {
        Version::V1 => drop(client.ask("session/new", params).await),
        Version::V2 => drop(refused(&world, &client, params, "mcpServers[0].type").await),
    }
}

async fn r2_12_servers_that_are_none_are_refused(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    for (servers, field) in [
        (json!([5]), "mcpServers[0]"),
        (json!([{}]), "mcpServers[0]"),
        (json!([stdio(pairing.client), {"command": "/bin/x"}]), "mcpServers[1]"),
        (json!({}), "mcpServers"),
        (json!("x"), "mcpServers"),
    ] {
        refused(&world, &client, new_with("mcpServers", servers), field).await;
    }
}

async fn r2_12_a_refusal_does_not_repeat_secrets(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let server = json!({"command": "/bin/x", "env": [{"name": "KEY", "value": "hunter2"}]});
    let error = refused(&world, &client, new_with("mcpServers", json!([server])), "mcpServers[0]").await;
    assert!(!error.to_string().contains("hunter2"));
}

async fn r2_13_duplicate_names_of_variables_go_to_the_agent_in_order(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let mut server = stdio(pairing.client);
    server["env"] = env.clone();
    client.ask("session/new", new_with("mcpServers", json!([server]))).await;
    assert_eq!(world.agent.received_params("session/new")[0]["mcpServers"][0]["env"], env);
}

async fn r2_14_a_working_directory_is_one_that_a_system_takes(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    for path in ["/work\0/x".to_owned(), format!("/{}", "x".repeat(5000))] {
        refused(&world, &client, new_with("cwd", json!(path)), "cwd").await;
        let roots = new_with("additionalDirectories", json!([path]));
        refused(&world, &client, roots, "additionalDirectories[0]").await;
        let error = client.refused("session/list", json!({"cwd": path})).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("cwd")));
    }
}

async fn r2_14_a_working_directory_is_absolute(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    for cwd in ["", ".", "work", "./work", "~/work", "file:///work"] {
        let error = refused(&world, &client, new_with("cwd", json!(cwd)), "cwd").await;
        assert_eq!(error["data"]["got"], cwd);
        assert!(error["data"]["hint"].is_string());
    }
    for cwd in [json!(null), json!(5), json!(["/work"])] {
        refused(&world, &client, new_with("cwd", cwd), "cwd").await;
    }
    refused(&world, &client, json!({"mcpServers": []}), "cwd").await;
}

async fn r2_14_names_of_older_documents_are_refused_with_the_right_one(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let hint = |error: &Value| error["data"]["hint"].as_str().expect("a hint").to_owned();
    for old in ["workingDirectory", "working_directory"] {
        let error = refused(&world, &client, json!({old: CWD, "mcpServers": []}), "cwd").await;
        assert_eq!(hint(&error), format!("did you mean \"cwd\" instead of \"{old}\"?"));
    }
    let servers = json!({"tools": {"command": "/bin/tools", "env": {"KEY": "a secret"}}});
    let error = refused(&world, &client, json!({"cwd": CWD, "mcpServers": servers}), "mcpServers").await;
    assert!(hint(&error).starts_with("did you mean an array of servers"), "{error}");
    assert!(!error.to_string().contains("a secret"), "{error}");
    if pairing.client == Version::V1 {
        let session = client.new_session().await;
        let params = json!({"sessionId": session, "mode": "b"});
        let error = client.refused("session/set_mode", params).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("modeId")));
        assert_eq!(hint(&error), "did you mean \"modeId\" instead of \"mode\"?");
    }
}

async fn missing_servers_are_refused_in_version_1_and_none_in_version_2(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    match pairing.client {
        Version::V1 => {
            let error = refused(&world, &client, json!({"cwd": CWD}), "mcpServers").await;
            let hint = error["data"]["hint"].as_str().expect("a hint");
            assert!(hint.contains("\"mcpServers\": []"), "{hint}");
        }
        Version::V2 => {
            client.ask("session/new", json!({"cwd": CWD})).await;
            assert_eq!(world.agent.received_params("session/new")[0]["mcpServers"], json!([]));
        }
    }
}

async fn null_servers_are_refused_in_version_1_and_none_in_version_2(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let params = new_with("mcpServers", Value::Null);
    match pairing.client {
        Version::V1 => {
            let error = refused(&world, &client, params, "mcpServers").await;
            assert!(error["data"]["hint"].is_string());
        }
        Version::V2 => {
            client.ask("session/new", params).await;
            assert_eq!(world.agent.received_params("session/new")[0]["mcpServers"], json!([]));
        }
    }
}

async fn r2_16_a_system_prompt_reaches_an_agent_that_takes_it(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.able_to(&["systemPrompt"]));
    let client = world.connect();
    let hello = client.initialize().await.to_string();
    assert!(hello.contains("systemPrompt"));
    let prompt = json!({"mode": "append", "content": [{"type": "text", "text": "Be brief"}]});
    client.ask("session/new", new_with("systemPrompt", prompt.clone())).await;
    assert_eq!(world.agent.received_params("session/new")[0]["systemPrompt"], prompt);
    for (name, value) in [
        ("mode", json!("override")),
        ("mode", json!("_custom")),
        ("mode", json!(null)),
        ("content", json!([])),
        ("content", json!("text")),
        ("content", json!([{"type": "image", "data": "", "mimeType": "image/png"}])),
    ] {
        let mut bad = prompt.clone();
        bad[name] = value;
        let error = client.refused("session/new", new_with("systemPrompt", bad.clone())).await;
        assert_eq!(error["code"], -32602, "{bad}");
    }
    assert_eq!(world.agent.received_params("session/new").len(), 1, "no session is made");
    client.new_session().await;
}

async fn r2_16_an_agent_that_has_the_mode_gets_it(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.able_to(&["override"]));
    let client = world.ready().await;
    let prompt = json!({"mode": "override", "content": [{"type": "text", "text": "Be brief"}]});
    client.ask("session/new", new_with("systemPrompt", prompt.clone())).await;
    assert_eq!(world.agent.received_params("session/new")[0]["systemPrompt"], prompt);
}

async fn r2_16_a_system_prompt_that_nobody_takes_is_refused(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let prompt = json!({"mode": "append", "content": [{"type": "text", "text": "Be brief"}]});
    refused(&world, &client, new_with("systemPrompt", prompt), "systemPrompt").await;
    client.ask("session/new", new_with("systemPrompt", Value::Null)).await;
}

pairings!(
    r2_01_ids_are_unique_and_ours,
    r2_02_the_working_directory_reaches_the_agent_as_it_is,
    r2_03_additional_directories_are_passed_on_where_the_agent_takes_them,
    r2_03_each_additional_directory_is_absolute,
    r2_04_stdio_servers_reach_the_agent_in_its_own_words,
    r2_04_http_and_sse_servers_are_used_where_the_agent_has_them,
    r2_05_all_servers_are_passed_on_in_order,
    r2_06_new_prompt_cancel_and_update_exist_for_any_agent,
    r2_07_an_agent_that_wants_a_login_is_heard,
    r2_10_a_new_session_is_idle,
    r2_12_a_transport_that_the_agent_lacks_is_refused,
    r2_12_stdio_too_is_a_capability_of_a_v2_agent,
    r2_12_servers_that_are_none_are_refused,
    r2_12_a_refusal_does_not_repeat_secrets,
    r2_13_duplicate_names_of_variables_go_to_the_agent_in_order,
    r2_14_a_working_directory_is_absolute,
    r2_14_a_working_directory_is_one_that_a_system_takes,
    r2_14_names_of_older_documents_are_refused_with_the_right_one,
    r2_15_additional_directories_that_are_not_advertised_are_ignored,
    r2_16_a_system_prompt_reaches_an_agent_that_takes_it,
    r2_16_an_agent_that_has_the_mode_gets_it,
    r2_16_a_system_prompt_that_nobody_takes_is_refused,
    missing_servers_are_refused_in_version_1_and_none_in_version_2,
    null_servers_are_refused_in_version_1_and_none_in_version_2,
);

pairings!(client V1: r2_08_boolean_options_are_for_clients_that_take_them);

pairings!(
    client V2:
    r2_09_a_v2_client_has_the_whole_session_surface,
    r2_11_lists_are_there_and_later_ones_replace_them,
);

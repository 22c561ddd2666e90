//! A client that follows with other MCP servers or directories than the session has.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, Login};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::{Shared, VERSIONS};

fn servers(version: Version) -> Value {
    let server = json!({"name": "notes", "command": "/bin/notes", "args": [], "env": []});
    match version {
        Version::V1 => json!([server]),
        Version::V2 => {
            let mut server = server;
            server["type"] = json!("stdio");
            json!([server])
        }
    }
}

/// The names of the servers that the agent was given with its last request to open the session.
fn servers_at_agent(shared: &Shared) -> Vec<String> {
    let opens = ["session/new", "session/load", "session/resume"];
    let received = shared.world.agent.received();
    let last = received.iter().rev().find(|message| opens.contains(&message.method.as_str()));
    let list = last.map(|message| message.params["mcpServers"].clone()).unwrap_or_default();
    let names = list.as_array().cloned().unwrap_or_default();
    names.iter().map(|server| server["name"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn other_servers_are_applied_when_nobody_else_follows(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        assert_eq!(shared.one.prompt(&shared.session, "say a").await.stop, "end_turn");
        let (method, mut params) = shared.two.load_params(&shared.session);
        params["mcpServers"] = servers(other);
        params["cwd"] = json!(CWD);
        let mark = shared.two.mark();
        let answer = shared.two.ask(method, params).await;
        let notice = |update: &Value| {
            update["sessionUpdate"] == "notice" && update["description"].to_string().contains("notes")
        };
        shared.two.wait_update(mark, &shared.session, "what differs", notice).await;
        assert!(answer.is_object());
        assert!(servers_at_agent(&shared).is_empty(), "not while the other one follows");
        shared.one.disconnect().await;
        assert_eq!(shared.two.prompt(&shared.session, "say b").await.stop, "end_turn");
        assert_eq!(servers_at_agent(&shared), ["notes"]);
    }
}

/// What a client is told of a login or logout by another one: the notification, and the notice in the session.
async fn told_of_login(shared: &Shared, client: &Client, mark: usize, login: &str) -> Value {
    let notice = |update: &Value| {
        let text = format!("{} {}", update["title"], update["content"]);
        text.contains(&format!("test has logged {login}"))
    };
    client.wait_update(mark, &shared.session, "who logged in or out", notice).await;
    client.wait_method("_rethread/login_changed").await["params"].clone()
}

async fn a_login_or_logout_by_one_is_shown_to_the_others(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig { login: Login::Needed, ..config });
    let one = world.ready().await;
    let methods = match pairing.client {
        Version::V1 => ["authenticate", "logout"],
        Version::V2 => ["auth/login", "auth/logout"],
    };
    one.ask(methods[0], json!({"methodId": "key"})).await;
    let shared = Shared::with(world, one, pairing.client).await;
    let two = &shared.two;
    for (method, login) in methods.into_iter().zip(["in", "out"]) {
        let (mark, own) = (two.mark(), shared.one.mark());
        shared.one.ask(method, json!({"methodId": "key"})).await;
        let params = told_of_login(&shared, two, mark, login).await;
        assert_eq!(params["authMethods"].as_array().map(Vec::len), Some(1), "{params}");
        assert_eq!(params["_meta"]["rethread"]["client"]["name"], "test");
        assert!(shared.one.updates_since(own, &shared.session).is_empty(), "not to the client that did it");
    }
}

pairings!(
    other_servers_are_applied_when_nobody_else_follows,
    a_login_or_logout_by_one_is_shown_to_the_others
);

//! A client that follows with other MCP servers or directories than the session has.

use rethread::edge::Version;
use rethread_testkit::client::CWD;
use rethread_testkit::{Pairing, pairings};
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

pairings!(other_servers_are_applied_when_nobody_else_follows);

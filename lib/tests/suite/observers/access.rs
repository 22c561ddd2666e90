//! What observers may not do, what a client that is limited to one session sees, and what is redacted for it.

use rethread::edge::Version;
use rethread::server::{ClientAccess, ClientRole, ClientScope, Redaction};
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];
const KEY: &str = "sk-abcdefghij0123456789abcdefghij";

fn scope(session: &str, redaction: Redaction) -> ClientAccess {
    let scope = ClientScope { session: session.to_owned(), redaction };
    // The role of the scope counts, whatever the role is.
    ClientAccess { scope: Some(scope), ..ClientAccess::default() }
}

/// Requests about one session, with parameters that would be right for a full client.
fn about(client: &Client, session: &str) -> Vec<(&'static str, Value)> {
    let setup = json!({"sessionId": session, "cwd": "/work", "mcpServers": []});
    let named = |name: &str, value: Value| json!({"sessionId": session, name: value});
    let (option, option_params) = client.option_request(session, "mode", json!("x"));
    let mut all = vec![
        ("session/prompt", named("prompt", json!([{"type": "text", "text": "say no"}]))),
        ("session/set_title", named("title", json!("No"))),
        ("session/close", json!({"sessionId": session})),
        ("session/delete", json!({"sessionId": session})),
        ("session/archive", json!({"sessionId": session})),
        ("session/unarchive", json!({"sessionId": session})),
        ("session/fork", setup),
        (option, option_params),
        ("_agent/echo", json!({"sessionId": session})),
    ];
    match client.version {
        Version::V1 => {
            all.push(("session/set_mode", named("modeId", json!("x"))));
            all.push(("session/set_model", named("modelId", json!("x"))));
        }
        Version::V2 => {
            all.push(("tool_call/cancel", named("toolCallId", json!("x"))));
            all.push(("terminal/cancel", named("terminalId", json!("x"))));
        }
    }
    all
}

/// Requests that change something or reach an agent, without a session.
fn without_session(version: Version) -> Vec<(&'static str, Value)> {
    let login = match version {
        Version::V1 => ["authenticate", "logout"],
        Version::V2 => ["auth/login", "auth/logout"],
    };
    vec![
        ("session/new", json!({"cwd": "/work", "mcpServers": []})),
        ("_agent/echo", json!({})),
        (login[0], json!({"methodId": "key"})),
        (login[1], json!({})),
    ]
}

async fn not_allowed(client: &Client, method: &str, params: Value) {
    let error = client.refused(method, params).await;
    let found = (&error["code"], &error["data"]["role"]);
    assert_eq!(found, (&json!(-32011), &json!("observer")), "{method}: {error}");
}

async fn an_observer_may_only_look(pairing: Pairing) {
    for version in VERSIONS {
        let (world, client, session) = World::begun(pairing).await;
        client.prompt(&session, "say hello").await;
        let observer = world.observer(version).await;
        observer.load(&session).await;
        let before = world.agent.received().len();
        for (method, params) in about(&observer, &session).into_iter().chain(without_session(version)) {
            not_allowed(&observer, method, params).await;
        }
        observer.cancel(&session).await;
        observer.notify("_agent/note", json!({})).await;
        observer.notify("_agent/note", json!({"sessionId": session})).await;
        assert!(observer.listed().await.contains(&session));
        observer.ask("session/status", json!({"sessionId": session})).await;
        observer.ask("_rethread/search", json!({"query": "hello"})).await;
        observer.ask("_rethread/clients", json!({})).await;
        observer.ask("_rethread/list/subscribe", json!({})).await;
        assert_eq!(world.agent.received().len(), before, "the agent heard nothing of it");
    }
}

async fn a_client_can_lower_its_role_and_not_raise_it(pairing: Pairing) {
    let world = World::of(pairing);
    for (token, asked, role) in [
        (ClientRole::Full, Some("observer"), "observer"),
        (ClientRole::Full, None, "full"),
        (ClientRole::Observer, Some("full"), "observer"),
    ] {
        let access = ClientAccess { role: token, ..ClientAccess::default() };
        let client = world.ready_with(pairing.client, access).await;
        let mut params = client.introduction();
        if let Some(asked) = asked {
            params["_meta"] = json!({"rethread": {"role": asked}});
        }
        let answer = client.ask("initialize", params).await;
        assert_eq!(answer["_meta"]["rethread"]["role"], role);
        let made = client.request("session/new", json!({"cwd": "/work", "mcpServers": []})).await;
        assert_eq!(made.is_ok(), role == "full", "{made:?}");
    }
    let client = world.connect();
    let mut params = client.introduction();
    params["_meta"] = json!({"rethread": {"role": "root"}});
    assert_eq!(client.refused("initialize", params).await["code"], -32602);
}

async fn a_client_of_one_session_sees_no_other(pairing: Pairing) {
    for version in VERSIONS {
        let (world, client, session) = World::begun(pairing).await;
        client.prompt(&session, "say shared").await;
        let other = client.new_session().await;
        client.prompt(&other, "say private").await;
        let guest = world.ready_with(version, scope(&session, Redaction::Off)).await;
        let (load, own) = guest.load_params(&session);
        let (_, foreign) = guest.load_params(&other);
        for (method, params) in [
            (load, foreign),
            ("session/resume", json!({"sessionId": other, "cwd": "/work"})),
            ("session/status", json!({"sessionId": other})),
            ("_rethread/clients", json!({"sessionId": other})),
            ("_rethread/read", json!({"sessionId": other})),
            ("_rethread/follow", json!({"sessionId": other, "after": 0})),
            ("_rethread/unfollow", json!({"sessionId": other})),
            ("_rethread/outline", json!({"sessionId": other})),
            ("_rethread/export", json!({"sessionId": other, "format": "markdown"})),
        ] {
            assert_eq!(guest.refused(method, params).await["code"], -32002, "{method}");
        }
        for (method, params) in about(&guest, &other) {
            assert_eq!(guest.refused(method, params).await["code"], -32002, "{method}");
        }
        let all = [
            ("session/list", json!({})),
            ("_rethread/search", json!({"query": "private"})),
            ("_rethread/list/subscribe", json!({})),
            ("_rethread/list/unsubscribe", json!({"subscriptionId": "x"})),
            ("_rethread/usage", json!({})),
        ];
        for (method, params) in all.into_iter().chain(about(&guest, &session)).chain(without_session(version))
        {
            not_allowed(&guest, method, params).await;
        }
        guest.ask(load, own).await;
        assert_eq!(guest.view(&session).agent(), ["shared"]);
        guest.ask("session/status", json!({"sessionId": session})).await;
        let clients = guest.ask("_rethread/clients", json!({})).await;
        assert!(!clients.to_string().contains(&other), "{clients}");
        let said = guest.server_messages();
        let text = said.iter().map(Value::to_string).collect::<String>();
        assert!(!text.contains("private"), "{text}");
    }
}

async fn what_looks_like_a_secret_is_not_shown(pairing: Pairing) {
    for version in VERSIONS {
        let (world, client, session) = World::begun(pairing).await;
        client.prompt(&session, &format!("say first {KEY} end")).await;
        let guest = world.ready_with(version, scope(&session, Redaction::Secrets)).await;
        guest.load(&session).await;
        let open = world.ready_with(version, scope(&session, Redaction::Off)).await;
        open.load(&session).await;
        let prompt = client.begin_prompt(&session, &format!("say again {KEY}; wait gate; say done")).await;
        let words = |text: &'static str| move |update: &Value| update.to_string().contains(text);
        open.wait_update(0, &session, "what is said", |update| {
            update["content"].to_string().contains("again")
                && !update["sessionUpdate"].to_string().contains("user")
        })
        .await;
        world.agent.open_gate("gate");
        client.finish(&session, &prompt).await;
        guest.wait_update(0, &session, "the end", words("done")).await;
        let text = |client: &Client| {
            let said = client.server_messages();
            said.iter().map(Value::to_string).collect::<String>()
        };
        assert!(text(&open).contains(KEY), "the same session without redaction");
        assert!(!text(&guest).contains(KEY), "{}", text(&guest));
        let view = guest.view(&session);
        assert!(view.agent().len() >= 3 && view.agent()[0].contains("first"), "{view:?}");
        assert_eq!(view.user().len(), 2, "{view:?}");
    }
}

/// All that a client can read of a session without claiming it.
async fn read_all(client: &Client, session: &str) -> String {
    let mut text = String::new();
    for (method, params) in [
        ("_rethread/read", json!({"sessionId": session})),
        ("_rethread/outline", json!({"sessionId": session})),
        ("_rethread/export", json!({"sessionId": session, "format": "jsonl", "redact": false})),
        ("_rethread/follow", json!({"sessionId": session, "after": 0})),
    ] {
        text.push_str(&client.ask(method, params).await.to_string());
    }
    text
}

/// An export in this format.
async fn exported(client: &Client, session: &str, format: &str) -> String {
    let export = client.ask("_rethread/export", json!({"sessionId": session, "format": format})).await;
    assert_eq!(export["nextCursor"], Value::Null, "it is one piece");
    export["text"].as_str().expect("it is text").to_owned()
}

/// The beginning of a secret does not look like one.
async fn what_is_being_said_is_not_exported_without_secrets(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say first").await;
    let prompt = client.begin_prompt(&session, "chunks 20; wait gate; say done").await;
    let last = |update: &Value| update["content"]["text"].as_str().is_some_and(|text| text.contains("c20"));
    client.wait_update(0, &session, "the last chunk", last).await;
    let guest = world.ready_with(Version::V2, scope(&session, Redaction::Secrets)).await;
    let open = world.ready_with(Version::V2, scope(&session, Redaction::Off)).await;
    for format in ["jsonl", "markdown", "html"] {
        assert!(exported(&open, &session, format).await.contains("c20"), "{format} without redaction");
        let text = exported(&guest, &session, format).await;
        assert!(text.contains("first") && text.contains("chunks 20") && !text.contains("c20"), "{text}");
    }
    world.agent.open_gate("gate");
    client.finish(&session, &prompt).await;
    for format in ["jsonl", "markdown", "html"] {
        let text = exported(&guest, &session, format).await;
        assert!(text.contains("c20") && text.contains("done"), "{text}");
    }
}

async fn what_is_read_without_claiming_is_redacted_too(pairing: Pairing) {
    for version in VERSIONS {
        let (world, client, session) = World::begun(pairing).await;
        client.prompt(&session, &format!("say first {KEY} end")).await;
        let prompt = client.begin_prompt(&session, &format!("say again {KEY}; wait gate; say done")).await;
        let guest = world.ready_with(version, scope(&session, Redaction::Secrets)).await;
        let open = world.ready_with(version, scope(&session, Redaction::Off)).await;
        assert!(read_all(&open, &session).await.contains(KEY), "the same session without redaction");
        let running = read_all(&guest, &session).await;
        assert!(running.contains("first") && !running.contains(KEY), "{running}");
        world.agent.open_gate("gate");
        client.finish(&session, &prompt).await;
        let followed = |message: &Value| {
            message["method"] == "_rethread/followed"
                && message.to_string().contains("\"turn_ended\"")
                && message.to_string().contains("done")
        };
        guest.wait_since(0, "the end of the turn", followed).await;
        let said: String = guest.server_messages().iter().map(Value::to_string).collect();
        assert!(said.contains("again") && !said.contains(KEY), "{said}");
        let ended = read_all(&guest, &session).await;
        assert!(ended.contains("done") && !ended.contains(KEY), "{ended}");
    }
}

pairings!(
    an_observer_may_only_look,
    a_client_can_lower_its_role_and_not_raise_it,
    a_client_of_one_session_sees_no_other,
    what_looks_like_a_secret_is_not_shown,
    what_is_read_without_claiming_is_redacted_too,
    what_is_being_said_is_not_exported_without_secrets,
);

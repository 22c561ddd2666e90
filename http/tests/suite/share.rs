//! A token for one session: it shows this session and nothing else.

use rethread::edge::Version;
use rethread_http::{RemoteTarget, SharedSession};
use rethread_testkit::client::Client;
use serde_json::{Value, json};

use crate::fixture::Listening;

/// A client with this token, which has not introduced itself yet.
pub(crate) async fn guest(listening: &Listening, token: &str, query: &str, version: Version) -> Client {
    let url = format!("ws://{}/acp{query}", listening.address);
    let patience = std::time::Duration::from_secs(60);
    let target = RemoteTarget { url, token: Some(token.to_owned()), ca: None, patience };
    let channel = rethread_http::connect(target).await.expect("it is accepted");
    Client::over(channel.into_wire(), version, None)
}

#[tokio::test]
async fn a_link_shows_one_session_without_its_secrets_and_nothing_else() {
    let listening = Listening::start(Version::V1).await;
    let owner = listening.websocket(Version::V1).await;
    let shown = owner.new_session_in(&listening.cwd()).await;
    let hidden = owner.new_session_in(&listening.cwd()).await;
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    owner.prompt(&shown, &format!("say the key is {secret}")).await;
    owner.prompt(&hidden, "say hidden").await;
    let share = SharedSession { session: shown.clone(), redact: true };
    let expires = rethread::clock::now() + 60_000;
    let token = listening.tokens.add_share("demo", share, expires).await.expect("it can be made").text;

    for query in ["", "?role=full", "?agent=scripted"] {
        let client = guest(&listening, &token, query, Version::V2).await;
        let answer = client.initialize().await;
        let about = &answer["_meta"]["rethread"];
        assert_eq!((&about["role"], &about["session"]), (&json!("observer"), &json!(shown)), "{answer}");
        let cwd = listening.cwd();
        let load = |session: &str| json!({"sessionId": session, "cwd": cwd, "mcpServers": [], "replayFrom": {"type": "start"}});
        client.ask("session/resume", load(&shown)).await;
        client.wait_update(0, &shown, "the text", |update| update.to_string().contains("the key is")).await;
        let seen = Value::from(client.updates(&shown)).to_string();
        assert!(!seen.contains(secret), "{seen}");
        let refused = client.refused("session/resume", load(&hidden)).await;
        assert_eq!(refused["code"], -32002, "{refused}");
        for (method, params) in [
            ("session/list", json!({})),
            ("_rethread/search", json!({"query": "hidden"})),
            ("session/new", json!({"cwd": cwd, "mcpServers": []})),
            ("session/prompt", json!({"sessionId": shown, "prompt": [{"type": "text", "text": "say no"}]})),
            ("session/delete", json!({"sessionId": shown})),
            ("session/fork", load(&shown)),
            ("session/set_title", json!({"sessionId": shown, "title": "x"})),
            ("_rethread/list/subscribe", json!({})),
        ] {
            let refused = client.refused(method, params).await;
            assert!(matches!(refused["code"].as_i64(), Some(-32011 | -32601)), "{method}: {refused}");
        }
        let other = client.refused("session/delete", json!({"sessionId": hidden})).await;
        assert!(matches!(other["code"].as_i64(), Some(-32002 | -32011)), "{other}");
    }
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(listening.status("GET", "/metrics", &headers).await, 403);
    assert_eq!(listening.status("GET", "/readyz", &headers).await, 200);
    let id = listening.tokens.list().await.expect("they can be read")[1].id.clone();
    listening.tokens.revoke(&id).await.expect("it is there");
    assert_eq!(listening.status("GET", "/readyz", &headers).await, 401);
}

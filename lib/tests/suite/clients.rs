//! `_rethread/clients` and clients that want no updates, by clients of both versions.

use rethread_testkit::client::CWD;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const PERMISSION: &str = "session/request_permission";

async fn changed(client: &rethread_testkit::client::Client, mark: usize, session: &str) {
    client
        .wait_since(mark, "the clients have changed", |message| {
            message["method"] == "_rethread/clients_changed" && message["params"]["sessionId"] == session
        })
        .await;
}

async fn clients_are_told_of_each_other(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let quiet = world.ready().await;
    quiet.load(&session).await;
    let list = client.ask("_rethread/clients", json!({})).await["clients"].clone();
    let own = list.as_array().into_iter().flatten().find(|one| one["you"] == true).expect("itself");
    assert_eq!((&own["name"], &own["role"]), (&json!("test"), &json!("full")), "{own}");
    assert_eq!((&own["protocol"], &own["sessions"]), (&json!(pairing.client.number()), &json!([session])));
    assert!(own["id"].is_string() && own["since"].is_string() && own["version"].is_string(), "{own}");
    assert_eq!(own["transport"], "stdio");
    let mark = client.mark();
    let observer = world.observer(pairing.client).await;
    observer.load(&session).await;
    changed(&client, mark, &session).await;
    let of_session = client.ask("_rethread/clients", json!({"sessionId": session})).await;
    let roles: Vec<_> =
        of_session["clients"].as_array().expect("a list").iter().map(|one| one["role"].clone()).collect();
    assert_eq!(roles, ["full", "full", "observer"]);
    let mark = client.mark();
    observer.disconnect().await;
    changed(&client, mark, &session).await;
    let mark = client.mark();
    quiet.close(&session).await.expect("it leaves");
    changed(&client, mark, &session).await;
    let left = client.ask("_rethread/clients", json!({"sessionId": session})).await;
    assert_eq!(left["clients"].as_array().map(Vec::len), Some(1), "{left}");
    let told = |message: &Value| message["method"] == "_rethread/clients_changed";
    assert!(!quiet.server_messages().iter().any(told), "not to a client that does not know of it");
}

async fn a_client_can_do_without_updates(pairing: Pairing) {
    let world = World::of(pairing);
    let other = world.ready().await;
    let meta = json!({"rethread": {"updates": false}});
    let client = world.ready().await;
    client.on(PERMISSION, |params| {
        let option = params["options"][0]["optionId"].clone();
        Some(Ok(json!({"outcome": {"outcome": "selected", "optionId": option}})))
    });
    let made = client.ask("session/new", json!({"cwd": CWD, "mcpServers": [], "_meta": meta.clone()})).await;
    let session = made["sessionId"].as_str().expect("an id").to_owned();
    other.load(&session).await;
    other.on(PERMISSION, |_| None);
    let prompt = client.begin_prompt(&session, "say hello; permit; say done").await;
    let done = |update: &Value| update["content"]["text"] == "done" || update["content"][0]["text"] == "done";
    other.wait_update(0, &session, "the end", done).await;
    assert!(client.answer(&prompt).await.is_ok(), "its own requests are answered");
    client.wait_method(PERMISSION).await;
    let (method, mut params) = client.load_params(&session);
    params["_meta"] = meta;
    client.ask(method, params).await;
    client.ask("session/set_title", json!({"sessionId": session, "title": "Named"})).await;
    other.wait_update(0, &session, "the title", |update| update["title"] == "Named").await;
    client.ask("session/status", json!({"sessionId": session})).await;
    assert!(client.updates(&session).is_empty(), "{:#?}", client.updates(&session));
    // It is a client like any other: with updates it gets them.
    client.load(&session).await;
    assert!(client.view(&session).agent().contains(&"done".to_owned()));
    let wrong = json!({"cwd": CWD, "mcpServers": [], "_meta": {"rethread": {"updates": "no"}}});
    assert_eq!(client.refused("session/new", wrong).await["code"], -32602);
}

pairings!(clients_are_told_of_each_other, a_client_can_do_without_updates);

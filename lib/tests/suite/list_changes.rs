//! What lists say of sessions, and `_rethread/list/subscribe`, by clients of both versions.

use rethread::server::WhenUnattended;
use rethread_core::SessionId;
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const PERMISSION: &str = "session/request_permission";

async fn subscribe(client: &Client, params: Value) -> Value {
    client.ask("_rethread/list/subscribe", params).await["subscriptionId"].clone()
}

/// Waits until a notification since a mark has a row of this session for which something holds.
async fn row(client: &Client, mark: usize, session: &str, is: impl Fn(&Value) -> bool) -> Value {
    let of = |message: &Value| {
        let rows = message["params"]["sessions"].as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row["sessionId"] == session && is(row))
    };
    let found = client
        .wait_since(mark, "a row of the session", |message| {
            message["method"] == "_rethread/list/changes" && of(message).is_some()
        })
        .await;
    of(&found).expect("it was found")
}

async fn removed(client: &Client, mark: usize, session: &str) {
    client
        .wait_since(mark, "the session is removed", |message| {
            let removed = message["params"]["removed"].as_array().cloned().unwrap_or_default();
            message["method"] == "_rethread/list/changes" && removed.iter().any(|id| id == session)
        })
        .await;
}

fn state(row: &Value) -> &Value {
    &row["_meta"]["rethread"]["state"]
}

/// The row of a session in the list.
async fn listed(client: &Client, session: &str) -> Value {
    let page = client.ask("session/list", json!({"cwd": CWD})).await;
    let rows = page["sessions"].as_array().cloned().unwrap_or_default();
    rows.into_iter().find(|row| row["sessionId"] == session).expect("it is listed")
}

async fn a_list_says_what_each_session_is_doing(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.when_unattended = WhenUnattended::Keep);
    let client = world.ready().await;
    client.on(PERMISSION, |_| None);
    let session = client.new_session().await;
    client.prompt(&session, "say hello").await;
    let row = listed(&client, &session).await;
    let own = &row["_meta"]["rethread"];
    assert_eq!((&own["state"], &own["clients"], &own["turns"]), (&json!("idle"), &json!(1), &json!(1)));
    assert_eq!((&own["archived"], &own["owner"]["pid"]), (&json!(false), &json!(std::process::id())));
    assert!(own["agent"].is_string() && own["question"].is_null(), "{own}");
    client.begin_prompt(&session, "permit").await;
    client.wait_method(PERMISSION).await;
    let row = listed(&client, &session).await;
    let own = &row["_meta"]["rethread"];
    assert_eq!((&own["state"], &own["question"]["kind"]), (&json!("waiting"), &json!("permission")));
    assert!(own["question"]["questionId"].is_string() && own["question"]["title"].is_string(), "{own}");
    // A server that does not have the session open reads its journal.
    let elsewhere = world.again();
    let other = elsewhere.ready().await;
    assert_eq!(state(&listed(&other, &session).await), "waiting");
    assert_eq!(listed(&other, &session).await["_meta"]["rethread"]["clients"], 0);
    world.server.shut_down().await;
    let row = listed(&other, &session).await;
    assert_eq!((state(&row), &row["_meta"]["rethread"]["owner"]), (&json!("idle"), &Value::Null));
}

async fn changes_of_the_list_are_reported(pairing: Pairing) {
    let world = World::of(pairing);
    let (client, watcher) = (world.ready().await, world.ready().await);
    client.on(PERMISSION, |_| None);
    let id = subscribe(&watcher, json!({})).await;
    let session = client.new_session().await;
    let prompt = client.begin_prompt(&session, "say hello; wait gate").await;
    row(&watcher, 0, &session, |row| state(row) == "running").await;
    world.agent.open_gate("gate");
    client.finish(&session, &prompt).await;
    let mark = watcher.mark();
    client.begin_prompt(&session, "permit").await;
    let waiting = row(&watcher, mark, &session, |row| state(row) == "waiting").await;
    assert_eq!(waiting["_meta"]["rethread"]["question"]["kind"], "permission", "{waiting}");
    let mark = watcher.mark();
    client.cancel(&session).await;
    row(&watcher, mark, &session, |row| state(row) == "idle").await;
    // Clients that come and go.
    let mark = watcher.mark();
    let two = world.ready().await;
    two.load(&session).await;
    row(&watcher, mark, &session, |row| row["_meta"]["rethread"]["clients"] == 2).await;
    let mark = watcher.mark();
    two.disconnect().await;
    row(&watcher, mark, &session, |row| row["_meta"]["rethread"]["clients"] == 1).await;
    let mark = watcher.mark();
    client.ask("session/set_title", json!({"sessionId": session, "title": "Named"})).await;
    let named = row(&watcher, mark, &session, |row| row["title"] == "Named").await;
    assert_eq!(named["sessionId"], session);
    let mark = watcher.mark();
    client.ask("session/delete", json!({"sessionId": session})).await;
    removed(&watcher, mark, &session).await;
    let notified = watcher.server_messages();
    let all = notified.iter().filter(|message| message["method"] == "_rethread/list/changes");
    assert!(all.clone().all(|message| message["params"]["subscriptionId"] == id), "{notified:#?}");
}

async fn changes_of_other_processes_are_reported(pairing: Pairing) {
    let world = World::of(pairing);
    let elsewhere = world.again();
    let (watcher, client) = (world.ready().await, elsewhere.ready().await);
    subscribe(&watcher, json!({"cwd": CWD})).await;
    let session = client.new_session().await;
    client.prompt(&session, "say hello").await;
    let found = row(&watcher, 0, &session, |row| row["title"].is_string()).await;
    assert_eq!(found["_meta"]["rethread"]["clients"], 0, "those of another process are not known");
    let mark = watcher.mark();
    world.store.set_title(&SessionId(session.clone()), "Named elsewhere").await.expect("it is there");
    row(&watcher, mark, &session, |row| row["title"] == "Named elsewhere").await;
}

async fn a_subscription_is_of_one_directory_and_archive(pairing: Pairing) {
    let world = World::of(pairing);
    let (client, watcher) = (world.ready().await, world.ready().await);
    let here = subscribe(&watcher, json!({"cwd": CWD})).await;
    let archive = subscribe(&watcher, json!({"cwd": format!("{CWD}/"), "archived": "only"})).await;
    assert_ne!(here, archive);
    let other = client.new_session_in("/elsewhere").await;
    client.prompt(&other, "say there").await;
    let session = client.new_session().await;
    client.prompt(&session, "say here").await;
    row(&watcher, 0, &session, |row| state(row) == "idle").await;
    let mark = watcher.mark();
    client.ask("session/archive", json!({"sessionId": session})).await;
    removed(&watcher, mark, &session).await;
    let archived = row(&watcher, mark, &session, |row| row["archived"] == true).await;
    assert_eq!(archived["_meta"]["rethread"]["archived"], true);
    watcher.ask("_rethread/list/unsubscribe", json!({"subscriptionId": archive})).await;
    let mark = watcher.mark();
    client.ask("session/unarchive", json!({"sessionId": session})).await;
    row(&watcher, mark, &session, |row| row["archived"] == false).await;
    let said = watcher.server_messages();
    let of_others = |message: &Value| message["params"].to_string().contains(&other);
    assert!(!said.iter().any(of_others), "not of the other directory");
    let ended = |message: &Value| message["params"]["subscriptionId"] == archive;
    assert!(!watcher.server_messages_since(mark).iter().any(ended), "not to a subscription that has ended");
}

/// A session without a prompt is in no list, and in no changes of it.
async fn what_is_not_listed_is_not_reported(pairing: Pairing) {
    let world = World::of(pairing);
    let (client, watcher) = (world.ready().await, world.ready().await);
    subscribe(&watcher, json!({})).await;
    let empty = client.new_session().await;
    let session = client.new_session().await;
    client.prompt(&session, "say hello").await;
    row(&watcher, 0, &session, |row| state(row) == "idle").await;
    client.ask("session/delete", json!({"sessionId": session})).await;
    removed(&watcher, 0, &session).await;
    let said = watcher.server_messages();
    assert!(!said.iter().any(|message| message.to_string().contains(&empty)), "{said:#?}");
}

async fn wrong_subscriptions_are_refused(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let answer = world.connect().initialize().await;
    assert_eq!(answer["_meta"]["rethread"]["listSubscribe"], json!({}), "it is advertised");
    for (method, params, field) in [
        ("_rethread/list/subscribe", json!({"cwd": "relative"}), "cwd"),
        ("_rethread/list/subscribe", json!({"archived": "some"}), "archived"),
        ("_rethread/list/unsubscribe", json!({}), "subscriptionId"),
        ("_rethread/list/unsubscribe", json!({"subscriptionId": "unknown"}), "subscriptionId"),
    ] {
        let error = client.refused(method, params).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)), "{error}");
    }
    for _ in 0..16 {
        subscribe(&client, json!({})).await;
    }
    let error = client.refused("_rethread/list/subscribe", json!({})).await;
    assert!(error["data"]["hint"].to_string().contains("unsubscribe"), "{error}");
}

pairings!(
    a_list_says_what_each_session_is_doing,
    changes_of_the_list_are_reported,
    changes_of_other_processes_are_reported,
    a_subscription_is_of_one_directory_and_archive,
    what_is_not_listed_is_not_reported,
    wrong_subscriptions_are_refused,
);

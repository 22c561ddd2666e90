//! The JetBrains AIR extension, for clients of both versions that declare it.

use rethread::edge::Version;
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

/// A client that declares these capabilities of the extension.
async fn air(world: &World, capabilities: &[&str]) -> Client {
    introduced(world, json!({"version": 1, "capabilities": capabilities})).await.0
}

/// A client that declares this of the extension, and what it is told of it.
async fn introduced(world: &World, declared: Value) -> (Client, Value) {
    let client = world.connect();
    let mut params = client.introduction();
    let name = match client.version {
        Version::V1 => "clientCapabilities",
        Version::V2 => "capabilities",
    };
    params[name]["_meta"] = json!({"jetbrains": {"air": declared}});
    let answer = client.ask("initialize", params).await;
    (client, answer["_meta"]["jetbrains"]["air"].clone())
}

/// The options of a list.
fn listed(options: Value) -> Value {
    json!({"_meta": {"jetbrains": {"air": {"list": options}}}})
}

fn is_replay_end(update: &Value) -> bool {
    update["_meta"]["jetbrains"]["air"]["loadReplayEnd"] == true
}

async fn the_end_of_a_replay_is_marked_for_those_who_want_it(pairing: Pairing) {
    let world = World::of(pairing);
    let plain = air(&world, &["sessionIndex"]).await;
    let session = plain.new_session().await;
    plain.prompt(&session, "say hello").await;
    plain.load(&session).await;
    assert!(!plain.updates(&session).iter().any(is_replay_end));
    let client = air(&world, &["loadReplayEnd"]).await;
    let (method, params) = client.load_params(&session);
    let id = client.begin(method, params).await;
    client.answer(&id).await.expect("it is loaded");
    let updates = client.updates(&session);
    assert_eq!(updates.iter().filter(|update| is_replay_end(update)).count(), 1, "{updates:#?}");
    let said = client.server_messages();
    let place = |is: &dyn Fn(&Value) -> bool| said.iter().position(is).expect("it was sent");
    let end = place(&|message| is_replay_end(&message["params"]["update"]));
    assert!(place(&|message| message.to_string().contains("hello")) < end, "after the replay");
    assert!(end < place(&|message| message["id"] == id && message.get("result").is_some()));
    client.resume(&session).await;
    let marks = client.updates(&session).iter().filter(|update| is_replay_end(update)).count();
    assert_eq!(marks, 1, "a resume has no replay");
}

async fn a_fork_can_be_at_a_message(pairing: Pairing) {
    let world = World::of(pairing);
    let client = air(&world, &[]).await;
    let session = client.new_session().await;
    client.prompt(&session, "say one").await;
    client.prompt(&session, "say two").await;
    let late = world.ready_as(Version::V2).await;
    late.load(&session).await;
    let updates = late.updates(&session);
    let first = updates.iter().find(|update| update.to_string().contains("\"one\"")).expect("it was said");
    let fork = json!({"jetbrains": {"air": {"fork": {"version": 1, "messageId": first["messageId"]}}}});
    let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": [], "_meta": fork});
    let made = client.ask("session/fork", params.clone()).await["sessionId"].clone();
    let made = made.as_str().expect("an id").to_owned();
    client.load(&made).await;
    assert_eq!(client.view(&made).agent(), ["one"]);
    // For a client that does not declare it, the key means nothing.
    let plain = world.ready().await;
    let made = plain.ask("session/fork", params).await["sessionId"].clone();
    let made = made.as_str().expect("an id").to_owned();
    plain.load(&made).await;
    assert_eq!(plain.view(&made).agent(), ["one", "two"]);
}

async fn deleting_means_archiving_without_an_index(pairing: Pairing) {
    let world = World::of(pairing);
    let client = air(&world, &["loadReplayEnd"]).await;
    let session = client.new_session().await;
    client.prompt(&session, "say kept").await;
    client.ask("session/delete", json!({"sessionId": session})).await;
    let archived = client.ask("session/list", json!({"archived": "only"})).await;
    assert_eq!(archived["sessions"][0]["sessionId"], session, "{archived}");
    let indexed = air(&world, &["sessionIndex"]).await;
    indexed.ask("session/delete", json!({"sessionId": session})).await;
    let all = indexed.ask("session/list", listed(json!({"archived": "all"}))).await;
    assert_eq!(all["sessions"], json!([]), "with an index it is deleted");
}

async fn what_there_is_is_announced_to_those_who_can_use_it(pairing: Pairing) {
    let world = World::of(pairing);
    let (_client, told) = introduced(&world, json!({"version": 1, "capabilities": ["sessionIndex"]})).await;
    let index =
        ["sessionIndex", "sessionBatchGet", "sessionArchive", "sessionRename", "sessionListSubscribe"];
    assert_eq!(told, json!({"version": 1, "capabilities": index}));
    for declared in [
        json!({"version": 1, "capabilities": ["loadReplayEnd"]}),
        json!({"version": 0, "capabilities": ["sessionIndex"]}),
        json!({"capabilities": ["sessionIndex"]}),
    ] {
        let (client, told) = introduced(&world, declared.clone()).await;
        assert_eq!(told, Value::Null, "{declared}");
        assert!(client.request("_session/batch_get", json!({"sessionIds": []})).await.is_err(), "{declared}");
    }
}

async fn the_index_of_sessions_is_served(pairing: Pairing) {
    let world = World::of(pairing);
    let client = air(&world, &["sessionIndex"]).await;
    let mut sessions = Vec::new();
    for text in ["say one", "say two", "say three"] {
        let session = client.new_session().await;
        client.prompt(&session, text).await;
        sessions.push(session);
    }
    let page = client.ask("session/list", listed(json!({"limit": 2, "includeWorktrees": true}))).await;
    assert_eq!(page["sessions"].as_array().map(Vec::len), Some(2));
    let row = &page["sessions"][0];
    assert_eq!(row["_meta"]["jetbrains"]["air"]["state"], "idle", "{row}");
    assert_eq!(row["_meta"]["jetbrains"]["air"]["archived"], false);
    let ids = json!([sessions[2], "unknown", sessions[0]]);
    let rows = client.ask("_session/batch_get", json!({"sessionIds": ids})).await;
    let found: Vec<_> =
        rows["sessions"].as_array().expect("rows").iter().map(|row| row["sessionId"].clone()).collect();
    assert_eq!(found, [json!(sessions[2]), json!(sessions[0])], "in the order of the request");
    let subscription = client.ask("_session/list/subscribe", json!({"cwd": CWD})).await;
    client.ask("_session/rename", json!({"sessionId": sessions[0], "title": "Named"})).await;
    let renamed = client
        .wait("the new title", |message| {
            message["method"] == "_session/list/changes" && message.to_string().contains("Named")
        })
        .await;
    assert_eq!(renamed["params"]["subscriptionId"], subscription["subscriptionId"]);
    assert!(renamed["params"]["sessions"][0]["_meta"]["jetbrains"]["air"]["state"].is_string());
    for method in ["_session/archive", "_session/archive", "_session/unarchive", "_session/unarchive"] {
        client.ask(method, json!({"sessionId": sessions[0]})).await;
    }
    client.ask("_session/archive", json!({"sessionId": sessions[0]})).await;
    let archived = client.ask("session/list", listed(json!({"archived": "archived"}))).await;
    assert_eq!(archived["sessions"].as_array().map(Vec::len), Some(1), "{archived}");
    let params = json!({"subscriptionId": subscription["subscriptionId"]});
    client.ask("_session/list/unsubscribe", params).await;
    for (method, params) in [
        ("_session/batch_get", json!({"sessionIds": "x"})),
        ("_session/rename", json!({"sessionId": sessions[1], "title": " "})),
        ("_session/list/subscribe", json!({})),
        ("_session/list/subscribe", json!({"cwd": "relative"})),
        ("session/list", listed(json!({"archived": "some"}))),
        ("session/list", listed(json!({"limit": 0}))),
        ("session/list", listed(json!({"includeWorktrees": 1}))),
    ] {
        assert_eq!(client.refused(method, params).await["code"], -32602, "{method}");
    }
    // Another client has no such methods, unless its agent has them.
    let plain = world.ready().await;
    assert!(plain.request("_session/batch_get", json!({"sessionIds": []})).await.is_err());
}

pairings!(
    the_end_of_a_replay_is_marked_for_those_who_want_it,
    a_fork_can_be_at_a_message,
    deleting_means_archiving_without_an_index,
    the_index_of_sessions_is_served,
    what_there_is_is_announced_to_those_who_can_use_it,
);

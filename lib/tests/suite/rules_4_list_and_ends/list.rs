//! Rules 4.1 to 4.11: listing sessions.

use std::collections::BTreeSet;

use rethread::edge::Version;
use rethread_testkit::agent::AgentConfig;
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{ids, info, list, listed, listed_session, of_sessions, on, page, told_of_sessions};

/// How many sessions a page has at most.
const PAGE: usize = 50;

async fn new_in(client: &Client, params: Value) -> String {
    let made = client.ask("session/new", params).await;
    let session = made["sessionId"].as_str().expect("a new session has an id").to_owned();
    client.prompt(&session, "say hello").await;
    session
}

async fn r4_01_the_list_is_there_whatever_the_agent_can_do(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig::bare(config.speaks));
    let client = world.connect();
    let answer = client.initialize().await;
    match pairing.client {
        Version::V1 => assert_eq!(answer["agentCapabilities"]["sessionCapabilities"]["list"], json!({})),
        Version::V2 => assert!(answer["capabilities"]["session"].is_object()),
    }
    let session = listed_session(&client).await;
    assert_eq!(listed(&client, json!({})).await, [session]);
}

async fn r4_02_no_match_is_an_empty_list(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    assert_eq!(client.ask("session/list", json!({})).await["sessions"], json!([]));
    // A session without a prompt is none that anybody would look for.
    let empty = client.new_session().await;
    assert_eq!(client.ask("session/list", json!({})).await["sessions"], json!([]));
    client.prompt(&empty, "say hello").await;
    assert_eq!(client.ask("session/list", json!({"cwd": "/elsewhere"})).await["sessions"], json!([]));
    assert_eq!(listed(&client, json!({})).await, [empty]);
}

async fn r4_03_the_newest_comes_first(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let (one, two, three) =
        (listed_session(&client).await, listed_session(&client).await, listed_session(&client).await);
    assert_eq!(listed(&client, json!({})).await, [three.as_str(), two.as_str(), one.as_str()]);
    client.prompt(&one, "say again").await;
    assert_eq!(listed(&client, json!({})).await, [one, three, two]);
}

async fn r4_03_pages_are_stable_while_sessions_change(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let mut made = Vec::new();
    for _ in 0..PAGE + 8 {
        made.push(listed_session(&client).await);
    }
    made.reverse();
    let first = client.ask("session/list", json!({})).await;
    assert_eq!(ids(&first), made[..PAGE]);
    // One of this page, one of the next, and a new one come to the top.
    client.prompt(&made[3], "say again").await;
    client.prompt(&made[PAGE + 2], "say again").await;
    let newest = listed_session(&client).await;
    let second = listed(&client, json!({"cursor": first["nextCursor"]})).await;
    let mut rest = made[PAGE..].to_vec();
    rest.remove(2);
    assert_eq!(second, rest, "nothing twice, and nothing that did not change is missing");
    let again = client.ask("session/list", json!({})).await;
    assert_eq!(ids(&again)[..3], [newest, made[PAGE + 2].clone(), made[3].clone()]);
    // The same cursor gives the same page again.
    assert_eq!(listed(&client, json!({"cursor": first["nextCursor"]})).await, rest);
}

async fn r4_04_a_bad_cursor_is_refused(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let session = listed_session(&client).await;
    for cursor in [json!("nonsense"), json!("!!!"), json!("AAAA"), json!(""), json!(7), json!({"at": 1})] {
        let error = client.refused("session/list", json!({"cursor": cursor})).await;
        assert_eq!(error["code"], -32602, "{cursor}");
        assert_eq!(error["data"]["field"], "cursor", "{cursor}");
    }
    // Null and absent are the beginning.
    assert_eq!(listed(&client, json!({"cursor": null})).await, [session]);
}

async fn r4_05_a_page_has_an_end(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    for _ in 0..PAGE + 1 {
        listed_session(&client).await;
    }
    let first = client.ask("session/list", json!({})).await;
    assert_eq!(first["sessions"].as_array().map(Vec::len), Some(PAGE));
}

async fn r4_05_a_list_fits_our_own_line_limit(pairing: Pairing) {
    const LIMIT: usize = 20_000;
    let client = World::of(pairing).set(|config| config.longest_line = LIMIT).ready().await;
    let mut made = BTreeSet::new();
    for at in 0..10 {
        let cwd = format!("/{at}/{}", "d".repeat(4000));
        made.insert(new_in(&client, json!({"cwd": cwd, "mcpServers": []})).await);
    }
    let (mut seen, mut cursor) = (BTreeSet::new(), Value::Null);
    loop {
        let answer = client.ask("session/list", json!({"cursor": cursor})).await;
        assert!(answer.to_string().len() < LIMIT, "{} bytes", answer.to_string().len());
        assert_ne!(answer["sessions"], json!([]));
        seen.extend(ids(&answer));
        cursor = answer["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, made);
}

async fn r4_06_the_last_page_has_no_cursor(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let mut made = BTreeSet::new();
    for _ in 0..PAGE {
        made.insert(listed_session(&client).await);
    }
    // Exactly one page: there is no empty one behind it.
    assert_eq!(list(&client, json!({})).await.len(), PAGE);
    made.insert(listed_session(&client).await);
    let first = client.ask("session/list", json!({})).await;
    assert!(first["nextCursor"].as_str().is_some_and(|cursor| !cursor.is_empty()));
    let second = page(&client, json!({"cursor": first["nextCursor"]})).await;
    let mut seen: BTreeSet<_> = ids(&first).into_iter().collect();
    seen.extend(ids(&second));
    assert_eq!(seen, made);
}

async fn r4_07_a_directory_means_only_that_directory(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let here = new_in(&client, json!({"cwd": "/work", "mcpServers": []})).await;
    new_in(&client, json!({"cwd": "/work/sub", "mcpServers": []})).await;
    new_in(&client, json!({"cwd": "/workshop", "mcpServers": []})).await;
    let other = json!({"cwd": "/other", "mcpServers": [], "additionalDirectories": ["/work"]});
    let other = new_in(&client, other).await;
    assert_eq!(listed(&client, json!({"cwd": "/work"})).await, [here.as_str()]);
    assert_eq!(listed(&client, json!({"cwd": "/work/"})).await, [here], "the same directory");
    assert_eq!(listed(&client, json!({"cwd": "/other"})).await, [other]);
    assert_eq!(listed(&client, json!({})).await.len(), 4);
    for cwd in [json!("work"), json!("./work"), json!("")] {
        let error = client.refused("session/list", json!({"cwd": cwd})).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("cwd")));
    }
}

async fn r4_08_listing_changes_nothing(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = listed_session(&client).await;
    let next = world.restarted(&client).await.ready().await;
    let told = told_of_sessions(&world);
    let before = list(&next, json!({})).await;
    assert_eq!(list(&next, json!({"cwd": CWD, "archived": "include"})).await, before);
    assert_eq!(told_of_sessions(&world), told, "the agent hears nothing of it");
    assert_eq!(on(&next, "session/status", &session).await["status"], "saved");
    assert!(next.updates(&session).is_empty());
}

async fn r4_09_times_are_written_as_the_protocol_wants(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let session = listed_session(&client).await;
    let first = info(&client, &session).await["updatedAt"].clone();
    let text = first.as_str().expect("a session has a time");
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    client.prompt(&session, "slow 1").await;
    let later = info(&client, &session).await["updatedAt"].clone();
    assert!(later.as_str() > first.as_str(), "{later} is after {first}");
}

async fn r4_10_all_roots_are_told_in_their_order(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let roots = json!(["/z", "/a", "/m"]);
    let params = json!({"cwd": CWD, "mcpServers": [], "additionalDirectories": roots});
    let session = new_in(&client, params).await;
    assert_eq!(info(&client, &session).await["additionalDirectories"], roots);
    // The last word counts, and nothing comes back from earlier ones.
    let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": [], "additionalDirectories": ["/b"]});
    client.ask("session/resume", params).await;
    assert_eq!(info(&client, &session).await["additionalDirectories"], json!(["/b"]));
    client.resume(&session).await;
    let none = info(&client, &session).await["additionalDirectories"].clone();
    assert!(none.is_null() || none == json!([]), "{none}");
}

async fn r4_11_archived_sessions_are_filtered(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    assert_eq!(of_sessions(&client, &answer)["archive"], json!({}));
    if pairing.client == Version::V1 {
        assert_eq!(of_sessions(&client, &answer)["list"], json!({}), "archive implies list");
    }
    let (kept, away) = (listed_session(&client).await, listed_session(&client).await);
    let elsewhere = new_in(&client, json!({"cwd": "/other", "mcpServers": []})).await;
    on(&client, "session/archive", &away).await;
    on(&client, "session/archive", &elsewhere).await;
    assert_eq!(listed(&client, json!({})).await, [kept.as_str()]);
    assert_eq!(listed(&client, json!({"archived": null})).await, [kept.as_str()]);
    assert_eq!(listed(&client, json!({"archived": "exclude"})).await, [kept.as_str()]);
    assert_eq!(listed(&client, json!({"archived": "only"})).await, [elsewhere.as_str(), away.as_str()]);
    assert_eq!(listed(&client, json!({"archived": "only", "cwd": CWD})).await, [away.as_str()]);
    assert_eq!(
        listed(&client, json!({"archived": "include"})).await,
        [elsewhere, away.clone(), kept.clone()]
    );
    for session in list(&client, json!({"archived": "include"})).await {
        assert_eq!(session["archived"], json!(session["sessionId"] != *kept), "{session}");
    }
    for filter in [json!("all"), json!("_mine"), json!(true), json!("")] {
        let error = client.refused("session/list", json!({"archived": filter})).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("archived")));
    }
}

async fn r4_11_the_filter_comes_before_the_pages(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let away = listed_session(&client).await;
    for _ in 0..PAGE + 1 {
        listed_session(&client).await;
    }
    on(&client, "session/archive", &away).await;
    // It is older than a whole page of others.
    assert_eq!(listed(&client, json!({"archived": "only"})).await, [away]);
}

pairings!(
    r4_01_the_list_is_there_whatever_the_agent_can_do,
    r4_02_no_match_is_an_empty_list,
    r4_03_the_newest_comes_first,
    r4_03_pages_are_stable_while_sessions_change,
    r4_04_a_bad_cursor_is_refused,
    r4_05_a_page_has_an_end,
    r4_05_a_list_fits_our_own_line_limit,
    r4_06_the_last_page_has_no_cursor,
    r4_07_a_directory_means_only_that_directory,
    r4_08_listing_changes_nothing,
    r4_09_times_are_written_as_the_protocol_wants,
    r4_10_all_roots_are_told_in_their_order,
    r4_11_archived_sessions_are_filtered,
    r4_11_the_filter_comes_before_the_pages,
);

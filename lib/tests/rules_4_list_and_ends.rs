//! Rules 4.1 to 4.26: listing, deleting, archiving, status, title, fork and close.

use std::collections::BTreeSet;

use agent_client_protocol_schema::{v1, v2};
use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, Echo, Mind};
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

/// How many sessions a page has at most.
const PAGE: usize = 50;

/// A session that can be listed: one with a prompt.
async fn listed_session(client: &Client) -> String {
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
    session
}

async fn new_in(client: &Client, params: Value) -> String {
    let made = client.ask("session/new", params).await;
    let session = made["sessionId"].as_str().expect("a new session has an id").to_owned();
    client.prompt(&session, "say hello").await;
    session
}

/// The only page of a list.
async fn page(client: &Client, params: Value) -> Value {
    let page = client.ask("session/list", params).await;
    assert!(page.get("nextCursor").is_none(), "one page was expected: {page}");
    page
}

async fn list(client: &Client, params: Value) -> Vec<Value> {
    page(client, params).await["sessions"].as_array().expect("a list has sessions").clone()
}

fn ids(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().expect("a list has sessions");
    sessions.iter().map(|session| session["sessionId"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn listed(client: &Client, params: Value) -> Vec<String> {
    ids(&page(client, params).await)
}

/// What is listed of one session.
async fn info(client: &Client, session: &str) -> Value {
    let found = list(client, json!({"archived": "include"})).await;
    found.into_iter().find(|info| info["sessionId"] == session).expect("the session is listed")
}

async fn on(client: &Client, method: &str, session: &str) -> Value {
    client.ask(method, json!({"sessionId": session})).await
}

/// How much the agent was told of particular sessions.
fn told_of_sessions(world: &World) -> usize {
    world.agent.received().iter().filter(|received| received.params["sessionId"].is_string()).count()
}

/// Asserts that a method knows no such session, and says so.
async fn unknown(client: &Client, method: &str, mut params: Value) {
    let error = client.refused(method, params.take()).await;
    assert_eq!(error["code"], -32002, "{method}: {error}");
    assert!(error["data"]["sessionId"].is_string(), "{method}: {error}");
}

fn is_idle(message: &Value, session: &str) -> bool {
    message["params"]["sessionId"] == session && message["params"]["update"]["state"] == "idle"
}

/// Where in the conversation since a mark the answer to a request stands.
fn answer_at(heard: &[Value], id: &Value) -> usize {
    let answer = |message: &Value| message.get("method").is_none() && message["id"] == *id;
    heard.iter().position(answer).expect("the request was answered")
}

/// Asserts that a running turn was seen to end as cancelled before this request was answered, and that nothing
/// about the session followed.
async fn ended_before(client: &Client, session: &str, mark: usize, prompt: &Value, request: &Value) {
    client.answer(request).await.expect("it succeeds");
    assert_eq!(client.finish(session, prompt).await.stop, "cancelled");
    // Another session goes all the way to the agent: what was under way has come.
    listed_session(client).await;
    let heard = client.heard_since(mark);
    let answered = answer_at(&heard, request);
    match client.version {
        Version::V1 => assert!(answer_at(&heard, prompt) < answered, "the prompt is answered first"),
        Version::V2 => {
            let idle: Vec<_> = (0..heard.len()).filter(|at| is_idle(&heard[*at], session)).collect();
            assert_eq!(idle.len(), 1);
            assert!(idle[0] < answered, "the end of the turn is told first");
            assert_eq!(heard[idle[0]]["params"]["update"]["stopReason"], "cancelled");
        }
    }
    let after = &heard[answered + 1..];
    let late: Vec<_> = after.iter().filter(|message| message["params"]["sessionId"] == session).collect();
    assert!(late.is_empty(), "said of a session that is gone: {late:?}");
}

async fn r4_01_the_list_is_there_whatever_the_agent_can_do(pairing: Pairing) {
    let world = World::having(pairing, |config| AgentConfig::bare(config.speaks));
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
    assert_eq!(listed(&client, json!({"cwd": "/work"})).await, [here]);
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
    client.hang_up().await;
    world.agent.wait_gone().await;
    let next = world.again().ready().await;
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
    let session = match pairing.client {
        Version::V1 => &answer["agentCapabilities"]["sessionCapabilities"],
        Version::V2 => &answer["capabilities"]["session"],
    };
    assert_eq!(session["archive"], json!({}));
    if pairing.client == Version::V1 {
        assert_eq!(session["list"], json!({}), "archive implies list");
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

async fn r4_12_a_deleted_session_is_gone(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    let capability = match pairing.client {
        Version::V1 => &answer["agentCapabilities"]["sessionCapabilities"]["delete"],
        Version::V2 => &answer["capabilities"]["session"]["delete"],
    };
    assert_eq!(*capability, json!({}));
    let (gone, kept) = (listed_session(&client).await, listed_session(&client).await);
    on(&client, "session/delete", &gone).await;
    assert_eq!(listed(&client, json!({"archived": "include"})).await, [kept.as_str()]);
    // Once more, and what never was, succeed silently.
    on(&client, "session/delete", &gone).await;
    on(&client, "session/delete", "../../etc/passwd").await;
    unknown(&client, "session/status", json!({"sessionId": gone})).await;
    unknown(&client, "session/set_title", json!({"sessionId": gone, "title": "x"})).await;
    unknown(&client, "session/archive", json!({"sessionId": gone})).await;
    unknown(&client, "session/prompt", json!({"sessionId": gone, "prompt": [{"type": "text", "text": "x"}]}))
        .await;
    assert_eq!(client.load_refused(&gone).await["code"], -32002);
    assert_eq!(client.prompt(&kept, "say still here").await.stop, "end_turn");
    let next = world.again().ready().await;
    assert_eq!(listed(&next, json!({})).await, [kept]);
    assert_eq!(next.load_refused(&gone).await["code"], -32002);
}

async fn r4_12_the_agent_forgets_its_side_too(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let gone = listed_session(&client).await;
    on(&client, "session/delete", &gone).await;
    let native = world.agent.wait_told("session/delete", 1).await;
    assert_eq!(native["sessionId"], "native-1");
}

async fn r4_12_an_agent_that_cannot_delete_is_not_asked(pairing: Pairing) {
    let world = World::having(pairing, |config| config.without(&["delete"]));
    let client = world.ready().await;
    let session = listed_session(&client).await;
    on(&client, "session/delete", &session).await;
    listed_session(&client).await;
    assert!(world.agent.told("session/delete").is_empty());
}

async fn r4_12_deleting_ends_a_running_turn(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let mark = client.mark();
    let prompt = client.begin_prompt(&session, "say a; toolopen call_1; hang").await;
    client.wait_update(mark, &session, "the tool call", |update| update["toolCallId"] == "call_1").await;
    let request = client.begin("session/delete", json!({"sessionId": session})).await;
    ended_before(&client, &session, mark, &prompt, &request).await;
    world.agent.wait_told("session/cancel", 1).await;
    assert_eq!(client.load_refused(&session).await["code"], -32002);
}

async fn r4_13_archiving_ends_a_running_turn(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let mark = client.mark();
    let prompt = client.begin_prompt(&session, "say a; toolopen call_1; hang").await;
    client.wait_update(mark, &session, "the tool call", |update| update["toolCallId"] == "call_1").await;
    let request = client.begin("session/archive", json!({"sessionId": session})).await;
    ended_before(&client, &session, mark, &prompt, &request).await;
    world.agent.wait_told("session/cancel", 1).await;
    world.agent.wait_told("session/close", 1).await;
    assert_eq!(on(&client, "session/status", &session).await["status"], "saved");
    assert_eq!(info(&client, &session).await["archived"], true);
    let text = json!([{"type": "text", "text": "x"}]);
    unknown(&client, "session/prompt", json!({"sessionId": session, "prompt": text})).await;
    // What was said is kept.
    let other = world.ready().await;
    other.load(&session).await;
    assert_eq!(other.view(&session).agent(), ["a"]);
}

async fn r4_13_archiving_can_be_repeated_and_knows_what_exists(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let session = listed_session(&client).await;
    on(&client, "session/archive", &session).await;
    on(&client, "session/archive", &session).await;
    assert_eq!(listed(&client, json!({"archived": "only"})).await, [session]);
    unknown(&client, "session/archive", json!({"sessionId": "nobody"})).await;
}

async fn r4_14_unarchiving_opens_nothing(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = listed_session(&client).await;
    on(&client, "session/archive", &session).await;
    world.agent.wait_told("session/close", 1).await;
    let told = told_of_sessions(&world);
    on(&client, "session/unarchive", &session).await;
    on(&client, "session/unarchive", &session).await;
    assert_eq!(listed(&client, json!({})).await, [session.as_str()]);
    assert_eq!(on(&client, "session/status", &session).await["status"], "saved");
    assert_eq!(told_of_sessions(&world), told, "the agent hears nothing of it");
    unknown(&client, "session/unarchive", json!({"sessionId": "nobody"})).await;
    // It can be taken up again.
    client.resume(&session).await;
    assert_eq!(client.prompt(&session, "say back").await.stop, "end_turn");
}

async fn r4_15_asking_for_the_status_has_no_effect(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = listed_session(&client).await;
    client.hang_up().await;
    world.agent.wait_gone().await;
    let next = world.again().ready().await;
    let told = told_of_sessions(&world);
    for _ in 0..2 {
        let status = on(&next, "session/status", &session).await;
        assert_eq!(status["status"], "saved");
        assert!(status.get("state").is_none());
    }
    assert_eq!(told_of_sessions(&world), told);
    assert!(next.updates(&session).is_empty());
    let text = json!([{"type": "text", "text": "x"}]);
    unknown(&next, "session/prompt", json!({"sessionId": session, "prompt": text})).await;
    unknown(&next, "session/status", json!({"sessionId": "nobody"})).await;
}

async fn r4_16_an_open_session_says_so_to_any_connection(pairing: Pairing) {
    let world = World::of(pairing);
    let (client, other) = (world.ready().await, world.ready().await);
    let session = client.new_session().await;
    for asking in [&client, &other] {
        assert_eq!(on(asking, "session/status", &session).await["status"], "open");
    }
    assert!(other.updates(&session).is_empty());
    client.close(&session).await.expect("it can be closed");
    for asking in [&client, &other] {
        assert_eq!(on(asking, "session/status", &session).await["status"], "saved");
    }
}

async fn r4_16_version_2_is_told_the_state(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let status = on(&client, "session/status", &session).await;
    assert_eq!(status["state"], json!({"state": "idle"}));
    let prompt = client.begin_prompt(&session, "hang").await;
    world.agent.wait_told("session/prompt", 1).await;
    client.wait_update(0, &session, "running", |update| update["state"] == "running").await;
    let status = on(&client, "session/status", &session).await;
    assert_eq!((&status["status"], &status["state"]["state"]), (&json!("open"), &json!("running")));
    serde_json::from_value::<v2::SessionStatusResponse>(status).expect("it fits the schema");
    client.cancel(&session).await;
    client.finish(&session, &prompt).await;
    let status = on(&client, "session/status", &session).await;
    let state = json!({"state": "idle", "stopReason": "cancelled"});
    assert_eq!(status["state"], state, "the last stop reason, for context");
}

async fn r4_16_version_1_has_no_state_in_the_status(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let session = listed_session(&client).await;
    let status = on(&client, "session/status", &session).await;
    assert_eq!(status, json!({"status": "open"}));
    serde_json::from_value::<v1::SessionStatusResponse>(status).expect("it fits the schema");
}

async fn r4_17_any_session_can_be_given_a_title(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    let session = match pairing.client {
        Version::V1 => &answer["agentCapabilities"]["sessionCapabilities"],
        Version::V2 => &answer["capabilities"]["session"],
    };
    assert_eq!(session["title"], json!({}));
    let session = listed_session(&client).await;
    let mark = client.mark();
    client.ask("session/set_title", json!({"sessionId": session, "title": "While open"})).await;
    client.wait_update(mark, &session, "the title", |update| update["title"] == "While open").await;
    assert_eq!(info(&client, &session).await["title"], "While open");
    client.hang_up().await;
    world.agent.wait_gone().await;
    let next = world.again().ready().await;
    let told = told_of_sessions(&world);
    next.ask("session/set_title", json!({"sessionId": session, "title": "While saved"})).await;
    assert_eq!(info(&next, &session).await["title"], "While saved");
    assert_eq!(on(&next, "session/status", &session).await["status"], "saved", "it was not opened");
    assert_eq!(told_of_sessions(&world), told);
    next.load(&session).await;
    assert_eq!(next.view(&session).title.as_deref(), Some("While saved"));
    unknown(&next, "session/set_title", json!({"sessionId": "nobody", "title": "x"})).await;
}

async fn r4_18_a_title_is_answered_as_it_is_stored(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = listed_session(&client).await;
    let params = json!({"sessionId": session, "title": "  My \n\t title "});
    assert_eq!(client.ask("session/set_title", params.clone()).await["title"], "My title");
    for title in [json!(""), json!(" \n "), json!(null), json!(7)] {
        let error = client.refused("session/set_title", json!({"sessionId": session, "title": title})).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("title")), "{title}");
    }
    assert_eq!(info(&client, &session).await["title"], "My title");
    client.hang_up().await;
    let next = world.again().ready().await;
    let blank = json!({"sessionId": session, "title": "  "});
    assert_eq!(next.refused("session/set_title", blank).await["code"], -32602);
    assert_eq!(info(&next, &session).await["title"], "My title");
    assert_eq!(next.ask("session/set_title", params).await["title"], "My title");
}

async fn r4_18_a_users_title_is_kept_over_the_agents_and_the_prompts(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say hello\nsay more").await;
    assert_eq!(info(&client, &session).await["title"], "say hello");
    client.prompt(&session, "title By the agent").await;
    assert_eq!(info(&client, &session).await["title"], "By the agent");
    client.prompt(&session, "say something else").await;
    assert_eq!(info(&client, &session).await["title"], "By the agent");
    client.ask("session/set_title", json!({"sessionId": session, "title": "By me"})).await;
    client.prompt(&session, "title Not this").await;
    assert_eq!(info(&client, &session).await["title"], "By me");
    assert_eq!(client.view(&session).title.as_deref(), Some("By me"), "nor is it told otherwise");
    client.hang_up().await;
    world.agent.wait_gone().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    next.prompt(&session, "title Nor this").await;
    assert_eq!(next.view(&session).title.as_deref(), Some("By me"));
    assert_eq!(info(&next, &session).await["title"], "By me");
}

async fn r4_18_a_title_set_before_the_first_prompt_is_kept(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let session = client.new_session().await;
    client.ask("session/set_title", json!({"sessionId": session, "title": "First"})).await;
    client.prompt(&session, "say hello; title Later").await;
    assert_eq!(info(&client, &session).await["title"], "First");
}

async fn r4_19_a_fork_is_a_session_of_its_own(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    let session = match pairing.client {
        Version::V1 => &answer["agentCapabilities"]["sessionCapabilities"],
        Version::V2 => &answer["capabilities"]["session"],
    };
    assert_eq!(session["fork"], json!({}));
    let session = client.new_session().await;
    client.prompt(&session, "say one; tool call_1").await;
    let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": []});
    let made = client.ask("session/fork", params).await;
    let fork = made["sessionId"].as_str().expect("a fork has an id").to_owned();
    assert_ne!(fork, session);
    assert_eq!(client.prompt(&fork, "say of the fork").await.stop, "end_turn");
    assert_eq!(client.prompt(&session, "say of the first").await.stop, "end_turn");
    client.hang_up().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session).agent(), ["one", "of the first"], "it goes its own way");
    next.load(&fork).await;
    assert_eq!(next.view(&fork).agent(), ["one", "of the fork"], "from what was there before");
    assert_eq!(next.view(&fork).user(), ["say one; tool call_1", "say of the fork"]);
    let both: BTreeSet<_> = listed(&next, json!({})).await.into_iter().collect();
    assert_eq!(both, BTreeSet::from([session, fork]));
}

async fn r4_20_a_fork_is_active_where_the_request_says(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = listed_session(&client).await;
    let params = json!({"sessionId": session, "cwd": "/elsewhere", "mcpServers": [],
        "additionalDirectories": ["/more"]});
    let made = client.ask("session/fork", params).await;
    let fork = made["sessionId"].as_str().expect("a fork has an id").to_owned();
    assert_eq!(on(&client, "session/status", &fork).await["status"], "open");
    assert_eq!(client.prompt(&fork, "say here").await.stop, "end_turn", "without a resume");
    let info = info(&client, &fork).await;
    assert_eq!((&info["cwd"], &info["additionalDirectories"]), (&json!("/elsewhere"), &json!(["/more"])));
    for params in
        [json!({"sessionId": session, "cwd": "relative", "mcpServers": []}), json!({"sessionId": session})]
    {
        assert_eq!(client.refused("session/fork", params).await["code"], -32602);
    }
    unknown(&client, "session/fork", json!({"sessionId": "nobody", "cwd": CWD, "mcpServers": []})).await;
}

/// The protocol has no place for the message to fork at; ours is in `_meta`.
async fn r4_21_a_fork_takes_everything_unless_a_message_is_named(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say one").await;
    client.prompt(&session, "say two").await;
    let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": [], "atMessage": "nobody"});
    let made = client.ask("session/fork", params).await;
    let fork = made["sessionId"].as_str().expect("a fork has an id").to_owned();
    client.load(&fork).await;
    assert_eq!(client.view(&fork).agent(), ["one", "two"]);
    let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": [],
        "_meta": {"rethread": {"atMessage": "nobody"}}});
    assert_eq!(client.refused("session/fork", params).await["code"], -32602);
}

async fn r4_22_version_1_closes_by_cancelling(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    assert_eq!(answer["agentCapabilities"]["sessionCapabilities"]["close"], json!({}));
    let session = client.new_session().await;
    let mark = client.mark();
    let prompt = client.begin_prompt(&session, "say a; late last words").await;
    client.wait_update(mark, &session, "the message", |update| update["content"]["text"] == "a").await;
    let request = client.begin("session/close", json!({"sessionId": session})).await;
    ended_before(&client, &session, mark, &prompt, &request).await;
    assert_eq!(client.view(&session).agent(), ["a", "last words"], "what came in the end is shown");
    world.agent.wait_told("session/cancel", 1).await;
    world.agent.wait_told("session/close", 1).await;
    assert_eq!(on(&client, "session/status", &session).await["status"], "saved");
    // Once more is no error; what never was is one.
    client.close(&session).await.expect("it is closed already");
    unknown(&client, "session/close", json!({"sessionId": "nobody"})).await;
    client.load(&session).await;
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
}

async fn r4_23_nothing_is_said_of_a_closed_session(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let mark = client.mark();
    let prompt = client.begin_prompt(&session, "say a; toolopen call_1; late last words").await;
    client.wait_update(mark, &session, "the tool call", |update| update["toolCallId"] == "call_1").await;
    let request = client.begin("session/close", json!({"sessionId": session})).await;
    ended_before(&client, &session, mark, &prompt, &request).await;
    world.agent.wait_told("session/cancel", 1).await;
    world.agent.wait_told("session/close", 1).await;
    let text = json!([{"type": "text", "text": "x"}]);
    unknown(&client, "session/prompt", json!({"sessionId": session, "prompt": text})).await;
    assert_eq!(on(&client, "session/status", &session).await["status"], "saved");
}

async fn r4_24_version_2_closes_what_is_not_open_without_an_error(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = listed_session(&client).await;
    for _ in 0..2 {
        assert_eq!(client.close(&session).await, Ok(json!({})));
    }
    assert_eq!(client.close("nobody").await, Ok(json!({})));
    // One that is open on another connection is not this one's to close.
    let other = world.ready().await;
    client.resume(&session).await;
    assert_eq!(other.close(&session).await, Ok(json!({})));
    assert_eq!(client.prompt(&session, "say still here").await.stop, "end_turn");
}

async fn r4_25_the_end_of_the_work_is_told_before_the_close(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let mark = client.mark();
    let prompt = client.begin_prompt(&session, "late last words").await;
    client.wait_update(mark, &session, "running", |update| update["state"] == "running").await;
    world.agent.wait_told("session/prompt", 1).await;
    let request = client.begin("session/close", json!({"sessionId": session})).await;
    ended_before(&client, &session, mark, &prompt, &request).await;
    let heard = client.heard_since(mark);
    let text = |message: &Value| message["params"]["update"]["content"]["text"] == "last words";
    let late = heard.iter().position(text).expect("the late update is shown");
    let idle = heard.iter().position(|message| is_idle(message, &session)).expect("the end is shown");
    assert!(late < idle && idle < answer_at(&heard, &request));
}

async fn r4_25_closing_an_idle_session_tells_no_state(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let session = listed_session(&client).await;
    let mark = client.mark();
    client.close(&session).await.expect("it can be closed");
    assert!(client.updates_since(mark, &session).is_empty());
}

/// An agent that lets prompts wait: one of the library does while it works.
fn holding(pairing: Pairing) -> World {
    match pairing.mind {
        Mind::Own => World::having(pairing, |config| AgentConfig { echo: Echo::AtGate, ..config }),
        Mind::Library => World::of(pairing),
    }
}

async fn r4_26_a_held_prompt_is_withdrawn_by_the_close(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let (first, second) = match (pairing.agent, pairing.mind) {
        (Version::V1, _) | (_, Mind::Library) => {
            let first = client.begin_prompt(&session, "hang").await;
            world.agent.wait_told("session/prompt", 1).await;
            (Some(first), client.begin_prompt(&session, "say never").await)
        }
        (Version::V2, Mind::Own) => {
            let only = client.begin_prompt(&session, "say never").await;
            world.agent.wait_told("session/prompt", 1).await;
            (None, only)
        }
    };
    client.close(&session).await.expect("it can be closed");
    let error = client.answer(&second).await.expect_err("it was not inserted");
    assert_eq!(error["code"], -32800, "{error}");
    if let Some(first) = first {
        let answer = client.answer(&first).await.expect("it was inserted");
        assert!(answer["messageId"].is_string());
    }
    assert!(!client.view(&session).user().contains(&"say never".to_owned()));
    client.load(&session).await;
    assert!(!client.view(&session).user().contains(&"say never".to_owned()));
}

async fn r4_26_version_1_is_told_that_a_held_prompt_was_cancelled(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let first = client.begin_prompt(&session, "hang").await;
    world.agent.wait_told("session/prompt", 1).await;
    let second = client.begin_prompt(&session, "say never").await;
    client.close(&session).await.expect("it can be closed");
    for prompt in [first, second] {
        assert_eq!(client.answer(&prompt).await, Ok(json!({"stopReason": "cancelled"})));
    }
}

pairings!(
    r4_01_the_list_is_there_whatever_the_agent_can_do,
    r4_02_no_match_is_an_empty_list,
    r4_03_the_newest_comes_first,
    r4_03_pages_are_stable_while_sessions_change,
    r4_04_a_bad_cursor_is_refused,
    r4_05_a_page_has_an_end,
    r4_06_the_last_page_has_no_cursor,
    r4_07_a_directory_means_only_that_directory,
    r4_08_listing_changes_nothing,
    r4_09_times_are_written_as_the_protocol_wants,
    r4_10_all_roots_are_told_in_their_order,
    r4_11_archived_sessions_are_filtered,
    r4_11_the_filter_comes_before_the_pages,
    r4_12_a_deleted_session_is_gone,
    r4_12_an_agent_that_cannot_delete_is_not_asked,
    r4_12_deleting_ends_a_running_turn,
    r4_13_archiving_ends_a_running_turn,
    r4_13_archiving_can_be_repeated_and_knows_what_exists,
    r4_14_unarchiving_opens_nothing,
    r4_15_asking_for_the_status_has_no_effect,
    r4_16_an_open_session_says_so_to_any_connection,
    r4_17_any_session_can_be_given_a_title,
    r4_18_a_title_is_answered_as_it_is_stored,
    r4_18_a_users_title_is_kept_over_the_agents_and_the_prompts,
    r4_18_a_title_set_before_the_first_prompt_is_kept,
    r4_19_a_fork_is_a_session_of_its_own,
    r4_20_a_fork_is_active_where_the_request_says,
    r4_21_a_fork_takes_everything_unless_a_message_is_named,
);

pairings!(client V1:
    r4_26_version_1_is_told_that_a_held_prompt_was_cancelled,
    r4_16_version_1_has_no_state_in_the_status,
    r4_22_version_1_closes_by_cancelling,
);

pairings!(client V2:
    r4_26_a_held_prompt_is_withdrawn_by_the_close,
    r4_16_version_2_is_told_the_state,
    r4_23_nothing_is_said_of_a_closed_session,
    r4_24_version_2_closes_what_is_not_open_without_an_error,
    r4_25_the_end_of_the_work_is_told_before_the_close,
    r4_25_closing_an_idle_session_tells_no_state,
);

pairings!(wire:
    // An agent of the library keeps no sessions.
    r4_12_the_agent_forgets_its_side_too,
);

//! Rules 4.12 to 4.14 and 4.22 to 4.26: deleting, archiving and closing.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, AgentImpl, Echo};
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{info, listed, listed_session, of_sessions, on, told_of_sessions, unknown};

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
    let heard = client.server_messages_since(mark);
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

/// Asserts that a session cannot be prompted any more.
async fn takes_no_prompt(client: &Client, session: &str) {
    let text = json!([{"type": "text", "text": "x"}]);
    unknown(client, "session/prompt", json!({"sessionId": session, "prompt": text})).await;
}

/// Ends a session by this method while a turn of it runs and has a tool call open. Gives the session.
async fn end_running(world: &World, client: &Client, method: &str, script: &str) -> String {
    let session = client.new_session().await;
    let mark = client.mark();
    let prompt = client.begin_prompt(&session, script).await;
    client.wait_update(mark, &session, "the tool call", |update| update["toolCallId"] == "call_1").await;
    let request = client.begin(method, json!({"sessionId": session})).await;
    ended_before(client, &session, mark, &prompt, &request).await;
    world.agent.wait_received("session/cancel", 1).await;
    session
}

async fn r4_12_a_deleted_session_is_gone(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    assert_eq!(of_sessions(&client, &answer)["delete"], json!({}));
    let (gone, kept) = (listed_session(&client).await, listed_session(&client).await);
    on(&client, "session/delete", &gone).await;
    assert_eq!(listed(&client, json!({"archived": "include"})).await, [kept.as_str()]);
    // Once more, and what never was, succeed silently.
    on(&client, "session/delete", &gone).await;
    on(&client, "session/delete", "../../etc/passwd").await;
    unknown(&client, "session/status", json!({"sessionId": gone})).await;
    unknown(&client, "session/set_title", json!({"sessionId": gone, "title": "x"})).await;
    unknown(&client, "session/archive", json!({"sessionId": gone})).await;
    takes_no_prompt(&client, &gone).await;
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
    let theirs = world.agent.sessions();
    on(&client, "session/delete", &gone).await;
    // An agent of the library has nothing of a session that is closed.
    let forgets = match pairing.agent_impl {
        AgentImpl::Own => "session/delete",
        AgentImpl::Library => "session/close",
    };
    assert_eq!(theirs, [world.agent.wait_received(forgets, 1).await["sessionId"].as_str().expect("its id")]);
}

async fn r4_12_an_agent_that_cannot_delete_is_not_asked(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["delete"]));
    let client = world.ready().await;
    let session = listed_session(&client).await;
    on(&client, "session/delete", &session).await;
    listed_session(&client).await;
    assert!(world.agent.received_params("session/delete").is_empty());
}

async fn r4_12_deleting_ends_a_running_turn(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = end_running(&world, &client, "session/delete", "say a; toolopen call_1; hang").await;
    assert_eq!(client.load_refused(&session).await["code"], -32002);
}

async fn r4_13_archiving_ends_a_running_turn(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = end_running(&world, &client, "session/archive", "say a; toolopen call_1; hang").await;
    world.agent.wait_received("session/close", 1).await;
    assert_eq!(on(&client, "session/status", &session).await["status"], "saved");
    assert_eq!(info(&client, &session).await["archived"], true);
    takes_no_prompt(&client, &session).await;
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
    world.agent.wait_received("session/close", 1).await;
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
    world.agent.wait_received("session/cancel", 1).await;
    world.agent.wait_received("session/close", 1).await;
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
    let session =
        end_running(&world, &client, "session/close", "say a; toolopen call_1; late last words").await;
    world.agent.wait_received("session/close", 1).await;
    takes_no_prompt(&client, &session).await;
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
    let (world, client, session) = World::begun(pairing).await;
    let mark = client.mark();
    let prompt = client.begin_prompt(&session, "late last words").await;
    client.wait_update(mark, &session, "running", |update| update["state"] == "running").await;
    world.agent.wait_received("session/prompt", 1).await;
    let request = client.begin("session/close", json!({"sessionId": session})).await;
    ended_before(&client, &session, mark, &prompt, &request).await;
    let heard = client.server_messages_since(mark);
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
    match pairing.agent_impl {
        AgentImpl::Own => World::with_config(pairing, |config| AgentConfig { echo: Echo::AtGate, ..config }),
        AgentImpl::Library => World::of(pairing),
    }
}

async fn r4_26_a_held_prompt_is_withdrawn_by_the_close(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let (first, second) = match (pairing.agent, pairing.agent_impl) {
        (Version::V1, _) | (_, AgentImpl::Library) => {
            let first = client.begin_prompt(&session, "hang").await;
            world.agent.wait_received("session/prompt", 1).await;
            (Some(first), client.begin_prompt(&session, "say never").await)
        }
        (Version::V2, AgentImpl::Own) => {
            let only = client.begin_prompt(&session, "say never").await;
            world.agent.wait_received("session/prompt", 1).await;
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
    world.agent.wait_received("session/prompt", 1).await;
    let second = client.begin_prompt(&session, "say never").await;
    client.close(&session).await.expect("it can be closed");
    for prompt in [first, second] {
        assert_eq!(client.answer(&prompt).await, Ok(json!({"stopReason": "cancelled"})));
    }
}

pairings!(
    r4_12_a_deleted_session_is_gone,
    r4_12_the_agent_forgets_its_side_too,
    r4_12_an_agent_that_cannot_delete_is_not_asked,
    r4_12_deleting_ends_a_running_turn,
    r4_13_archiving_ends_a_running_turn,
    r4_13_archiving_can_be_repeated_and_knows_what_exists,
    r4_14_unarchiving_opens_nothing,
);

pairings!(client V1:
    r4_26_version_1_is_told_that_a_held_prompt_was_cancelled,
    r4_22_version_1_closes_by_cancelling,
);

pairings!(client V2:
    r4_26_a_held_prompt_is_withdrawn_by_the_close,
    r4_23_nothing_is_said_of_a_closed_session,
    r4_24_version_2_closes_what_is_not_open_without_an_error,
    r4_25_the_end_of_the_work_is_told_before_the_close,
    r4_25_closing_an_idle_session_tells_no_state,
);

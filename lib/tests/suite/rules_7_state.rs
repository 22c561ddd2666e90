//! Section 7 of the rules: what a session does, as clients are told, and work in the background.

use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

fn state(state: &str) -> Value {
    json!({"sessionUpdate": "state_update", "state": state})
}

fn idle(stop: &str) -> Value {
    json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": stop})
}

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": text, "content": {"type": "text", "text": text}})
}

/// The states that the client was told since a mark.
fn states_since(client: &Client, mark: usize, session: &str) -> Vec<Value> {
    let updates = client.updates_since(mark, session).into_iter();
    updates.filter(|update| update["sessionUpdate"] == "state_update").collect()
}

/// Their names, with the reason of an idle one. The same again says nothing new.
fn names(states: &[Value]) -> Vec<String> {
    let name = |state: &Value| {
        let words = [&state["state"], &state["stopReason"]];
        words.into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
    };
    let mut names: Vec<_> = states.iter().map(name).collect();
    names.dedup();
    names
}

async fn wait_state(client: &Client, mark: usize, session: &str, name: &str) -> Value {
    let is = |update: &Value| update["sessionUpdate"] == "state_update" && update["state"] == name;
    client.wait_update(mark, session, &format!("state {name}"), is).await
}

async fn status(client: &Client, session: &str) -> Value {
    client.ask("session/status", json!({"sessionId": session})).await["state"].clone()
}

/// Finds that the turn of a version 1 client goes on.
fn assert_open(client: &Client, request: &Value) {
    let answered = client
        .server_messages()
        .iter()
        .any(|message| message["id"] == *request && message["result"].is_object());
    assert!(client.version == Version::V2 || !answered, "the turn is over");
}

async fn r7_01_work_is_reported_from_beginning_to_end(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    assert_eq!(names(&states_since(&client, 0, &session)), Vec::<String>::new(), "a new session is idle");
    let turns = [
        ("say a; tool call_1", "idle end_turn"),
        ("say a; stop refusal", "idle refusal"),
        ("say a; stop max_tokens", "idle max_tokens"),
        ("say a; fail", "idle error"),
        ("say a; crash", "idle error"),
        ("/local command", "idle end_turn"),
    ];
    for (script, end) in turns {
        let mark = client.mark();
        client.prompt(&session, script).await;
        assert_eq!(names(&states_since(&client, mark, &session)), ["running", end], "{script}");
        let updates = client.updates_since(mark, &session);
        let running = updates.iter().position(|update| update["state"] == "running");
        let said = updates.iter().position(|update| update["sessionUpdate"] == "agent_message_chunk");
        assert!(running < said, "{script}");
        assert_eq!(updates.last().expect("updates")["state"], "idle", "{script}");
    }
}

async fn r7_01_work_of_the_agents_own_is_a_turn(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say asked").await;
    let mark = client.mark();
    for update in [state("running"), chunk("unasked"), idle("end_turn")] {
        world.agent.send_update(update).await;
    }
    client.wait_update(mark, &session, "the words", |update| update["content"]["text"] == "unasked").await;
    if pairing.client == Version::V2 {
        wait_state(&client, mark, &session, "idle").await;
        assert_eq!(names(&states_since(&client, mark, &session)), ["running", "idle end_turn"]);
    }
    assert_eq!(client.prompt(&session, "say again").await.stop, "end_turn");
    let next = world.replayed(&client, &session).await;
    for heard in [&client, &next] {
        let view = heard.view(&session);
        assert_eq!(view.agent(), ["asked", "unasked", "again"]);
        assert_eq!(view.user().len(), 2, "nobody asked for the second turn: {view}");
    }
}

async fn r7_01_words_between_turns_are_kept(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say asked").await;
    let mark = client.mark();
    world.agent.send_update(chunk("unasked")).await;
    client.wait_update(mark, &session, "the words", |update| update["content"]["text"] == "unasked").await;
    assert_eq!(states_since(&client, mark, &session), Vec::<Value>::new());
    let next = world.replayed(&client, &session).await;
    assert_eq!(next.view(&session), client.view(&session));
}

async fn r7_01_work_may_begin_blocked(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say a").await;
    let mark = client.mark();
    world.agent.send_update(state("requires_action")).await;
    wait_state(&client, mark, &session, "requires_action").await;
    assert_eq!(status(&client, &session).await["state"], "requires_action");
    world.agent.send_update(idle("cancelled")).await;
    wait_state(&client, mark, &session, "idle").await;
    assert_eq!(names(&states_since(&client, mark, &session)), ["requires_action", "idle cancelled"]);
}

async fn r7_02_a_session_is_idle_when_nothing_is_left(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "say one; wait on").await;
    client.wait_update(0, &session, "the first", |update| update["content"]["text"] == "one").await;
    let second = client.begin_prompt(&session, "say two").await;
    assert_eq!(status(&client, &session).await["state"], "running");
    world.agent.open_gate("on");
    client.finish(&session, &first).await;
    client.finish(&session, &second).await;
    let told = client.updates(&session);
    assert_eq!(told.last().expect("updates")["state"], "idle");
    assert_eq!(status(&client, &session).await["state"], "idle");
    let two = told.iter().position(|update| update["content"]["text"] == "two").expect("the second");
    let idle_before = told[..two].iter().filter(|update| update["state"] == "idle").count();
    let running = told[..two].iter().filter(|update| update["state"] == "running").count();
    assert!(idle_before < running, "the second runs when it speaks");
}

async fn r7_03_a_turn_that_waits_for_the_user_says_so(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.on("session/request_permission", |_| None);
    let turn = client.begin_prompt(&session, "permit; say on").await;
    let asked = client.wait_method("session/request_permission").await;
    wait_state(&client, 0, &session, "requires_action").await;
    client.reply(&asked["id"], Ok(json!({"outcome": {"outcome": "selected", "optionId": "yes"}}))).await;
    client.finish(&session, &turn).await;
    let told = names(&states_since(&client, 0, &session));
    assert_eq!(told, ["running", "requires_action", "running", "idle end_turn"]);
}

/// A request for permission, as an agent of this version asks.
fn permission(agent: Version, native: &str, id: u64) -> Value {
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    let call = json!({"toolCallId": format!("ask-{id}"), "title": "Run it"});
    let params = match agent {
        Version::V1 => json!({"sessionId": native, "toolCall": call, "options": options}),
        Version::V2 => json!({"sessionId": native, "title": "Run it?", "options": options,
            "subject": {"type": "tool_call", "toolCall": call}}),
    };
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
}

async fn r7_03_one_answer_of_two_does_not_free_a_turn(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.on("session/request_permission", |_| None);
    let turn = client.begin_prompt(&session, "say a; wait on").await;
    client.wait_update(0, &session, "the turn", |update| update["content"]["text"] == "a").await;
    let native = world.agent.sessions()[0].clone();
    let mark = client.mark();
    for id in [501, 502] {
        world.agent.send(permission(pairing.agent, &native, id)).await;
    }
    let asks = |id: u64| {
        move |message: &Value| {
            message["method"] == "session/request_permission"
                && message["params"].to_string().contains(&format!("ask-{id}"))
        }
    };
    let first = client.wait("the first question", asks(501)).await;
    let second = client.wait("the second question", asks(502)).await;
    let yes = || Ok(json!({"outcome": {"outcome": "selected", "optionId": "yes"}}));
    client.reply(&first["id"], yes()).await;
    world.agent.wait_received("answer", 1).await;
    world.agent.send_update(chunk("b")).await;
    client.wait_update(mark, &session, "more", |update| update["content"]["text"] == "b").await;
    let told = names(&states_since(&client, mark, &session));
    match pairing.agent {
        // The agent waits for its answer, and there is one more.
        Version::V1 => assert_eq!(told, ["requires_action"]),
        // It speaks for itself: a question alone says nothing of the whole.
        Version::V2 => assert_eq!(told, Vec::<String>::new()),
    }
    client.reply(&second["id"], yes()).await;
    world.agent.wait_received("answer", 2).await;
    world.agent.open_gate("on");
    client.finish(&session, &turn).await;
    let told = names(&states_since(&client, mark, &session));
    match pairing.agent {
        Version::V1 => assert_eq!(told, ["requires_action", "running", "idle end_turn"]),
        Version::V2 => assert_eq!(told, ["idle end_turn"]),
    }
}

async fn r7_04_the_same_state_again_changes_nothing(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let twice = format!("raw {0}\nraw {0}\nsay a", state("running"));
    let request = client.begin_prompt(&session, &twice).await;
    assert_eq!(client.finish(&session, &request).await.stop, "end_turn");
    let mark = client.mark();
    for _ in 0..2 {
        world.agent.send_update(idle("end_turn")).await;
    }
    world.agent.send_update(chunk("b")).await;
    client.wait_update(mark, &session, "what follows", |update| update["content"]["text"] == "b").await;
    assert_eq!(client.prompt(&session, "say c").await.stop, "end_turn");
    let answers = client
        .server_messages()
        .into_iter()
        .filter(|message| message["id"] == request && message.get("method").is_none());
    assert_eq!(answers.count(), 1);
    assert_eq!(client.view(&session).agent(), ["a", "b", "c"]);
    let next = world.replayed(&client, &session).await;
    assert_eq!(next.view(&session), client.view(&session));
}

async fn r7_05_background_updates_leave_a_session_idle(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "toolopen call_1; say a").await;
    let mark = client.mark();
    let later = json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "completed",
        "rawOutput": {"late": true}});
    world.agent.send_update(later).await;
    let told =
        client.wait_update(mark, &session, "the update", |update| update["rawOutput"]["late"] == true).await;
    assert_eq!(told["status"], "completed");
    if pairing.client == Version::V2 {
        assert_eq!(status(&client, &session).await["state"], "idle");
    }
    assert_eq!(states_since(&client, mark, &session), Vec::<Value>::new());
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
    let next = world.replayed(&client, &session).await;
    assert_eq!(next.view(&session), client.view(&session));
}

fn beside(mut state: Value, background: Value) -> Value {
    state["background"] = background;
    state
}

fn term() -> Value {
    json!([{"type": "terminal", "terminalId": "term_1"}])
}

fn terminal(exit: Option<Value>) -> Value {
    match exit {
        None => json!({"sessionUpdate": "terminal_update", "terminalId": "term_1", "command": "sleep"}),
        Some(exit) => json!({"sessionUpdate": "terminal_update", "terminalId": "term_1", "exitStatus": exit}),
    }
}

async fn r7_06_every_state_names_the_background_work(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, &format!("raw {}", terminal(None))).await;
    let mark = client.mark();
    let told = beside(idle("end_turn"), term());
    world.agent.send_update(told.clone()).await;
    client.wait_update(mark, &session, "the state", |update| *update == told).await;
    assert_eq!(status(&client, &session).await["background"], term());
    // The agent acknowledges the prompt before it reports that it works: what is said for it meanwhile names it too.
    let mark = client.mark();
    client.prompt(&session, &format!("raw {}\nsay a", beside(state("running"), term()))).await;
    assert_eq!(states_since(&client, mark, &session)[0], beside(state("running"), term()));
    // An agent that is gone has none.
    let mark = client.mark();
    client.prompt(&session, &format!("raw {}\ncrash", beside(state("running"), term()))).await;
    let last = states_since(&client, mark, &session).pop().expect("a state");
    assert_eq!(names(std::slice::from_ref(&last)), ["idle error"]);
    assert_eq!(last["background"], json!([]));
}

async fn r7_06_a_snapshot_names_no_work_that_ended_with_its_agent(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, &format!("raw {}", terminal(None))).await;
    let mark = client.mark();
    world.agent.send_update(beside(idle("end_turn"), term())).await;
    client.wait_update(mark, &session, "the state", |update| update["background"] == term()).await;
    let next = world.replayed(&client, &session).await;
    let snapshot = states_since(&next, 0, &session).into_iter().next().expect("a snapshot");
    assert_eq!(snapshot, beside(idle("end_turn"), json!([])));
}

async fn r7_07_work_is_announced_before_it_is_listed(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say a").await;
    let mark = client.mark();
    let order = [
        terminal(None),
        beside(idle("end_turn"), term()),
        terminal(Some(json!({"exitCode": 0}))),
        beside(idle("end_turn"), json!([])),
    ];
    for update in &order {
        world.agent.send_update(update.clone()).await;
    }
    client.wait_update(mark, &session, "the last", |update| *update == order[3]).await;
    assert_eq!(client.updates_since(mark, &session), order);
    // What ends with its agent ends before the state that no longer lists it.
    let mark = client.mark();
    let begins = json!({"sessionUpdate": "terminal_update", "terminalId": "term_2", "command": "sleep"});
    let listed = beside(state("running"), json!([{"type": "terminal", "terminalId": "term_2"}]));
    client.prompt(&session, &format!("raw {begins}\nraw {listed}\ncrash")).await;
    let updates = client.updates_since(mark, &session);
    let exited = updates.iter().position(|update| update["exitStatus"].is_object()).expect("it exits");
    let unlisted =
        updates.iter().rposition(|update| update["background"] == json!([])).expect("it is not listed");
    assert!(exited < unlisted);
}

async fn r7_07_a_restarted_agent_lists_its_own(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, &format!("raw {}", terminal(None))).await;
    let next = world.replayed(&client, &session).await;
    let mark = next.mark();
    let listed = beside(state("running"), term());
    next.prompt(&session, &format!("raw {}\nraw {listed}", terminal(None))).await;
    let updates = next.updates_since(mark, &session);
    let announced =
        updates.iter().find(|update| update["sessionUpdate"] == "terminal_update").expect("a terminal");
    let listing = updates.iter().find_map(|update| update["background"][0]["terminalId"].as_str());
    assert_eq!(announced["terminalId"].as_str(), listing, "the one it has just begun");
    assert_ne!(listing, Some("term_1"), "and not the one that was");
}

async fn other_states(pairing: Pairing, name: &str) {
    let (world, client, session) = World::begun(pairing).await;
    let mut other = state(name);
    other["_meta"] = json!({"deep": [1]});
    let turn = client.begin_prompt(&session, &format!("raw {other}\nsay a\nwait on")).await;
    client.wait_update(0, &session, "the turn", |update| update["content"]["text"] == "a").await;
    assert_open(&client, &turn);
    if pairing.client == Version::V2 {
        assert!(client.updates(&session).contains(&other), "as it is");
        assert_eq!(status(&client, &session).await["state"], name);
    }
    world.agent.open_gate("on");
    assert_eq!(client.finish(&session, &turn).await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["a"]);
}

async fn r7_08_a_state_of_the_agents_own_is_not_idle(pairing: Pairing) {
    other_states(pairing, "_thinking").await;
    other_states(pairing, "future_state").await;
}

async fn r7_09_an_unknown_state_is_not_idle(pairing: Pairing) {
    other_states(pairing, "unknown").await;
}

pairings!(r7_01_words_between_turns_are_kept, r7_05_background_updates_leave_a_session_idle);
pairings!(
    client V2:
    r7_01_work_is_reported_from_beginning_to_end,
    r7_02_a_session_is_idle_when_nothing_is_left,
    r7_03_a_turn_that_waits_for_the_user_says_so,
    r7_03_one_answer_of_two_does_not_free_a_turn,
);
pairings!(
    agent V2:
    r7_01_work_of_the_agents_own_is_a_turn,
    r7_04_the_same_state_again_changes_nothing,
    r7_08_a_state_of_the_agents_own_is_not_idle,
    r7_09_an_unknown_state_is_not_idle,
);

/// Both sides speak version 2: only there are these things said.
macro_rules! of_two {
    ($($scenario:ident),+ $(,)?) => {
        $(mod $scenario {
            #[tokio::test]
            async fn v2_client_v2_agent() {
                let two = rethread::edge::Version::V2;
                super::$scenario(rethread_testkit::Pairing::of(two, two)).await;
            }

            #[tokio::test]
            async fn v2_client_library_agent() {
                super::$scenario(rethread_testkit::Pairing::library(rethread::edge::Version::V2)).await;
            }
        })+
    };
}

of_two!(
    r7_01_work_may_begin_blocked,
    r7_06_every_state_names_the_background_work,
    r7_06_a_snapshot_names_no_work_that_ended_with_its_agent,
    r7_07_work_is_announced_before_it_is_listed,
    r7_07_a_restarted_agent_lists_its_own,
);

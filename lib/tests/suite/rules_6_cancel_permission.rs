//! Rules 6.1 to 6.12: cancelling, permissions and other questions, and cancelling one thing.

use std::time::Duration;

use rethread::edge::Version;
use rethread_testkit::agent::{AgentConfig, AgentImpl, Echo};
use rethread_testkit::client::Client;
use rethread_testkit::view::Item;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

const PERMISSION: &str = "session/request_permission";

/// Lets everything that is under way arrive: a request through the connection and one through the session.
async fn settled(client: &Client, session: &str) {
    client.ask("session/list", json!({})).await;
    client.ask("_agent/echo", json!({"sessionId": session})).await;
}

/// Begins a prompt whose first step says `a`, and waits until that was shown.
async fn begun(client: &Client, session: &str, script: &str) -> Value {
    let mark = client.mark();
    let prompt = client.begin_prompt(session, &format!("say a; {script}")).await;
    client.wait_update(mark, session, "the first words", |update| update["content"]["text"] == "a").await;
    prompt
}

/// Begins a prompt that asks something, and waits until the client was asked.
async fn asked(client: &Client, session: &str, script: &str, method: &str) -> (Value, Value) {
    client.on(method, |_| None);
    let prompt = client.begin_prompt(session, script).await;
    (prompt, client.wait_method(method).await)
}

/// Waits until the client is told that a request needs no answer.
async fn unasked(client: &Client, request: &Value) {
    client
        .wait("the request to be taken back", |message| {
            message["method"] == "$/cancel_request" && message["params"]["requestId"] == request["id"]
        })
        .await;
}

/// The answers that reached the agent, results only.
fn answers(world: &World) -> Vec<Value> {
    world.agent.received_params("answer").iter().map(|answer| answer["result"].clone()).collect()
}

fn status(client: &Client, session: &str, call: &str) -> Option<String> {
    client.view(session).items.into_iter().find_map(|item| match item {
        Item::Tool { id, status, .. } if id.0.as_deref() == Some(call) => Some(status),
        Item::Tool { .. } | Item::Message { .. } | Item::Other(_) => None,
    })
}

/// The states since a mark; one that is said again is the same.
fn states(client: &Client, mark: usize, session: &str) -> Vec<String> {
    let updates = client.updates_since(mark, session).into_iter();
    let mut states: Vec<_> =
        updates.filter_map(|update| update["state"].as_str().map(str::to_owned)).collect();
    states.dedup();
    states
}

async fn r6_01_the_prompt_itself_is_answered_after_the_last_updates(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = begun(&client, &session, "late last words").await;
    client.cancel(&session).await;
    assert_eq!(client.answer(&prompt).await, Ok(json!({"stopReason": "cancelled"})));
    assert_eq!(client.view(&session).agent(), ["a", "last words"], "before the answer");
    assert_eq!(
        world.agent.received_params("session/cancel"),
        [json!({"sessionId": world.agent.sessions()[0]})]
    );
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
}

async fn r6_01_r6_08_an_error_while_aborting_is_still_a_cancel(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let prompt = begun(&client, &session, "abort").await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    let updates = client.updates(&session);
    assert!(updates.iter().all(|update| update.get("error").is_none()), "{updates:?}");
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
}

async fn r6_02_r6_05_a_cancel_answers_pending_permissions(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let (prompt, request) = asked(&client, &session, "permit", PERMISSION).await;
    assert_eq!(request["params"]["sessionId"], *session);
    client.cancel(&session).await;
    unasked(&client, &request).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    assert_eq!(answers(&world), [json!({"outcome": {"outcome": "cancelled"}})]);
    // Too late: what was cancelled cannot be approved.
    let yes = json!({"outcome": {"outcome": "selected", "optionId": "yes"}});
    client.reply(&request["id"], Ok(yes)).await;
    settled(&client, &session).await;
    assert_eq!(answers(&world).len(), 1);
    let said = client.view(&session).agent();
    assert!(!said.contains(&"permission: selected yes".to_owned()), "{said:?}");
    client.on(PERMISSION, |_| Some(Ok(json!({"outcome": {"outcome": "selected", "optionId": "no"}}))));
    assert_eq!(client.prompt(&session, "permit").await.stop, "end_turn");
    assert_eq!(client.view(&session).agent().last().map(String::as_str), Some("permission: selected no"));
}

async fn r6_02_a_version_1_client_may_answer_what_it_cancels(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let (prompt, request) = asked(&client, &session, "permit", PERMISSION).await;
    client.cancel(&session).await;
    client.reply(&request["id"], Ok(json!({"outcome": {"outcome": "cancelled"}}))).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    settled(&client, &session).await;
    assert_eq!(answers(&world), [json!({"outcome": {"outcome": "cancelled"}})], "once");
}

async fn r6_03_tool_updates_after_a_cancel_are_shown(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = begun(&client, &session, "late").await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    assert_eq!(status(&client, &session, "late_call").as_deref(), Some("completed"));
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session), client.view(&session), "and kept");
}

async fn r6_04_a_cancel_leaves_other_work_alone(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let (session, other) = (client.new_session().await, client.new_session().await);
    // A tool call that outlives its turn, and another session at work.
    client.prompt(&session, "toolopen call_1").await;
    let working = begun(&client, &other, "wait go; say b").await;
    let prompt = begun(&client, &session, "hang").await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    assert_eq!(status(&client, &session, "call_1").as_deref(), Some("pending"));
    world.agent.open_gate("go");
    assert_eq!(client.finish(&other, &working).await.stop, "end_turn");
    assert_eq!(client.view(&other).agent(), ["a", "b"]);
    assert_eq!(world.agent.received_params("session/cancel").len(), 1);
}

async fn r6_04_a_cancel_takes_the_held_prompts_along(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let running = begun(&client, &session, "hang").await;
    let held = client.begin_prompt(&session, "say never").await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &running).await.stop, "cancelled");
    let outcome = client.answer(&held).await;
    match (pairing.client, pairing.agent) {
        (Version::V1, _) => assert_eq!(outcome, Ok(json!({"stopReason": "cancelled"}))),
        (Version::V2, Version::V1) => assert_eq!(outcome.expect_err("it was held")["code"], -32800),
        // An agent of the library lets it wait; the other had taken it into the conversation before the cancel.
        (Version::V2, Version::V2) => match pairing.agent_impl {
            AgentImpl::Own => assert!(outcome.expect("it is in")["messageId"].is_string()),
            AgentImpl::Library => assert_eq!(outcome.expect_err("it was held")["code"], -32800),
        },
    }
    settled(&client, &session).await;
    assert_eq!(client.view(&session).agent(), ["a"]);
}

async fn r6_06_a_question_that_the_agent_takes_back_is_answered(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    for (method, answer) in [
        (PERMISSION, json!({"outcome": {"outcome": "cancelled"}})),
        ("elicitation/create", json!({"action": "cancel"})),
    ] {
        let (prompt, request) = asked(&client, &session, &format!("takeback {method}"), method).await;
        unasked(&client, &request).await;
        assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
        assert_eq!(answers(&world).last(), Some(&answer));
        // A late answer is ignored.
        client.reply(&request["id"], Ok(json!({"action": "decline"}))).await;
        settled(&client, &session).await;
        assert_eq!(answers(&world).last(), Some(&answer));
    }
}

async fn r6_07_the_end_is_told_once_and_last(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let mark = client.mark();
    let prompt = begun(&client, &session, "late last words").await;
    client.cancel(&session).await;
    // Impatience changes nothing.
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    settled(&client, &session).await;
    assert_eq!(states(&client, mark, &session), ["running", "idle"]);
    let updates = client.updates_since(mark, &session);
    let last = updates.last().expect("there are updates");
    assert_eq!((&last["state"], &last["stopReason"]), (&json!("idle"), &json!("cancelled")));
    assert_eq!(world.agent.received_params("session/cancel").len(), 1);
}

async fn r6_07_nothing_to_cancel_is_nothing_to_tell(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say a").await;
    let mark = client.mark();
    client.cancel(&session).await;
    settled(&client, &session).await;
    assert!(client.updates_since(mark, &session).is_empty());
    assert!(world.agent.received_params("session/cancel").is_empty());
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn", "nor is the next prompt affected");
}

async fn r6_09_an_elicitation_is_cancelled_with_the_turn(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let (prompt, request) = asked(&client, &session, "elicit", "elicitation/create").await;
    assert_eq!(request["params"]["sessionId"], *session);
    assert_eq!(request["params"]["message"], "Your name?");
    client.cancel(&session).await;
    unasked(&client, &request).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    client.reply(&request["id"], Ok(json!({"action": "accept", "content": {"name": "Ada"}}))).await;
    settled(&client, &session).await;
    assert_eq!(answers(&world), [json!({"action": "cancel"})]);
    // Otherwise the answer arrives as it was given.
    let answer = json!({"action": "accept", "content": {"name": "Grace"}, "_meta": {"k": 1}});
    let given = answer.clone();
    client.on("elicitation/create", move |_| Some(Ok(given.clone())));
    assert_eq!(client.prompt(&session, "elicit").await.stop, "end_turn");
    assert_eq!(answers(&world).last(), Some(&answer));
}

async fn r6_09_a_question_asked_after_the_cancel_is_not_waited_for(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.cancel_patience = Duration::from_secs(60));
    let client = world.ready().await;
    let session = client.new_session().await;
    client.on(PERMISSION, |_| None);
    // The first is taken back, the second comes from an agent that has not seen the cancel.
    let (prompt, request) = asked(&client, &session, "takeback; permit; say never", PERMISSION).await;
    unasked(&client, &request).await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    assert!(answers(&world).iter().all(|answer| answer["outcome"]["outcome"] == "cancelled"));
}

async fn r6_10_a_cancel_for_no_session_of_this_client_is_ignored(pairing: Pairing) {
    let world = World::of(pairing);
    let (client, other) = (world.ready().await, world.ready().await);
    let session = client.new_session().await;
    let prompt = begun(&client, &session, "wait go; say b").await;
    for unknown in ["nobody", "../../etc/passwd", ""] {
        client.cancel(unknown).await;
    }
    // It is open, but not there.
    other.cancel(&session).await;
    client.notify("session/cancel", json!({})).await;
    client.notify("session/cancel", json!([session])).await;
    other.ask("session/list", json!({})).await;
    settled(&client, &session).await;
    assert!(world.agent.received_params("session/cancel").is_empty());
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    client.close(&session).await.expect("it can be closed");
    client.cancel(&session).await;
    client.ask("session/list", json!({})).await;
    let errors =
        client.server_messages().into_iter().filter(|message| message.get("error").is_some()).count();
    assert_eq!(errors, 0, "a notification is never answered");
}

async fn r6_11_only_an_option_on_offer_approves(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let refusals = [
        Ok(json!({"outcome": {"outcome": "selected", "optionId": "always"}})),
        Ok(json!({"outcome": {"outcome": "selected"}})),
        Ok(json!({"outcome": {"outcome": "selected", "optionId": 1}})),
        Ok(json!({"outcome": {"outcome": "_maybe", "optionId": "yes"}})),
        Ok(json!({"outcome": "selected", "optionId": "yes"})),
        Ok(json!({"outcome": {"outcome": "cancelled"}})),
        Ok(json!({})),
        Ok(json!(null)),
        Err(json!({"code": -32603, "message": "the dialog broke"})),
    ];
    for answer in refusals {
        let given = answer.clone();
        client.on(PERMISSION, move |_| Some(given.clone()));
        assert_eq!(client.prompt(&session, "permit").await.stop, "end_turn");
        let told = answers(&world).pop().expect("the agent was answered");
        assert_eq!(told["outcome"]["outcome"], "cancelled", "{answer:?}");
        assert_eq!(client.view(&session).agent().last().map(String::as_str), Some("permission: cancelled"));
    }
    for option in ["yes", "no"] {
        let answer = json!({"outcome": {"outcome": "selected", "optionId": option}, "_meta": {"k": 1}});
        let given = answer.clone();
        client.on(PERMISSION, move |_| Some(Ok(given.clone())));
        client.prompt(&session, "permit").await;
        assert_eq!(answers(&world).pop(), Some(answer), "as it was given");
    }
}

async fn r6_11_a_permission_names_its_options_and_its_call(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let mark = client.mark();
    let (prompt, request) = asked(&client, &session, "permit", PERMISSION).await;
    let options: Vec<_> = request["params"]["options"].as_array().expect("it has options").clone();
    assert_eq!(options.iter().map(|option| &option["optionId"]).collect::<Vec<_>>(), ["yes", "no"]);
    let call = match pairing.client {
        Version::V1 => &request["params"]["toolCall"],
        Version::V2 => {
            assert!(request["params"]["title"].is_string());
            client.wait_update(mark, &session, "the state", |it| it["state"] == "requires_action").await;
            &request["params"]["subject"]["toolCall"]
        }
    };
    let announced =
        client.wait_update(mark, &session, "the call", |update| update["toolCallId"].is_string()).await;
    assert_eq!(call["toolCallId"], announced["toolCallId"]);
    let mark = client.mark();
    let yes = json!({"outcome": {"outcome": "selected", "optionId": "yes"}});
    client.reply(&request["id"], Ok(yes)).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    if pairing.client == Version::V2 {
        assert_eq!(states(&client, mark, &session), ["running", "idle"]);
    }
}

async fn r6_12_one_tool_call_or_terminal_can_be_cancelled(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let script = "toolopen call_1; tool call_2; termopen; wait go";
    let prompt = begun(&client, &session, script).await;
    let terminal = client
        .wait_update(0, &session, "the terminal", |update| update["terminalId"].is_string())
        .await["terminalId"]
        .clone();
    let mark = client.mark();
    client.ask("tool_call/cancel", json!({"sessionId": session, "toolCallId": "call_1"})).await;
    client.wait_update(mark, &session, "the last word", |update| update["status"] == "cancelled").await;
    client.ask("terminal/cancel", json!({"sessionId": session, "terminalId": terminal})).await;
    client.wait_update(mark, &session, "the exit", |update| update["exitStatus"].is_object()).await;
    let open = &world.agent.sessions()[0];
    let native = json!({"sessionId": open, "toolCallId": "call_1"});
    assert_eq!(world.agent.received_params("tool_call/cancel"), [native]);
    let native = json!({"sessionId": open, "terminalId": terminal});
    assert_eq!(world.agent.received_params("terminal/cancel"), [native]);
    assert!(states(&client, mark, &session).is_empty(), "the work itself goes on");
    for call in ["call_1", "call_2", "nobody"] {
        let error =
            client.refused("tool_call/cancel", json!({"sessionId": session, "toolCallId": call})).await;
        assert_eq!(error["code"], -32602, "{call}");
    }
    let error =
        client.refused("terminal/cancel", json!({"sessionId": session, "terminalId": "nobody"})).await;
    assert_eq!(error["code"], -32602);
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
}

async fn r6_12_a_call_of_a_restarted_agent_is_cancelled_under_its_own_id(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "tool call_1; crash").await;
    let mark = client.mark();
    let prompt = begun(&client, &session, "toolopen call_1; wait go").await;
    let call = client
        .wait_update(mark, &session, "the call", |update| update["toolCallId"].is_string())
        .await["toolCallId"]
        .clone();
    assert_ne!(call, "call_1", "that one is history");
    client.ask("tool_call/cancel", json!({"sessionId": session, "toolCallId": call})).await;
    assert_eq!(
        world.agent.received_params("tool_call/cancel").last().map(|it| &it["toolCallId"]),
        Some(&json!("call_1"))
    );
    client.wait_update(mark, &session, "the last word", |update| update["status"] == "cancelled").await;
    world.agent.open_gate("go");
    client.finish(&session, &prompt).await;
    assert_eq!(status(&client, &session, "call_1").as_deref(), Some("completed"));
}

/// It is not a matter of the method, but of the thing: whoever cannot cancel it says so.
async fn r6_12_what_cannot_be_cancelled_is_refused_as_such(pairing: Pairing) {
    let world = World::with_config(pairing, |config| config.without(&["cancelOne"]));
    let client = world.ready().await;
    let session = client.new_session().await;
    let prompt = begun(&client, &session, "toolopen call_1; wait go").await;
    for (method, field) in [("tool_call/cancel", "toolCallId"), ("terminal/cancel", "terminalId")] {
        let error = client.refused(method, json!({"sessionId": session, field: "call_1"})).await;
        assert_eq!(error["code"], -32602, "{method}");
        let error = client.refused(method, json!({"sessionId": session})).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)));
        let error = client.refused(method, json!({"sessionId": "nobody", field: "call_1"})).await;
        assert_eq!(error["code"], -32002);
    }
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    client.prompt(&session, "crash").await;
    let error =
        client.refused("tool_call/cancel", json!({"sessionId": session, "toolCallId": "call_1"})).await;
    assert_eq!(error["code"], -32602, "with no agent behind it");
}

async fn r6_12_version_1_has_no_such_methods(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    for (method, field) in [("tool_call/cancel", "toolCallId"), ("terminal/cancel", "terminalId")] {
        let error = client.refused(method, json!({"sessionId": session, field: "call_1"})).await;
        assert_eq!(error["code"], -32601);
        assert!(world.agent.received_params(method).is_empty());
    }
}

/// Not a rule of the protocol's, but a promise of ours: an agent that ignores a cancel is ended.
async fn r6_01_r6_07_an_agent_that_ignores_a_cancel_is_ended(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.cancel_patience = Duration::from_millis(50));
    let client = world.ready().await;
    let session = client.new_session().await;
    let prompt = begun(&client, &session, "toolopen call_1; deaf").await;
    client.cancel(&session).await;
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    assert_eq!(status(&client, &session, "call_1").as_deref(), Some("failed"));
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["a", "b"]);
    let told = world.agent.received_params("session/prompt");
    assert_eq!(told.len(), 2, "nothing is sent twice");
    let starts: Vec<_> = world.agent.received().iter().map(|received| received.start).collect();
    assert!(starts.first() < starts.last());
}

/// The same where the cancel comes before the agent has acknowledged the prompt: it never does, or it does and works on.
async fn r6_04_r6_07_an_agent_that_ignores_an_early_cancel_is_ended(pairing: Pairing) {
    // One of the library acknowledges at once.
    let (echo, natures) = match pairing.agent_impl {
        AgentImpl::Own => (Echo::AtGateDeaf, vec![false, true]),
        AgentImpl::Library => (Echo::AfterAnswer, vec![true]),
    };
    for acknowledges in natures {
        let world = World::with_config(pairing, |config| AgentConfig { echo, ..config })
            .set(|config| config.cancel_patience = Duration::from_millis(100));
        let client = world.ready().await;
        let session = client.new_session().await;
        let prompt = client.begin_prompt(&session, "say a; deaf").await;
        world.agent.wait_received("session/prompt", 1).await;
        client.cancel(&session).await;
        world.agent.wait_received("session/cancel", 1).await;
        if acknowledges {
            world.agent.open_gate("acknowledge");
            assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
        } else {
            let outcome = client.answer(&prompt).await;
            match pairing.client {
                Version::V1 => assert_eq!(outcome.expect("it is cancelled")["stopReason"], "cancelled"),
                Version::V2 => assert_eq!(outcome.expect_err("it was not inserted")["code"], -32800),
            }
        }
        world.agent.wait_gone().await;
        world.agent.configure(|config| config.echo = Echo::AfterAnswer);
        assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
        assert_eq!(world.agent.received_params("session/prompt").len(), 2, "nothing is sent twice");
    }
}

async fn r6_01_r6_07_a_session_with_such_an_agent_can_be_closed(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.cancel_patience = Duration::from_millis(50));
    let client = world.ready().await;
    let session = client.new_session().await;
    let prompt = begun(&client, &session, "deaf").await;
    client.close(&session).await.expect("it can be closed");
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
}

async fn r6_09_questions_end_with_a_crash(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.cancel_patience = Duration::from_millis(50));
    let client = world.ready().await;
    let (session, other) = (client.new_session().await, client.new_session().await);
    let (prompt, request) = asked(&client, &session, "permit", PERMISSION).await;
    // The other session takes the agent down.
    client.prompt(&other, "crash").await;
    unasked(&client, &request).await;
    let stop = client.finish(&session, &prompt).await.stop;
    assert!(["error", "error -32603"].contains(&stop.as_str()), "{stop}");
    let yes = json!({"outcome": {"outcome": "selected", "optionId": "yes"}});
    client.reply(&request["id"], Ok(yes)).await;
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
    assert!(answers(&world).is_empty());
}

pairings!(
    r6_01_r6_08_an_error_while_aborting_is_still_a_cancel,
    r6_01_r6_07_an_agent_that_ignores_a_cancel_is_ended,
    r6_01_r6_07_a_session_with_such_an_agent_can_be_closed,
    r6_02_r6_05_a_cancel_answers_pending_permissions,
    r6_03_tool_updates_after_a_cancel_are_shown,
    r6_04_a_cancel_leaves_other_work_alone,
    r6_04_a_cancel_takes_the_held_prompts_along,
    r6_06_a_question_that_the_agent_takes_back_is_answered,
    r6_07_nothing_to_cancel_is_nothing_to_tell,
    r6_09_an_elicitation_is_cancelled_with_the_turn,
    r6_09_a_question_asked_after_the_cancel_is_not_waited_for,
    r6_09_questions_end_with_a_crash,
    r6_10_a_cancel_for_no_session_of_this_client_is_ignored,
    r6_11_only_an_option_on_offer_approves,
    r6_11_a_permission_names_its_options_and_its_call,
);

pairings!(client V1:
    r6_01_the_prompt_itself_is_answered_after_the_last_updates,
    r6_02_a_version_1_client_may_answer_what_it_cancels,
    r6_12_version_1_has_no_such_methods,
);

// Only these acknowledge prompts.
pairings!(agent V2:
    r6_04_r6_07_an_agent_that_ignores_an_early_cancel_is_ended,
);

pairings!(client V2:
    r6_07_the_end_is_told_once_and_last,
    r6_12_what_cannot_be_cancelled_is_refused_as_such,
);

/// Only agents of version 2 can cancel one thing.
mod r6_12_with_an_agent_of_version_2 {
    use super::*;

    const BOTH: [Pairing; 2] = [Pairing::of(Version::V2, Version::V2), Pairing::library(Version::V2)];

    #[tokio::test]
    async fn one_tool_call_or_terminal_can_be_cancelled() {
        for pairing in BOTH {
            r6_12_one_tool_call_or_terminal_can_be_cancelled(pairing).await;
        }
    }

    #[tokio::test]
    async fn a_call_of_a_restarted_agent_is_cancelled_under_its_own_id() {
        for pairing in BOTH {
            r6_12_a_call_of_a_restarted_agent_is_cancelled_under_its_own_id(pairing).await;
        }
    }
}

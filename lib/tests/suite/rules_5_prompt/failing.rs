//! Rules 5.7 and 5.8: prompts that are refused, and turns that fail.

use rethread::edge::Version;
use rethread_testkit::agent::{AgentImpl, Echo};
use rethread_testkit::client::Client;
use rethread_testkit::view::Item;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{echoes, holding, prompted, settled, waiting_prompt};

/// Asserts that a turn failed, in the words of the client's version, and gives the error.
async fn failed(client: &Client, session: &str, prompt: &Value) -> Value {
    match client.version {
        Version::V1 => client.answer(prompt).await.expect_err("the turn failed"),
        Version::V2 => {
            assert_eq!(client.finish(session, prompt).await.stop, "error");
            let updates = client.updates(session);
            let idle = updates.iter().rfind(|update| update["state"] == "idle");
            idle.expect("the end was told")["error"].clone()
        }
    }
}

fn states(client: &Client, mark: usize, session: &str) -> Vec<String> {
    let updates = client.updates_since(mark, session).into_iter();
    updates.filter_map(|update| update["state"].as_str().map(str::to_owned)).collect()
}

async fn r5_07_a_refused_prompt_is_not_part_of_the_conversation(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say hello").await;
    world.agent.forget();
    let prompt = client.begin_prompt(&session, "say lost").await;
    let mark = client.mark();
    match (pairing.client, pairing.agent) {
        // A version 1 agent takes a prompt by beginning with it: its error is the end of a turn.
        (Version::V2, Version::V1) => {
            assert_eq!(failed(&client, &session, &prompt).await["code"], -32002);
        }
        (_, Version::V2) => {
            let error = client.answer(&prompt).await.expect_err("it was not taken");
            assert_eq!(error["code"], -32002);
            settled(&client, &session).await;
            assert!(states(&client, mark, &session).is_empty(), "and no turn began");
            client.load(&session).await;
            let users: Vec<_> = echoes(&client, &session);
            assert!(users.iter().all(|echo| !echo.to_string().contains("lost")), "{users:?}");
        }
        (Version::V1, Version::V1) => {
            assert_eq!(client.answer(&prompt).await.expect_err("it failed")["code"], -32002);
        }
    }
}

async fn r5_07_what_fails_after_that_ends_the_turn(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say a; fail").await;
    let error = failed(&client, &session, &prompt).await;
    assert_eq!(error["code"], -32603);
    assert_eq!(error["message"], "the script failed");
    assert_eq!(error["data"], json!({"why": "it was told to"}), "the agent's own word on it");
    assert_eq!(client.view(&session).user(), ["say a; fail"]);
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
}

async fn r5_07_a_crash_ends_the_turn_with_its_reason(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say a; toolopen call_1; crash").await;
    let error = failed(&client, &session, &prompt).await;
    assert_eq!(error["code"], -32603);
    assert_eq!(error["message"], "the agent closed the connection");
    let view = client.view(&session);
    assert_eq!(view.agent(), ["a"]);
    let settled = |item: &Item| matches!(item, Item::Tool { status, .. } if status == "failed");
    assert!(view.items.iter().any(settled), "the open tool call is settled: {view}");
    if pairing.client == Version::V2 {
        let updates = client.updates(&session);
        let call = updates.iter().position(|update| update["status"] == "failed");
        let idle = updates.iter().position(|update| update["state"] == "idle");
        assert!(call < idle, "before the end of the turn");
    }
    // The next prompt starts the agent again; what may have run is not sent twice.
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
    assert_eq!(prompted(&world), ["say a; toolopen call_1; crash", "say b"]);
    assert_eq!(client.view(&session).agent(), ["a", "b"]);
    let starts: Vec<_> = world.agent.received().iter().map(|received| received.start).collect();
    assert!(starts.first() < starts.last());
    let restored = world.agent.received_params("session/resume");
    assert_eq!(restored.len(), 1, "the agent restores its own session");
    assert_eq!(restored[0]["sessionId"], world.agent.sessions()[0]);
    let live = client.view(&session);
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session), live);
}

/// A prompt that the agent was never sent is not lost with it: the next agent gets it.
async fn r5_07_a_crash_leaves_the_prompts_that_wait(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "wait go; crash").await;
    world.agent.wait_received("session/prompt", 1).await;
    let second = client.begin_prompt(&session, "crash").await;
    let third = client.begin_prompt(&session, "say three").await;
    settled(&client, &session).await;
    world.agent.open_gate("go");
    assert_eq!(failed(&client, &session, &first).await["code"], -32603);
    assert_eq!(failed(&client, &session, &second).await["code"], -32603);
    assert_eq!(client.finish(&session, &third).await.stop, "end_turn");
    assert_eq!(prompted(&world), ["wait go; crash", "crash", "say three"], "each is sent once");
    assert_eq!(client.view(&session).agent(), ["three"]);
    let live = client.view(&session);
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session), live);
}

async fn r5_07_a_prompt_that_was_sent_is_not_sent_again(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let (_, sent) = waiting_prompt(pairing, &world, &client, &session).await;
    let before = prompted(&world);
    // Its other session takes the agent along.
    world.agent.configure(|config| config.echo = Echo::AfterAnswer);
    let other = client.new_session().await;
    client.prompt(&other, "crash").await;
    assert_eq!(client.answer(&sent).await.expect_err("nobody knows whether it ran")["code"], -32603);
    assert_eq!(client.prompt(&session, "say next").await.stop, "end_turn");
    assert_eq!(prompted(&world), [before, vec!["crash".to_owned(), "say next".to_owned()]].concat());
    assert_eq!(client.view(&session).agent(), ["next"]);
}

async fn r5_07_a_crash_answers_the_prompts_that_are_in(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "wait go; crash").await;
    world.agent.wait_received("session/prompt", 1).await;
    let second = client.begin_prompt(&session, "say two").await;
    settled(&client, &session).await;
    world.agent.open_gate("go");
    failed(&client, &session, &first).await;
    let outcome = client.answer(&second).await;
    match pairing.client {
        Version::V1 => assert_eq!(outcome.expect_err("its turn failed")["code"], -32603),
        // It was inserted before the crash.
        Version::V2 if pairing.agent_impl == AgentImpl::Own => assert!(outcome.is_ok(), "{outcome:?}"),
        // It waited at the agent.
        Version::V2 => assert_eq!(outcome.expect_err("nobody knows whether it ran")["code"], -32603),
    }
    assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
    assert_eq!(prompted(&world), ["wait go; crash", "say two", "say three"]);
}

/// With no agent to be had, nobody waits for ever.
async fn r5_07_a_restart_that_fails_answers_the_prompts_that_wait(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "wait go; crash").await;
    world.agent.wait_received("session/prompt", 1).await;
    let waiting =
        [client.begin_prompt(&session, "say two").await, client.begin_prompt(&session, "say three").await];
    settled(&client, &session).await;
    world.agent.break_starts(1);
    world.agent.open_gate("go");
    failed(&client, &session, &first).await;
    for prompt in &waiting {
        let error = client.answer(prompt).await.expect_err("no agent took it");
        assert_eq!(error["code"], -32603);
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains("did not start"), "{error}");
    }
    assert_eq!(client.prompt(&session, "say four").await.stop, "end_turn");
    assert_eq!(prompted(&world), ["wait go; crash", "say four"]);
}

async fn r5_07_an_agent_that_does_not_start_refuses_the_prompt(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let crashed = client.begin_prompt(&session, "crash").await;
    failed(&client, &session, &crashed).await;
    world.agent.break_starts(1);
    let prompt = client.begin_prompt(&session, "say lost").await;
    let error = client.answer(&prompt).await.expect_err("nobody took it");
    assert_eq!(error["code"], -32603);
    assert!(error["message"].as_str().is_some_and(|message| message.contains("did not start")), "{error}");
    assert_eq!(client.prompt(&session, "say here").await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["here"]);
    assert_eq!(prompted(&world), ["crash", "say here"]);
}

async fn r5_08_a_rejected_prompt_does_not_end_the_work(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say a; wait go; say b").await;
    client.wait_update(0, &session, "the first words", |update| update["content"]["text"] == "a").await;
    let mark = client.mark();
    for bad in [json!([]), json!([{"type": "_future"}])] {
        let error = client.refused("session/prompt", json!({"sessionId": session, "prompt": bad})).await;
        assert_eq!(error["code"], -32602);
    }
    settled(&client, &session).await;
    assert!(states(&client, mark, &session).is_empty());
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    assert_eq!(client.view(&session).agent(), ["a", "b"]);
    assert_eq!(prompted(&world).len(), 1);
}

pairings!(
    r5_07_a_refused_prompt_is_not_part_of_the_conversation,
    r5_07_what_fails_after_that_ends_the_turn,
    r5_07_a_crash_ends_the_turn_with_its_reason,
    r5_07_an_agent_that_does_not_start_refuses_the_prompt,
    r5_08_a_rejected_prompt_does_not_end_the_work,
);

// It takes one at a time: the others wait here.
pairings!(agent V1:
    r5_07_a_crash_leaves_the_prompts_that_wait,
    r5_07_a_restart_that_fails_answers_the_prompts_that_wait,
);

pairings!(agent V2:
    r5_07_a_crash_answers_the_prompts_that_are_in,
    r5_07_a_prompt_that_was_sent_is_not_sent_again,
);

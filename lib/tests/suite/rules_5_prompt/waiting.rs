//! Rules 5.9 and 5.10: prompts while the agent is busy.

use std::time::Duration;

use rethread::edge::Version;
use rethread_testkit::agent::AgentImpl;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{echoes, holding, is_answered, prompt_as, prompted, settled, waiting_prompt};

/// Asserts that a prompt that waited was withdrawn, in the words of the client's version.
async fn withdrawn(client: &Client, prompt: &Value) {
    match (client.version, client.answer(prompt).await) {
        (Version::V1, answer) => assert_eq!(answer, Ok(json!({"stopReason": "cancelled"}))),
        (Version::V2, answer) => assert_eq!(answer.expect_err("it was not inserted")["code"], -32800),
    }
}

async fn r5_09_prompts_while_busy_run_in_their_order(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let words = ["wait go; say one", "say two", "say three"];
    let mut prompts = Vec::new();
    for word in words {
        prompts.push(client.begin_prompt(&session, word).await);
    }
    match pairing.agent {
        // It takes one at a time: the others are held, and are not part of the conversation yet.
        Version::V1 => {
            world.agent.wait_received("session/prompt", 1).await;
            settled(&client, &session).await;
            assert_eq!(prompted(&world).len(), 1);
            for held in &prompts[1..] {
                assert!(!is_answered(&client, held), "it is not inserted");
            }
            let told = echoes(&client, &session);
            assert!(told.iter().all(|echo| !echo.to_string().contains("say two")), "{told:?}");
        }
        // It gets them at once.
        Version::V2 => {
            world.agent.wait_received("session/prompt", 3).await;
            // An agent of the library lets them wait.
            let taken = if pairing.agent_impl == AgentImpl::Own { &prompts[..] } else { &prompts[..1] };
            if pairing.client == Version::V2 {
                for prompt in taken {
                    client.wait("its answer", |message| message["id"] == *prompt).await;
                }
            }
        }
    }
    world.agent.open_gate("go");
    for prompt in &prompts {
        assert_eq!(client.finish(&session, prompt).await.stop, "end_turn");
    }
    assert_eq!(prompted(&world), words);
    assert_eq!(client.view(&session).agent(), ["one", "two", "three"]);
    assert_eq!(client.view(&session).user(), words);
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session).user(), words);
    assert_eq!(next.view(&session).agent(), ["one", "two", "three"]);
}

async fn r5_10_a_cancel_withdraws_a_prompt_that_waits(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let (first, held) = waiting_prompt(pairing, &world, &client, &session).await;
    client.cancel(&session).await;
    withdrawn(&client, &held).await;
    if let Some(first) = first {
        assert_eq!(client.finish(&session, &first).await.stop, "cancelled");
        let heard = if pairing.agent == Version::V1 { 1 } else { 2 };
        assert_eq!(prompted(&world).len(), heard, "an agent of version 1 never heard of the other one");
    }
    world.agent.open_gate("acknowledge");
    assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(&session).await;
    assert!(!next.view(&session).user().contains(&"say two".to_owned()), "it was never said");
    assert_eq!(next.view(&session).agent(), ["three"]);
}

async fn r5_10_a_prompt_that_waits_can_be_taken_back(pairing: Pairing) {
    let world = holding(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let (first, held) = waiting_prompt(pairing, &world, &client, &session).await;
    client.notify("$/cancel_request", json!({"requestId": held})).await;
    withdrawn(&client, &held).await;
    world.agent.open_gate("go");
    world.agent.open_gate("acknowledge");
    if let Some(first) = first {
        assert_eq!(client.finish(&session, &first).await.stop, "end_turn", "the other one goes on");
    }
    if pairing.agent == Version::V1 {
        assert_eq!(prompted(&world).len(), 1);
        assert!(world.agent.received_params("$/cancel_request").is_empty());
    } else {
        let prompt = world.agent.received().into_iter().rfind(|it| it.method == "session/prompt");
        let told = world.agent.wait_received("$/cancel_request", 1).await;
        assert_eq!(Some(&told["requestId"]), prompt.and_then(|it| it.id).as_ref(), "by our own number");
    }
    assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
    assert!(!client.view_since(0, &session).agent().contains(&"two".to_owned()));
}

async fn r5_10_a_prompt_that_runs_can_be_taken_back_in_version_1(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let running = prompt_as(&client, "mine", &session, "say a; hang").await;
    client.wait_update(0, &session, "the first words", |update| update["content"]["text"] == "a").await;
    client.notify("$/cancel_request", json!({"requestId": running})).await;
    assert_eq!(client.answer(&running).await, Ok(json!({"stopReason": "cancelled"})));
    let told = world.agent.received();
    assert!(told.iter().all(|received| !received.params.to_string().contains("mine")), "never that id");
    match pairing.agent {
        Version::V1 => {
            let prompt = told.iter().find(|received| received.method == "session/prompt");
            let number = prompt.and_then(|prompt| prompt.id.clone());
            assert_eq!(world.agent.received_params("$/cancel_request"), [json!({"requestId": number})]);
        }
        // Its request was answered when the prompt was taken: what is left to cancel is the work.
        Version::V2 => assert!(world.agent.received_params("$/cancel_request").is_empty()),
    }
    assert_eq!(
        world.agent.received_params("session/cancel").len(),
        1,
        "agents that know nothing else know this"
    );
    assert_eq!(client.prompt(&session, "say b").await.stop, "end_turn");
}

async fn r5_10_an_agent_that_ignores_what_is_taken_back_is_ended(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.cancel_patience = Duration::from_millis(50));
    let client = world.ready().await;
    let session = client.new_session().await;
    let running = prompt_as(&client, "mine", &session, "say a; deaf").await;
    client.wait_update(0, &session, "the first words", |update| update["content"]["text"] == "a").await;
    let waiting = prompt_as(&client, "next", &session, "say b").await;
    client.notify("$/cancel_request", json!({"requestId": running})).await;
    assert_eq!(client.answer(&running).await, Ok(json!({"stopReason": "cancelled"})));
    if pairing.agent == Version::V1 {
        assert_eq!(client.answer(&waiting).await, Ok(json!({"stopReason": "end_turn"})), "it still runs");
    }
}

async fn r5_10_a_prompt_that_is_in_cannot_be_taken_back_in_version_2(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = prompt_as(&client, "mine", &session, "say a; wait go; say b").await;
    let answer = client.wait("its answer", |message| message["id"] == "mine").await;
    assert!(answer["result"]["messageId"].is_string());
    client.notify("$/cancel_request", json!({"requestId": prompt})).await;
    settled(&client, &session).await;
    world.agent.open_gate("go");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    let answers = client.server_messages().into_iter().filter(|message| message["id"] == "mine").count();
    assert_eq!(answers, 1, "it is not answered twice");
    assert!(
        world.agent.received_params("$/cancel_request").is_empty()
            && world.agent.received_params("session/cancel").is_empty()
    );
}

pairings!(
    r5_09_prompts_while_busy_run_in_their_order,
    r5_10_a_cancel_withdraws_a_prompt_that_waits,
    r5_10_a_prompt_that_waits_can_be_taken_back,
);

pairings!(client V1:
    r5_10_a_prompt_that_runs_can_be_taken_back_in_version_1,
    r5_10_an_agent_that_ignores_what_is_taken_back_is_ended,
);

pairings!(client V2:
    r5_10_a_prompt_that_is_in_cannot_be_taken_back_in_version_2,
);

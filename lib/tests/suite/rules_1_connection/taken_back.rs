//! Rules 1.19 to 1.21: requests that are taken back.

use rethread::edge::Version;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::json;

use super::stage::works;

async fn r1_19_a_request_that_is_taken_back_is_answered(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    for params in [json!({}), json!({"sessionId": session})] {
        let id = client.begin("_agent/hang", params).await;
        let times = world.agent.received_params("$/cancel_request").len() + 1;
        world.agent.wait_received("_agent/hang", times).await;
        client.notify("$/cancel_request", json!({"requestId": id})).await;
        assert_eq!(client.answer(&id).await.expect_err("it was taken back")["code"], -32800);
    }
    works(&client).await;
}

async fn r1_19_a_running_prompt_that_is_taken_back_is_answered(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say one; hang").await;
    client.wait_update(0, &session, "the first word", |update| update["content"]["text"] == "one").await;
    client.notify("$/cancel_request", json!({"requestId": prompt})).await;
    if pairing.client == Version::V2 {
        // It is answered when it is inserted, and so cannot be taken back any more.
        client.answer(&prompt).await.expect("it was inserted");
        client.ask("session/list", json!({})).await;
        assert!(world.agent.received_params("session/cancel").is_empty());
        return;
    }
    assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
    assert_eq!(client.prompt(&session, "say two").await.stop, "end_turn");
}

async fn r1_19_a_held_prompt_that_is_taken_back_is_answered(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.begin_prompt(&session, "say one; wait gate").await;
    client.wait_update(0, &session, "the first word", |update| update["content"]["text"] == "one").await;
    let second = client.begin_prompt(&session, "say two").await;
    client.notify("$/cancel_request", json!({"requestId": second})).await;
    match pairing.client {
        Version::V1 => {
            let answer = client.answer(&second).await.expect("cancelled is a result");
            assert_eq!(answer["stopReason"], "cancelled");
        }
        Version::V2 => assert_eq!(client.answer(&second).await.expect_err("it was held")["code"], -32800),
    }
    world.agent.open_gate("gate");
    assert_eq!(client.finish(&session, &first).await.stop, "end_turn");
    assert_eq!(world.agent.received_params("session/prompt").len(), 1, "it was never sent");
    assert_eq!(client.view(&session).agent(), ["one"]);
}

#[tokio::test]
async fn r1_19_held_prompts_of_both_versions_can_be_taken_back() {
    for client in [Version::V1, Version::V2] {
        // Only an agent of version 1 has prompts held for it.
        r1_19_a_held_prompt_that_is_taken_back_is_answered(Pairing::of(client, Version::V1)).await;
    }
}

async fn r1_20_a_cancel_of_nothing_is_ignored(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let id = client.begin("session/list", json!({})).await;
    client.answer(&id).await.expect("a list");
    let mark = client.mark();
    for id in [id, json!("never"), json!(null), json!({"a": 1})] {
        client.notify("$/cancel_request", json!({"requestId": id})).await;
    }
    client.notify("$/cancel_request", json!({})).await;
    works(&client).await;
    assert_eq!(client.server_messages_since(mark).len(), 1, "nothing is answered but the list");
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
    assert!(world.agent.received_params("$/cancel_request").is_empty());
}

async fn r1_21_a_cancel_is_sent_on_with_our_own_number(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let theirs = json!("the client's own id");
    for params in [json!({}), json!({"sessionId": session})] {
        let times = world.agent.received_params("$/cancel_request").len() + 1;
        client.send(json!({"jsonrpc": "2.0", "id": theirs, "method": "_agent/hang", "params": params})).await;
        world.agent.wait_received("_agent/hang", times).await;
        let mut received = world.agent.received().into_iter();
        let ours = received.rfind(|received| received.method == "_agent/hang");
        let ours = ours.and_then(|received| received.id).expect("a request has an id");
        assert!(ours.is_u64());
        client.notify("$/cancel_request", json!({"requestId": theirs})).await;
        let cancel = world.agent.wait_received("$/cancel_request", times).await;
        assert_eq!(cancel, json!({"requestId": ours}));
        client.answer(&theirs).await.expect_err("it was taken back");
    }
}

pairings!(
    r1_19_a_request_that_is_taken_back_is_answered,
    r1_19_a_running_prompt_that_is_taken_back_is_answered,
    r1_20_a_cancel_of_nothing_is_ignored,
    r1_21_a_cancel_is_sent_on_with_our_own_number,
);

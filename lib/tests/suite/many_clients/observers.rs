//! Observers beside other clients: they change nothing for these, whoever is asked, closes or leaves.

use std::time::Duration;

use rethread::server::WhenUnattended;
use rethread_core::SessionId;
use rethread_testkit::{DEADLINE, Pairing, World, pairings};
use serde_json::{Value, json};

use super::{PERMISSION, Shared, VERSIONS, idle};

/// Waits until no process has the session open.
async fn closed(world: &World, session: &str) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        let row = world.store.find(&SessionId(session.to_owned())).await.expect("the store works");
        if row.expect("it is there").owner.is_none() {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "the session is still open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn questions_are_for_the_others(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let observer = shared.world.observer(other).await;
        observer.load(&shared.session).await;
        let prompt = shared.begun("permit; say z").await;
        let asked = [shared.one.wait_method(PERMISSION).await, shared.two.wait_method(PERMISSION).await];
        observer.wait_method("_rethread/question").await;
        // Both decline: nobody is left, although the observer is there.
        for (client, request) in [&shared.one, &shared.two].into_iter().zip(&asked) {
            client.reply(&request["id"], Err(json!({"code": -32603, "message": "not me"}))).await;
        }
        shared.one.finish(&shared.session, &prompt).await;
        let approved = shared.world.agent.received_params("answer");
        assert!(!approved.iter().any(|answer| answer.to_string().contains("selected")), "{approved:?}");
        observer.wait_method("_rethread/question_closed").await;
    }
}

async fn a_question_waits_for_somebody_who_can_answer(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let observer = shared.world.observer(other).await;
        observer.load(&shared.session).await;
        shared.begun("permit; say z").await;
        shared.one.wait_method(PERMISSION).await;
        shared.one.disconnect().await;
        shared.two.disconnect().await;
        let late = shared.world.ready_as(other).await;
        let params = std::sync::Arc::new(std::sync::Mutex::new(None));
        let kept = params.clone();
        late.on(PERMISSION, move |message: &Value| {
            *kept.lock().expect("nobody panics") = Some(message.clone());
            None
        });
        let mark = late.mark();
        late.load(&shared.session).await;
        let request = late.wait_method(PERMISSION).await;
        let option = request["params"]["options"][0]["optionId"].clone();
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        late.reply(&request["id"], Ok(outcome)).await;
        idle(&late, mark, &shared.session).await;
    }
}

async fn the_last_other_client_closes_the_session(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let (world, session) = (&shared.world, &shared.session);
        shared.one.prompt(session, "say hello").await;
        let observer = world.observer(other).await;
        observer.load(session).await;
        shared.one.close(session).await.expect("it leaves");
        shared.two.close(session).await.expect("it closes");
        closed(world, session).await;
        assert_eq!(observer.view(session).agent(), ["hello"]);
    }
}

/// A session without clients is closed when it is idle, observed or not; one that ends with its last client does.
async fn an_observed_session_ends_as_any_other(pairing: Pairing) {
    for keep in [WhenUnattended::Keep, WhenUnattended::End] {
        let world = World::of(pairing).set(|config| {
            config.when_unattended = keep;
            config.idle_limit = Duration::from_millis(200);
        });
        let client = world.ready().await;
        let session = client.new_session().await;
        client.prompt(&session, "say hello").await;
        let observer = world.observer(pairing.client).await;
        observer.load(&session).await;
        client.disconnect().await;
        // Asking for its status does not keep it awake either.
        let watch = async {
            loop {
                observer.ask("session/status", json!({"sessionId": session})).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = closed(&world, &session) => {}
            () = watch => {}
        }
    }
}

/// Other servers are applied when the client that asked for them is alone; an observer is nobody.
async fn an_observer_does_not_hold_up_a_setup(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say hello").await;
    let observer = world.observer(pairing.client).await;
    observer.load(&session).await;
    let (method, mut params) = client.load_params(&session);
    params["mcpServers"] =
        json!([{"type": "stdio", "name": "notes", "command": "/bin/notes", "args": [], "env": []}]);
    let mark = client.mark();
    client.ask(method, params).await;
    client.prompt(&session, "say again").await;
    let notice = |update: &Value| update["title"].to_string().contains("keeps its MCP servers");
    assert!(!client.updates_since(mark, &session).iter().any(notice));
}

pairings!(
    questions_are_for_the_others,
    a_question_waits_for_somebody_who_can_answer,
    the_last_other_client_closes_the_session,
    an_observed_session_ends_as_any_other,
    an_observer_does_not_hold_up_a_setup,
);

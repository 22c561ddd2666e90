//! How clients leave a session that others follow: by hanging up, by closing, by ending it for all.

use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread::server::WhenUnattended;
use rethread::store::SessionRow;
use rethread_core::SessionId;
use rethread_testkit::{DEADLINE, Pairing, World, pairings};
use serde_json::{Value, json};

use super::{PERMISSION, Shared, VERSIONS, idle};

async fn one_leaves_in_mid_turn_and_the_other_sees_the_end(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let mark = shared.two.mark();
        shared.begun("wait gate; say z").await;
        shared.one.disconnect().await;
        shared.world.agent.open_gate("gate");
        let end = idle(&shared.two, mark, &shared.session).await;
        assert!(end.to_string().contains("end_turn"), "{end}");
        assert_eq!(shared.two.view_since(mark, &shared.session).agent(), ["a", "z"]);
        // It can go on.
        assert_eq!(shared.two.prompt(&shared.session, "say on").await.stop, "end_turn");
    }
}

/// A client that hangs up withdraws nothing.
async fn a_prompt_that_waits_runs_although_its_client_left(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        shared.begun("wait gate").await;
        shared.two.begin_prompt(&shared.session, "say held").await;
        // Through the session: the prompt is there.
        shared.two.ask("_agent/echo", json!({"sessionId": shared.session})).await;
        shared.two.disconnect().await;
        let mark = shared.one.mark();
        shared.world.agent.open_gate("gate");
        shared.sees(&shared.one, mark, "held").await;
    }
}

async fn closing_leaves_the_session_to_the_others(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let prompt = shared.begun("wait gate; say z").await;
        assert_eq!(shared.one.close(&shared.session).await, Ok(json!({})));
        let answer = shared.one.answer(&prompt).await;
        match pairing.client {
            Version::V1 => {
                let detached = json!({"rethread": {"detached": true}});
                assert_eq!(answer, Ok(json!({"stopReason": "cancelled", "_meta": detached})));
            }
            Version::V2 => assert!(answer.is_ok(), "it was accepted before: {answer:?}"),
        }
        let (mark, left) = (shared.two.mark(), shared.one.mark());
        shared.world.agent.open_gate("gate");
        idle(&shared.two, mark, &shared.session).await;
        assert_eq!(shared.two.view(&shared.session).agent(), ["a", "z"]);
        assert!(shared.one.updates_since(left, &shared.session).is_empty(), "it follows no longer");
        let refused = shared.one.refused(
            "session/prompt",
            json!({
                "sessionId": shared.session, "prompt": [{"type": "text", "text": "say x"}],
            }),
        );
        assert!(refused.await["message"].is_string());
        // The last one closes.
        assert_eq!(shared.two.close(&shared.session).await, Ok(json!({})));
        let row = shared
            .world
            .store
            .find(&SessionId(shared.session.clone()))
            .await
            .expect("a store")
            .expect("a row");
        assert_eq!(row.owner, None);
    }
}

async fn closing_withdraws_the_prompts_that_wait(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let prompt = shared.begun("wait gate").await;
        let held = shared.two.begin_prompt(&shared.session, "say held").await;
        shared.two.ask("_agent/echo", json!({"sessionId": shared.session})).await;
        assert_eq!(shared.two.close(&shared.session).await, Ok(json!({})));
        let answer = shared.two.answer(&held).await;
        let waited = pairing.agent == Version::V1;
        match (waited, other) {
            (true, Version::V1) => assert_eq!(answer, Ok(json!({"stopReason": "cancelled"}))),
            (true, Version::V2) => assert_eq!(answer.expect_err("it was withdrawn")["code"], -32800),
            // An agent of version 2 has it already.
            (false, Version::V1) => assert_eq!(answer.expect("an end")["stopReason"], "cancelled"),
            (false, Version::V2) => drop(answer),
        }
        shared.world.agent.open_gate("gate");
        assert_eq!(shared.one.finish(&shared.session, &prompt).await.stop, "end_turn");
        let held = shared.one.view(&shared.session).agent().contains(&"held".to_owned());
        assert!(!(held && waited), "it was withdrawn");
    }
}

async fn deleting_and_archiving_end_it_for_all(pairing: Pairing) {
    for other in VERSIONS {
        for method in ["session/delete", "session/archive"] {
            let shared = Shared::of(pairing, other).await;
            let prompt = shared.begun("hang").await;
            let mark = shared.two.mark();
            shared.two.ask(method, json!({"sessionId": shared.session})).await;
            let turn = shared.one.finish(&shared.session, &prompt).await;
            assert!(turn.stop == "cancelled" || turn.stop.starts_with("error"), "{turn:?}");
            let notice = |update: &Value| {
                update["sessionUpdate"] == "notice" && update["_meta"]["rethread"]["client"]["name"] == "test"
            };
            shared.one.wait_update(0, &shared.session, "who ended it", notice).await;
            let own = shared.two.updates_since(mark, &shared.session);
            assert!(!own.iter().any(notice), "it knows that itself");
        }
    }
}

/// Nobody follows it: it finishes its turn, and when it has been idle for long, it is closed.
async fn a_kept_session_finishes_its_turn_and_is_closed_when_idle(pairing: Pairing) {
    let world = World::of(pairing).set(|config| {
        config.when_unattended = WhenUnattended::Keep;
        config.idle_limit = Duration::from_millis(300);
    });
    let one = world.ready().await;
    let session = one.new_session().await;
    let mark = one.mark();
    one.begin_prompt(&session, "say a; wait gate; say z").await;
    one.wait_update(mark, &session, "a", |update| update["content"]["text"] == "a").await;
    one.disconnect().await;
    // Longer than the limit: a turn that runs is not idle.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(world.agent.running() > 0, "the agent still works");
    world.agent.open_gate("gate");
    world.agent.wait_gone().await;
    let id = SessionId(session.clone());
    let owner = async || world.store.find(&id).await.expect("a store").expect("a row").owner;
    let released = async {
        while owner().await.is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), released).await.expect("the lease is released");
    let next = world.ready().await;
    next.load(&session).await;
    assert_eq!(next.view(&session).agent(), ["a", "z"]);
}

/// The default: the last client takes the session with it, at once and with its question.
async fn the_last_client_ends_the_session(pairing: Pairing) {
    for other in VERSIONS {
        let world = World::of(pairing);
        let one = world.ready().await;
        let session = one.new_session().await;
        let two = world.ready_as(other).await;
        two.load(&session).await;
        for client in [&one, &two] {
            client.on(PERMISSION, |_| None);
        }
        one.begin_prompt(&session, "permit").await;
        one.wait_method(PERMISSION).await;
        two.wait_method(PERMISSION).await;
        one.disconnect().await;
        assert!(world.agent.running() > 0, "somebody follows");
        two.disconnect().await;
        world.agent.wait_gone().await;
        let row = world.store.find(&SessionId(session)).await.expect("a store").expect("a row");
        assert_eq!(row.owner, None);
    }
}

/// Another process asks for the session: it declines in a turn, and lets all clients go between turns.
async fn a_release_that_is_asked_for_ends_it_for_all_between_turns(pairing: Pairing) {
    let shared = Shared::of(pairing, pairing.client).await;
    let (store, id) = (&shared.world.store, SessionId(shared.session.clone()));
    let settled = async |is: fn(&SessionRow) -> bool| {
        let until = Instant::now() + DEADLINE;
        while !is(&store.find(&id).await.expect("a store").expect("a row")) {
            assert!(Instant::now() < until, "the owner does not answer");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let prompt = shared.begun("wait gate; say z").await;
    store.ask_release(&id, 5).await.expect("a store");
    settled(|row| row.release_asked_at.is_none() && row.owner.is_some()).await;
    shared.world.agent.open_gate("gate");
    assert_eq!(shared.one.finish(&shared.session, &prompt).await.stop, "end_turn", "the turn was left alone");

    store.ask_release(&id, 6).await.expect("a store");
    settled(|row| row.owner.is_none()).await;
    for client in [&shared.one, &shared.two] {
        client.wait("a notice", |message| message.to_string().contains("Session released")).await;
        let prompt = json!({"sessionId": shared.session, "prompt": [{"type": "text", "text": "say lost"}]});
        client.refused("session/prompt", prompt).await;
    }
    shared.two.load(&shared.session).await;
    assert_eq!(shared.two.prompt(&shared.session, "say on").await.stop, "end_turn");
    assert_eq!(shared.two.view(&shared.session).agent().last().map(String::as_str), Some("on"));
}

pairings!(
    a_release_that_is_asked_for_ends_it_for_all_between_turns,
    one_leaves_in_mid_turn_and_the_other_sees_the_end,
    a_prompt_that_waits_runs_although_its_client_left,
    closing_leaves_the_session_to_the_others,
    closing_withdraws_the_prompts_that_wait,
    deleting_and_archiving_end_it_for_all,
    a_kept_session_finishes_its_turn_and_is_closed_when_idle,
    the_last_client_ends_the_session,
);

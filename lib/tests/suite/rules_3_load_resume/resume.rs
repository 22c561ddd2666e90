//! Rules 3.7 to 3.17 and 3.23: resuming, with a replay and without.

use std::collections::BTreeSet;

use rethread::edge::Version;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{TALK, load, open, past, refused, resume_params};

async fn r3_07_resume_does_not_replay(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &TALK).await;
    let client = world.ready().await;
    let mut params = vec![resume_params(&session)];
    if pairing.client == Version::V2 {
        let mut null = resume_params(&session);
        null["replayFrom"] = Value::Null;
        params.push(null);
    }
    for params in params {
        let opened = open(&client, "session/resume", params).await;
        assert_eq!(opened.conversation(), [""; 0], "3.8");
    }
    let mark = client.mark();
    client.prompt(&session, "say more").await;
    let tags = client.updates_since(mark, &session);
    let said: Vec<_> =
        tags.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk").collect();
    assert_eq!(said.len(), 1);
    assert_eq!(client.view(&session).agent(), ["more"]);
}

async fn r3_09_start_replays_everything_before_the_answer(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, before) = past(&world, &TALK).await;
    let client = world.ready().await;
    let mut params = resume_params(&session);
    params["replayFrom"] = json!({"type": "start"});
    let opened = open(&client, "session/resume", params).await;
    assert_eq!(opened.conversation().first(), Some(&"user_message"));
    assert_eq!(client.view(&session), before.view(&session));
}

async fn r3_10_a_cursor_is_inclusive(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say one").await;
    let second = client.prompt(&session, "say two").await.message.expect("an id");
    client.prompt(&session, "say three").await;
    let from = |message: &str| {
        let mut params = resume_params(&session);
        params["replayFrom"] = json!({"type": "_message", "messageId": message});
        params
    };
    let mark = client.mark();
    open(&client, "session/resume", from(&second)).await;
    let view = client.view_since(mark, &session);
    assert_eq!(view.user(), ["say two", "say three"]);
    assert_eq!(view.agent(), ["two", "three"]);
    // From a message of the agent's, too.
    let is_two = |update: &&Value| update["content"]["text"] == "two";
    let spoken = client.updates(&session).iter().find(is_two).expect("it was said")["messageId"].clone();
    let mark = client.mark();
    open(&client, "session/resume", from(spoken.as_str().expect("an id"))).await;
    let view = client.view_since(mark, &session);
    assert_eq!(view.user(), ["say three"]);
    assert_eq!(view.agent(), ["two", "three"]);
}

async fn r3_11_a_bad_cursor_is_refused_and_nothing_is_resumed(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["say hello"]).await;
    let client = world.ready().await;
    for from in [
        json!("start"),
        json!(5),
        json!([]),
        json!({}),
        json!({"type": "end"}),
        json!({"type": "_other"}),
        json!({"type": 5}),
        json!({"type": "_message"}),
        json!({"type": "_message", "messageId": 5}),
    ] {
        let mut params = resume_params(&session);
        params["replayFrom"] = from;
        refused(&client, "session/resume", params, "replayFrom").await;
    }
    let mut params = resume_params(&session);
    params["replayFrom"] = json!({"type": "_message", "messageId": "nobody"});
    refused(&client, "session/resume", params, "replayFrom.messageId").await;
    // It is not opened either: nobody has it, and the agent has not heard of it.
    let status = client.ask("session/status", json!({"sessionId": session})).await;
    assert_eq!(status["status"], "saved", "{status}");
    // 3.14: a resume that failed tells nothing and attaches nobody.
    assert!(client.updates(&session).is_empty());
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]});
    assert_eq!(client.refused("session/prompt", prompt).await["code"], -32002);
    load(&client, &session).await;
}

async fn r3_12_the_state_comes_between_replay_and_answer(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &["stop refusal"]).await;
    let client = world.ready().await;
    for params in [client.load_params(&session).1, resume_params(&session)] {
        let opened = open(&client, "session/resume", params).await;
        let last = opened.before.last().expect("the state");
        assert_eq!(last["sessionUpdate"], "state_update");
        assert_eq!(last["state"], "idle");
        // 3.13: for context, the last reason; never another.
        assert!(last.get("stopReason").is_none_or(|reason| reason == "refusal"), "{last}");
        let states = opened.before.iter().filter(|update| update["sessionUpdate"] == "state_update");
        assert_eq!(states.count(), 1, "the past states are not replayed");
    }
}

async fn r3_12_the_state_of_a_session_that_was_never_prompted_is_idle(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &[]).await;
    let client = world.ready().await;
    let opened = open(&client, "session/resume", resume_params(&session)).await;
    assert_eq!(opened.before, [json!({"sessionUpdate": "state_update", "state": "idle"})]);
}

async fn r3_14_the_state_of_running_work_is_running(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "say one; wait gate; say two").await;
    client.wait_update(0, &session, "the first word", |update| update["content"]["text"] == "one").await;
    let mark = client.mark();
    let opened = load(&client, &session).await;
    let last = opened.before.last().expect("the state");
    assert_eq!((&last["sessionUpdate"], &last["state"]), (&json!("state_update"), &json!("running")));
    world.agent.open_gate("gate");
    assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
    let states: Vec<_> = client
        .updates_since(mark, &session)
        .into_iter()
        .filter(|update| update["sessionUpdate"] == "state_update")
        .map(|update| update["state"].clone())
        .collect();
    assert_eq!(states, ["running", "idle"], "no stale state follows a newer one");
    assert_eq!(client.view_since(mark, &session).agent(), ["one", "two"]);
}

async fn r3_15_every_replayed_message_has_its_id(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let first = client.prompt(&session, "noid; say one; tool call_1; say two; think hm").await;
    client.prompt(&session, "chunks 3; say three").await;
    let live = client.view(&session);
    client.disconnect().await;
    let next = world.ready().await;
    load(&next, &session).await;
    let mut seen = BTreeSet::new();
    let mut last = None;
    for update in next.updates(&session) {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default();
        if !tag.contains("message") && !tag.contains("thought") {
            continue;
        }
        let id = update["messageId"].as_str().expect("a replayed message has an id").to_owned();
        let key = (tag.trim_end_matches("_chunk").to_owned(), id);
        if last.as_ref() != Some(&key) {
            assert!(seen.insert(key.clone()), "{key:?} comes twice");
        }
        last = Some(key);
    }
    // The ids are those that were there live.
    assert_eq!(next.view(&session), live);
    if let Some(first) = first.message {
        assert!(seen.contains(&("user_message".to_owned(), first)));
    }
}

async fn r3_17_a_compaction_keeps_its_place(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, before) = past(&world, &["say one; compact; say two"]).await;
    let client = world.ready().await;
    load(&client, &session).await;
    assert_eq!(client.view(&session), before.view(&session));
    let updates = client.updates(&session);
    let compactions: Vec<_> =
        updates.iter().filter(|update| update["sessionUpdate"] == "compaction_update").collect();
    assert_eq!(compactions.last().expect("a compaction")["status"], "completed");
}

async fn r3_23_no_update_is_made_up_for_the_end_of_a_replay(pairing: Pairing) {
    let world = World::of(pairing);
    let (session, _) = past(&world, &TALK).await;
    let client = world.ready().await;
    load(&client, &session).await;
    let known = [
        "user_message",
        "user_message_chunk",
        "agent_message",
        "agent_message_chunk",
        "agent_thought",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "plan_update",
        "usage_update",
        "session_info_update",
        "available_commands_update",
        "state_update",
    ];
    // That the agent has restored the session is told when it has, and so is no part of the replay.
    let of_replay = |update: &&Value| update["_meta"]["rethread"].is_null();
    for update in client.updates(&session).iter().filter(of_replay) {
        let tag = update["sessionUpdate"].as_str().unwrap_or_default();
        assert!(known.contains(&tag), "{tag}");
    }
}

pairings!(
    r3_07_resume_does_not_replay,
    r3_15_every_replayed_message_has_its_id,
    r3_17_a_compaction_keeps_its_place,
    r3_23_no_update_is_made_up_for_the_end_of_a_replay,
);

pairings!(client V2:
    r3_09_start_replays_everything_before_the_answer,
    r3_10_a_cursor_is_inclusive,
    r3_11_a_bad_cursor_is_refused_and_nothing_is_resumed,
    r3_12_the_state_comes_between_replay_and_answer,
    r3_12_the_state_of_a_session_that_was_never_prompted_is_idle,
    r3_14_the_state_of_running_work_is_running,
);

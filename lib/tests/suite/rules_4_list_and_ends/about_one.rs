//! Rules 4.15 to 4.21: the status of a session, its title, and forks of it.

use std::collections::BTreeSet;

use agent_client_protocol_schema::{v1, v2};
use rethread_testkit::client::CWD;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{info, listed, listed_session, of_sessions, on, told_of_sessions, unknown};

async fn r4_15_asking_for_the_status_has_no_effect(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = listed_session(&client).await;
    let next = world.restarted(&client).await.ready().await;
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
    let (world, client, session) = World::begun(pairing).await;
    let status = on(&client, "session/status", &session).await;
    assert_eq!(status["state"], json!({"state": "idle"}));
    let prompt = client.begin_prompt(&session, "hang").await;
    world.agent.wait_received("session/prompt", 1).await;
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
    assert_eq!(of_sessions(&client, &answer)["title"], json!({}));
    let session = listed_session(&client).await;
    let mark = client.mark();
    client.ask("session/set_title", json!({"sessionId": session, "title": "While open"})).await;
    client.wait_update(mark, &session, "the title", |update| update["title"] == "While open").await;
    assert_eq!(info(&client, &session).await["title"], "While open");
    let next = world.restarted(&client).await.ready().await;
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
    client.disconnect().await;
    let next = world.again().ready().await;
    let blank = json!({"sessionId": session, "title": "  "});
    assert_eq!(next.refused("session/set_title", blank).await["code"], -32602);
    assert_eq!(info(&next, &session).await["title"], "My title");
    assert_eq!(next.ask("session/set_title", params).await["title"], "My title");
}

async fn r4_18_a_users_title_is_kept_over_the_agents_and_the_prompts(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
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
    let next = world.restarted(&client).await.ready().await;
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

/// Says that a title is one line of visible characters, and bounded.
fn assert_clean(title: &Value, whose: &str) -> String {
    let title = title.as_str().unwrap_or_else(|| panic!("no title of {whose}: {title}"));
    let bad = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!title.contains(bad), "{whose}: {title:?}");
    assert!((1..=500).contains(&title.chars().count()), "{whose}: {} characters", title.chars().count());
    title.to_owned()
}

async fn r4_18_a_title_is_one_clean_bounded_line_whoever_gave_it(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    let ugly = "\u{1b}[31mred\u{1b}[0m \0\u{202e}txt";
    client.prompt(&session, &format!("say {ugly}")).await;
    assert_eq!(assert_clean(&info(&client, &session).await["title"], "the prompt"), "say red txt");
    let long = "long ".repeat(1000);
    client.prompt(&session, &format!("title {ugly} {long}")).await;
    let listed = assert_clean(&info(&client, &session).await["title"], "the agent");
    assert!(listed.starts_with("red txt long"), "{listed}");
    let told = client.updates(&session);
    let told = told.iter().rfind(|update| update["title"].is_string()).expect("the title was told");
    assert_eq!(assert_clean(&told["title"], "the agent"), listed);
    let params = json!({"sessionId": session, "title": format!("{ugly}\n{long}")});
    let open = client.ask("session/set_title", params.clone()).await;
    assert_eq!(assert_clean(&open["title"], "the user"), listed);
    let next = world.restarted(&client).await.ready().await;
    let saved = next.ask("session/set_title", params).await;
    assert_eq!(assert_clean(&saved["title"], "the user"), listed);
    assert_eq!(info(&next, &session).await["title"], listed);
    let unseen = json!({"sessionId": session, "title": "\u{202e}\u{1b}[0m\u{200b}"});
    for of in [&next, &world.again().ready().await] {
        assert_eq!(of.refused("session/set_title", unseen.clone()).await["code"], -32602);
    }
}

async fn r4_19_a_fork_is_a_session_of_its_own(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    assert_eq!(of_sessions(&client, &answer)["fork"], json!({}));
    let session = client.new_session().await;
    client.prompt(&session, "say one; tool call_1").await;
    let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": []});
    let made = client.ask("session/fork", params).await;
    let fork = made["sessionId"].as_str().expect("a fork has an id").to_owned();
    assert_ne!(fork, session);
    assert_eq!(client.prompt(&fork, "say of the fork").await.stop, "end_turn");
    assert_eq!(client.prompt(&session, "say of the first").await.stop, "end_turn");
    client.disconnect().await;
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
    let (_world, client, session) = World::begun(pairing).await;
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

pairings!(
    r4_15_asking_for_the_status_has_no_effect,
    r4_16_an_open_session_says_so_to_any_connection,
    r4_17_any_session_can_be_given_a_title,
    r4_18_a_title_is_answered_as_it_is_stored,
    r4_18_a_users_title_is_kept_over_the_agents_and_the_prompts,
    r4_18_a_title_set_before_the_first_prompt_is_kept,
    r4_18_a_title_is_one_clean_bounded_line_whoever_gave_it,
    r4_19_a_fork_is_a_session_of_its_own,
    r4_20_a_fork_is_active_where_the_request_says,
    r4_21_a_fork_takes_everything_unless_a_message_is_named,
);

pairings!(client V1:
    r4_16_version_1_has_no_state_in_the_status,
);

pairings!(client V2:
    r4_16_version_2_is_told_the_state,
);

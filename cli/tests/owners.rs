//! One owner per session: several processes of the shipped program on one home.

use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::program::Home;
use serde_json::{Value, json};

const BOTH: [Version; 2] = [Version::V1, Version::V2];

#[tokio::test]
async fn a_second_process_is_told_who_has_the_session_and_takes_over_when_it_is_killed() {
    for version in BOTH {
        let home = home();
        let mut first = home.ready(version, Version::V1).await;
        let session = first.client.new_session().await;
        first.client.prompt(&session, "say one").await;

        let second = home.ready(version, Version::V1).await;
        let error = second.client.load_refused(&session).await;
        assert_eq!(error["code"], -32010, "{error}");
        let owner = &error["data"]["owner"];
        assert_eq!(owner["pid"], first.pid(), "{error}");
        assert!(owner["host"].as_str().is_some_and(|host| !host.is_empty()), "{error}");
        assert!(owner["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{error}");
        assert!(error["data"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
        assert_eq!(error["data"]["sessionId"], session.as_str(), "{error}");
        // The first does not notice.
        assert_eq!(first.client.prompt(&session, "say two").await.stop, "end_turn");

        first.client.begin_prompt(&session, "say three; hang").await;
        let said = |update: &Value| update["content"]["text"] == "three";
        first.client.wait_update(0, &session, "three", said).await;
        first.kill().await;
        let start = Instant::now();
        second.client.load(&session).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(second.client.view(&session).agent(), ["one", "two", "three"]);
        assert_eq!(second.client.prompt(&session, "say four").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn an_empty_session_survives_a_kill_and_is_not_listed() {
    for version in BOTH {
        for agent in BOTH {
            let home = home();
            let mut first = home.ready(version, agent).await;
            let session = first.client.new_session().await;
            first.kill().await;

            let second = home.ready(version, agent).await;
            assert_eq!(second.client.listed().await, Vec::<String>::new());
            second.client.load(&session).await;
            assert_eq!(second.client.view(&session).items, []);
            assert_eq!(second.client.prompt(&session, "say hello").await.stop, "end_turn");
            assert_eq!(second.client.listed().await, [session]);
        }
    }
}

#[tokio::test]
async fn listing_works_while_another_process_has_the_session() {
    for version in BOTH {
        let home = home();
        let first = home.ready(version, Version::V2).await;
        let session = first.client.new_session().await;
        first.client.prompt(&session, "say one").await;
        first.client.begin_prompt(&session, "hang").await;

        let second = home.ready(version, Version::V2).await;
        assert_eq!(second.client.listed().await, std::slice::from_ref(&session));
        let status = second.client.ask("session/status", json!({"sessionId": session})).await;
        assert_eq!(status["status"], "open", "{status}");
        let own = second.client.new_session().await;
        assert_eq!(second.client.prompt(&own, "say mine").await.stop, "end_turn");
        assert_eq!(first.client.listed().await, [own, session]);
    }
}

#[tokio::test]
async fn a_session_that_another_process_deletes_takes_no_more_prompts() {
    for version in BOTH {
        let home = home();
        let first = home.ready(version, Version::V1).await;
        let session = first.client.new_session().await;
        first.client.prompt(&session, "say one").await;
        let second = home.ready(version, Version::V1).await;
        second.client.ask("session/delete", json!({"sessionId": session})).await;

        let error = refused_prompt(&first.client, &session).await;
        assert_eq!(error["code"], -32002, "{error}");
        assert!(error["data"]["hint"].as_str().is_some(), "{error}");
        assert_eq!(first.client.view(&session).agent(), ["one"], "nothing is shown that is not written");
        assert_eq!(first.client.load_refused(&session).await["code"], -32002);
        assert_eq!(second.client.listed().await, Vec::<String>::new());
        // The process is as good as before.
        let next = first.client.new_session().await;
        assert_eq!(first.client.prompt(&next, "say next").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn a_session_that_another_process_archives_takes_no_more_prompts_until_it_is_loaded() {
    for version in BOTH {
        let home = home();
        let first = home.ready(version, Version::V1).await;
        let session = first.client.new_session().await;
        first.client.prompt(&session, "say one").await;
        let second = home.ready(version, Version::V1).await;
        second.client.ask("session/archive", json!({"sessionId": session})).await;

        let error = refused_prompt(&first.client, &session).await;
        assert!(error["message"].as_str().is_some_and(|text| text.contains(&session)), "{error}");
        let hint = error["data"]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("load"), "{error}");
        assert_eq!(first.client.view(&session).agent(), ["one"]);

        let third = home.ready(version, Version::V1).await;
        third.client.load(&session).await;
        assert_eq!(third.client.view(&session).agent(), ["one"], "nothing was written");
        assert_eq!(third.client.view(&session).user(), ["say one"], "nothing was written");
    }
}

#[tokio::test]
async fn a_turn_that_runs_when_its_session_is_deleted_ends_with_an_error() {
    let home = home();
    let first = home.ready(Version::V1, Version::V1).await;
    let session = first.client.new_session().await;
    let request = first.client.begin_prompt(&session, "say one; slow 400").await;
    let said = |update: &Value| update["content"]["text"] == "one";
    first.client.wait_update(0, &session, "one", said).await;
    let second = home.ready(Version::V1, Version::V1).await;
    second.client.ask("session/delete", json!({"sessionId": session})).await;
    let error = first.client.answer(&request).await.expect_err("the session is gone");
    assert_eq!(error["code"], -32002, "{error}");
}

async fn refused_prompt(client: &Client, session: &str) -> Value {
    let prompt = json!([{"type": "text", "text": "say more"}]);
    client.refused("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
}

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_rethread"))
}

//! Tests of cancelling at every point of a turn: it ends at once, nothing runs after it, and the next request is complete.

use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_assistant::model::ProviderKind;
use rethread_testkit::client::Client;
use rethread_testkit::model::{Planned, error_body};
use serde_json::{Value, json};

use super::fixture::{Fixture, KINDS, answer};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// The numbers of calls and of results in a request, for each kind of provider.
fn calls_and_results(body: &Value) -> (usize, usize) {
    let (mut calls, mut results) = (0, 0);
    let mut look = vec![body];
    while let Some(value) = look.pop() {
        match value {
            Value::Array(items) => look.extend(items),
            Value::Object(members) => {
                let word = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
                calls += members.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
                calls += usize::from(members.contains_key("functionCall"));
                calls += usize::from(matches!(word("type"), "function_call" | "tool_use"));
                results += usize::from(members.contains_key("functionResponse"));
                results += usize::from(matches!(word("type"), "function_call_output" | "tool_result"));
                results += usize::from(word("role") == "tool");
                look.extend(members.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    (calls, results)
}

/// Cancels the turn and asserts that it ends at once.
async fn cancel(client: &Client, session: &str, prompt: &Value) {
    let begun = Instant::now();
    client.cancel(session).await;
    assert_eq!(client.finish(session, prompt).await.stop, "cancelled");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn while_a_permission_is_open_and_every_call_has_a_result_afterwards() {
    for kind in KINDS {
        for version in VERSIONS {
            let fixture = Fixture::with(kind);
            fixture.write("a.txt", "one\n");
            let (client, session) = fixture.session(version).await;
            client.on("session/request_permission", |_| None);
            fixture.model.plan(
                Planned::new()
                    .call("read", &json!({"path": "a.txt"}))
                    .call("write", &json!({"path": "b.txt", "content": "b"}))
                    .call("write", &json!({"path": "c.txt", "content": "c"})),
            );
            let prompt = client.begin_prompt(&session, "write").await;
            let asked = client.wait_method("session/request_permission").await;
            client.cancel(&session).await;
            if version == Version::V1 {
                client.reply(&asked["id"], Ok(json!({"outcome": {"outcome": "cancelled"}}))).await;
            }
            assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
            assert!(!fixture.work().join("b.txt").exists() && !fixture.work().join("c.txt").exists());
            fixture.model.plan(Planned::new().text("fine"));
            assert_eq!(client.prompt(&session, "go on").await.stop, "end_turn");
            let body = fixture.model.asked().last().unwrap().body.clone();
            let (calls, results) = calls_and_results(&body);
            assert!(calls >= 2 && calls == results, "{kind:?}: {calls} calls, {results} results: {body}");
        }
    }
}

#[tokio::test]
async fn a_cancel_while_a_permission_is_open_is_no_refusal() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let (client, session) = fixture.session(version).await;
        client.on("session/request_permission", |_| None);
        for round in 0..10 {
            let begun = client.server_messages().len();
            let prompt = client.begin_prompt(&session, "/run echo never").await;
            let is_question = |message: &Value| message["method"] == "session/request_permission";
            let asked = loop {
                if let Some(asked) =
                    client.server_messages()[begun..].iter().find(|message| is_question(message))
                {
                    break asked.clone();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            };
            client.cancel(&session).await;
            if version == Version::V1 {
                client.reply(&asked["id"], Ok(json!({"outcome": {"outcome": "cancelled"}}))).await;
            }
            assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled", "round {round}");
        }
        let said = Value::from(client.updates(&session)).to_string();
        assert!(!said.contains("rejected"), "{said}");
    }
}

#[tokio::test]
async fn while_a_command_runs_and_what_was_to_follow_is_not_done() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        answer(&client, "allow_always");
        fixture.model.plan(Planned::new().call("write", &json!({"path": "first", "content": "x"})));
        fixture.model.plan(Planned::new().text("done"));
        client.prompt(&session, "write").await;
        fixture.model.plan(
            Planned::new()
                .call("run", &json!({"command": "echo begun; sleep 100; touch late"}))
                .call("write", &json!({"path": "second", "content": "x"})),
        );
        let mark = client.mark();
        let prompt = client.begin_prompt(&session, "run").await;
        client.wait_update(mark, &session, "it runs", |update| update["status"] == "in_progress").await;
        cancel(&client, &session, &prompt).await;
        assert!(fixture.work().join("first").exists());
        assert!(!fixture.work().join("second").exists() && !fixture.work().join("late").exists());
        let late = client.updates_since(mark, &session);
        let names = Value::from(late).to_string();
        assert!(!names.contains("second"), "nothing more is even begun: {names}");
    }
}

#[tokio::test]
async fn while_a_retry_waits() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::Anthropic);
        let (client, session) = fixture.session(version).await;
        fixture.model.plan(Planned::status(429, error_body("slow down")).header("retry-after", "50"));
        let mark = client.mark();
        let prompt = client.begin_prompt(&session, "speak").await;
        client.wait_since(mark, "the notice", |message| message.to_string().contains("retrying in")).await;
        cancel(&client, &session, &prompt).await;
        assert_eq!(fixture.model.asked().len(), 1);
        fixture.model.plan(Planned::new().text("now"));
        assert_eq!(client.prompt(&session, "again").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn while_a_conversation_is_summarised() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        fixture.model.plan(Planned::new().text("first answer"));
        client.prompt(&session, "one").await;
        fixture
            .model
            .plan(Planned::status(400, error_body("prompt is too long: 9000 tokens > 8000 maximum")));
        fixture.model.plan(Planned::new().text("SUM").stalls());
        let prompt = client.begin_prompt(&session, "two").await;
        let deadline = Instant::now() + Duration::from_secs(5);
        while fixture.model.asked().len() < 3 {
            assert!(Instant::now() < deadline, "it is summed up: {:?}", fixture.model.asked().len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel(&client, &session, &prompt).await;
        fixture.model.wait_hang_up().await;
        fixture.model.plan(Planned::new().text("going on"));
        assert_eq!(client.prompt(&session, "three").await.stop, "end_turn");
        let last = fixture.model.asked().last().unwrap().body.to_string();
        assert!(last.contains("first answer") && !last.contains("SUM"), "{last}");
    }
}

#[tokio::test]
async fn nothing_follows_the_end_of_a_cancelled_turn() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let (client, session) = fixture.session(Version::V1).await;
    answer(&client, "allow");
    fixture.model.plan(Planned::new().call("run", &json!({"command": "yes"})));
    let prompt = client.begin_prompt(&session, "run").await;
    client.wait_update(0, &session, "it runs", |update| update["status"] == "in_progress").await;
    cancel(&client, &session, &prompt).await;
    let mark = client.mark();
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.ask("session/list", json!({})).await;
    let late = client.updates_since(mark, &session);
    assert!(late.is_empty(), "{late:?}");
}

/// A model stalls during a call: the call is shown before it is complete, and ends with the turn.
#[tokio::test]
async fn while_a_call_is_being_written_which_is_not_sent_to_the_model_later() {
    // The other providers send only complete calls.
    for kind in [ProviderKind::OpenAi, ProviderKind::OpenAiResponses, ProviderKind::Anthropic] {
        for version in VERSIONS {
            let fixture = Fixture::with(kind);
            let (client, session) = fixture.session(version).await;
            let call = json!({"path": "b.txt", "content": "b"});
            fixture.model.plan(Planned::new().text("now").call("write", &call).stalls());
            let prompt = client.begin_prompt(&session, "write").await;
            let begun =
                client.wait_update(0, &session, "the call", |update| update["toolCallId"].is_string()).await;
            assert_eq!(
                (&begun["title"], &begun["kind"], &begun["status"]),
                (&json!("write"), &json!("edit"), &json!("pending")),
                "{begun}"
            );
            cancel(&client, &session, &prompt).await;
            let id = &begun["toolCallId"];
            let ended = client.updates(&session).into_iter().rfind(|update| update["toolCallId"] == *id);
            let ended = ended.expect("its end");
            let word = if version == Version::V1 { "failed" } else { "cancelled" };
            assert_eq!(ended["status"], word, "{kind:?}: {ended}");
            assert!(!fixture.work().join("b.txt").exists());
            fixture.model.plan(Planned::new().text("fine"));
            assert_eq!(client.prompt(&session, "go on").await.stop, "end_turn");
            let body = fixture.model.asked().last().unwrap().body.clone();
            assert_eq!(calls_and_results(&body), (0, 0), "{kind:?}: {body}");
            assert!(!body.to_string().contains("[write]"), "{kind:?}: {body}");
        }
    }
}

/// The last status of every tool call that a client received.
fn statuses(client: &Client, session: &str) -> std::collections::BTreeMap<String, String> {
    let mut statuses = std::collections::BTreeMap::new();
    for update in client.updates(session) {
        if let (Some(id), Some(status)) = (update["toolCallId"].as_str(), update["status"].as_str()) {
            statuses.insert(id.to_owned(), status.to_owned());
        }
    }
    statuses
}

#[tokio::test]
async fn every_announced_call_ends_and_calls_that_never_began_are_not_sent() {
    for kind in KINDS {
        for version in VERSIONS {
            let fixture = Fixture::with(kind);
            let (client, session) = fixture.session(version).await;
            client.on("session/request_permission", |_| None);
            fixture.model.plan(
                Planned::new()
                    .call("write", &json!({"path": "b.txt", "content": "b"}))
                    .call("write", &json!({"path": "never.txt", "content": "c"}))
                    .call("plan", &json!({"entries": [{"content": "never", "status": "pending"}]})),
            );
            let prompt = client.begin_prompt(&session, "write").await;
            client.wait_method("session/request_permission").await;
            cancel(&client, &session, &prompt).await;
            let statuses = statuses(&client, &session);
            let word = if version == Version::V1 { "failed" } else { "cancelled" };
            assert!(statuses.values().all(|status| status == word), "{kind:?} {version:?}: {statuses:?}");
            let go_on = async |client: &Client| {
                fixture.model.plan(Planned::new().text("fine"));
                assert_eq!(client.prompt(&session, "go on").await.stop, "end_turn");
                let body = fixture.model.asked().last().unwrap().body.clone();
                assert_eq!(calls_and_results(&body), (1, 1), "{kind:?} {version:?}: {body}");
                assert!(!body.to_string().contains("never"), "{kind:?} {version:?}: {body}");
            };
            go_on(&client).await;
            client.disconnect().await;
            let client = fixture.client(version).await;
            client.load_in(&fixture.work().display().to_string(), &session).await;
            go_on(&client).await;
        }
    }
}

//! Tests of conversations with tool calls, with each kind of provider, also after a restart.

use rethread::edge::Version;
use rethread_assistant::model::ProviderKind;
use rethread_testkit::model::{ModelRequest, Planned};
use serde_json::{Value, json};

use super::fixture::{Fixture, KINDS, answer, questions};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// The part of a request body that has the conversation.
fn conversation(asked: &ModelRequest) -> Value {
    let members = [
        "messages",
        "input",
        "contents",
        "system",
        "instructions",
        "systemInstruction",
        "system_instruction",
    ];
    members.iter().map(|name| asked.body[*name].clone()).collect()
}

#[tokio::test]
async fn a_conversation_with_tools_is_the_same_after_a_restart() {
    for kind in KINDS {
        for version in VERSIONS {
            let fixture = Fixture::with(kind);
            fixture.write("a.txt", "the secret word is plum\n");
            let (client, session) = fixture.session(version).await;
            fixture.model.plan(
                Planned::new()
                    .text("Let me look.")
                    .call("read", &json!({"path": "a.txt"}))
                    .call("search", &json!({"pattern": "plum"})),
            );
            fixture.model.plan(Planned::new().text("It is ").text("plum."));
            assert_eq!(client.prompt(&session, "what is the word?").await.stop, "end_turn", "{kind:?}");
            let asked = fixture.model.asked();
            assert_eq!(asked.len(), 2, "{kind:?}");
            let results = asked[1].body.to_string();
            assert!(results.matches("the secret word is plum").count() >= 2, "{kind:?}: {results}");
            fixture.model.plan(Planned::new().text("You are welcome."));
            client.prompt(&session, "thanks").await;
            let before = client.view(&session);
            assert_eq!(before.agent(), ["Let me look.", "It is plum.", "You are welcome."]);
            client.disconnect().await;

            let client = fixture.client(version).await;
            client.load_in(&fixture.work().display().to_string(), &session).await;
            assert_eq!(client.view(&session), before, "{kind:?}: the same view");
            fixture.model.plan(Planned::new().text("Still here."));
            client.prompt(&session, "are you there?").await;
            let asked = fixture.model.asked();
            let (live, restored) = (asked[2].messages(), asked[3].messages());
            assert_eq!(live[..], restored[..live.len()], "{kind:?}: the model gets the same history");
            assert!(restored.len() > live.len());
            let known = conversation(&asked[3]).to_string();
            assert!(known.contains("You are welcome.") && known.contains("are you there?"), "{known}");
        }
    }
}

#[tokio::test]
async fn a_turn_that_is_cut_off_is_kept_and_goes_on() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        fixture.model.plan(Planned::new().text("half a sen").stalls());
        client.begin_prompt(&session, "speak").await;
        client
            .wait_update(0, &session, "the words", |update| update["content"]["text"] == "half a sen")
            .await;
        client.disconnect().await;
        fixture.model.wait_hang_up().await;
        let client = fixture.client(version).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        assert_eq!(client.view(&session).agent(), ["half a sen"]);
        fixture.model.plan(Planned::new().text("tence"));
        assert_eq!(client.prompt(&session, "go on").await.stop, "end_turn");
        let asked = fixture.model.asked();
        assert!(asked.last().unwrap().body.to_string().contains("half a sen"));
    }
}

#[tokio::test]
async fn changes_are_shown_before_they_are_allowed() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::Anthropic);
        fixture.write("a.txt", "one\n");
        let (client, session) = fixture.session(version).await;
        answer(&client, "allow");
        fixture
            .model
            .plan(Planned::new().call("edit", &json!({"path": "a.txt", "old": "one", "new": "two"})));
        fixture.model.plan(Planned::new().text("done"));
        assert_eq!(client.prompt(&session, "edit it").await.stop, "end_turn");
        assert_eq!(fixture.read("a.txt"), "two\n");
        let message = client.server_messages();
        let place =
            |what: &str| message.iter().position(|message| message.to_string().contains(what)).unwrap();
        assert!(place("\"diff\"") < place("session/request_permission"));
        assert_eq!(questions(&client), 1);
    }
}

#[tokio::test]
async fn a_rejected_call_is_not_run_and_the_model_gets_the_reason() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    fixture.write("a.txt", "one\n");
    let (client, session) = fixture.session(Version::V2).await;
    answer(&client, "reject");
    client.prompt(&session, "/read a.txt").await;
    fixture.model.plan(Planned::new().call("write", &json!({"path": "a.txt", "content": "gone"})));
    fixture.model.plan(Planned::new().text("as you wish"));
    client.prompt(&session, "overwrite it").await;
    assert_eq!(fixture.read("a.txt"), "one\n");
    assert!(fixture.model.asked()[1].body.to_string().contains("the user rejected this call"));
}

#[tokio::test]
async fn always_applies_to_the_session_and_after_a_restart() {
    let fixture = Fixture::with(ProviderKind::Gemini);
    let (client, session) = fixture.session(Version::V1).await;
    answer(&client, "allow_always");
    for name in ["a", "b"] {
        fixture.model.plan(Planned::new().call("write", &json!({"path": name, "content": name})));
        fixture.model.plan(Planned::new().text("done"));
        client.prompt(&session, "write").await;
        assert_eq!(fixture.read(name), name);
    }
    assert_eq!(questions(&client), 1, "asked once");
    client.disconnect().await;
    let client = fixture.client(Version::V1).await;
    client.load_in(&fixture.work().display().to_string(), &session).await;
    fixture.model.plan(Planned::new().call("write", &json!({"path": "c", "content": "c"})));
    fixture.model.plan(Planned::new().text("done"));
    client.prompt(&session, "write").await;
    assert_eq!(fixture.read("c"), "c");
    assert_eq!(questions(&client), 0, "not asked again");
}

#[tokio::test]
async fn a_cancel_stops_the_request() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        fixture.model.plan(Planned::new().text("a").stalls());
        let prompt = client.begin_prompt(&session, "speak").await;
        client.wait_update(0, &session, "the words", |update| update["content"]["text"] == "a").await;
        client.cancel(&session).await;
        assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
        fixture.model.wait_hang_up().await;
        fixture.model.plan(Planned::new().text("b"));
        assert_eq!(client.prompt(&session, "again").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn usage_is_reported_at_the_end_of_a_turn_without_a_window() {
    for (version, window) in
        VERSIONS.into_iter().flat_map(|version| [(version, None), (version, Some(9_000))])
    {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.providers.lock().unwrap()[0].models[0].context_window = window;
        fixture.write("a.txt", "plum\n");
        let (client, session) = fixture.session(version).await;
        fixture.model.plan(Planned::new().call("read", &json!({"path": "a.txt"})).usage(1000, 0, 20));
        fixture.model.plan(Planned::new().text("It is plum.").usage(1100, 1000, 10));
        let mark = client.mark();
        client.prompt(&session, "what is it?").await;
        let used = json!({"totalTokens": 2130, "inputTokens": 2100, "outputTokens": 30,
            "cachedReadTokens": 1000, "cachedWriteTokens": 0});
        let tells = |message: &Value| {
            message["result"]["usage"] == used || message["params"]["update"]["usage"] == used
        };
        client.wait_since(mark, "the usage", tells).await;
        let updates = client.updates(&session);
        let shown: Vec<_> =
            updates.iter().filter(|update| update["sessionUpdate"] == "usage_update").collect();
        assert_eq!(shown.iter().map(|update| update["size"].as_u64()).next_back().flatten(), window);
        assert!(shown.is_empty() || shown.last().unwrap()["used"] == 1110, "{shown:?}");
        fixture.model.plan(Planned::new().text("Yes.").usage(5, 0, 1));
        let mark = client.mark();
        client.prompt(&session, "sure?").await;
        let tells = |message: &Value| message.to_string().contains("\"totalTokens\":6");
        client.wait_since(mark, "the usage of this turn alone", tells).await;
    }
}

#[tokio::test]
async fn ollama_is_asked_for_the_window_that_it_loaded_a_model_with() {
    let fixture = Fixture::with(ProviderKind::Ollama);
    fixture.providers.lock().unwrap()[0].models.clear();
    fixture.model.list(&[("llama", Some(4_096))]);
    let (client, session) = fixture.session(Version::V2).await;
    fixture.model.plan(Planned::new().text("hi"));
    client.prompt(&session, "hello").await;
    let updates = client.updates(&session);
    let shown =
        updates.iter().find(|update| update["sessionUpdate"] == "usage_update").expect("usage is reported");
    assert_eq!((shown["used"].as_u64(), shown["size"].as_u64()), (Some(1010), Some(4_096)));
    // From here on the conversation has to be compacted.
    fixture.model.plan(Planned::new().text(&"word ".repeat(4_000)));
    client.prompt(&session, "speak").await;
    fixture.model.plan(Planned::new().text("SUMMARY"));
    fixture.model.plan(Planned::new().text("on"));
    client.prompt(&session, "go on").await;
    assert!(fixture.model.asked().last().unwrap().body.to_string().contains("SUMMARY"));
}

//! Conversations with tool calls, on each dialect, ended and opened again.

use rethread::assistant::model::ProviderKind;
use rethread::edge::Version;
use rethread_testkit::model::{Asked, Planned, error_body};
use serde_json::{Value, json};

use crate::stage::{KINDS, Stage, answer, questions};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// What a request says of the conversation: everything but how it is asked.
fn conversation(asked: &Asked) -> Value {
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
            let stage = Stage::with(kind);
            stage.write("a.txt", "the secret word is plum\n");
            let (client, session) = stage.session(version).await;
            stage.model.plan(
                Planned::new()
                    .text("Let me look.")
                    .call("read", &json!({"path": "a.txt"}))
                    .call("search", &json!({"pattern": "plum"})),
            );
            stage.model.plan(Planned::new().text("It is ").text("plum."));
            assert_eq!(client.prompt(&session, "what is the word?").await.stop, "end_turn", "{kind:?}");
            let asked = stage.model.asked();
            assert_eq!(asked.len(), 2, "{kind:?}");
            let results = asked[1].body.to_string();
            assert!(results.matches("the secret word is plum").count() >= 2, "{kind:?}: {results}");
            stage.model.plan(Planned::new().text("You are welcome."));
            client.prompt(&session, "thanks").await;
            let before = client.view(&session);
            assert_eq!(before.agent(), ["Let me look.", "It is plum.", "You are welcome."]);
            client.hang_up().await;
            drop(client);

            let client = stage.client(version).await;
            client.load_in(&stage.work().display().to_string(), &session).await;
            assert_eq!(client.view(&session), before, "{kind:?}: the same view");
            stage.model.plan(Planned::new().text("Still here."));
            client.prompt(&session, "are you there?").await;
            let asked = stage.model.asked();
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
        let stage = Stage::with(ProviderKind::OpenAi);
        let (client, session) = stage.session(version).await;
        stage.model.plan(Planned::new().text("half a sen").stalls());
        client.begin_prompt(&session, "speak").await;
        client
            .wait_update(0, &session, "the words", |update| update["content"]["text"] == "half a sen")
            .await;
        client.hang_up().await;
        drop(client);
        stage.model.wait_hang_up().await;
        let client = stage.client(version).await;
        client.load_in(&stage.work().display().to_string(), &session).await;
        assert_eq!(client.view(&session).agent(), ["half a sen"]);
        stage.model.plan(Planned::new().text("tence"));
        assert_eq!(client.prompt(&session, "go on").await.stop, "end_turn");
        let asked = stage.model.asked();
        assert!(asked.last().unwrap().body.to_string().contains("half a sen"));
    }
}

#[tokio::test]
async fn changes_are_shown_before_they_are_allowed() {
    for version in VERSIONS {
        let stage = Stage::with(ProviderKind::Anthropic);
        stage.write("a.txt", "one\n");
        let (client, session) = stage.session(version).await;
        answer(&client, "allow");
        stage.model.plan(Planned::new().call("edit", &json!({"path": "a.txt", "old": "one", "new": "two"})));
        stage.model.plan(Planned::new().text("done"));
        assert_eq!(client.prompt(&session, "edit it").await.stop, "end_turn");
        assert_eq!(stage.read("a.txt"), "two\n");
        let heard = client.heard();
        let place = |what: &str| heard.iter().position(|message| message.to_string().contains(what)).unwrap();
        assert!(place("\"diff\"") < place("session/request_permission"));
        assert_eq!(questions(&client), 1);
    }
}

#[tokio::test]
async fn what_is_refused_is_not_done_and_the_model_is_told() {
    let stage = Stage::with(ProviderKind::OpenAi);
    stage.write("a.txt", "one\n");
    let (client, session) = stage.session(Version::V2).await;
    answer(&client, "reject");
    stage.model.plan(Planned::new().call("write", &json!({"path": "a.txt", "content": "gone"})));
    stage.model.plan(Planned::new().text("as you wish"));
    client.prompt(&session, "overwrite it").await;
    assert_eq!(stage.read("a.txt"), "one\n");
    assert!(stage.model.asked()[1].body.to_string().contains("the user refused this"));
}

#[tokio::test]
async fn what_is_allowed_for_good_holds_for_the_session_and_after_a_restart() {
    let stage = Stage::with(ProviderKind::Gemini);
    let (client, session) = stage.session(Version::V1).await;
    answer(&client, "allow_always");
    for name in ["a", "b"] {
        stage.model.plan(Planned::new().call("write", &json!({"path": name, "content": name})));
        stage.model.plan(Planned::new().text("done"));
        client.prompt(&session, "write").await;
        assert_eq!(stage.read(name), name);
    }
    assert_eq!(questions(&client), 1, "asked once");
    drop(client);
    let client = stage.client(Version::V1).await;
    client.load_in(&stage.work().display().to_string(), &session).await;
    stage.model.plan(Planned::new().call("write", &json!({"path": "c", "content": "c"})));
    stage.model.plan(Planned::new().text("done"));
    client.prompt(&session, "write").await;
    assert_eq!(stage.read("c"), "c");
    assert_eq!(questions(&client), 0, "not asked again");
}

#[tokio::test]
async fn a_cancel_stops_the_request() {
    for version in VERSIONS {
        let stage = Stage::with(ProviderKind::OpenAi);
        let (client, session) = stage.session(version).await;
        stage.model.plan(Planned::new().text("a").stalls());
        let prompt = client.begin_prompt(&session, "speak").await;
        client.wait_update(0, &session, "the words", |update| update["content"]["text"] == "a").await;
        client.cancel(&session).await;
        assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
        stage.model.wait_hang_up().await;
        stage.model.plan(Planned::new().text("b"));
        assert_eq!(client.prompt(&session, "again").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_summed_up() {
    for version in VERSIONS {
        let stage = Stage::with(ProviderKind::OpenAi);
        stage.providers.lock().unwrap()[0].models[0].context_window = Some(9_000);
        let (client, session) = stage.session(version).await;
        for turn in 0..2 {
            stage.model.plan(Planned::new().text(&format!("answer {turn} {}", "word ".repeat(3000))));
            client.prompt(&session, &format!("question {turn}")).await;
        }
        stage.model.plan(Planned::new().text("SUMMARY: two questions"));
        stage.model.plan(Planned::new().text("going on"));
        assert_eq!(client.prompt(&session, "the third").await.stop, "end_turn");
        let asked = stage.model.asked();
        let last = asked.last().unwrap().body.to_string();
        assert!(last.contains("SUMMARY: two questions") && last.contains("the third"));
        assert!(!last.contains("word word word"), "what was summed up is not sent again");
        drop(client);
        let client = stage.client(version).await;
        client.load_in(&stage.work().display().to_string(), &session).await;
        stage.model.plan(Planned::new().text("fine"));
        client.prompt(&session, "the fourth").await;
        let (before, after) = (asked[3].messages(), stage.model.asked().last().unwrap().messages());
        assert_eq!(before[..], after[..before.len()], "the summary is kept over a restart");
    }
}

#[tokio::test]
async fn a_provider_that_finds_it_too_long_is_asked_with_less() {
    let stage = Stage::with(ProviderKind::Anthropic);
    let (client, session) = stage.session(Version::V2).await;
    stage.model.plan(Planned::new().text("first answer"));
    client.prompt(&session, "one").await;
    stage.model.plan(Planned::status(400, error_body("prompt is too long: 9000 tokens > 8000 maximum")));
    stage.model.plan(Planned::new().text("SUMMARY"));
    stage.model.plan(Planned::new().text("second answer"));
    assert_eq!(client.prompt(&session, "two").await.stop, "end_turn");
    let updates = client.updates(&session);
    let compaction = |update: &&Value| update["sessionUpdate"] == "compaction_update";
    let states: Vec<_> = updates.iter().filter(compaction).map(|update| update["status"].clone()).collect();
    assert_eq!(states, ["in_progress", "completed"]);
}

//! Tests of conversations that are too long for their model: summaries, shortened results, and no session that is stuck.

use rethread::edge::Version;
use rethread_assistant::model::ProviderKind;
use rethread_testkit::client::Client;
use rethread_testkit::model::{Planned, error_body};
use serde_json::{Value, json};

use super::fixture::Fixture;

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

fn too_long() -> Planned {
    Planned::status(400, error_body("prompt is too long: 9000 tokens > 8000 maximum"))
}

/// The statuses of compactions that the client received.
fn states(client: &Client, session: &str) -> Vec<Value> {
    let updates = client.updates(session);
    let compactions = updates.iter().filter(|update| update["sessionUpdate"] == "compaction_update");
    compactions.map(|update| update["status"].clone()).collect()
}

/// A session after one turn, with a model whose window is unknown.
async fn begun(fixture: &Fixture) -> (Client, String) {
    fixture.providers.lock().expect("no test panics here")[0].models[0].context_window = None;
    let (client, session) = fixture.session(Version::V2).await;
    fixture.write("a.txt", &"a word in a long line of a file\n".repeat(200));
    fixture.model.plan(Planned::new().text("Let me look.").call("read", &json!({"path": "a.txt"})));
    fixture.model.plan(Planned::new().text("first answer"));
    assert_eq!(client.prompt(&session, "one").await.stop, "end_turn");
    (client, session)
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_summarised() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.providers.lock().unwrap()[0].models[0].context_window = Some(9_000);
        let (client, session) = fixture.session(version).await;
        for turn in 0..2 {
            fixture.model.plan(Planned::new().text(&format!("answer {turn} {}", "word ".repeat(3000))));
            client.prompt(&session, &format!("question {turn}")).await;
        }
        fixture.model.plan(Planned::new().text("SUMMARY: two questions"));
        fixture.model.plan(Planned::new().text("going on"));
        assert_eq!(client.prompt(&session, "the third").await.stop, "end_turn");
        let asked = fixture.model.asked();
        let last = asked.last().unwrap().body.to_string();
        assert!(last.contains("SUMMARY: two questions") && last.contains("the third"));
        assert!(!last.contains("word word word"), "what was summed up is not sent again");
        client.disconnect().await;
        let client = fixture.client(version).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        fixture.model.plan(Planned::new().text("fine"));
        client.prompt(&session, "the fourth").await;
        let (before, after) = (asked[3].messages(), fixture.model.asked().last().unwrap().messages());
        assert_eq!(before[..], after[..before.len()], "the summary is kept over a restart");
    }
}

#[tokio::test]
async fn a_provider_that_finds_it_too_long_is_asked_with_less() {
    let fixture = Fixture::with(ProviderKind::Anthropic);
    let (client, session) = fixture.session(Version::V2).await;
    fixture.model.plan(Planned::new().text("first answer"));
    client.prompt(&session, "one").await;
    fixture.model.plan(Planned::status(400, error_body("prompt is too long: 9000 tokens > 8000 maximum")));
    fixture.model.plan(Planned::new().text("SUMMARY"));
    fixture.model.plan(Planned::new().text("second answer"));
    assert_eq!(client.prompt(&session, "two").await.stop, "end_turn");
    let updates = client.updates(&session);
    let compaction = |update: &&Value| update["sessionUpdate"] == "compaction_update";
    let states: Vec<_> = updates.iter().filter(compaction).map(|update| update["status"].clone()).collect();
    assert_eq!(states, ["in_progress", "completed"]);
}

#[tokio::test]
async fn a_summary_request_has_only_text() {
    for kind in super::fixture::KINDS {
        let fixture = Fixture::with(kind);
        let (client, session) = begun(&fixture).await;
        let before = fixture.model.asked().len();
        fixture.model.plan(too_long());
        fixture.model.plan(Planned::new().text("SUMMARY"));
        fixture.model.plan(Planned::new().text("second answer"));
        assert_eq!(client.prompt(&session, "two").await.stop, "end_turn", "{kind:?}");
        let asked = fixture.model.asked()[before + 1].clone();
        // A provider may require tools in a request that has calls.
        assert_eq!(asked.messages().len(), 1, "{kind:?}: {}", asked.body);
        assert!(asked.body["tools"].is_null(), "{kind:?}");
        let text = asked.body.to_string();
        assert!(text.contains("[you called read with") && text.contains("User: one"), "{kind:?}: {text}");
    }
}

#[tokio::test]
async fn where_a_summary_is_not_enough_results_of_the_turn_are_shortened() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let (client, session) = begun(&fixture).await;
    fixture.model.plan(Planned::new().call("read", &json!({"path": "a.txt"})));
    fixture.model.plan(too_long());
    fixture.model.plan(Planned::new().text("SUMMARY"));
    fixture.model.plan(too_long());
    fixture.model.plan(Planned::new().text("second answer"));
    assert_eq!(client.prompt(&session, "two").await.stop, "end_turn");
    assert_eq!(states(&client, &session), ["in_progress", "completed"], "a summary is not summed up again");
    let last = fixture.model.asked().last().unwrap().body.to_string();
    assert!(last.contains("SUMMARY") && last.contains("left out to make room"), "{last}");
    // With nothing left to remove, the turn fails and the session continues.
    fixture.model.plan(too_long());
    fixture.model.plan(Planned::new().text("SHORTER"));
    fixture.model.plan(too_long());
    assert_eq!(client.prompt(&session, "three").await.stop, "error");
    fixture.model.plan(Planned::new().text("fourth answer"));
    assert_eq!(client.prompt(&session, "four").await.stop, "end_turn");
    assert!(fixture.model.asked().last().unwrap().body.to_string().contains("SHORTER"));
}

#[tokio::test]
async fn a_conversation_too_long_for_a_summary_is_summarised_in_part_or_left_out() {
    let fixture = Fixture::with(ProviderKind::Anthropic);
    let (client, session) = begun(&fixture).await;
    fixture.model.plan(too_long());
    fixture.model.plan(too_long());
    fixture.model.plan(Planned::new().text("SUMMARY of a part"));
    fixture.model.plan(Planned::new().text("second answer"));
    assert_eq!(client.prompt(&session, "two").await.stop, "end_turn");
    let asked = fixture.model.asked();
    let (whole, part) = (asked[asked.len() - 3].body.to_string(), asked[asked.len() - 2].body.to_string());
    assert!(part.len() < whole.len() && part.contains("older messages were left out"), "{part}");
    for _ in 0..5 {
        fixture.model.plan(too_long());
    }
    fixture.model.plan(Planned::new().text("third answer"));
    assert_eq!(client.prompt(&session, "three").await.stop, "end_turn");
    let last = fixture.model.asked().last().unwrap().body.to_string();
    assert!(last.contains("too long to be summarised") && last.contains("three"), "{last}");
    assert!(!last.contains("second answer"), "{last}");
    assert_eq!(states(&client, &session), ["in_progress", "completed", "in_progress", "completed"]);
}

#[tokio::test]
async fn a_compaction_that_is_cut_off_has_an_end() {
    for (end, expected) in [("close", "cancelled"), ("cancel", "cancelled"), ("loss", "failed")] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = begun(&fixture).await;
        fixture.model.plan(too_long());
        fixture.model.plan(Planned::new().text("SUM").stalls());
        let prompt = client.begin_prompt(&session, "two").await;
        let begins = |update: &Value| update["sessionUpdate"] == "compaction_update";
        client.wait_update(0, &session, "the compaction", begins).await;
        fixture.model.wait_asked(4).await;
        match end {
            "close" => drop(client.ask("session/close", json!({"sessionId": session})).await),
            "cancel" => {
                client.cancel(&session).await;
                assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
            }
            _ => client.disconnect().await,
        }
        client.disconnect().await;
        let client = fixture.client(Version::V2).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        assert_eq!(states(&client, &session).last(), Some(&json!(expected)), "{end}");
        fixture.model.plan(Planned::new().text("and on"));
        assert_eq!(client.prompt(&session, "three").await.stop, "end_turn", "{end}");
    }
}

#[tokio::test]
async fn a_prompt_too_long_for_the_window_is_reported() {
    let fixture = Fixture::with(ProviderKind::Ollama);
    fixture.providers.lock().unwrap()[0].models[0].context_window = Some(4_000);
    let (client, session) = fixture.session(Version::V2).await;
    fixture.model.plan(Planned::new().call("list", &json!({})));
    fixture.model.plan(Planned::new().text("hm"));
    assert_eq!(client.prompt(&session, &"word ".repeat(20_000)).await.stop, "end_turn");
    let updates = client.updates(&session);
    let notices: Vec<_> = updates.iter().filter(|update| update["sessionUpdate"] == "notice").collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].to_string().contains("context window of the model has 4000"), "{notices:?}");
}

#[tokio::test]
async fn a_result_that_is_too_long_gets_the_room_there_is() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.providers.lock().unwrap()[0].models[0].context_window = Some(24_000);
        let (client, session) = fixture.session(version).await;
        for name in ["a.txt", "b.txt"] {
            fixture.write(
                name,
                &format!("first of {name}\n{}last of {name}\n", "a line of a long file\n".repeat(1_990)),
            );
        }
        fixture.write("short.txt", "plum\n");
        let read = |name: &str| json!({"path": name});
        fixture.model.plan(
            Planned::new()
                .call("read", &read("a.txt"))
                .call("read", &read("b.txt"))
                .call("read", &read("short.txt")),
        );
        fixture.model.plan(Planned::new().text("seen"));
        assert_eq!(client.prompt(&session, "look").await.stop, "end_turn");
        let last = fixture.model.asked().last().unwrap().body.to_string();
        // 24,000 tokens are about 96,000 bytes, and a tenth of it is kept free.
        assert!(last.len() > 60_000 && last.len() < 96_000, "{} bytes are sent", last.len());
        for part in ["first of a.txt", "last of a.txt", "first of b.txt", "last of b.txt", "plum"] {
            assert!(last.contains(part), "{part}");
        }
        assert!(last.contains("left out to make room"));
    }
}

#[tokio::test]
async fn a_provider_that_finds_a_result_too_long_is_given_half_of_it_and_then_less() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    fixture.providers.lock().unwrap()[0].models[0].context_window = None;
    let (client, session) = fixture.session(Version::V2).await;
    fixture.write("a.txt", &"a line of a long file\n".repeat(1_900));
    fixture.model.plan(Planned::new().call("read", &json!({"path": "a.txt"})));
    fixture.model.plan(too_long());
    fixture.model.plan(too_long());
    fixture.model.plan(Planned::new().text("seen"));
    assert_eq!(client.prompt(&session, "look").await.stop, "end_turn");
    let sizes: Vec<_> = fixture.model.asked()[1..].iter().map(|asked| asked.body.to_string().len()).collect();
    let whole = 1_900 * 29;
    assert!(sizes[0] > whole && sizes[1] > whole / 3 && sizes[1] < sizes[0], "{sizes:?}");
    assert!(sizes[2] > whole / 6 && sizes[2] < sizes[1], "{sizes:?}");
}

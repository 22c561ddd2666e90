//! Tests of failures of providers, models and servers: a clear message, and a session that stays usable.

use std::time::Duration;

use rethread::edge::Version;
use rethread_assistant::model::ProviderKind;
use rethread_testkit::client::Client;
use rethread_testkit::model::{Planned, error_body};
use serde_json::{Value, json};

use super::fixture::{Fixture, answer};

/// The error of a turn, in either version.
async fn failed(client: &Client, session: &str, text: &str) -> Value {
    let prompt = client.begin_prompt(session, text).await;
    match client.version {
        Version::V1 => client.answer(&prompt).await.expect_err("the turn failed"),
        Version::V2 => {
            assert_eq!(client.finish(session, &prompt).await.stop, "error");
            let updates = client.updates(session);
            updates.iter().rfind(|update| update["state"] == "idle").expect("the end was reported")["error"]
                .clone()
        }
    }
}

async fn still_works(fixture: &Fixture, client: &Client, session: &str) {
    fixture.model.plan(Planned::new().text("still here"));
    assert_eq!(client.prompt(session, "are you there?").await.stop, "end_turn");
}

#[tokio::test]
async fn a_provider_that_refuses_or_breaks_is_named() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        let cases = [
            (Planned::status(401, error_body("bad key")), "mine"),
            (Planned::new().text("a").breaks_off(), "mine"),
            (Planned::new().malformed(), "mine"),
        ];
        for (planned, expected) in cases {
            fixture.model.plan(planned);
            let error = failed(&client, &session, "speak").await.to_string();
            assert!(error.contains(expected) && error.contains("hint"), "{error}");
            assert!(!error.contains("a-key-that-nobody-may-see"), "{error}");
            still_works(&fixture, &client, &session).await;
        }
    }
}

#[tokio::test]
async fn a_working_directory_that_is_not_there_is_refused() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.write("file", "no directory");
        let (client, session) = fixture.session(version).await;
        for (name, words) in [("missing", "does not exist"), ("file", "is not a directory")] {
            let cwd = fixture.work().join(name).display().to_string();
            let error = client.refused("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
            assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!("cwd")), "{error}");
            assert!(error["data"]["hint"].as_str().is_some_and(|hint| hint.contains(words)), "{error}");
        }
        still_works(&fixture, &client, &session).await;
        // A session without its directory can be read, but a prompt needs the directory.
        client.disconnect().await;
        let away = fixture.outside().join("away");
        std::fs::rename(fixture.work(), &away).unwrap();
        let client = fixture.client(version).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        assert_eq!(client.view(&session).agent(), ["still here"]);
        let error =
            client.answer(&client.begin_prompt(&session, "go on").await).await.expect_err("no directory");
        assert!(
            error["data"]["hint"].as_str().is_some_and(|hint| hint.contains("does not exist")),
            "{error}"
        );
        std::fs::rename(&away, fixture.work()).unwrap();
        still_works(&fixture, &client, &session).await;
    }
}

#[tokio::test]
async fn a_provider_that_is_down_is_named_with_its_address() {
    let fixture = Fixture::with(ProviderKind::Anthropic);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fixture.providers.lock().unwrap()[0].base_url = Some(format!("http://127.0.0.1:{port}"));
    let (client, session) = fixture.session(Version::V2).await;
    let error = failed(&client, &session, "speak").await.to_string();
    assert!(error.contains(&port.to_string()), "{error}");
    assert_eq!(client.prompt(&session, "/think hm").await.stop, "end_turn");
}

#[tokio::test]
async fn a_busy_provider_is_retried_with_a_notice() {
    let fixture = Fixture::with(ProviderKind::Gemini);
    let (client, session) = fixture.session(Version::V2).await;
    fixture.model.plan(Planned::status(429, error_body("slow down")).header("retry-after", "0"));
    fixture.model.plan(Planned::status(503, error_body("overloaded")));
    fixture.model.plan(Planned::new().text("now"));
    assert_eq!(client.prompt(&session, "speak").await.stop, "end_turn");
    let updates = client.updates(&session);
    let notices = updates.iter().filter(|update| update["sessionUpdate"] == "notice");
    assert_eq!(notices.filter(|notice| notice.to_string().contains("retrying in")).count(), 2);
}

#[tokio::test]
async fn the_model_gets_an_error_for_broken_arguments() {
    for kind in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
        let fixture = Fixture::with(kind);
        let (client, session) = fixture.session(Version::V2).await;
        fixture.model.plan(Planned::new().raw_call("read", "{\"path\": \"a"));
        fixture.model.plan(Planned::new().call("read", &json!({"file": 7})));
        fixture.model.plan(Planned::new().call("fly", &json!({})));
        fixture.model.plan(Planned::new().text("I give up"));
        assert_eq!(client.prompt(&session, "read").await.stop, "end_turn");
        let asked = fixture.model.asked();
        let said: Vec<_> = asked[1..].iter().map(|asked| asked.body.to_string()).collect();
        assert!(said[0].contains("not a JSON object"), "{}", said[0]);
        assert!(said.iter().all(|body| !body.contains("Error: error:")), "{said:?}");
        assert!(said[1].contains("path"), "{}", said[1]);
        assert!(said[2].contains("there is no tool"), "{}", said[2]);
        still_works(&fixture, &client, &session).await;
    }
}

#[tokio::test]
async fn a_model_that_never_stops_calling_tools_is_stopped() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    fixture.providers.lock().unwrap()[0].models[0].context_window = Some(10_000_000);
    let (client, session) = fixture.session(Version::V1).await;
    for _ in 0..100 {
        fixture.model.plan(Planned::new().call("list", &json!({})));
    }
    client.set_deadline(Duration::from_secs(60));
    assert_eq!(client.prompt(&session, "loop").await.stop, "max_turn_requests");
    still_works(&fixture, &client, &session).await;
}

#[tokio::test]
async fn limits_of_files_and_commands_are_reported() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    std::fs::write(fixture.work().join("binary"), [0u8, 159, 146, 150, 0, 1]).unwrap();
    std::fs::File::create(fixture.work().join("huge")).unwrap().set_len(2 * 1024 * 1024 * 1024 + 1).unwrap();
    let (client, session) = fixture.session(Version::V2).await;
    answer(&client, "allow");
    fixture.model.plan(
        Planned::new()
            .call("read", &json!({"path": "binary"}))
            .call("read", &json!({"path": "huge"}))
            .call("run", &json!({"command": "sleep 1000", "timeout": 1}))
            .call("run", &json!({"command": "yes", "timeout": 1})),
    );
    fixture.model.plan(Planned::new().text("too much"));
    client.set_deadline(Duration::from_secs(60));
    assert_eq!(client.prompt(&session, "do it").await.stop, "end_turn");
    let said = fixture.model.asked()[1].body.to_string();
    assert!(said.len() < 400_000, "{}", said.len());
    still_works(&fixture, &client, &session).await;
}

#[tokio::test]
async fn a_missing_server_is_reported_and_the_session_continues() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let client = fixture.client(version).await;
        let mut server = json!({"name": "missing", "command": "/no/such/program", "args": [],
            "env": [{"name": "TOKEN", "value": "opensesame-12345678901234567890"}]});
        if version == Version::V2 {
            server["type"] = json!("stdio");
        }
        let cwd = fixture.work().display().to_string();
        let made = client.ask("session/new", json!({"cwd": cwd, "mcpServers": [server]})).await;
        let session = made["sessionId"].as_str().unwrap().to_owned();
        still_works(&fixture, &client, &session).await;
        let messages = Value::from(client.server_messages()).to_string();
        assert!(messages.contains("MCP server missing is not available"), "{messages}");
        assert!(!messages.contains("opensesame"));
    }
}

fn notices(client: &Client, session: &str) -> Vec<Value> {
    let updates = client.updates(session).into_iter();
    updates.filter(|update| update["sessionUpdate"] == "notice").collect()
}

#[tokio::test]
async fn calls_of_a_stopped_answer_are_not_run() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let (client, session) = fixture.session(Version::V2).await;
    answer(&client, "allow");
    let refusal =
        json!({"choices": [{"index": 0, "delta": {"refusal": "I will not."}, "finish_reason": null}]});
    let call = Planned::new().call("write", &json!({"path": "a.txt", "content": "done"}));
    fixture.model.plan(call.event(refusal));
    assert_eq!(client.prompt(&session, "write it").await.stop, "refusal");
    assert!(!fixture.work().join("a.txt").exists());
    assert_eq!(fixture.model.asked().len(), 1);
    still_works(&fixture, &client, &session).await;
}

#[tokio::test]
async fn an_empty_answer_is_reported() {
    for (planned, stop, why) in [
        (Planned::new(), "end_turn", "without any text"),
        (Planned::new().thought("hm"), "end_turn", "without any text"),
        (Planned::new().too_long(), "max_tokens", "used all output tokens"),
    ] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(Version::V2).await;
        fixture.model.plan(planned);
        assert_eq!(client.prompt(&session, "speak").await.stop, stop);
        let notices = notices(&client, &session);
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert!(notices[0]["title"].as_str().unwrap().contains("sent an empty answer"), "{notices:?}");
        assert!(notices[0]["description"].as_str().unwrap().contains(why), "{notices:?}");
        still_works(&fixture, &client, &session).await;
    }
}

#[tokio::test]
async fn unsupported_features_are_left_out_with_a_notice() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        let other = client.new_session_in(&fixture.work().display().to_string()).await;
        let unsupported = "Unsupported value: 'temperature' does not support 0.7 with this model.";
        fixture.model.plan(Planned::status(400, error_body(unsupported)));
        fixture.model.plan(Planned::status(400, error_body("m does not support tools")));
        fixture.model.plan(Planned::new().text("like this"));
        let mark = client.mark();
        assert_eq!(client.prompt(&session, "speak").await.stop, "end_turn");
        let gone = |update: &Value| {
            update["sessionUpdate"] == "config_option_update" && !update.to_string().contains("temperature")
        };
        client.wait_update(mark, &session, "the options", gone).await;
        client.wait_update(mark, &other, "the options of the other session", gone).await;
        for what in ["does not accept temperature", "does not accept tools"] {
            client.wait_since(mark, what, |message| message.to_string().contains(what)).await;
        }
        still_works(&fixture, &client, &session).await;
        assert_eq!(fixture.model.asked().len(), 4, "it is not tried again");
    }
}

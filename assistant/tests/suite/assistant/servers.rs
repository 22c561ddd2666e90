//! Tests of MCP servers in a session of the assistant: environment, connecting, prompts, resources, closing.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread::server::Config;
use rethread_assistant::model::ProviderKind;
use rethread_testkit::client::Client;
use rethread_testkit::mcp::{Habit, Kind, WebServer, program};
use rethread_testkit::model::Planned;
use rethread_testkit::processes::assert_gone_by;
use serde_json::{Value, json};

use super::fixture::{Fixture, answer};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// The configuration of the test server in this protocol version. It writes its process ids to a file of the fixture.
fn server(fixture: &Fixture, version: Version, name: &str, habits: &[Habit]) -> Value {
    let words: Vec<_> = habits.iter().map(|habit| habit.word()).collect();
    let pids = json!({"name": program::PIDS, "value": pids(fixture).display().to_string()});
    let mut server = json!({"name": name, "command": program::path().display().to_string(), "args": words,
        "env": [pids]});
    if version == Version::V2 {
        server["type"] = json!("stdio");
    }
    server
}

fn pids(fixture: &Fixture) -> PathBuf {
    fixture.outside().join("pids")
}

/// The processes of all servers so far.
fn started(fixture: &Fixture) -> Vec<i32> {
    let noted = std::fs::read_to_string(pids(fixture)).unwrap_or_default();
    noted.lines().filter_map(|line| line.parse().ok()).collect()
}

async fn wait_started(fixture: &Fixture, count: usize) -> Vec<i32> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while started(fixture).len() < count {
        assert!(Instant::now() < deadline, "{count} servers were started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    started(fixture)
}

async fn session(fixture: &Fixture, client: &Client, habits: &[Habit]) -> String {
    let server = server(fixture, client.version, "t", habits);
    let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": [server]});
    client.ask("session/new", params).await["sessionId"].as_str().expect("a session has an id").to_owned()
}

fn all(client: &Client, session: &str) -> String {
    Value::from(client.updates(session)).to_string()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test]
async fn servers_and_commands_are_not_given_the_keys_of_models() {
    // Any variable that is set serves as a key.
    const VARIABLE: &str = "CARGO_MANIFEST_DIR";
    let kept = std::env::var(VARIABLE).unwrap();
    let fixture = Fixture::with(ProviderKind::OpenAi);
    fixture.providers.lock().unwrap()[0].key_env = Some(VARIABLE.to_owned());
    let client = fixture.client(Version::V2).await;
    let session = session(&fixture, &client, &[]).await;
    answer(&client, "allow");
    client.prompt(&session, &format!("/call t.env {{\"text\": \"{VARIABLE}\"}}")).await;
    client.prompt(&session, &format!("/run echo \"got ${VARIABLE}\"")).await;
    let said = client.updates(&session);
    let results = said.iter().filter(|update| update["status"] == "completed");
    let results: Vec<_> = results.map(|update| update["rawOutput"]["text"].clone()).collect();
    assert_eq!(results.len(), 2, "{said:?}");
    assert!(!Value::from(results.clone()).to_string().contains(&kept), "{results:?}");
    // A variable that the configuration names is passed to the server.
    let mut server = server(&fixture, Version::V2, "u", &[]);
    server["env"] = json!([{"name": VARIABLE, "value": "given"}]);
    let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": [server]});
    let made = client.ask("session/new", params).await["sessionId"].as_str().unwrap().to_owned();
    client.prompt(&made, &format!("/call u.env {{\"text\": \"{VARIABLE}\"}}")).await;
    assert!(all(&client, &made).contains("given"));
}

#[tokio::test]
async fn a_prompt_of_a_server_takes_arguments_with_spaces_and_is_remembered() {
    for kind in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
        let fixture = Fixture::with(kind);
        let client = fixture.client(Version::V2).await;
        let session = session(&fixture, &client, &[]).await;
        fixture.model.plan(Planned::new().text("Hello, both!"));
        client.prompt(&session, "/t.greet who=\"Ann and Bob\"").await;
        fixture.model.plan(Planned::new().text("Again."));
        client.prompt(&session, "again").await;
        client.disconnect().await;
        let client = fixture.client(Version::V2).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        fixture.model.plan(Planned::new().text("And again."));
        client.prompt(&session, "once more").await;
        for (at, asked) in fixture.model.asked().iter().enumerate() {
            let body = asked.body.to_string();
            assert_eq!(body.matches("Greet Ann and Bob.").count(), 1, "request {at}: {body}");
            assert!(!body.contains("/t.greet"), "request {at}: {body}");
        }
    }
}

#[tokio::test]
async fn a_prompt_of_a_server_is_shown_where_there_is_no_model() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let client = fixture.client(version).await;
        let session = session(&fixture, &client, &[]).await;
        assert_eq!(client.prompt(&session, "/t.greet who=\"Ann and Bob\"").await.stop, "end_turn");
        let said = all(&client, &session);
        assert!(said.contains("Greet Ann and Bob.") && !said.contains("No model is configured"), "{said}");
    }
}

#[tokio::test]
async fn a_resource_that_was_shown_is_known_to_the_model() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let client = fixture.client(Version::V2).await;
    let session = session(&fixture, &client, &[]).await;
    client.prompt(&session, "/resource t test://one").await;
    fixture.model.plan(Planned::new().text("I see."));
    client.prompt(&session, "what does it say?").await;
    let body = &fixture.model.asked()[0].body;
    let shown = body["messages"].as_array().unwrap().iter().find(|message| message["role"] == "assistant");
    assert!(shown.unwrap().to_string().contains("[test://one]\\nfirst"), "{body}");
}

#[tokio::test]
async fn a_call_that_hangs_is_cancelled_and_the_server_stays() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let client = fixture.client(version).await;
        let session = session(&fixture, &client, &[]).await;
        answer(&client, "allow");
        let prompt = client.begin_prompt(&session, "/call t.hang").await;
        client.wait_update(0, &session, "the call", |update| update["status"] == "in_progress").await;
        client.cancel(&session).await;
        assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
        client.prompt(&session, "/call t.echo {\"text\": \"still there\"}").await;
        assert!(all(&client, &session).contains("still there"));
    }
}

#[tokio::test]
async fn no_server_is_left_when_a_session_is_closed_in_a_turn() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let client = fixture.client(version).await;
        let session = session(&fixture, &client, &[Habit::HasChild]).await;
        answer(&client, "allow");
        client.begin_prompt(&session, "/call t.hang").await;
        client.wait_update(0, &session, "the call", |update| update["status"] == "in_progress").await;
        client.close(&session).await.unwrap();
        let pids = started(&fixture);
        assert_eq!(pids.len(), 2);
        assert_gone_by(soon(), &pids, "the server").await;
    }
}

#[tokio::test]
async fn no_server_is_left_when_the_client_goes_while_one_connects() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let client = fixture.client(version).await;
        let servers = [
            server(&fixture, version, "good", &[Habit::HasChild]),
            server(&fixture, version, "silent", &[Habit::IsSilent]),
        ];
        let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": servers});
        client.begin("session/new", params).await;
        let pids = wait_started(&fixture, 3).await;
        client.disconnect().await;
        assert_gone_by(soon(), &pids, "the servers").await;
    }
}

/// Waits for a notice that contains this text.
async fn wait_for_notice(client: &Client, mark: usize, words: &str) {
    client.wait_since(mark, words, |message| message.to_string().contains(words)).await;
}

#[tokio::test]
async fn a_server_that_hangs_delays_neither_the_session_nor_a_prompt_for_long() {
    for version in VERSIONS {
        let mut fixture = Fixture::with(ProviderKind::OpenAi);
        // Longer than any wait of the client.
        fixture.limits.connect = Duration::from_secs(600);
        fixture.limits.first_prompt = Duration::from_millis(100);
        let client = fixture.client(version).await;
        let session = session(&fixture, &client, &[Habit::IsSilent, Habit::HasChild]).await;
        let pids = wait_started(&fixture, 2).await;
        for _ in 0..2 {
            fixture.model.plan(Planned::new().text("hi"));
            assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
        }
        let messages = Value::from(client.server_messages()).to_string();
        let notice = "MCP server t is still connecting; continuing without it";
        assert_eq!(messages.matches(notice).count(), 1, "{messages}");
        client.close(&session).await.unwrap();
        assert_gone_by(soon(), &pids, "the server").await;
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_reported_after_the_session_is_open() {
    for version in VERSIONS {
        let mut fixture = Fixture::offline();
        fixture.limits.connect = Duration::from_millis(300);
        let client = fixture.client(version).await;
        let session = session(&fixture, &client, &[Habit::IsSilent]).await;
        wait_for_notice(&client, 0, "MCP server t is not available: it did not answer in time").await;
        client.prompt(&session, "/call t.echo").await;
        let said = Value::from(outputs(&client, &session)).to_string();
        assert!(said.contains("MCP server t is no longer available: it did not answer in time"), "{said}");
        assert_gone_by(soon(), &started(&fixture), "the server").await;
    }
}

#[tokio::test]
async fn a_server_that_connects_late_is_reported_and_used() {
    for version in VERSIONS {
        let mut fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.limits.first_prompt = Duration::ZERO;
        let client = fixture.client(version).await;
        let gate = fixture.outside().join("gate");
        let wait = format!(
            "while [ ! -e {} ]; do sleep 0.05; done; exec {}",
            gate.display(),
            program::path().display()
        );
        let mut late = server(&fixture, version, "late", &[]);
        late["command"] = json!("/bin/sh");
        late["args"] = json!(["-c", wait]);
        let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": [late]});
        let session = client.ask("session/new", params).await["sessionId"].as_str().unwrap().to_owned();
        client.prompt(&session, "/call late.echo {\"text\": \"too early\"}").await;
        let said = Value::from(outputs(&client, &session)).to_string();
        assert!(said.contains("MCP server late is still connecting"), "{said}");
        std::fs::write(&gate, "").unwrap();
        wait_for_notice(&client, 0, "MCP server late is connected now").await;
        fixture.model.plan(Planned::new().text("ok"));
        client.prompt(&session, "which tools?").await;
        assert!(fixture.model.asked()[0].body.to_string().contains("late_echo"));
        wait_for_notice(&client, 0, "late.greet").await;
    }
}

#[tokio::test]
async fn a_cancel_ends_the_wait_for_a_server() {
    for version in VERSIONS {
        let mut fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.limits.connect = Duration::from_secs(600);
        fixture.limits.first_prompt = Duration::from_secs(600);
        let client = fixture.client(version).await;
        let session = session(&fixture, &client, &[Habit::IsSilent]).await;
        // A command that needs no server does not wait.
        client.prompt(&session, "/think of it").await;
        let prompt = client.begin_prompt(&session, "hello").await;
        wait_started(&fixture, 1).await;
        client.cancel(&session).await;
        assert_eq!(client.finish(&session, &prompt).await.stop, "cancelled");
        assert!(fixture.model.asked().is_empty());
    }
}

#[tokio::test]
async fn a_model_is_offered_no_more_tools_than_it_takes() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let client = fixture.client(Version::V2).await;
    let many = |name: &str| server(&fixture, Version::V2, name, &[Habit::ListsWithoutEnd]);
    let few = server(&fixture, Version::V2, "few", &[]);
    let servers = [many("many"), many("more"), few];
    let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": servers});
    let session = client.ask("session/new", params).await["sessionId"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        fixture.model.plan(Planned::new().text("ok"));
        client.prompt(&session, "which tools?").await;
    }
    let offered = |at: usize| {
        let body = fixture.model.asked()[at].body.clone();
        body["tools"].as_array().unwrap().clone()
    };
    assert_eq!(offered(0).len(), 128);
    let names = Value::from(offered(0)).to_string();
    assert!(names.contains("\"run\"") && names.contains("\"few_echo\""), "{names}");
    let of = |server: &str| names.matches(&format!("\"{server}_tool_")).count();
    assert!(of("many").abs_diff(of("more")) <= 1, "each server has its share: {names}");
    let messages = Value::from(client.server_messages()).to_string();
    let notice = "25 tools of MCP servers are not offered to loopback-1";
    assert_eq!(messages.matches(notice).count(), 1, "{messages}");
    // The user can call any of them.
    answer(&client, "allow");
    client.prompt(&session, "/call many.tool_63").await;
    assert_eq!(outputs(&client, &session).len(), 1);
    fixture.providers.lock().unwrap()[0].models[0].max_tools = Some(500);
    client.ask("auth/login", json!({"methodId": "mine"})).await;
    fixture.model.plan(Planned::new().text("ok"));
    client.prompt(&session, "and now?").await;
    assert_eq!(offered(2).len(), 64 + 64 + 17 + 8);
}

#[tokio::test]
async fn a_session_that_was_left_alone_has_its_servers_again() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let idle_limit = Duration::from_millis(300);
        let client = fixture.client_with(version, Config { idle_limit, ..Config::default() }).await;
        let session = session(&fixture, &client, &[]).await;
        client.prompt(&session, "/call t.echo {\"text\": \"one\"}").await;
        let first = started(&fixture);
        assert_gone_by(soon(), &first, "the server of a session that nobody uses").await;
        client.prompt(&session, "/call t.echo {\"text\": \"the second\"}").await;
        let said = all(&client, &session);
        assert_eq!(started(&fixture).len(), 2, "{said}");
        let done = |update: &&Value| update["status"] == "completed";
        assert_eq!(client.updates(&session).iter().filter(done).count(), 2, "{said}");
    }
}

#[tokio::test]
async fn a_server_that_offers_more_is_followed() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let client = fixture.client(Version::V1).await;
    let session = session(&fixture, &client, &[]).await;
    answer(&client, "allow");
    client.prompt(&session, "/call t.grow").await;
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        fixture.model.plan(Planned::new().text("ok"));
        client.prompt(&session, "which tools?").await;
        if fixture.model.asked().last().unwrap().body.to_string().contains("grown_0") {
            break;
        }
        assert!(Instant::now() < deadline, "the new tool is offered");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_old_server_is_used_in_version_one_and_refused_in_version_two() {
    const KEY: &str = "opensesame-4711";
    let server = WebServer::start(Kind::Sse, &[], Some(("x-who", KEY))).await;
    let headers = json!([{"name": "X-Who", "value": KEY}]);
    let old = json!({"type": "sse", "name": "old", "url": server.url(), "headers": headers});
    let fixture = Fixture::offline();
    let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": [old]});

    let client = fixture.client(Version::V1).await;
    answer(&client, "allow");
    let made = client.ask("session/new", params.clone()).await["sessionId"].as_str().unwrap().to_owned();
    client.prompt(&made, "/tools").await;
    assert!(client.view(&made).agent().concat().contains("`old.echo`"));
    client.prompt(&made, "/call old.echo {\"text\": \"by events\"}").await;
    client.prompt(&made, &format!("/call old.refuse {{\"text\": \"who is {KEY}?\"}}")).await;
    let prompt = client.begin_prompt(&made, "/call old.hang").await;
    wait_asked(&server, "\"hang\"").await;
    client.cancel(&made).await;
    assert_eq!(client.finish(&made, &prompt).await.stop, "cancelled");
    wait_asked(&server, "notifications/cancelled").await;
    let outputs: Vec<_> =
        client.updates(&made).iter().map(|update| update["rawOutput"].to_string()).collect();
    let outputs = outputs.concat();
    assert!(
        outputs.contains("by events") && outputs.contains("returned an error: who is [secret]?"),
        "{outputs}"
    );
    client.close(&made).await.unwrap();

    let client = fixture.client(Version::V2).await;
    let asked = client.begin("session/new", params).await;
    let refused = client.answer(&asked).await.unwrap_err();
    assert_eq!(refused["code"], -32602);
    assert_eq!(refused["data"]["field"], "mcpServers[0].type");
    assert!(!refused.to_string().contains(KEY));
}

async fn wait_asked(server: &WebServer, words: &str) {
    let deadline = soon();
    while !server.asked().iter().any(|asked| asked.body.to_string().contains(words)) {
        assert!(Instant::now() < deadline, "the server is asked {words}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The outputs of all calls so far.
fn outputs(client: &Client, session: &str) -> Vec<Value> {
    let updates = client.updates(session);
    updates.iter().map(|update| update["rawOutput"].clone()).filter(|output| !output.is_null()).collect()
}

#[tokio::test]
async fn the_error_says_why_a_tool_of_a_server_cannot_be_called() {
    let fixture = Fixture::offline();
    // A copy of the program that can be deleted, so that the server cannot restart.
    let link = fixture.outside().join("server");
    std::os::unix::fs::symlink(program::path(), &link).unwrap();
    let client = fixture.client(Version::V2).await;
    answer(&client, "allow");
    let server =
        json!({"type": "stdio", "name": "t", "command": link.display().to_string(), "args": [], "env": []});
    let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": [server]});
    let session = client.ask("session/new", params).await["sessionId"].as_str().unwrap().to_owned();
    client.prompt(&session, "/mode ask").await;
    client.prompt(&session, "/call t.grow").await;
    client.prompt(&session, "/mode code").await;
    client.prompt(&session, "/call t.crash").await;
    std::fs::remove_file(&link).unwrap();
    for _ in 0..2 {
        client.prompt(&session, "/call t.echo").await;
    }
    let said: Vec<_> = outputs(&client, &session).iter().map(|output| output["text"].to_string()).collect();
    assert!(
        said[0].contains("the mode or the tool settings of this session do not allow t.grow"),
        "{said:?}"
    );
    assert!(said[1].contains("MCP server t disconnected: it ended with exit status 3"), "{said:?}");
    assert!(said[2].contains("MCP server t is no longer available: its program was not found"), "{said:?}");
    assert_eq!(said[2], said[3]);
}

#[tokio::test]
async fn the_first_of_two_tools_with_one_name_is_used() {
    let fixture = Fixture::offline();
    let client = fixture.client(Version::V2).await;
    answer(&client, "allow");
    let session = session(&fixture, &client, &[Habit::Repeats]).await;
    client.prompt(&session, "/call t.echo-2 {\"text\": \"tool\"}").await;
    assert_eq!(outputs(&client, &session), [json!({"text": "second tool"})]);
    let messages = Value::from(client.server_messages()).to_string();
    assert!(
        messages.contains("MCP server t: it lists more than one tool of the same name: echo"),
        "{messages}"
    );
}

#[tokio::test]
async fn structured_data_with_an_image_is_passed_on() {
    let fixture = Fixture::offline();
    let client = fixture.client(Version::V2).await;
    answer(&client, "allow");
    let session = session(&fixture, &client, &[]).await;
    client.prompt(&session, "/call t.image").await;
    let expected = json!({"text": "[an image, image/png]\n{\"width\":1}"});
    assert_eq!(outputs(&client, &session), [expected]);
}

#[tokio::test]
async fn unchanged_commands_are_not_sent_again() {
    let fixture = Fixture::offline();
    let client = fixture.client(Version::V2).await;
    let session = session(&fixture, &client, &[Habit::ChangesAllTheTime]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.prompt(&session, "/tools").await;
    let tools = client.view(&session).agent().concat();
    assert!(
        tools.contains("t.grown_3") && !tools.contains("t.grown_40"),
        "it is followed, with pauses: {tools}"
    );
    let updates = client.updates(&session);
    let count =
        updates.iter().filter(|update| update["sessionUpdate"] == "available_commands_update").count();
    assert!(count <= 1, "unchanged commands were sent {count} times");
}

#[tokio::test]
async fn no_server_is_left_when_a_session_is_closed_while_one_connects() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let (client, session) = fixture.session(version).await;
        client.prompt(&session, "/think of it").await;
        client.close(&session).await.unwrap();
        // The session is available at once; the agent opens it in the background.
        let servers = [
            server(&fixture, version, "good", &[Habit::HasChild]),
            server(&fixture, version, "silent", &[Habit::IsSilent]),
        ];
        let cwd = fixture.work().display().to_string();
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": servers});
        client.ask("session/resume", params).await;
        let pids = wait_started(&fixture, 3).await;
        client.close(&session).await.unwrap();
        assert_gone_by(soon(), &pids, "the servers").await;
    }
}

#[tokio::test]
async fn an_image_of_a_server_reaches_the_model() {
    for kind in super::fixture::KINDS {
        let fixture = Fixture::with(kind);
        let client = fixture.client(Version::V2).await;
        let session = session(&fixture, &client, &[]).await;
        answer(&client, "allow");
        fixture.model.plan(Planned::new().call("t.image", &json!({})));
        fixture.model.plan(Planned::new().text("Seen."));
        assert_eq!(client.prompt(&session, "look").await.stop, "end_turn");
        let body = fixture.model.asked().last().unwrap().body.to_string();
        assert_eq!(body.matches("iVBORw0KGgo=").count(), 1, "{kind:?}: {body}");
    }
}

//! Tests of permission requests: they show everything that is allowed, and what "always" covers.

use rethread::edge::Version;
use rethread_assistant::model::ProviderKind;
use rethread_testkit::client::Client;
use rethread_testkit::mcp::program;
use rethread_testkit::model::Planned;
use serde_json::{Value, json};

use super::fixture::{Fixture, answer, questions};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// The parameters of the newest permission request.
fn question(client: &Client) -> Value {
    let message = client.server_messages();
    let asked = message.iter().rfind(|message| message["method"] == "session/request_permission");
    asked.expect("the user was asked")["params"].clone()
}

/// The tool call that a question is about, in either version.
fn call(question: &Value) -> &Value {
    if question["toolCall"].is_null() { &question["subject"]["toolCall"] } else { &question["toolCall"] }
}

/// The title of the question, in either version.
fn title(question: &Value) -> &str {
    question["title"].as_str().or(call(question)["title"].as_str()).expect("a question has a title")
}

/// All texts of the question's content.
fn content(question: &Value) -> String {
    let items = call(question)["content"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["content"]["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// All texts in which this version shows the complete details.
fn whole(question: &Value, version: Version) -> Vec<String> {
    let mut places = vec![content(question), call(question)["rawInput"].to_string()];
    if version == Version::V2 {
        places.push(question["description"].as_str().unwrap_or_default().to_owned());
    }
    places
}

fn names(question: &Value) -> Vec<&str> {
    let options = question["options"].as_array().expect("a question has options");
    options.iter().filter_map(|option| option["name"].as_str()).collect()
}

/// Asserts that a text has no characters that hide or reorder text.
fn assert_visible(value: &Value) {
    match value {
        Value::String(text) => {
            let hides =
                |c: char| (c.is_control() && c != '\n' && c != '\t') || "\u{202e}\u{200b}".contains(c);
            assert!(!text.contains(hides), "{text:?}");
        }
        Value::Array(items) => items.iter().for_each(assert_visible),
        Value::Object(members) => members.values().for_each(assert_visible),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn assert_short(question: &Value) {
    for label in names(question).into_iter().chain([title(question)]) {
        assert!(label.chars().count() <= 130 && !label.contains('\n'), "{label:?}");
    }
}

#[tokio::test]
async fn all_of_a_command_is_shown() {
    let hidden = format!("rm -rf ~/everything # {}", "x".repeat(300));
    let command = format!("echo safe\n\n\n\u{1b}[2K\u{202e}\u{200b}\r{hidden}");
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        answer(&client, "reject");
        fixture.model.plan(Planned::new().call("run", &json!({"command": command})));
        fixture.model.plan(Planned::new().text("fine"));
        client.prompt(&session, "run it").await;
        let question = question(&client);
        for place in whole(&question, version) {
            assert!(place.contains(&hidden), "{version:?}: {place}");
            for mark in ["u{1b}", "u{202e}", "u{200b}"] {
                assert!(place.contains(mark), "{version:?}: {mark} in {place}");
            }
        }
        assert_visible(&question);
        assert_short(&question);
        assert!(title(&question).contains("echo safe") && title(&question).contains("more"), "{question}");
        // The announced call has the same title and content.
        let announced = client.updates(&session);
        let named = announced.iter().filter_map(|update| update["title"].as_str());
        assert!(named.clone().all(|title| !title.contains(['\n', '\u{1b}', '\u{202e}'])));
        assert!(named.into_iter().any(|title| title.contains("more")), "{announced:?}");
    }
}

#[tokio::test]
async fn all_of_a_change_is_shown() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.write("a.txt", "one\ntwo\n");
        let (client, session) = fixture.session(version).await;
        answer(&client, "reject");
        let new = "2\n\u{202e}evil\n";
        fixture
            .model
            .plan(Planned::new().call("edit", &json!({"path": "a.txt", "old": "two\n", "new": new})));
        fixture.model.plan(Planned::new().text("fine"));
        client.prompt(&session, "edit it").await;
        let question = question(&client);
        let diffs = call(&question)["content"].as_array().unwrap();
        let diff = diffs.iter().find(|item| item["type"] == "diff").expect("the change is shown").to_string();
        assert!(diff.contains("a.txt") && diff.contains("u{202e}evil"), "{version:?}: {diff}");
        assert_visible(&question);
        assert_short(&question);
        let path = fixture.work().join("a.txt").display().to_string();
        if version == Version::V2 {
            let description = question["description"].as_str().unwrap();
            assert!(description.contains(&path) && description.contains("+\\u{202e}evil"), "{description}");
        } else {
            assert!(content(&question).contains(&path), "{question}");
            let text = content(&question);
            assert!(!text.contains("+2"), "a change is not shown twice: {text}");
        }
    }
}

#[tokio::test]
async fn all_arguments_of_a_servers_tool_are_shown() {
    for version in VERSIONS {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let client = fixture.client(version).await;
        let mut server = json!({"name": "t", "command": program::path().display().to_string(),
            "args": [], "env": []});
        if version == Version::V2 {
            server["type"] = json!("stdio");
        }
        let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": [server]});
        let session = client.ask("session/new", params).await["sessionId"].as_str().unwrap().to_owned();
        answer(&client, "reject");
        client.prompt(&session, "/call t.env {\"text\": \"first\\nsecond\\u001b[2K\"}").await;
        let question = question(&client);
        for place in whole(&question, version) {
            assert!(place.contains("second") && place.contains("u{1b}[2K"), "{version:?}: {place}");
        }
        assert_visible(&question);
        assert_short(&question);
        assert!(names(&question)[1].contains("any arguments"), "{question}");
    }
}

#[tokio::test]
async fn always_says_what_it_covers() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        std::fs::create_dir(fixture.work().join("other")).unwrap();
        let (client, session) = fixture.session(version).await;
        answer(&client, "reject");
        for cwd in [".", "other"] {
            let arguments = json!({"command": "touch here", "cwd": cwd});
            client.prompt(&session, &format!("/call run {arguments}")).await;
            let question = question(&client);
            assert!(names(&question)[1].contains("exactly this command"), "{question}");
            let shown =
                if version == Version::V2 { question["description"].to_string() } else { content(&question) };
            let place = fixture.work().join(cwd).canonicalize().unwrap().display().to_string();
            assert!(shown.contains(&place), "{shown}");
            assert_short(&question);
        }
        client.prompt(&session, "/call write {\"path\": \"new\", \"content\": \"x\"}").await;
        let asked = question(&client);
        assert!(names(&asked)[1].contains("any file") && names(&asked)[1].contains(".git"), "{asked}");
    }
}

#[tokio::test]
async fn always_writing_does_not_cover_the_repository_itself() {
    for (version, tool) in [(Version::V1, "write"), (Version::V2, "write"), (Version::V2, "edit")] {
        let fixture = Fixture::offline();
        for folder in [".git/hooks", "sub"] {
            std::fs::create_dir_all(fixture.work().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(fixture.work().join(".git"), fixture.work().join("link")).unwrap();
        for file in ["a", ".git/config", "sub/.git"] {
            fixture.write(file, "old\n");
        }
        let (client, session) = fixture.session(version).await;
        let call = |path: &str| match tool {
            "edit" => format!("/call edit {}", json!({"path": path, "old": "old", "new": "new"})),
            _ => format!("/call write {}", json!({"path": path, "content": "new\n"})),
        };
        for file in ["a", ".git/config", "sub/.git"] {
            client.prompt(&session, &format!("/read {file}")).await;
        }
        answer(&client, "allow_always");
        client.prompt(&session, &call("a")).await;
        assert_eq!((fixture.read("a").as_str(), questions(&client)), ("new\n", 1));
        answer(&client, "reject");
        for (count, path) in [".git/config", "link/config", "sub/.git"].into_iter().enumerate() {
            client.prompt(&session, &call(path)).await;
            assert_eq!(questions(&client), count + 2, "{tool} {path}");
            let asked = question(&client);
            let kinds: Vec<_> =
                asked["options"].as_array().unwrap().iter().map(|o| o["kind"].clone()).collect();
            assert_eq!(kinds, ["allow_once", "reject_once"], "nothing is allowed for good there");
        }
        assert_eq!(
            (fixture.read(".git/config").as_str(), fixture.read("sub/.git").as_str()),
            ("old\n", "old\n")
        );
    }
}

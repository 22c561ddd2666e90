//! Tests without a model: slash commands, and the answer to other prompts.

use rethread::edge::Version;
use serde_json::{Value, json};

use super::fixture::{CONFIG_FILE, Fixture, answer, questions};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

#[tokio::test]
async fn a_prompt_without_a_model_is_answered() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let (client, session) = fixture.session(version).await;
        assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
        let said = client.view(&session).agent().concat();
        assert!(said.contains("No model is configured") && said.contains("OPENAI_API_KEY"), "{said}");
        assert!(said.contains(CONFIG_FILE), "{said}");
    }
}

#[tokio::test]
async fn commands_are_announced() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let (client, _) = fixture.session(version).await;
        // In the response, or after it in the version whose response has no commands.
        let shown =
            client.wait("the commands", |message| message.to_string().contains("availableCommands")).await;
        let (shown, update) = (&shown["result"], &shown["params"]["update"]);
        let list = if shown.is_null() { update } else { shown }["availableCommands"].as_array().cloned();
        let names: Vec<_> = list.unwrap_or_default().iter().map(|command| command["name"].clone()).collect();
        for name in [
            "help", "read", "find", "grep", "edit", "run", "tools", "call", "plan", "think", "stream", "mode",
        ] {
            assert!(names.contains(&json!(name)), "{name} in {names:?}");
        }
    }
}

#[tokio::test]
async fn every_command_does_what_it_says() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        fixture.write("a.txt", "apples\npears\n");
        let (client, session) = fixture.session(version).await;
        answer(&client, "allow");
        for command in [
            "/help",
            "/tools",
            "/read a.txt 2 1",
            "/list",
            "/find *.txt",
            "/grep pea",
            "/edit a.txt \"pears\" \"plums\"",
            "/run echo hi",
            "/call read {\"path\": \"a.txt\"}",
            "/plan one; two",
            "/think hm",
            "/stream 5 1",
            "/mode ask",
        ] {
            assert_eq!(client.prompt(&session, command).await.stop, "end_turn", "{command}");
        }
        assert_eq!(fixture.read("a.txt"), "apples\nplums\n");
        let all: Vec<Value> = client.updates(&session);
        let text = Value::from(all).to_string();
        for expected in ["pears", "echo hi", "plums", "\"hm\"", "one", "two"] {
            assert!(text.contains(expected), "{expected}");
        }
        assert_eq!(questions(&client), 2, "for the edit and the command");
        let items = client.view(&session);
        assert!(items.agent().contains(&"word 1 word 2 word 3 word 4 word 5".to_owned()));
        client.disconnect().await;
        let client = fixture.client(version).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        assert_eq!(client.view(&session), items, "the same after a restart");
    }
}

#[tokio::test]
async fn nothing_follows_the_answer_to_a_command() {
    let fixture = Fixture::offline();
    let (client, session) = fixture.session(Version::V1).await;
    answer(&client, "allow");
    for at in 0..10 {
        client.prompt(&session, &format!("/run echo {at}")).await;
        let mark = client.mark();
        client.ask("session/list", json!({})).await;
        client.prompt(&session, "/think").await;
        let late = client.updates_since(mark, &session);
        assert!(late.iter().all(|update| update["sessionUpdate"] != "tool_call_update"), "{late:?}");
    }
}

#[tokio::test]
async fn nothing_leaves_the_roots() {
    let fixture = Fixture::offline();
    let outside = fixture.outside().join("secret.txt");
    std::fs::write(&outside, "topsecret").unwrap();
    std::os::unix::fs::symlink(&outside, fixture.work().join("link")).unwrap();
    std::os::unix::fs::symlink(fixture.outside(), fixture.work().join("dir")).unwrap();
    let (client, session) = fixture.session(Version::V2).await;
    answer(&client, "allow");
    let outside = outside.display().to_string();
    for path in ["../secret.txt", outside.as_str(), "link", "dir/secret.txt", "/proc/self/root/etc/passwd"] {
        client.prompt(&session, &format!("/read {path}")).await;
        client.prompt(&session, &format!("/edit {path} topsecret broken")).await;
        client.prompt(&session, &format!("/call write {{\"path\": \"{path}\", \"content\": \"x\"}}")).await;
    }
    client.prompt(&session, "/grep topsecret").await;
    client.prompt(&session, "/grep topsecret dir").await;
    let said = Value::from(client.updates(&session)).to_string();
    assert!(!said.contains(":topsecret") && !said.contains("\\ttopsecret"), "{said}");
    assert_eq!(std::fs::read_to_string(fixture.outside().join("secret.txt")).unwrap(), "topsecret");
}

#[tokio::test]
async fn a_mode_change_of_the_agent_reaches_all_clients() {
    for version in VERSIONS {
        let fixture = Fixture::offline();
        let (client, session) = fixture.session(version).await;
        let mark = client.mark();
        client.prompt(&session, "/mode architect").await;
        let updates = client.updates_since(mark, &session);
        let options =
            updates.iter().find(|update| update["sessionUpdate"] == "config_option_update").unwrap();
        assert_eq!(options["configOptions"][0]["currentValue"], "architect");
        if version == Version::V1 {
            assert!(updates.iter().any(|update| update["currentModeId"] == "architect"));
        }
        client.set_option(&session, "mode", "code").await;
    }
}

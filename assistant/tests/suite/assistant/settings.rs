//! Modes, models and options: what they do, and that they stay.

use rethread::edge::Version;
use rethread_assistant::model::{Effort, ModelConfig, ProviderKind};
use rethread_testkit::client::Client;
use rethread_testkit::model::{ModelRequest, Planned};
use serde_json::{Value, json};

use super::stage::{KINDS, Stage, answer, questions};

fn tools(asked: &ModelRequest) -> Vec<String> {
    let mut names = Vec::new();
    let mut look = vec![&asked.body["tools"]];
    while let Some(value) = look.pop() {
        match value {
            Value::Array(items) => look.extend(items),
            Value::Object(members) => match members.get("name").and_then(Value::as_str) {
                Some(name) => names.push(name.to_owned()),
                None => look.extend(members.values()),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    names.sort();
    names
}

#[tokio::test]
async fn the_mode_says_which_tools_there_are() {
    let stage = Stage::with(ProviderKind::OpenAi);
    let (client, session) = stage.session(Version::V2).await;
    let reading = ["find", "list", "read", "search"];
    let cases = [
        ("code", vec!["edit", "find", "list", "plan", "read", "run", "search", "write"]),
        ("ask", reading.to_vec()),
        ("architect", vec!["find", "list", "plan", "read", "search"]),
    ];
    for (mode, expected) in cases {
        client.set_option(&session, "mode", mode).await;
        stage.model.plan(Planned::new().text("yes"));
        client.prompt(&session, "which tools?").await;
        assert_eq!(tools(stage.model.asked().last().unwrap()), expected, "{mode}");
    }
    client.set_option(&session, "mode", "code").await;
    let cases = [
        ("read-write", vec!["edit", "find", "list", "plan", "read", "search", "write"]),
        ("read-only+terminal", vec!["find", "list", "plan", "read", "run", "search"]),
        ("read-only", vec!["find", "list", "plan", "read", "search"]),
    ];
    for (option, expected) in cases {
        client.set_option(&session, "tools", option).await;
        stage.model.plan(Planned::new().text("yes"));
        client.prompt(&session, "which tools?").await;
        assert_eq!(tools(stage.model.asked().last().unwrap()), expected, "{option}");
    }
}

#[tokio::test]
async fn a_tool_that_the_mode_does_not_have_is_refused_even_if_the_model_calls_it() {
    let stage = Stage::with(ProviderKind::OpenAi);
    let (client, session) = stage.session(Version::V2).await;
    answer(&client, "allow");
    client.set_option(&session, "mode", "ask").await;
    stage.model.plan(Planned::new().call("write", &json!({"path": "a", "content": "x"})));
    stage.model.plan(Planned::new().call("run", &json!({"command": "touch b"})));
    stage.model.plan(Planned::new().text("sorry"));
    client.prompt(&session, "write").await;
    assert!(!stage.work().join("a").exists() && !stage.work().join("b").exists());
    assert_eq!(questions(&client), 0);
}

#[tokio::test]
async fn temperature_and_thinking_are_really_sent() {
    for kind in KINDS {
        let stage = Stage::offline();
        let mut provider = stage.provider("mine", kind);
        provider.models = vec![ModelConfig {
            efforts: Some(vec![Effort::Low, Effort::High]),
            takes_temperature: Some(true),
            ..ModelConfig::new("loopback-1")
        }];
        stage.providers.lock().unwrap().push(provider);
        let (client, session) = stage.session(Version::V1).await;
        client.set_option(&session, "temperature", "low").await;
        stage.model.plan(Planned::new().text("a"));
        client.prompt(&session, "one").await;
        let asked = stage.model.asked();
        assert!(asked[0].body.to_string().contains("0.2"), "{kind:?}: {}", asked[0].body);
        client.set_option(&session, "thought_level", "high").await;
        stage.model.plan(Planned::new().text("b"));
        client.prompt(&session, "two").await;
        let (plain, thinking) = (asked[0].body.to_string(), stage.model.asked()[1].body.to_string());
        // As a word, as a number of tokens, or as yes.
        let says =
            |body: &str| ["\"high\"", "24000", "\"think\":true"].iter().any(|word| body.contains(word));
        assert!(!says(&plain) && says(&thinking), "{kind:?}: {plain}\n{thinking}");
    }
}

#[tokio::test]
async fn choices_stay_over_a_restart_and_reach_the_model() {
    for version in [Version::V1, Version::V2] {
        let stage = Stage::with(ProviderKind::OpenAi);
        let (client, session) = stage.session(version).await;
        client.set_option(&session, "mode", "ask").await;
        client.set_option(&session, "temperature", "high").await;
        stage.model.plan(Planned::new().text("a"));
        client.prompt(&session, "one").await;
        client.disconnect().await;
        let client = stage.client(version).await;
        let loaded = client.load_in(&stage.work().display().to_string(), &session).await;
        assert!(loaded["configOptions"].to_string().contains("\"currentValue\":\"ask\""), "{loaded}");
        stage.model.plan(Planned::new().text("b"));
        client.prompt(&session, "two").await;
        let asked = stage.model.asked();
        assert_eq!(tools(&asked[1]), ["find", "list", "read", "search"]);
        assert_eq!(asked[1].body["temperature"], 1.0);
    }
}

#[tokio::test]
async fn several_providers_and_their_models_can_be_chosen() {
    let stage = Stage::with(ProviderKind::OpenAi);
    let mut other = stage.provider("other", ProviderKind::Anthropic);
    other.models = vec![ModelConfig::new("loopback-small")];
    stage.providers.lock().unwrap().push(other);
    let (client, session) = stage.session(Version::V1).await;
    stage.model.plan(Planned::new().text("a"));
    client.prompt(&session, "one").await;
    client.set_option(&session, "model", "other/loopback-small").await;
    stage.model.plan(Planned::new().text("b"));
    client.prompt(&session, "two").await;
    let asked = stage.model.asked();
    assert_eq!([&asked[0].body["model"], &asked[1].body["model"]], ["loopback-1", "loopback-small"]);
    assert!(asked[0].path.ends_with("/chat/completions") && asked[1].path.ends_with("/messages"));
    assert!(asked[1].body.to_string().contains("one"), "the other model knows the conversation");
}

#[tokio::test]
async fn the_project_and_the_client_have_a_say() {
    let stage = Stage::with(ProviderKind::OpenAi);
    stage.write("AGENTS.md", "Always answer in rhyme.\n");
    let client = stage.client(Version::V2).await;
    let cwd = stage.work().display().to_string();
    let prompt = |mode: &str| {
        json!({"cwd": cwd, "mcpServers": [], "systemPrompt":
            {"mode": mode, "content": [{"type": "text", "text": "Be brief."}]}})
    };
    for (mode, rhyme) in [("append", true), ("override", false)] {
        let made = client.ask("session/new", prompt(mode)).await;
        let session = made["sessionId"].as_str().unwrap();
        stage.model.plan(Planned::new().text("ok"));
        client.prompt(session, "hello").await;
        let asked = stage.model.asked().last().unwrap().body.to_string();
        assert!(asked.contains("Be brief."), "{asked}");
        assert_eq!(asked.contains("Always answer in rhyme."), rhyme, "{mode}");
    }
}

/// The system prompt of the newest request.
async fn system_prompt(stage: &Stage, client: &Client, session: &str) -> String {
    stage.model.plan(Planned::new().text("ok"));
    client.prompt(session, "hello").await;
    let asked = stage.model.asked().pop().expect("the model was asked");
    asked.body["messages"][0]["content"].as_str().expect("it begins with the system prompt").to_owned()
}

#[tokio::test]
async fn instructions_are_looked_for_up_to_the_root_of_the_repository() {
    for version in [Version::V1, Version::V2] {
        let stage = Stage::with(ProviderKind::OpenAi);
        std::fs::create_dir_all(stage.work().join("repository/.git")).unwrap();
        std::fs::create_dir_all(stage.work().join("repository/a/b")).unwrap();
        stage.write("AGENTS.md", "Above the repository.\n");
        stage.write("repository/AGENTS.md", "Rule of the root.\n");
        stage.write("repository/a/b/AGENTS.md", "Rule of the directory.\n");
        std::os::unix::fs::symlink(
            stage.work().join("AGENTS.md"),
            stage.work().join("repository/a/AGENTS.md"),
        )
        .unwrap();
        let client = stage.client(version).await;
        let cwd = stage.work().join("repository/a/b").display().to_string();
        let session = client.new_session_in(&cwd).await;
        for _ in 0..2 {
            let told = system_prompt(&stage, &client, &session).await;
            let (root, inner) = (told.find("Rule of the root."), told.find("Rule of the directory."));
            assert!(root.is_some() && root < inner, "the nearer one has the last word: {told}");
            assert!(!told.contains("Above the repository."), "{told}");
        }
        let heard = Value::from(client.server_messages()).to_string();
        assert_eq!(heard.matches("repository/a/AGENTS.md was skipped").count(), 1, "{heard}");
    }
}

#[tokio::test]
async fn instructions_that_are_too_long_are_cut_and_that_is_said() {
    let stage = Stage::with(ProviderKind::OpenAi);
    stage.providers.lock().unwrap()[0].models[0].context_window = None;
    stage.write("AGENTS.md", &format!("Begin.\n{}End.\n", "a rule\n".repeat(10_000)));
    let (client, session) = stage.session(Version::V2).await;
    let told = system_prompt(&stage, &client, &session).await;
    assert!(told.contains("Begin.") && !told.contains("End."));
    assert!(told.contains("it is longer than 64 KiB"));
    let heard = Value::from(client.server_messages()).to_string();
    assert_eq!(heard.matches("AGENTS.md was cut: it is longer than 64 KiB").count(), 1);
}

#[tokio::test]
async fn the_system_prompt_says_where_the_model_works_and_what_commands_can_do() {
    let stage = Stage::with(ProviderKind::OpenAi);
    std::fs::create_dir_all(stage.work().join(".git")).unwrap();
    stage.write(".git/HEAD", "ref: refs/heads/topic\n");
    let (client, session) = stage.session(Version::V2).await;
    let told = system_prompt(&stage, &client, &session).await;
    let cwd = stage.work().display().to_string();
    for word in [cwd.as_str(), "on branch topic", "Today is 20", std::env::consts::OS, "(UTC)"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(told.contains("The tool run is not bound to these directories"), "{told}");
    client.set_option(&session, "mode", "ask").await;
    let told = system_prompt(&stage, &client, &session).await;
    assert!(told.contains("You cannot run commands now.") && !told.contains("The tool run"), "{told}");
}

#[tokio::test]
async fn a_provider_without_its_key_asks_for_it() {
    for version in [Version::V1, Version::V2] {
        let stage = Stage::with(ProviderKind::OpenAi);
        {
            let mut providers = stage.providers.lock().unwrap();
            providers[0].key = None;
            providers[0].base_url = None;
        }
        let client = stage.client(version).await;
        let cwd = stage.work().display().to_string();
        let refused = client.refused("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        assert_eq!(refused["code"], -32000);
        assert!(refused.to_string().contains("OPENAI_API_KEY"), "{refused}");
        let login = match version {
            Version::V1 => ("authenticate", json!({"methodId": "mine"})),
            Version::V2 => ("auth/login", json!({"methodId": "mine"})),
        };
        assert_eq!(client.refused(login.0, login.1.clone()).await["code"], -32000);
        *stage.providers.lock().unwrap() = vec![stage.provider("mine", ProviderKind::OpenAi)];
        client.ask(login.0, login.1).await;
        let session = client.new_session_in(&cwd).await;
        stage.model.plan(Planned::new().text("hi"));
        assert_eq!(client.prompt(&session, "hello").await.stop, "end_turn");
        let logout = if version == Version::V1 { "logout" } else { "auth/logout" };
        client.ask(logout, json!({})).await;
        let key = "a-key-that-nobody-may-see";
        assert!(client.server_messages().iter().all(|message| !message.to_string().contains(key)));
    }
}

#[tokio::test]
async fn what_only_another_model_has_is_chosen_again_after_a_restart() {
    for version in [Version::V1, Version::V2] {
        let stage = Stage::with(ProviderKind::OpenAi);
        stage.providers.lock().unwrap()[0].models.push(ModelConfig {
            efforts: Some(vec![Effort::Low, Effort::High]),
            ..ModelConfig::new("loopback-2")
        });
        let (client, session) = stage.session(version).await;
        client.set_option(&session, "model", "mine/loopback-2").await;
        client.set_option(&session, "thought_level", "high").await;
        stage.model.plan(Planned::new().text("a"));
        client.prompt(&session, "one").await;
        client.disconnect().await;
        let client = stage.client(version).await;
        client.load_in(&stage.work().display().to_string(), &session).await;
        stage.model.plan(Planned::new().text("b"));
        client.prompt(&session, "two").await;
        for asked in stage.model.asked() {
            assert_eq!(asked.body["model"], "loopback-2");
            assert_eq!(asked.body["reasoning_effort"], "high", "{}", asked.body);
        }
    }
}

#[tokio::test]
async fn options_that_change_in_a_turn_hold_from_the_next_question_on() {
    for version in [Version::V1, Version::V2] {
        let stage = Stage::with(ProviderKind::OpenAi);
        stage.providers.lock().unwrap()[0].models.push(ModelConfig::new("loopback-2"));
        let (client, session) = stage.session(version).await;
        client.on("session/request_permission", |_| None);
        stage.model.plan(Planned::new().call("write", &json!({"path": "a", "content": "x"})));
        stage.model.plan(Planned::new().text("done"));
        let prompt = client.begin_prompt(&session, "write").await;
        client.wait_method("session/request_permission").await;
        client.set_option(&session, "model", "mine/loopback-2").await;
        client.set_option(&session, "mode", "ask").await;
        assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
        let asked = stage.model.asked();
        assert_eq!([&asked[0].body["model"], &asked[1].body["model"]], ["loopback-1", "loopback-2"]);
        assert_eq!(tools(&asked[1]), ["find", "list", "read", "search"]);
    }
}

/// Calls that the model has asked for already, one with an open question and one that was allowed for good before.
#[tokio::test]
async fn a_stricter_setting_holds_at_once_for_calls_that_wait() {
    for (option, value) in [("mode", "ask"), ("mode", "architect"), ("tools", "read-only")] {
        for version in [Version::V1, Version::V2] {
            let stage = Stage::with(ProviderKind::OpenAi);
            let (client, session) = stage.session(version).await;
            answer(&client, "allow_always");
            client.prompt(&session, "/run touch always").await;
            std::fs::remove_file(stage.work().join("always")).unwrap();
            client.on("session/request_permission", |_| None);
            stage.model.plan(
                Planned::new()
                    .call("write", &json!({"path": "a", "content": "x"}))
                    .call("run", &json!({"command": "touch always"}))
                    .call("run", &json!({"command": "touch asked"})),
            );
            stage.model.plan(Planned::new().text("done"));
            let mark = client.mark();
            let prompt = client.begin_prompt(&session, "work").await;
            let is_question = |message: &Value| message["method"] == "session/request_permission";
            let asked = client.wait_since(mark, "the question", is_question).await;
            client.set_option(&session, option, value).await;
            // The question is taken back; an answer that crosses this allows nothing.
            let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_always"}});
            client.reply(&asked["id"], Ok(allow)).await;
            assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn", "{option} {version:?}");
            for name in ["a", "always", "asked"] {
                assert!(!stage.work().join(name).exists(), "{option} {version:?}: {name}");
            }
            let questions =
                client.server_messages_since(mark).iter().filter(|message| is_question(message)).count();
            assert_eq!(questions, 1, "{option} {version:?}: nothing more is asked");
            let told = stage.model.asked().last().unwrap().body.to_string();
            assert_eq!(told.matches("do not allow").count(), 3, "{option} {version:?}: {told}");
            // Nor was anything allowed for good meanwhile.
            client
                .set_option(&session, option, if option == "mode" { "code" } else { "read-write+terminal" })
                .await;
            let mark = client.mark();
            answer(&client, "reject");
            client.prompt(&session, "/call write {\"path\": \"a\", \"content\": \"x\"}").await;
            assert!(client.server_messages_since(mark).iter().any(is_question), "{option} {version:?}");
        }
    }
}

#[tokio::test]
async fn a_question_is_taken_back_when_a_setting_forbids_what_it_is_about() {
    for version in [Version::V1, Version::V2] {
        let stage = Stage::with(ProviderKind::OpenAi);
        let (client, session) = stage.session(version).await;
        client.on("session/request_permission", |_| None);
        stage.model.plan(Planned::new().call("run", &json!({"command": "touch a"})));
        stage.model.plan(Planned::new().text("done"));
        let prompt = client.begin_prompt(&session, "work").await;
        client.wait_method("session/request_permission").await;
        client.set_option(&session, "mode", "ask").await;
        // Nobody answers.
        assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn", "{version:?}");
        assert!(!stage.work().join("a").exists());
    }
}

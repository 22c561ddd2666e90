//! Tests of modes, models and options: their effects, and that they are stored.

use rethread::edge::Version;
use rethread_assistant::mcp::ServerConfig;
use rethread_assistant::model::{Effort, ModelConfig, ProviderKind};
use rethread_assistant::{AssistantDefaults, Mode};
use rethread_testkit::client::Client;
use rethread_testkit::mcp::program;
use rethread_testkit::model::{ModelRequest, Planned};
use serde_json::{Value, json};

use super::fixture::{Fixture, KINDS, answer, questions};

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
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let (client, session) = fixture.session(Version::V2).await;
    let reading = ["find", "list", "read", "search"];
    let cases = [
        ("code", vec!["edit", "find", "list", "plan", "read", "run", "search", "write"]),
        ("ask", reading.to_vec()),
        ("architect", vec!["find", "list", "plan", "read", "search"]),
    ];
    for (mode, expected) in cases {
        client.set_option(&session, "mode", mode).await;
        fixture.model.plan(Planned::new().text("yes"));
        client.prompt(&session, "which tools?").await;
        assert_eq!(tools(fixture.model.asked().last().unwrap()), expected, "{mode}");
    }
    client.set_option(&session, "mode", "code").await;
    let cases = [
        ("read-write", vec!["edit", "find", "list", "plan", "read", "search", "write"]),
        ("read-only+terminal", vec!["find", "list", "plan", "read", "run", "search"]),
        ("read-only", vec!["find", "list", "plan", "read", "search"]),
    ];
    for (option, expected) in cases {
        client.set_option(&session, "tools", option).await;
        fixture.model.plan(Planned::new().text("yes"));
        client.prompt(&session, "which tools?").await;
        assert_eq!(tools(fixture.model.asked().last().unwrap()), expected, "{option}");
    }
}

#[tokio::test]
async fn a_tool_that_the_mode_does_not_have_is_refused_even_if_the_model_calls_it() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let (client, session) = fixture.session(Version::V2).await;
    answer(&client, "allow");
    client.set_option(&session, "mode", "ask").await;
    fixture.model.plan(Planned::new().call("write", &json!({"path": "a", "content": "x"})));
    fixture.model.plan(Planned::new().call("run", &json!({"command": "touch b"})));
    fixture.model.plan(Planned::new().text("sorry"));
    client.prompt(&session, "write").await;
    assert!(!fixture.work().join("a").exists() && !fixture.work().join("b").exists());
    assert_eq!(questions(&client), 0);
}

#[tokio::test]
async fn temperature_and_thinking_are_really_sent() {
    for kind in KINDS {
        let fixture = Fixture::offline();
        let mut provider = fixture.provider("mine", kind);
        provider.models = vec![ModelConfig {
            efforts: Some(vec![Effort::Low, Effort::High]),
            takes_temperature: Some(true),
            ..ModelConfig::new("loopback-1")
        }];
        fixture.providers.lock().unwrap().push(provider);
        let (client, session) = fixture.session(Version::V1).await;
        client.set_option(&session, "temperature", "low").await;
        fixture.model.plan(Planned::new().text("a"));
        client.prompt(&session, "one").await;
        let asked = fixture.model.asked();
        assert!(asked[0].body.to_string().contains("0.2"), "{kind:?}: {}", asked[0].body);
        client.set_option(&session, "thought_level", "high").await;
        fixture.model.plan(Planned::new().text("b"));
        client.prompt(&session, "two").await;
        let (plain, thinking) = (asked[0].body.to_string(), fixture.model.asked()[1].body.to_string());
        // As a name, a number of tokens, or a boolean.
        let says =
            |body: &str| ["\"high\"", "24000", "\"think\":true"].iter().any(|word| body.contains(word));
        assert!(!says(&plain) && says(&thinking), "{kind:?}: {plain}\n{thinking}");
    }
}

#[tokio::test]
async fn choices_stay_over_a_restart_and_reach_the_model() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        client.set_option(&session, "mode", "ask").await;
        client.set_option(&session, "temperature", "high").await;
        fixture.model.plan(Planned::new().text("a"));
        client.prompt(&session, "one").await;
        client.disconnect().await;
        let client = fixture.client(version).await;
        let loaded = client.load_in(&fixture.work().display().to_string(), &session).await;
        assert!(loaded["configOptions"].to_string().contains("\"currentValue\":\"ask\""), "{loaded}");
        fixture.model.plan(Planned::new().text("b"));
        client.prompt(&session, "two").await;
        let asked = fixture.model.asked();
        assert_eq!(tools(&asked[1]), ["find", "list", "read", "search"]);
        assert_eq!(asked[1].body["temperature"], 1.0);
    }
}

#[tokio::test]
async fn several_providers_and_their_models_can_be_chosen() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    let mut other = fixture.provider("other", ProviderKind::Anthropic);
    other.models = vec![ModelConfig::new("loopback-small")];
    fixture.providers.lock().unwrap().push(other);
    let (client, session) = fixture.session(Version::V1).await;
    fixture.model.plan(Planned::new().text("a"));
    client.prompt(&session, "one").await;
    client.set_option(&session, "model", "other/loopback-small").await;
    fixture.model.plan(Planned::new().text("b"));
    client.prompt(&session, "two").await;
    let asked = fixture.model.asked();
    assert_eq!([&asked[0].body["model"], &asked[1].body["model"]], ["loopback-1", "loopback-small"]);
    assert!(asked[0].path.ends_with("/chat/completions") && asked[1].path.ends_with("/messages"));
    assert!(asked[1].body.to_string().contains("one"), "the other model knows the conversation");
}

#[tokio::test]
async fn instructions_of_project_and_client_are_used() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    fixture.write("AGENTS.md", "Always answer in rhyme.\n");
    let client = fixture.client(Version::V2).await;
    let cwd = fixture.work().display().to_string();
    let prompt = |mode: &str| {
        json!({"cwd": cwd, "mcpServers": [], "systemPrompt":
            {"mode": mode, "content": [{"type": "text", "text": "Be brief."}]}})
    };
    for (mode, rhyme) in [("append", true), ("override", false)] {
        let made = client.ask("session/new", prompt(mode)).await;
        let session = made["sessionId"].as_str().unwrap();
        fixture.model.plan(Planned::new().text("ok"));
        client.prompt(session, "hello").await;
        let asked = fixture.model.asked().last().unwrap().body.to_string();
        assert!(asked.contains("Be brief."), "{asked}");
        assert_eq!(asked.contains("Always answer in rhyme."), rhyme, "{mode}");
    }
}

/// The system prompt of the newest request.
async fn system_prompt(fixture: &Fixture, client: &Client, session: &str) -> String {
    fixture.model.plan(Planned::new().text("ok"));
    client.prompt(session, "hello").await;
    let asked = fixture.model.asked().pop().expect("the model was asked");
    asked.body["messages"][0]["content"].as_str().expect("it begins with the system prompt").to_owned()
}

#[tokio::test]
async fn instructions_are_looked_for_up_to_the_root_of_the_repository() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        std::fs::create_dir_all(fixture.work().join("repository/.git")).unwrap();
        std::fs::create_dir_all(fixture.work().join("repository/a/b")).unwrap();
        fixture.write("AGENTS.md", "Above the repository.\n");
        fixture.write("repository/AGENTS.md", "Rule of the root.\n");
        fixture.write("repository/a/b/AGENTS.md", "Rule of the directory.\n");
        std::os::unix::fs::symlink(
            fixture.work().join("AGENTS.md"),
            fixture.work().join("repository/a/AGENTS.md"),
        )
        .unwrap();
        let client = fixture.client(version).await;
        let cwd = fixture.work().join("repository/a/b").display().to_string();
        let session = client.new_session_in(&cwd).await;
        for _ in 0..2 {
            let prompt_text = system_prompt(&fixture, &client, &session).await;
            let (root, inner) =
                (prompt_text.find("Rule of the root."), prompt_text.find("Rule of the directory."));
            assert!(root.is_some() && root < inner, "the nearer one comes last: {prompt_text}");
            assert!(!prompt_text.contains("Above the repository."), "{prompt_text}");
        }
        let messages = Value::from(client.server_messages()).to_string();
        assert_eq!(messages.matches("repository/a/AGENTS.md was skipped").count(), 1, "{messages}");
    }
}

#[tokio::test]
async fn long_instructions_are_cut_with_a_notice() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    fixture.providers.lock().unwrap()[0].models[0].context_window = None;
    fixture.write("AGENTS.md", &format!("Begin.\n{}End.\n", "a rule\n".repeat(10_000)));
    let (client, session) = fixture.session(Version::V2).await;
    let prompt_text = system_prompt(&fixture, &client, &session).await;
    assert!(prompt_text.contains("Begin.") && !prompt_text.contains("End."));
    assert!(prompt_text.contains("it is longer than 64 KiB"));
    let messages = Value::from(client.server_messages()).to_string();
    assert_eq!(messages.matches("AGENTS.md was cut: it is longer than 64 KiB").count(), 1);
}

#[tokio::test]
async fn the_system_prompt_says_where_the_model_works_and_what_commands_can_do() {
    let fixture = Fixture::with(ProviderKind::OpenAi);
    std::fs::create_dir_all(fixture.work().join(".git")).unwrap();
    fixture.write(".git/HEAD", "ref: refs/heads/topic\n");
    let (client, session) = fixture.session(Version::V2).await;
    let prompt_text = system_prompt(&fixture, &client, &session).await;
    let cwd = fixture.work().display().to_string();
    for word in [cwd.as_str(), "on branch topic", "Today is 20", std::env::consts::OS, "(UTC)"] {
        assert!(prompt_text.contains(word), "{word}: {prompt_text}");
    }
    assert!(prompt_text.contains("The tool run is not bound to these directories"), "{prompt_text}");
    client.set_option(&session, "mode", "ask").await;
    let prompt_text = system_prompt(&fixture, &client, &session).await;
    assert!(
        prompt_text.contains("You cannot run commands now.") && !prompt_text.contains("The tool run"),
        "{prompt_text}"
    );
}

#[tokio::test]
async fn a_provider_without_its_key_asks_for_it() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        {
            let mut providers = fixture.providers.lock().unwrap();
            providers[0].key = None;
            providers[0].base_url = None;
        }
        let client = fixture.client(version).await;
        let cwd = fixture.work().display().to_string();
        let refused = client.refused("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        assert_eq!(refused["code"], -32000);
        assert!(refused.to_string().contains("OPENAI_API_KEY"), "{refused}");
        let login = match version {
            Version::V1 => ("authenticate", json!({"methodId": "mine"})),
            Version::V2 => ("auth/login", json!({"methodId": "mine"})),
        };
        assert_eq!(client.refused(login.0, login.1.clone()).await["code"], -32000);
        *fixture.providers.lock().unwrap() = vec![fixture.provider("mine", ProviderKind::OpenAi)];
        client.ask(login.0, login.1).await;
        let session = client.new_session_in(&cwd).await;
        fixture.model.plan(Planned::new().text("hi"));
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
        let fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.providers.lock().unwrap()[0].models.push(ModelConfig {
            efforts: Some(vec![Effort::Low, Effort::High]),
            ..ModelConfig::new("loopback-2")
        });
        let (client, session) = fixture.session(version).await;
        client.set_option(&session, "model", "mine/loopback-2").await;
        client.set_option(&session, "thought_level", "high").await;
        fixture.model.plan(Planned::new().text("a"));
        client.prompt(&session, "one").await;
        client.disconnect().await;
        let client = fixture.client(version).await;
        client.load_in(&fixture.work().display().to_string(), &session).await;
        fixture.model.plan(Planned::new().text("b"));
        client.prompt(&session, "two").await;
        for asked in fixture.model.asked() {
            assert_eq!(asked.body["model"], "loopback-2");
            assert_eq!(asked.body["reasoning_effort"], "high", "{}", asked.body);
        }
    }
}

#[tokio::test]
async fn options_that_change_in_a_turn_hold_from_the_next_question_on() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        fixture.providers.lock().unwrap()[0].models.push(ModelConfig::new("loopback-2"));
        let (client, session) = fixture.session(version).await;
        client.on("session/request_permission", |_| None);
        fixture.model.plan(Planned::new().call("write", &json!({"path": "a", "content": "x"})));
        fixture.model.plan(Planned::new().text("done"));
        let prompt = client.begin_prompt(&session, "write").await;
        client.wait_method("session/request_permission").await;
        client.set_option(&session, "model", "mine/loopback-2").await;
        client.set_option(&session, "mode", "ask").await;
        assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn");
        let asked = fixture.model.asked();
        assert_eq!([&asked[0].body["model"], &asked[1].body["model"]], ["loopback-1", "loopback-2"]);
        assert_eq!(tools(&asked[1]), ["find", "list", "read", "search"]);
    }
}

/// Pending calls of the model, one with an open question and one that "always" covers.
#[tokio::test]
async fn a_stricter_setting_holds_at_once_for_calls_that_wait() {
    for (option, value) in [("mode", "ask"), ("mode", "architect"), ("tools", "read-only")] {
        for version in [Version::V1, Version::V2] {
            let fixture = Fixture::with(ProviderKind::OpenAi);
            let (client, session) = fixture.session(version).await;
            answer(&client, "allow_always");
            client.prompt(&session, "/run touch always").await;
            std::fs::remove_file(fixture.work().join("always")).unwrap();
            client.on("session/request_permission", |_| None);
            fixture.model.plan(
                Planned::new()
                    .call("write", &json!({"path": "a", "content": "x"}))
                    .call("run", &json!({"command": "touch always"}))
                    .call("run", &json!({"command": "touch asked"})),
            );
            fixture.model.plan(Planned::new().text("done"));
            let mark = client.mark();
            let prompt = client.begin_prompt(&session, "work").await;
            let is_question = |message: &Value| message["method"] == "session/request_permission";
            let asked = client.wait_since(mark, "the question", is_question).await;
            client.set_option(&session, option, value).await;
            // The question is withdrawn; a late answer has no effect.
            let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_always"}});
            client.reply(&asked["id"], Ok(allow)).await;
            assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn", "{option} {version:?}");
            for name in ["a", "always", "asked"] {
                assert!(!fixture.work().join(name).exists(), "{option} {version:?}: {name}");
            }
            let questions =
                client.server_messages_since(mark).iter().filter(|message| is_question(message)).count();
            assert_eq!(questions, 1, "{option} {version:?}: nothing more is asked");
            let prompt_text = fixture.model.asked().last().unwrap().body.to_string();
            assert_eq!(prompt_text.matches("do not allow").count(), 3, "{option} {version:?}: {prompt_text}");
            // No rule was stored.
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
async fn a_question_is_withdrawn_when_a_setting_forbids_its_call() {
    for version in [Version::V1, Version::V2] {
        let fixture = Fixture::with(ProviderKind::OpenAi);
        let (client, session) = fixture.session(version).await;
        client.on("session/request_permission", |_| None);
        fixture.model.plan(Planned::new().call("run", &json!({"command": "touch a"})));
        fixture.model.plan(Planned::new().text("done"));
        let prompt = client.begin_prompt(&session, "work").await;
        client.wait_method("session/request_permission").await;
        client.set_option(&session, "mode", "ask").await;
        // No client answers.
        assert_eq!(client.finish(&session, &prompt).await.stop, "end_turn", "{version:?}");
        assert!(!fixture.work().join("a").exists());
    }
}

/// The current values of the options `mode` and `model`.
fn current(answer: &Value) -> Vec<&Value> {
    let options = answer["configOptions"].as_array().expect("there are options");
    let of = |id: &str| options.iter().find(|option| option["configId"] == id).map(|o| &o["currentValue"]);
    ["mode", "model"].into_iter().filter_map(of).collect()
}

#[tokio::test]
async fn new_sessions_begin_with_the_configured_defaults() {
    let mut fixture = Fixture::with(ProviderKind::OpenAi);
    let mut other = fixture.provider("other", ProviderKind::OpenAi);
    other.models = vec![ModelConfig::new("a"), ModelConfig::new("b")];
    fixture.providers.lock().unwrap().push(other);
    let tools = ServerConfig::Stdio {
        name: "t".to_owned(),
        command: program::path().display().to_string(),
        args: Vec::new(),
        env: Vec::new(),
    };
    fixture.defaults = AssistantDefaults {
        model: Some("other/b".to_owned()),
        mode: Some(Mode::Ask),
        servers: vec![tools.clone()],
    };
    let client = fixture.client(Version::V2).await;
    let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": []});
    let made = client.ask("session/new", params).await;
    assert_eq!(current(&made), ["ask", "other/b"]);
    let session = made["sessionId"].as_str().unwrap();
    client.prompt(session, "/tools").await;
    let said = Value::from(client.updates(session)).to_string();
    assert!(said.contains("t.echo"), "the server of the configuration is connected: {said}");
    // What the user chooses lasts, also if the defaults change.
    client.set_option(session, "mode", "code").await;
    client.prompt(session, "/tools").await;
    client.ask("session/close", json!({"sessionId": session})).await;
    fixture.defaults = AssistantDefaults { mode: Some(Mode::Architect), ..AssistantDefaults::default() };
    let again = fixture.client(Version::V2).await;
    let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": []});
    assert_eq!(current(&again.ask("session/new", params.clone()).await), ["architect", "mine/loopback-1"]);
    let mut load = params;
    load["sessionId"] = json!(session);
    let loaded = again.ask("session/resume", load).await;
    assert_eq!(current(&loaded), ["code", "other/b"]);
}

#[tokio::test]
async fn a_default_model_without_a_key_or_a_provider_does_not_stand_in_the_way() {
    let mut fixture = Fixture::with(ProviderKind::OpenAi);
    for model in ["nobody/x", "no-slash", ""] {
        fixture.defaults.model = Some(model.to_owned());
        let client = fixture.client(Version::V2).await;
        let params = json!({"cwd": fixture.work().display().to_string(), "mcpServers": []});
        assert_eq!(current(&client.ask("session/new", params).await), ["code", "mine/loopback-1"], "{model}");
    }
}

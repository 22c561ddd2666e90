//! The built-in assistant as the program that an editor runs: `rethread acp` with nothing behind it.

use std::time::Instant;

use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::kept;
use rethread_testkit::model::{ModelServer, Planned};
use rethread_testkit::processes::assert_gone_by;
use rethread_testkit::program::{Home, Program};
use serde_json::{Value, json};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_rethread"))
}

async fn assistant(home: &Home, version: Version) -> Program {
    let program = Program::start(home.command(&["acp"]), version);
    program.client.initialize().await;
    program
}

fn cwd(home: &Home) -> String {
    home.beside().display().to_string()
}

fn allow(client: &Client) {
    client.on("session/request_permission", |_| {
        Some(Ok(json!({"outcome": {"outcome": "selected", "optionId": "allow"}})))
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_with_nothing_else_installed_and_survives_kill_nine() {
    for version in VERSIONS {
        let home = home();
        let mut program = assistant(&home, version).await;
        let session = program.client.new_session_in(&cwd(&home)).await;
        assert_eq!(program.client.prompt(&session, "/stream 20").await.stop, "end_turn");
        program.client.begin_prompt(&session, "/stream 100000 1").await;
        let said =
            |update: &Value| update["content"]["text"].as_str().is_some_and(|text| text.contains("word 30"));
        program.client.wait_update(0, &session, "the stream", said).await;
        program.kill().await;
        let shown = kept::shown(&program.client, &session);
        let next = assistant(&home, version).await;
        next.client.load_in(&cwd(&home), &session).await;
        let loaded = next.client.view(&session);
        kept::check(&shown, &loaded).expect("all that was shown is there");
        assert_eq!(next.client.prompt(&session, "/think on").await.stop, "end_turn");
    }
}

/// Sets up one provider of this kind at the model server.
fn configure(home: &Home, kind: &str, model: &ModelServer, key: &str) -> std::path::PathBuf {
    std::fs::create_dir_all(home.path()).expect("the home can be made");
    let config = format!(
        "[[provider]]\nname = \"mine\"\nkind = \"{kind}\"\nbase_url = \"http://127.0.0.1:{}\"\nkey = \"{key}\"\n\
         [[provider.models]]\nid = \"loopback-1\"\n",
        model.port()
    );
    let file = home.path().join("config.toml");
    std::fs::write(&file, config).expect("the home can be written");
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_was_killed_is_the_same_for_the_user_and_the_model() {
    for kind in ["openai", "openai-responses", "anthropic", "gemini", "ollama"] {
        for version in VERSIONS {
            let (home, model) = (home(), ModelServer::start());
            configure(&home, kind, &model, "a-key");
            std::fs::write(home.beside().join("a.txt"), "the word is plum\n").unwrap();
            let mut program = assistant(&home, version).await;
            let session = program.client.new_session_in(&cwd(&home)).await;
            model.plan(Planned::new().text("Let me look.").call("read", &json!({"path": "a.txt"})));
            model.plan(Planned::new().text("It is plum."));
            assert_eq!(program.client.prompt(&session, "which word?").await.stop, "end_turn", "{kind}");
            model.plan(Planned::new().text("A plum is ").stalls());
            program.client.begin_prompt(&session, "what is that?").await;
            let said = |update: &Value| update["content"]["text"] == "A plum is ";
            program.client.wait_update(0, &session, "the first words", said).await;
            program.kill().await;
            let shown = kept::shown(&program.client, &session);

            let next = assistant(&home, version).await;
            next.client.load_in(&cwd(&home), &session).await;
            let loaded = next.client.view(&session);
            kept::check(&shown, &loaded).unwrap_or_else(|missing| panic!("{kind}: {missing}"));
            model.plan(Planned::new().text("a fruit."));
            assert_eq!(next.client.prompt(&session, "go on").await.stop, "end_turn", "{kind}");
            let asked = model.asked();
            let (live, restored) = (asked[2].messages(), asked[3].messages());
            assert_eq!(live[..], restored[..live.len()], "{kind}: the model gets the same history");
            assert!(
                Value::from(restored).to_string().contains("A plum is "),
                "{kind}: and what it said last"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_of_the_configuration_is_used_and_its_key_is_written_nowhere() {
    let (home, model) = (home(), ModelServer::start());
    let key = "sk-nobody-may-see-this-0123456789";
    let file = configure(&home, "openai", &model, key);
    let mut program = assistant(&home, Version::V1).await;
    let session = program.client.new_session_in(&cwd(&home)).await;
    allow(&program.client);
    model.plan(Planned::new().text("Hello.").call("run", &json!({"command": "env"})));
    model.plan(Planned::new().text("Done."));
    assert_eq!(program.client.prompt(&session, "hello").await.stop, "end_turn");
    assert_eq!(model.asked()[0].header("authorization"), Some(format!("Bearer {key}").as_str()));
    model.plan(Planned::status(401, json!({"error": {"message": format!("{key} is not valid")}})));
    program.client.begin_prompt(&session, "again").await;
    program.client.wait("the error", |message| message.get("error").is_some()).await;
    program.kill().await;
    let heard = Value::from(program.client.server_messages()).to_string();
    assert!(!heard.contains(key));
    std::fs::remove_file(file).unwrap();
    for path in files(&home.path()) {
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!found, "{} has the key", path.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_the_environment_are_out_of_reach_for_commands() {
    let (home, model) = (home(), ModelServer::start());
    let keys = ["sk-usual-0123456789", "sk-named-0123456789"];
    std::fs::create_dir_all(home.path()).expect("the home can be made");
    let url = format!("http://127.0.0.1:{}", model.port());
    let config = format!(
        "[[provider]]\nname = \"mine\"\nkind = \"openai\"\nbase_url = \"{url}\"\nkey_env = \"MY_KEY\"\n\
         [[provider.models]]\nid = \"loopback-1\"\n"
    );
    std::fs::write(home.path().join("config.toml"), config).expect("the home can be written");
    let mut command = home.command(&["acp"]);
    command.env("ANTHROPIC_API_KEY", keys[0]).env("ANTHROPIC_BASE_URL", &url).env("MY_KEY", keys[1]);
    let program = Program::start(command, Version::V2);
    program.client.initialize().await;
    let session = program.client.new_session_in(&cwd(&home)).await;
    allow(&program.client);
    // What the system shows of every process above it, and of its own.
    let look = "pid=$$; while [ \"$pid\" -gt 1 ]; do echo \"at $pid\"; tr '\\0' '\\n' < /proc/$pid/environ | grep sk-; \
        pid=$(sed 's/.*) . \\([0-9]*\\) .*/\\1/' /proc/$pid/stat); [ \"$pid\" = STOP ] && break; done; env; echo looked";
    let look = look.replace("STOP", &std::process::id().to_string());
    model.plan(Planned::new().call("run", &json!({"command": look})));
    model.plan(Planned::new().text("Done."));
    assert_eq!(program.client.prompt(&session, "look").await.stop, "end_turn");
    let asked = model.asked();
    assert_eq!(asked[0].header("authorization"), Some(format!("Bearer {}", keys[1]).as_str()), "it is used");
    let heard =
        Value::from(asked.last().map(|asked| asked.messages().to_vec()).unwrap_or_default()).to_string();
    assert!(heard.contains("looked"), "{heard}");
    for key in keys {
        assert!(!heard.contains(key), "{heard}");
    }
}

/// What a process that was started has written of its environment.
async fn environment_in(file: &std::path::Path) -> String {
    let deadline = Instant::now() + rethread_testkit::DEADLINE;
    while !file.exists() {
        assert!(Instant::now() < deadline, "{} is written", file.display());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    std::fs::read_to_string(file).expect("it is text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_and_mcp_servers_get_no_variables_of_rethread_or_of_a_database() {
    let (home, model) = (home(), ModelServer::start());
    configure(&home, "openai", &model, "sk-0123456789");
    let mut command = home.command(&["acp"]);
    for name in ["RETHREAD_TOKEN", "RETHREAD_STORE_OF_OTHERS", "PGPASSWORD", "PGHOST", "DATABASE_URL"] {
        command.env(name, "a secret of the server");
    }
    command.env("KEPT", "yes");
    let program = Program::start(command, Version::V1);
    program.client.initialize().await;
    allow(&program.client);
    let writes = |name: &str| {
        let file = home.beside().join(name);
        (format!("env > {0}.part && mv {0}.part {0}", file.display()), file)
    };
    let ((of_server, server_file), (of_command, command_file)) = (writes("server"), writes("command"));
    let server = json!({"name": "s", "command": "sh", "args": ["-c", of_server], "env": []});
    let params = json!({"cwd": cwd(&home), "mcpServers": [server]});
    let session = program.client.ask("session/new", params).await["sessionId"].clone();
    let session = session.as_str().expect("an id").to_owned();
    model.plan(Planned::new().call("run", &json!({"command": of_command})));
    model.plan(Planned::new().text("Done."));
    assert_eq!(program.client.prompt(&session, "write").await.stop, "end_turn");
    for file in [server_file, command_file] {
        let environment = environment_in(&file).await;
        assert!(environment.contains("KEPT=yes"), "{environment}");
        assert!(
            !environment.contains("a secret of the server") && !environment.contains("RETHREAD_"),
            "{environment}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_with_its_keys_is_closed_to_the_tools() {
    let (home, model) = (home(), ModelServer::start());
    let key = "sk-nobody-may-see-this-0123456789";
    let file = configure(&home, "openai", &model, key);
    std::os::unix::fs::symlink(&file, home.path().join("link")).unwrap();
    std::fs::hard_link(&file, home.path().join("copy")).unwrap();
    let program = assistant(&home, Version::V2).await;
    let session = program.client.new_session_in(&home.path().display().to_string()).await;
    allow(&program.client);
    let mut calls = Planned::new().call("search", &json!({"pattern": "sk-.*", "all": true}));
    for name in ["config.toml", "link", "copy"] {
        calls = calls
            .call("read", &json!({"path": name}))
            .call("search", &json!({"pattern": "sk-.*", "path": name}))
            .call("edit", &json!({"path": name, "old": "openai", "new": "ollama"}))
            .call("write", &json!({"path": name, "content": "mine"}));
    }
    model.plan(calls);
    model.plan(Planned::new().text("Done."));
    assert_eq!(program.client.prompt(&session, "look").await.stop, "end_turn");
    assert!(std::fs::read_to_string(&file).unwrap().contains("openai"), "nothing is written");
    let asked = model.asked();
    let heard =
        Value::from(asked.last().map(|asked| asked.messages().to_vec()).unwrap_or_default()).to_string();
    assert_eq!(heard.matches("it holds keys, and no tool may use it").count(), 12, "{heard}");
    assert!(!heard.contains(key), "{heard}");
    assert!(!Value::from(program.client.server_messages()).to_string().contains(key));
}

/// The resident memory of a program, in KiB.
#[cfg(target_os = "linux")]
fn resident(program: &Program) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel tells it");
    line.trim().trim_end_matches(" kB").parse().expect("it is a number")
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_by_what_the_model_is_given_and_not_by_the_session() {
    const TURNS: usize = 40;
    let (home, model) = (home(), ModelServer::start());
    let file = configure(&home, "openai", &model, "a-key");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{config}context_window = 100000\n")).unwrap();
    std::fs::write(home.beside().join("big.txt"), "a line of a big file\n".repeat(3_000)).unwrap();
    let program = assistant(&home, Version::V2).await;
    let session = program.client.new_session_in(&cwd(&home)).await;
    let mut early = 0;
    for turn in 0..TURNS {
        let look = json!({"path": "big.txt"});
        model.plan(Planned::new().text("Let me look.").call("read", &look).call("read", &look));
        model.plan(Planned::new().text("Done."));
        program.client.prompt(&session, "look").await;
        if turn == TURNS / 4 {
            early = resident(&program);
        }
    }
    let late = resident(&program);
    let asked = model.asked();
    let sizes: Vec<_> = asked.iter().map(|asked| asked.body.to_string().len()).collect();
    assert!(asked.iter().any(|asked| asked.body["tools"].is_null()), "it was summed up: {sizes:?}");
    assert!(sizes.iter().max() > Some(&100_000), "there was much to read: {sizes:?}");
    // Four times as many turns.
    assert!(late < early * 3 / 2, "{early} KiB grew to {late} KiB");
}

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the home can be read").flatten();
    let below = |path: std::path::PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

/// The process ids that a command has written to a file.
async fn written(file: &std::path::Path) -> Vec<i32> {
    for _ in 0..1000 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let pids: Vec<i32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        if pids.len() >= 2 {
            return pids;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("nothing was written to {}", file.display());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_outlives_it() {
    for end in ["kill", "cancel", "end of input"] {
        let home = home();
        let mut program = assistant(&home, Version::V2).await;
        let session = program.client.new_session_in(&cwd(&home)).await;
        allow(&program.client);
        let prompt = program.client.begin_prompt(&session, "/run sleep 1000 & echo $! $$ > pids; wait").await;
        let pids = written(&home.beside().join("pids")).await;
        let ended = Instant::now();
        match end {
            "kill" => program.kill().await,
            "cancel" => {
                program.client.cancel(&session).await;
                assert_eq!(program.client.finish(&session, &prompt).await.stop, "cancelled");
            }
            _ => {
                program.client.disconnect().await;
                program.exited().await;
            }
        }
        assert_gone_by(ended + std::time::Duration::from_secs(2), &pids, end).await;
    }
}

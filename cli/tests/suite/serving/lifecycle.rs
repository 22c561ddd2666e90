//! The life of a server: it starts once per store, says how it is, reads its configuration again, and ends in order.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::DEADLINE;
use rethread_testkit::processes::signal;
use rethread_testkit::program::ServerProgram;
use serde_json::{Value, json};

use super::{home, run, stderr, stdout};

#[tokio::test]
async fn a_server_listens_on_a_private_socket_says_how_it_is_and_stops() {
    let home = home();
    let server = home.serve(&[]).await;
    let socket = server.socket();
    let mode = |path: &std::path::Path| fs::symlink_metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().expect("it has a folder"))), (0o600, 0o700));

    let status = run(&home, &["serve", "--status", "--json"]).await;
    let status: Value = serde_json::from_slice(&status.stdout).expect("it is JSON");
    assert_eq!(status["state"], "running");
    assert_eq!(status["pid"], server.pid());
    assert_eq!(status["addresses"], json!([format!("unix:{}", socket.display())]));
    assert_eq!(status["sessions"], json!({"open": 0, "running": 0, "waiting": 0}));

    let stopped = run(&home, &["serve", "--stop"]).await;
    assert_eq!(stdout(&stopped), format!("Stopped the server in process {}.\n", server.pid()));
    assert_eq!(server.exited().await, (Some(0), String::new()));
    assert!(!socket.exists());
    for argument in ["--status", "--stop"] {
        let output = run(&home, &["serve", argument]).await;
        assert_eq!(output.status.code(), Some(3), "{argument}: {}", stderr(&output));
        assert!(stderr(&output).contains("no server runs for this store"), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn a_second_server_is_told_who_serves_the_store() {
    let home = home();
    let first = home.serve(&[]).await;
    let second = run(&home, &["serve"]).await;
    assert_eq!(second.status.code(), Some(4));
    let said = stderr(&second);
    assert!(said.contains(&format!("process {}", first.pid())), "{said}");
    assert!(said.contains(&first.addresses[0]), "{said}");
    assert!(run(&home, &["serve", "--status"]).await.status.success(), "the first one goes on");
}

#[tokio::test]
async fn what_a_killed_server_left_is_replaced() {
    let home = home();
    let first = home.serve(&[]).await;
    let socket = first.socket();
    signal(first.pid(), libc::SIGKILL);
    first.exited().await;
    assert!(socket.exists(), "a killed process removes nothing");
    assert_eq!(run(&home, &["serve", "--status"]).await.status.code(), Some(3));
    let second = home.serve(&[]).await;
    assert_eq!(second.socket(), socket);
    assert!(run(&home, &["serve", "--status"]).await.status.success());
}

#[tokio::test]
async fn a_socket_can_be_named_and_must_be_private() {
    let home = home();
    let folder = home.beside().join("mine");
    fs::create_dir(&folder).expect("a folder can be made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let socket = folder.join("s.sock").display().to_string();
    let refused = run(&home, &["serve", "--socket", &socket]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("its mode is 755, not 700"), "{}", stderr(&refused));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let server = home.serve(&["--socket", &socket]).await;
    assert_eq!(server.addresses, [format!("unix:{socket}")]);
    assert!(run(&home, &["serve", "--status"]).await.status.success(), "it is found without its name");
}

#[tokio::test]
async fn the_socket_is_in_the_runtime_folder_or_in_a_short_one() {
    let home = home();
    let below = |name: &str| home.beside().join(name);
    fs::create_dir(below("run")).expect("a folder can be made");
    let command = |args: &[&str]| {
        let mut command = home.command(args);
        command.env_remove("RETHREAD_HOME").env("XDG_RUNTIME_DIR", below("run"));
        command.env("XDG_DATA_HOME", below("data")).env("XDG_STATE_HOME", below("state"));
        command.env("XDG_CONFIG_HOME", below("config"));
        command
    };
    let server = ServerProgram::start(command(&["serve", "--listen", "off"])).await;
    assert_eq!(server.socket().parent(), Some(below("run/rethread").as_path()));
    let status = command(&["serve", "--status"]).output().await.expect("it runs");
    assert!(status.status.success(), "{}", stderr(&status));
    // Two servers of one runtime folder, each with its own store.
    let mut other = command(&["serve", "--listen", "off"]);
    other.env("XDG_DATA_HOME", below("other")).env("XDG_STATE_HOME", below("other-state"));
    let other = ServerProgram::start(other).await;
    assert_eq!(other.socket().parent(), server.socket().parent());
    assert_ne!(other.socket(), server.socket());

    let long = below(&"x".repeat(100));
    let mut command = home.command(&["serve", "--listen", "off"]);
    command.env("RETHREAD_HOME", &long);
    let server = ServerProgram::start(command).await;
    let socket = server.socket();
    assert!(socket.as_os_str().len() <= 100 && !socket.starts_with(&long), "{}", socket.display());
    assert_eq!(fs::metadata(socket.parent().expect("a folder")).expect("it exists").mode() & 0o777, 0o700);
    let mut status = home.command(&["serve", "--status"]);
    let status = status.env("RETHREAD_HOME", &long).output().await.expect("it runs");
    assert!(status.status.success(), "{}", stderr(&status));
}

#[tokio::test]
async fn a_server_that_stops_lets_a_turn_finish_and_takes_no_new_one() {
    let home = home();
    let server = home.serve(&[]).await;
    let program = home.ready(Version::V1, Version::V1).await;
    let (session, other) = (program.client.new_session().await, program.client.new_session().await);
    let request = program.client.begin_prompt(&session, "say one; slow 200").await;
    let said = |update: &Value| update["content"]["text"] == "one";
    program.client.wait_update(0, &session, "one", said).await;
    signal(server.pid(), libc::SIGTERM);

    let deadline = Instant::now() + DEADLINE;
    let error = loop {
        let prompt = json!({"sessionId": other, "prompt": [{"type": "text", "text": "say no"}]});
        if let Err(error) = program.client.request("session/prompt", prompt).await {
            break error;
        }
        assert!(Instant::now() < deadline, "new work is refused");
    };
    assert!(error["message"].as_str().is_some_and(|text| text.contains("stopping")), "{error}");
    assert_eq!(program.client.finish(&session, &request).await.stop, "end_turn");
    assert_eq!(server.exited().await.0, Some(0));
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_ended_and_its_agent_with_it() {
    let home = home();
    fs::create_dir_all(home.path()).expect("a folder can be made");
    fs::write(home.path().join("config.toml"), "[serve]\nstop_seconds = 600\n").expect("it can be written");
    let server = home.serve(&[]).await;
    let program = home.ready(Version::V2, Version::V1).await;
    let session = program.client.new_session().await;
    program.client.begin_prompt(&session, "say one; hang").await;
    let said = |update: &Value| update["content"]["text"] == "one";
    program.client.wait_update(0, &session, "one", said).await;

    // A wrong file changes nothing, a right one does.
    fs::write(home.path().join("config.toml"), "[serve]\nstop_second = 0\n").expect("it can be written");
    signal(server.pid(), libc::SIGHUP);
    tokio::time::sleep(Duration::from_millis(300)).await;
    fs::write(home.path().join("config.toml"), "[serve]\nstop_seconds = 0\n").expect("it can be written");
    signal(server.pid(), libc::SIGHUP);
    tokio::time::sleep(Duration::from_millis(300)).await;
    signal(server.pid(), libc::SIGTERM);
    let (code, said) = server.exited().await;
    assert_eq!(code, Some(0));
    assert!(said.contains("stop_second"), "{said}");

    // What was shown is there, and the turn has ended.
    let again = home.ready(Version::V2, Version::V1).await;
    again.client.load(&session).await;
    assert_eq!(again.client.view(&session).agent(), ["one"]);
}

/// Writes a session of Claude Code, as one that was changed an hour ago.
fn claude_session(folder: &std::path::Path, number: u32) -> String {
    let id = format!("33333333-0000-4000-8000-{number:012}");
    let record = |kind: &str, parent: Value, message: Value| {
        let record = json!({"type": kind, "uuid": kind, "parentUuid": parent, "sessionId": id, "cwd": "/w",
            "version": "2.1.239", "timestamp": "2026-03-04T10:00:00.000Z", "message": message});
        format!("{record}\n")
    };
    let answer = json!([{"type": "text", "text": "an answer"}]);
    let text = record("user", Value::Null, json!({"role": "user", "content": format!("question {number}")}))
        + &record(
            "assistant",
            json!("user"),
            json!({"id": "m", "role": "assistant", "model": "m", "content": answer, "stop_reason": "end_turn"}),
        );
    fs::create_dir_all(folder.join("projects/-w")).expect("a folder can be made");
    let path = folder.join("projects/-w").join(format!("{id}.jsonl"));
    fs::write(&path, text).expect("it can be written");
    let file = fs::File::options().write(true).open(&path).expect("it can be opened");
    let hour = Duration::from_secs(3600);
    file.set_modified(std::time::SystemTime::now() - hour).expect("the time can be set");
    id
}

#[tokio::test]
async fn a_server_imports_what_the_tools_in_its_configuration_write() {
    let home = home();
    let tool = home.path().join("tool");
    let config = |text: &str| fs::write(home.path().join("config.toml"), text).expect("it can be written");
    let listed = async |id: &str| {
        let listed = run(&home, &["list", "--all", "--json"]).await;
        let listed: Value = serde_json::from_slice(&listed.stdout).expect("it is JSON");
        listed["sessions"].as_array().is_some_and(|rows| rows.iter().any(|row| row["id"] == id))
    };
    let comes = async |id: &str| {
        let deadline = Instant::now() + DEADLINE;
        while !listed(id).await {
            assert!(Instant::now() < deadline, "{id} is imported");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let first = claude_session(&tool, 1);
    config("[import]\nwatch = [\"codex\"]\n");
    let mut command = home.command(&["serve", "--listen", "off"]);
    command.env("CLAUDE_CONFIG_DIR", &tool).env("CODEX_HOME", home.path().join("none"));
    let server = ServerProgram::start(command).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!listed(&first).await, "this tool is not followed");

    config("[import]\nwatch = [\"claude\"]\n");
    signal(server.pid(), libc::SIGHUP);
    comes(&first).await;
    comes(&claude_session(&tool, 2)).await;
    assert!(run(&home, &["serve", "--stop"]).await.status.success());
    assert_eq!(server.exited().await.0, Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_a_server_at_once() {
    let home = home();
    let server = home.serve(&["--stop-seconds", "600"]).await;
    let program = home.ready(Version::V1, Version::V2).await;
    let session = program.client.new_session().await;
    program.client.begin_prompt(&session, "say one; hang").await;
    let said = |update: &Value| update["content"]["text"] == "one";
    program.client.wait_update(0, &session, "one", said).await;
    signal(server.pid(), libc::SIGTERM);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(run(&home, &["serve", "--status"]).await.status.success(), "it waits for the turn");
    signal(server.pid(), libc::SIGTERM);
    assert_eq!(server.exited().await.0, Some(0));
}

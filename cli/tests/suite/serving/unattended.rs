//! Sessions of a server without clients: they are kept, wait with their questions, and are closed when they have been idle.
//! A chat that has to log in does so through the server.

use std::time::Duration;

use rethread::edge::Version;
use rethread_testkit::DEADLINE;
use rethread_testkit::program::Home;
use serde_json::{Value, json};

use super::{home, run};
use crate::pseudo_terminal::OnTerminal;

/// Two seconds, in minutes.
const IDLE: [&str; 2] = ["--idle-minutes", "0.034"];

async fn sessions(home: &Home) -> Value {
    let status = run(home, &["serve", "--status", "--json"]).await;
    let status: Value = serde_json::from_slice(&status.stdout).expect("it is JSON");
    status["sessions"].clone()
}

/// Waits until the server says this of its sessions.
async fn becomes(home: &Home, expected: Value) {
    let waiting = async {
        while sessions(home).await != expected {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(4 * DEADLINE, waiting).await;
    assert!(waited.is_ok(), "{} instead of {expected}", sessions(home).await);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_session_without_clients_is_kept_and_closed_when_it_is_idle() {
    use rethread_testkit::processes::{assert_gone_by, descendants_of};
    use std::time::Instant;
    let home = home();
    let server = home.serve(&IDLE).await;
    let mut editor = home.ready(Version::V1, Version::V1).await;
    let session = editor.client.new_session().await;
    editor.client.prompt(&session, "say one").await;
    editor.client.begin_prompt(&session, "slow 100; say two").await;
    let begun =
        |update: &Value| update["content"]["text"].as_str().is_some_and(|text| text.starts_with("c1"));
    editor.client.wait_update(0, &session, "the turn", begun).await;
    editor.kill().await;
    assert_eq!(sessions(&home).await["open"], 1, "it is kept");
    let agents = descendants_of(server.pid());
    assert!(!agents.is_empty());
    becomes(&home, json!({"open": 0, "running": 0, "waiting": 0})).await;
    assert_gone_by(Instant::now() + 2 * DEADLINE, &agents, "the agent").await;
    // Another process can have it.
    let shown = run(&home, &["move", &session, &home.beside().display().to_string()]).await;
    assert!(shown.status.success(), "nobody owns it");
    let again = home.ready(Version::V2, Version::V1).await;
    again.client.load_in(&home.beside().display().to_string(), &session).await;
    assert_eq!(again.client.view(&session).agent().last().map(String::as_str), Some("two"));
}

#[tokio::test]
async fn an_unattended_question_waits_for_longer_than_an_idle_session() {
    for version in [Version::V1, Version::V2] {
        let home = home();
        let _server = home.serve(&IDLE).await;
        let mut editor = home.ready(version, Version::V1).await;
        editor.client.on("session/request_permission", |_| None);
        let session = editor.client.new_session().await;
        editor.client.begin_prompt(&session, "say one; permit; say two").await;
        editor.client.wait_method("session/request_permission").await;
        editor.kill().await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(sessions(&home).await, json!({"open": 1, "running": 0, "waiting": 1}));
        let next = home.ready(version, Version::V1).await;
        next.client.load(&session).await;
        let said = |update: &Value| update["content"]["text"] == "two";
        next.client.wait_update(0, &session, "two", said).await;
    }
}

#[tokio::test]
async fn an_attached_session_that_is_idle_is_used_again() {
    let home = home();
    let _server = home.serve(&IDLE).await;
    let editor = home.ready(Version::V1, Version::V2).await;
    let session = editor.client.new_session().await;
    editor.client.prompt(&session, "say one").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(editor.client.prompt(&session, "say two").await.stop, "end_turn");
    assert_eq!(editor.client.view(&session).agent(), ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_logs_in_through_the_server() {
    for (by_program, protocol) in [(true, "1"), (true, "2"), (false, "1"), (false, "2")] {
        let home = home();
        let _server = home.serve(&[]).await;
        let file = home.beside().join("logged-in").display().to_string();
        let agent = rethread_testkit::program::example("scripted_agent").display().to_string();
        let words = ["chat", "--", &agent, "--login-file", &file, "--protocol", protocol];
        let mut command = home.command(&words);
        command.env("TERM", "xterm-256color").current_dir(home.beside());
        let mut chat = OnTerminal::start(command);
        chat.screen_with("Log in with:");
        if by_program {
            chat.screen_with("In the terminal");
            chat.types("terminal\r");
            chat.screen_with("Password:");
            chat.types("open\r");
        } else {
            chat.screen_with("A key");
            chat.types("\r");
        }
        chat.screen_with("/help shows");
        chat.types("say in\r");
        chat.prompt_after("\n\nin\n", "\n›");
        assert_eq!(sessions(&home).await["open"], 1, "it is a session of the server");
    }
}

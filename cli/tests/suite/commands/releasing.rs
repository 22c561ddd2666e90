//! `rethread release`, against running processes.

use std::time::{Duration, Instant};

use expect_test::expect;
use rethread::edge::Version;
use rethread_testkit::processes::signal;
use serde_json::{Value, json};

use super::stored::{Made, turns};
use super::{Said, Shell};

/// Runs the command on another thread: the client of the test must go on reading.
async fn run(shell: &Shell, args: &[&str]) -> Said {
    let output = shell.command(args).output().await.expect("it runs");
    let text = |bytes: Vec<u8>| shell.normalized(&String::from_utf8(bytes).expect("UTF-8"));
    Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Replaces the process id and the host.
fn anonymous(text: &str, pid: i32) -> String {
    let text = text.replace(&pid.to_string(), "PID");
    let mut lines = text.lines().map(|line| line.split(" on ").next().unwrap_or_default().to_owned());
    lines.by_ref().map(|line| line + "\n").collect()
}

#[tokio::test]
async fn an_idle_session_is_released_and_the_process_goes_on() {
    for version in [Version::V1, Version::V2] {
        let shell = Shell::new();
        let program = shell.home.ready(version, Version::V1).await;
        let (client, session) = (&program.client, program.client.new_session().await);
        client.prompt(&session, "say one").await;
        let other = client.new_session().await;
        client.prompt(&other, "say other").await;
        client.ask("session/set_title", json!({"sessionId": session, "title": "Mine"})).await;
        let mark = client.mark();
        let start = Instant::now();
        let said = run(&shell, &["release", &session]).await;
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{}", said.stdout);
        expect![[r#"
            Process PID has released say one.
        "#]]
        .assert_eq(&anonymous(&said.stdout, program.pid()));
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        // Its client is told, and can load it again, as can anybody else.
        let notice = |message: &Value| message.to_string().contains("Session released");
        client.wait_since(mark, "a notice", notice).await;
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "say lost"}]});
        let error = client.refused("session/prompt", prompt).await;
        assert!(error["data"]["hint"].as_str().is_some_and(|hint| hint.contains("load")), "{error}");
        assert_eq!(client.prompt(&other, "say still here").await.stop, "end_turn");
        let mut second = shell.home.ready(version, Version::V1).await;
        second.client.load(&session).await;
        assert_eq!(second.client.prompt(&session, "say two").await.stop, "end_turn");
        assert_eq!(second.client.view(&session).agent(), ["one", "two"]);
        second.client.disconnect().await;
        second.exited().await;
        client.load(&session).await;
        assert_eq!(client.prompt(&session, "say three").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn a_session_that_is_busy_is_not_released() {
    let shell = Shell::new();
    let program = shell.home.ready(Version::V1, Version::V1).await;
    let (client, session) = (&program.client, program.client.new_session().await);
    let request = client.begin_prompt(&session, "say one; hang").await;
    client.wait_update(0, &session, "one", |update| update["content"]["text"] == "one").await;
    let said = run(&shell, &["release", &session]).await;
    assert_eq!((said.code, said.stdout.as_str()), (Some(4), ""));
    let text = anonymous(&said.stderr.replace(&session, "ID"), program.pid());
    expect![[r#"
        error: session ID runs a turn in process PID
        hint: wait for the end of the turn, or cancel it there
    "#]]
    .assert_eq(&text);
    client.cancel(&session).await;
    client.finish(&session, &request).await;

    // One that waits for an answer.
    client.on("session/request_permission", |_| None);
    client.begin_prompt(&session, "permit").await;
    client.wait_method("session/request_permission").await;
    let said = run(&shell, &["release", &session]).await;
    assert_eq!(said.code, Some(4), "{}", said.stdout);
    assert!(said.stderr.contains("waits for an answer"), "{}", said.stderr);
}

#[tokio::test]
async fn what_a_killed_process_left_is_cleared() {
    let shell = Shell::new();
    let mut program = shell.home.ready(Version::V1, Version::V1).await;
    let session = program.client.new_session().await;
    program.client.begin_prompt(&session, "say one; hang").await;
    program.client.wait_update(0, &session, "one", |update| update["content"]["text"] == "one").await;
    program.kill().await;
    let said = run(&shell, &["release", &session]).await;
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{}", said.stdout);
    expect![[r#"
        The process that had say one; hang open has ended; the session is free.
    "#]]
    .assert_eq(&said.stdout);
    let database = rusqlite::Connection::open(shell.home.path().join("rethread.db")).expect("a database");
    let owner: Option<String> =
        database.query_row("SELECT owner FROM session", [], |row| row.get(0)).expect("a row");
    assert_eq!(owner, None);
    let next = shell.home.ready(Version::V1, Version::V1).await;
    next.client.load(&session).await;
    assert_eq!(next.client.view(&session).agent(), ["one"]);
}

#[tokio::test]
async fn a_process_that_does_not_answer_keeps_the_session() {
    let shell = Shell::new();
    let program = shell.home.ready(Version::V1, Version::V1).await;
    let session = program.client.new_session().await;
    program.client.prompt(&session, "say one").await;
    signal(program.pid(), libc::SIGSTOP);
    let said = run(&shell, &["release", &session]).await;
    signal(program.pid(), libc::SIGCONT);
    assert_eq!((said.code, said.stdout.as_str()), (Some(4), ""));
    expect![[r#"
        error: process PID
        hint: it may be stopped; end it, then try again
    "#]]
    .assert_eq(&anonymous(&said.stderr, program.pid()));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // The request is withdrawn.
    assert_eq!(program.client.prompt(&session, "say two").await.stop, "end_turn");
}

#[test]
fn a_session_that_nobody_has_open_needs_no_release() {
    let shell = Shell::new();
    shell.store().add(&Made { id: "s-1", cwd: "/w", agent: "codex", ago: 0, updates: turns("Hello", 1) });
    shell.check(
        &["release", "s-1"],
        &expect![[r#"
        Hello is not open in any process.
    "#]],
    );
    shell.check(
        &["release", "s-1", "--json"],
        &expect![[r#"
        {
          "id": "s-1",
          "outcome": "not-open",
          "process": null
        }
    "#]],
    );
    assert_eq!(shell.run(&["release", "nothing"]).code, Some(3));
}

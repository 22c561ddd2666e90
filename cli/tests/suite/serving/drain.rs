//! `rethread serve --drain`: sessions go to another host of the same store, and no turn is cut.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::postgres_server::PostgresServer;
use rethread_testkit::program::{Home, Program};

use super::{home, run, stderr};

/// Starts `acp` with an agent whose ids no other process has, and initializes.
async fn editor(home: &Home) -> Program {
    let mut agent = home.scripted(Version::V2);
    agent.push("--own-ids".into());
    let program = home.start(Version::V2, &agent);
    program.client.initialize().await;
    program.client.set_deadline(Duration::from_secs(60));
    program
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_drained_lets_sessions_go_and_cuts_no_turn() {
    if PostgresServer::shared().is_none() {
        return;
    }
    let first = home();
    let other = first.other_host();
    let (server, _other_server) = (first.serve(&[]).await, other.serve(&[]).await);
    let (here, there) = (editor(&first).await, editor(&other).await);
    let idle = here.client.new_session().await;
    assert_eq!(here.client.prompt(&idle, "say idle").await.stop, "end_turn");
    let busy = here.client.new_session().await;
    let turn = here.client.begin_prompt(&busy, "think hm; slow 800; say whole").await;
    here.client.wait_update(0, &busy, "a thought", |update| update["content"]["text"] == "hm").await;

    let mut drain = first.command(&["serve", "--drain"]);
    let drain = drain.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let give_up = Instant::now() + Duration::from_secs(3);
    let (method, params) = there.client.load_params(&idle);
    while there.client.request(method, params.clone()).await.is_err() {
        assert!(Instant::now() < give_up, "the idle session is let go at once");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(there.client.prompt(&idle, "say went on").await.stop, "end_turn");
    let refused = here.client.load_refused(&idle).await;
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("stopping")), "{refused}");
    let refused =
        here.client.refused("session/new", serde_json::json!({"cwd": "/work", "mcpServers": []})).await;
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("stopping")), "{refused}");

    assert_eq!(here.client.finish(&busy, &turn).await.stop, "end_turn", "no turn is cut");
    let drained = drain.wait_with_output().await.expect("it ends");
    assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    assert!(String::from_utf8_lossy(&drained.stdout).starts_with("Drained the server"));
    assert_eq!(server.exited().await.0, Some(0));
    there.client.load(&busy).await;
    assert_eq!(there.client.view(&busy).agent().last().map(String::as_str), Some("whole"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_takes_too_long_for_a_drain_is_ended() {
    let home = home();
    let server = home.serve(&[]).await;
    let editor = editor(&home).await;
    let session = editor.client.new_session().await;
    let turn = editor.client.begin_prompt(&session, "think hm; hang").await;
    editor.client.wait_update(0, &session, "a thought", |update| update["content"]["text"] == "hm").await;
    let drained = run(&home, &["serve", "--drain", "--drain-seconds", "1"]).await;
    assert!(drained.status.success(), "{}", stderr(&drained));
    assert_ne!(editor.client.finish(&session, &turn).await.stop, "end_turn");
    assert_eq!(server.exited().await.0, Some(0));
}

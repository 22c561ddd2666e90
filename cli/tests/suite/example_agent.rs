//! The example of the library as a program of its own: with a client on its pipes, and behind `rethread acp`. What it
//! does in every scenario of the suite is in the tests of the library.

use rethread::edge::Version;
use rethread_testkit::client::CWD;
use rethread_testkit::program::{Home, Program, example};
use serde_json::json;
use tokio::process::Command;

const BOTH: [Version; 2] = [Version::V1, Version::V2];
/// All that the example shows of itself.
const TALK: &str = "think hm; say hello; tool call_1; permit; plan a,b; title A talk";

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_rethread"))
}

/// The example with a client on its pipes.
async fn alone(version: Version) -> Program {
    let mut command = Command::new(example("scripted"));
    command.kill_on_drop(true);
    let program = Program::start(command, version);
    program.client.initialize().await;
    program
}

#[tokio::test]
async fn it_has_the_whole_session_surface_in_both_versions() {
    for version in BOTH {
        let mut program = alone(version).await;
        let client = &program.client;
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, TALK).await.stop, "end_turn");
        let view = client.view(&session);
        assert_eq!(view.agent(), ["hello", "permission: selected yes"], "{view}");
        assert_eq!((view.plan.len(), view.title.as_deref()), (2, Some("A talk")), "{view}");

        let mark = client.mark();
        client.load(&session).await;
        assert_eq!(client.view_since(mark, &session), view, "a replay shows the same");

        let hanging = client.begin_prompt(&session, "say a; hang").await;
        client.wait_update(mark, &session, "its words", |update| update["content"]["text"] == "a").await;
        client.cancel(&session).await;
        assert_eq!(client.finish(&session, &hanging).await.stop, "cancelled");

        let fork =
            client.ask("session/fork", json!({"sessionId": session, "cwd": CWD, "mcpServers": []})).await;
        let fork = fork["sessionId"].as_str().expect("it has an id").to_owned();
        assert_eq!(client.prompt(&fork, "say apart").await.stop, "end_turn");
        client.close(&session).await.expect("it can be closed");
        client.resume(&session).await;
        assert_eq!(client.prompt(&session, "say again").await.stop, "end_turn");
        let mut both = client.listed().await;
        both.sort();
        let mut expected = [session.clone(), fork.clone()];
        expected.sort();
        assert_eq!(both, expected);
        client.ask("session/delete", json!({"sessionId": fork})).await;
        assert_eq!(client.listed().await, [session]);
        client.disconnect().await;
        assert!(program.exited().await.success());
    }
}

#[tokio::test]
async fn behind_rethread_its_sessions_outlive_both() {
    for version in BOTH {
        let home = home();
        let agent = [example("scripted").into()];
        let mut program = home.start(version, &agent);
        program.client.initialize().await;
        let session = program.client.new_session().await;
        program.client.prompt(&session, TALK).await;
        let shown = program.client.view(&session);
        program.kill().await;

        let next = home.start(version, &agent);
        next.client.initialize().await;
        next.client.load(&session).await;
        assert_eq!(next.client.view(&session), shown);
        assert_eq!(next.client.prompt(&session, "say two").await.stop, "end_turn");
        assert_eq!(next.client.view(&session).agent().last().map(String::as_str), Some("two"));
    }
}

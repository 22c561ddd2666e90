//! Tests with real commands: output, limits, exit.

use std::fs;
use std::time::Duration;

use rethread_core::Json;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;

use super::super::output::exit_json;
use super::super::terminal_request::TerminalRequest;
use super::{LocalTerminal, TerminalState};
use crate::command::{CommandSpec, is_alive};
use crate::sandbox::Roots;

const DEADLINE: Duration = Duration::from_secs(10);

fn launch(script: &str) -> TerminalRequest {
    let args = ["-c", script].map(str::to_owned).to_vec();
    let launch =
        CommandSpec { command: "sh".to_owned(), args, cwd: "/".to_owned(), ..CommandSpec::default() };
    TerminalRequest { launch, limit: None }
}

async fn start(request: &TerminalRequest) -> LocalTerminal {
    let roots = Roots::find(&["/".to_owned()]);
    LocalTerminal::start(request, &roots.directory(request.launch.cwd.as_ref()).unwrap()).await.unwrap()
}

async fn exited(terminal: &LocalTerminal) -> Value {
    let mut states = terminal.states();
    let exit = states.wait_for(|moment| *moment == TerminalState::Exited);
    tokio::time::timeout(DEADLINE, exit).await.expect("it exits in time").expect("it exits");
    exit_json(terminal.exit().unwrap()).value()
}

/// Waits until all processes of a terminal have ended.
async fn gone(mut states: watch::Receiver<TerminalState>) {
    let closed = async { while states.changed().await.is_ok() {} };
    tokio::time::timeout(DEADLINE, closed).await.expect("it is gone in time");
}

async fn until_says(terminal: &LocalTerminal, words: &str) -> String {
    let said = async {
        loop {
            let text = output(terminal)["output"].as_str().unwrap_or_default().to_owned();
            if text.contains(words) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, said)
        .await
        .unwrap_or_else(|_| panic!("the output does not contain {words}"))
}

fn output(terminal: &LocalTerminal) -> Value {
    Json::value(&terminal.answer())
}

#[tokio::test]
async fn both_streams_arrive_in_write_order() {
    let script = "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done; exit 7";
    let terminal = start(&launch(script)).await;
    let expected = serde_json::json!({"exitCode": 7, "signal": null});
    assert_eq!(exited(&terminal).await, expected);
    let text: String = (1..=5).map(|i| format!("out{i}\nerr{i}\n")).collect();
    let all = serde_json::json!({"output": text, "truncated": false, "exitStatus": expected});
    assert_eq!(output(&terminal), all);
    // It stays the same for later requests.
    assert_eq!(exited(&terminal).await, expected);
}

#[tokio::test]
async fn a_command_gets_its_directory_and_environment() {
    let folder = TempDir::new().unwrap();
    let cwd = fs::canonicalize(folder.path()).unwrap().to_string_lossy().into_owned();
    let mut wanted = launch("pwd -P; echo $GREETING");
    wanted.launch.cwd.clone_from(&cwd);
    wanted.launch.env = vec![("GREETING".to_owned(), "hello there".to_owned())];
    let terminal = start(&wanted).await;
    exited(&terminal).await;
    assert_eq!(output(&terminal)["output"], format!("{cwd}\nhello there\n"));
    let said = terminal.announcement().body.value();
    assert_eq!(said["command"], "sh -c 'pwd -P; echo $GREETING'");
    assert_eq!(said["cwd"], cwd);
}

#[tokio::test]
async fn a_line_without_arguments_runs_in_the_shell() {
    let mut wanted = launch("");
    (wanted.launch.command, wanted.launch.args) = ("echo one && echo two".to_owned(), Vec::new());
    let terminal = start(&wanted).await;
    exited(&terminal).await;
    assert_eq!(output(&terminal)["output"], "one\ntwo\n");
    wanted.launch.command = "no-such-program-anywhere".to_owned();
    let directory = Roots::find(&["/".to_owned()]).directory("/".as_ref()).unwrap();
    let error = LocalTerminal::start(&wanted, &directory).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_flood_keeps_its_end() {
    let mut wanted = launch("i=0; while [ $i -lt 20000 ]; do echo \"line number $i é\"; i=$((i+1)); done");
    wanted.limit = Some(100);
    let terminal = start(&wanted).await;
    exited(&terminal).await;
    let answer = output(&terminal);
    let text = answer["output"].as_str().unwrap();
    assert!(text.len() <= 100 && text.ends_with("line number 19999 é\n"), "{text}");
    assert_eq!(answer["truncated"], true);
    let last = terminal.last_news().pop().unwrap().body.value();
    assert!(last["output"]["data"].as_str().unwrap().len() < 100_000);
    assert_eq!(last["exitStatus"]["exitCode"], 0);
}

#[tokio::test]
async fn a_tree_that_ignores_requests_is_killed() {
    let script = "trap '' TERM; (trap '' TERM; echo child; while :; do sleep 1; done) & \
        echo parent; while :; do sleep 1; done";
    let terminal = start(&launch(script)).await;
    until_says(&terminal, "child").await;
    until_says(&terminal, "parent").await;
    let group = terminal.group;
    assert!(is_alive(group));
    terminal.end();
    let status = exited(&terminal).await;
    assert_eq!(status, serde_json::json!({"exitCode": null, "signal": "SIGKILL"}));
    gone(terminal.states()).await;
    assert!(!is_alive(group), "nobody of the group is left");
}

#[tokio::test]
async fn a_polite_command_ends_when_it_is_asked() {
    let terminal = start(&launch("echo ready; exec sleep 100")).await;
    until_says(&terminal, "ready").await;
    terminal.end();
    assert_eq!(exited(&terminal).await["signal"], "SIGTERM");
}

#[tokio::test]
async fn what_is_left_running_ends_when_the_terminal_is_dropped() {
    let terminal = start(&launch("(sleep 0.3; echo later; sleep 100) & exit 0")).await;
    assert_eq!(exited(&terminal).await["exitCode"], 0);
    until_says(&terminal, "later").await;
    let group = terminal.group;
    let states = terminal.states();
    drop(terminal);
    gone(states).await;
    assert!(!is_alive(group), "nobody of the group is left");
}

/// The same as `kill -9` of this process: the runtime and everything it holds is gone without notice.
#[test]
fn a_terminal_ends_when_its_runtime_is_gone() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let group = runtime.block_on(async {
        let terminal = start(&launch("trap '' TERM; echo $$; while :; do sleep 1; done")).await;
        let group = terminal.group;
        until_says(&terminal, &group.to_string()).await;
        std::mem::forget(terminal);
        group
    });
    drop(runtime);
    let given_up = std::time::Instant::now() + DEADLINE;
    while is_alive(group) {
        assert!(std::time::Instant::now() < given_up, "it lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

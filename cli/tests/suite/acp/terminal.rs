//! `rethread acp -- AGENT ARGS` on a real terminal: the agent's own command runs there, and its signals and its exit
//! status are those of the whole.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

use rethread::edge::Version;
use rethread_testkit::processes::signal;
use rethread_testkit::program::Home;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{BOTH, home, shell, text};
use crate::pseudo_terminal::{CTRL_C, CTRL_D, OnTerminal};

/// `acp` with these words behind it.
fn acp(home: &Home, words: &[&str]) -> Command {
    home.command(&[&["acp"], words].concat())
}

#[test]
fn on_a_terminal_the_agents_command_runs_with_its_arguments() {
    let home = home();
    let script =
        "tty > /dev/null && echo on a terminal; echo \"args: $*\"; read word; echo \"got $word\"; exit 7";
    let mut login = OnTerminal::start(acp(&home, &["--", "sh", "-c", script, "agent", "--acp", "login"]));
    login.shows("args: --acp login");
    login.types("a-code\n");
    let (status, said) = login.ends();
    assert_eq!(status.code(), Some(7), "{said}");
    assert!(said.contains("on a terminal") && said.contains("got a-code"), "{said}");
    assert!(!home.path().exists(), "it has nothing to keep");
}

#[test]
fn the_keys_of_a_terminal_are_the_agents() {
    let home = home();
    let ends = |script: &str, keys: &str| {
        let mut agent = OnTerminal::start(acp(&home, &["--", "sh", "-c", script]));
        agent.shows("ready");
        agent.types(keys);
        agent.ends().0
    };
    let trapped = ends("trap 'exit 42' INT; echo ready; while :; do sleep 1; done", CTRL_C);
    assert_eq!(trapped.code(), Some(42));
    let interrupted = ends("echo ready; exec sleep 60", CTRL_C);
    assert_eq!((interrupted.code(), interrupted.signal()), (None, Some(libc::SIGINT)));
    assert_eq!(ends("echo ready; read word || exit 5", CTRL_D).code(), Some(5), "no success by Ctrl-D");
}

#[test]
fn a_signal_to_rethread_is_the_agents() {
    let home = home();
    let mut agent = OnTerminal::start(acp(&home, &["--", "sh", "-c", "echo ready; exec sleep 60"]));
    agent.shows("ready");
    signal(i32::try_from(agent.id()).expect("a process id is small"), libc::SIGTERM);
    assert_eq!(agent.ends().0.signal(), Some(libc::SIGTERM));
}

#[test]
fn a_client_can_be_served_on_a_terminal() {
    let home = home();
    let agent: Vec<_> =
        home.scripted(Version::V1).iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<_> = ["--serve", "--"].into_iter().chain(agent.iter().map(String::as_str)).collect();
    let mut served = OnTerminal::start(acp(&home, &words));
    let initialize =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}});
    served.types(&format!("{initialize}\n"));
    served.shows("\"result\"");
    served.types(CTRL_D);
    assert!(served.ends().0.success());
}

#[tokio::test]
async fn the_agents_command_can_be_run_off_a_terminal() {
    let home = home();
    let run = async |words: &[&str]| {
        let output = acp(&home, words).output().await.expect("it runs");
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), texts)
    };
    let (code, [said, errors]) = run(&["--run-agent", "--", "sh", "-c", "echo here; exit 3"]).await;
    assert_eq!((code, said.as_str(), errors.as_str()), (Some(3), "here\n", ""));
    let (code, [_, errors]) = run(&["--run-agent", "--", "no-such-agent-anywhere"]).await;
    assert_eq!(code, Some(1));
    assert_eq!(
        errors,
        "error: agent program no-such-agent-anywhere was not found\nhint: check the command after --\n"
    );
    for wrong in [&["--run-agent"][..], &["--run-agent", "--serve", "--", "sh"]] {
        assert_eq!(run(wrong).await.0, Some(2), "{wrong:?}");
    }
}

/// An agent with a login of its own on a terminal.
const LOGIN: &str = r#"#!/bin/sh
if [ "$2" = login ]; then echo "$1: logged in by $LOGIN_KIND"; exit 0; fi
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[
        {"type":"terminal","id":"tty","name":"Log in","args":["login"],"env":{"LOGIN_KIND":"code"}}]}}' "$id" |
        tr -d '\n'
    echo
done
"#;

#[tokio::test]
async fn a_login_that_the_agent_offers_for_a_terminal_works_with_our_command() {
    for version in BOTH {
        let home = home();
        let agent = home.beside().join("agent");
        fs::write(&agent, LOGIN).expect("a script");
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("our own file");
        let invocation = [agent.into_os_string(), "--acp".into()];
        let program = home.start(version, &invocation);
        let mut introduction = program.client.introduction();
        match version {
            Version::V1 => introduction["clientCapabilities"]["auth"] = json!({"terminal": true}),
            Version::V2 => introduction["capabilities"]["auth"] = json!({"terminal": {}}),
        }
        let answer = program.client.ask("initialize", introduction).await;
        let method = &answer["authMethods"][0];
        assert_eq!(method["type"], "terminal", "{answer}");
        // As the protocol has it: the command that was configured, with these arguments and variables added.
        let mut command = home.acp(&invocation);
        command.args(method["args"].as_array().into_iter().flatten().map(text));
        command.envs(variables(version, &method["env"]));
        let (status, said) = OnTerminal::start(command).ends();
        assert!(status.success(), "{said}");
        assert!(said.contains("--acp: logged in by code"), "{said}");
    }
}

fn variables(version: Version, env: &Value) -> Vec<(String, String)> {
    let pair = |name: &str, value: &Value| (name.to_owned(), text(value).to_owned());
    match version {
        Version::V1 => env.as_object().into_iter().flatten().map(|(name, value)| pair(name, value)).collect(),
        Version::V2 => {
            let list = env.as_array().into_iter().flatten();
            list.map(|variable| pair(text(&variable["name"]), &variable["value"])).collect()
        }
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_on_a_terminal_too() {
    let home = home();
    let (status, said) = OnTerminal::start(home.acp(&["no-such-agent-anywhere".into()])).ends();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("no-such-agent-anywhere was not found"), "{said}");
    // Off a terminal nothing has changed: a client is served.
    let output = home.acp(&shell("cat")).output().await.expect("it runs");
    assert!(output.status.success());
}

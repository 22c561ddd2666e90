//! `rethread fork`.

use expect_test::expect;
use rethread::store::Store as _;

use super::Shell;
use super::stored::{Made, turns};

fn two_turns() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let made = Made { id: "s-11112222", cwd: &here, agent: "codex", ago: 60_000, updates: turns("Hello", 2) };
    shell.store().add(&made);
    shell
}

/// Forks, and returns the id of the new session.
fn fork(shell: &Shell, args: &[&str]) -> String {
    let said = shell.run(&[&["fork"], args].concat());
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{}", said.stdout);
    said.stdout.trim_end().to_owned()
}

/// The row of a session in the list, without its id.
fn listed(shell: &Shell, id: &str) -> serde_json::Value {
    let list =
        serde_json::from_str::<serde_json::Value>(&shell.run(&["list", "--json"]).stdout).expect("JSON");
    list["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|row| row["id"] == id)
        .expect("it is listed")
        .clone()
}

#[test]
fn a_fork_has_the_conversation_and_is_nobodys() {
    let shell = two_turns();
    let made = fork(&shell, &["2222"]);
    let row = listed(&shell, &made);
    assert_eq!((row["turns"].as_u64(), row["title"].as_str()), (Some(2), Some("Hello")), "{row}");
    assert_eq!((row["parent"].as_str(), row["process"].is_null()), (Some("s-11112222"), true), "{row}");
    assert_eq!(row["cwd"], "/project");
    // It can be forked, renamed and deleted like any other, and its parent too.
    let again = fork(&shell, &[&made]);
    assert_eq!(listed(&shell, &again)["parent"], made.as_str());
    for id in ["s-11112222", &made] {
        assert_eq!(shell.run(&["delete", id, "--yes"]).code, Some(0));
    }
    assert_eq!(listed(&shell, &again)["turns"], 2);
}

#[test]
fn a_fork_at_a_message_ends_there() {
    let shell = two_turns();
    for (message, turns) in [("p0", 1), ("a0", 1), ("p1", 2), ("a1", 2)] {
        let made = fork(&shell, &["@last", "--at", message]);
        assert_eq!(listed(&shell, &made)["turns"], turns, "{message}");
        assert_eq!(shell.run(&["delete", &made, "--yes"]).code, Some(0));
    }
    shell.check_failure(
        &["fork", "2222", "--at", "no\u{1b}"],
        3,
        &expect![[r#"
            error: session s-11112222 has no message no\u{1b}
            hint: `rethread show s-11112222 --raw` shows the ids of its messages
        "#]],
    );
}

#[test]
fn a_session_that_is_open_elsewhere_can_be_forked() {
    let shell = Shell::new();
    let store = shell.store();
    let _lease =
        store.add_owned(&Made { id: "s-1", cwd: "/w", agent: "codex", ago: 0, updates: turns("Hello", 1) });
    assert_eq!(shell.run(&["fork", "s-1"]).code, Some(0));
}

#[test]
fn a_fork_is_reported_as_json() {
    let shell = two_turns();
    let said = shell.run(&["fork", "2222", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(document["parent"], "s-11112222");
    assert_eq!(listed(&shell, document["id"].as_str().expect("an id"))["turns"], 2);
}

#[test]
fn what_only_an_agent_has_cannot_be_forked() {
    let shell = Shell::new();
    let store = shell.store();
    let stub = rethread::store::Stub {
        id: "s-1".into(),
        cwd: "/w".to_owned(),
        title: Some("Theirs".to_owned()),
        updated_at: 5,
    };
    store.wait(store.store.add_stubs("codex", &[stub])).expect("it can be added");
    drop(store);
    shell.check_failure(
        &["fork", "s-1"],
        4,
        &expect![[r#"
        error: session s-1 has no content here: only its agent has it
        hint: load it with its agent first, then fork it
    "#]],
    );
}

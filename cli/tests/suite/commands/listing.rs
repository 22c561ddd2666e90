//! `rethread list`.

use expect_test::expect;

use super::Shell;
use super::stored::{Made, turns};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A store with sessions of two directories and agents, one of them archived.
fn shelf() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    let add = |id: &str, cwd: &str, agent: &str, ago: u64, first: &str, count: usize| {
        store.add(&Made { id, cwd, agent, ago, updates: turns(first, count) });
    };
    add("019a-aaaa1111", &here, "Claude Code", 5 * MINUTE, "Fix the parser of the configuration file", 3);
    add("019a-bbbb2222", &here, "codex", 3 * DAY, "日本語のプロンプト", 1);
    add("019a-cccc3333", "/srv/app", "Gemini CLI", 2 * HOUR, "Why is the build slow?", 12);
    add("019a-dddd4444", &here, "codex", 10 * DAY, "An old question", 1);
    store
        .wait(rethread::store::Store::set_archived(
            &store.store,
            &"019a-dddd4444".into(),
            rethread::store::Archived::Yes,
            1,
        ))
        .expect("it can be archived");
    drop(store);
    shell
}

#[test]
fn the_sessions_of_this_directory_are_listed() {
    let shell = shelf();
    shell.check(
        &["list"],
        &expect![[r#"
        id        age     state  turns  agent        title
        aaaa1111  5 min   idle       3  Claude Code  Fix the parser of the configuration file
        bbbb2222  3 days  idle       1  codex        日本語のプロンプト
    "#]],
    );
    shell.check(
        &["list", "--archived"],
        &expect![[r#"
        id        age     state  turns  agent  title
        dddd4444  1 week  idle       1  codex  An old question
    "#]],
    );
    shell.check(
        &["list", "--agent", "CODEX"],
        &expect![[r#"
        id        age     state  turns  agent  title
        bbbb2222  3 days  idle       1  codex  日本語のプロンプト
    "#]],
    );
    shell.check(
        &["list", "--since", "1d"],
        &expect![[r#"
        id        age    state  turns  agent        title
        aaaa1111  5 min  idle       3  Claude Code  Fix the parser of the configuration file
    "#]],
    );
    shell.check(
        &["list", "--limit", "1"],
        &expect![[r#"
        id        age    state  turns  agent        title
        aaaa1111  5 min  idle       3  Claude Code  Fix the parser of the configuration file
        There are more than 1; --limit lists more of them.
    "#]],
    );
}

#[test]
fn lists_are_json_for_programs() {
    let shell = shelf();
    shell.check(
        &["list", "--json", "--limit", "1"],
        &expect![[r#"
            {
              "sessions": [
                {
                  "id": "019a-aaaa1111",
                  "title": "Fix the parser of the configuration file",
                  "agent": "Claude Code",
                  "cwd": "/project",
                  "updatedAt": "TIME",
                  "turns": 3,
                  "state": "idle",
                  "process": null,
                  "clients": null,
                  "archived": false,
                  "parent": null
                }
              ],
              "more": true
            }
        "#]],
    );
    shell.check(
        &["list", "--json", "--agent", "no such agent"],
        &expect![[r#"
        {
          "sessions": [],
          "more": false
        }
    "#]],
    );
}

#[test]
fn the_sessions_of_all_directories_are_listed_with_their_directory() {
    let shell = shelf();
    let said = shell.run(&["list", "--all"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let lines: Vec<_> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", said.stdout);
    assert!(lines[0].contains("directory"), "{}", lines[0]);
    assert!(lines[2].contains("/srv/app") && lines[2].contains("Why is the build slow?"), "{}", lines[2]);
}

#[test]
fn an_empty_store_is_not_created() {
    let shell = Shell::new();
    shell.check(
        &["list"],
        &expect![[r#"
        No sessions in this directory; --all lists those of all directories.
    "#]],
    );
    shell.check(
        &["list", "--all"],
        &expect![[r#"
        No sessions.
    "#]],
    );
    shell.check(
        &["list", "--json"],
        &expect![[r#"
        {
          "sessions": [],
          "more": false
        }
    "#]],
    );
    assert!(!shell.home.path().exists());
}

#[test]
fn a_session_that_is_open_elsewhere_is_listed_with_its_process() {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    let made = Made { id: "s-11112222", cwd: &here, agent: "codex", ago: 0, updates: turns("Hello", 1) };
    let _lease = store.add_owned(&made);
    let said = shell.run(&["list"]);
    let process = std::process::id().to_string();
    assert!(said.stdout.contains(&process) && said.stdout.contains("idle"), "{}", said.stdout);
}

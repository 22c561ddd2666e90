//! Bad input: ids that name nothing or several sessions, a closed pipe, a store of a newer version, hostile titles.

use std::io::pipe;
use std::process::Stdio;

use expect_test::expect;
use rethread::store::Store as _;

use super::Shell;
use super::stored::{Made, turns};

fn with_ids(ids: &[&str]) -> Shell {
    let shell = Shell::new();
    let store = shell.store();
    for (age, id) in (0..).zip(ids) {
        store.add(&Made {
            id,
            cwd: "/w",
            agent: "codex",
            ago: age * 60_000,
            updates: turns(&format!("about {id}"), 1),
        });
    }
    drop(store);
    shell
}

#[test]
fn an_unknown_id_is_not_found() {
    let shell = with_ids(&["019a-1111"]);
    for unknown in ["nothing", "", "019a-11111", "\u{1b}[2J"] {
        let said = shell.run(&["archive", unknown]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(3), ""), "{unknown:?}: {}", said.stderr);
    }
    shell.check_failure(
        &["archive", "no\u{1b}[31m"],
        3,
        &expect![[r#"
        error: no session has the id no\u{1b}[31m
        hint: `rethread list --all` shows the sessions
    "#]],
    );
    shell.check_failure(
        &["archive", "@last"],
        3,
        &expect![[r#"
        error: this directory has no sessions
        hint: `rethread list --all` shows the sessions of all directories
    "#]],
    );
}

#[test]
fn an_ambiguous_id_lists_the_candidates() {
    let shell = with_ids(&["019a-1111", "019a-2222", "019b-1111"]);
    shell.check_failure(
        &["archive", "019a"],
        2,
        &expect![[r#"
        error: 019a is the beginning or end of several ids:
          019a-1111  about 019a-1111
          019a-2222  about 019a-2222
        hint: use more of the id
    "#]],
    );
    shell.check_failure(
        &["archive", "1111"],
        2,
        &expect![[r#"
        error: 1111 is the beginning or end of several ids:
          019a-1111  about 019a-1111
          019b-1111  about 019b-1111
        hint: use more of the id
    "#]],
    );
    assert_eq!(shell.run(&["archive", "019b"]).code, Some(0));
}

#[test]
fn an_exact_id_is_not_ambiguous() {
    let shell = with_ids(&["s1", "s11", "as1"]);
    assert_eq!(shell.run(&["archive", "s1"]).code, Some(0));
    assert_eq!(shell.run(&["archive", "s"]).code, Some(2));
}

#[test]
fn many_candidates_are_not_all_listed() {
    let ids: Vec<String> = (0..15).map(|no| format!("019a-{no:04}")).collect();
    let shell = with_ids(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let said = shell.run(&["archive", "019a"]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.lines().count() == 13 && said.stderr.contains("and more"), "{}", said.stderr);
}

#[test]
fn without_a_terminal_the_session_must_be_named() {
    let shell = with_ids(&["s1"]);
    shell.check_failure(
        &["archive"],
        2,
        &expect![[r#"
        error: no session was named
        hint: name one by its id or as @last; `rethread list` shows the sessions
    "#]],
    );
}

#[test]
fn wrong_options_are_usage_errors() {
    let shell = Shell::new();
    for wrong in [
        &["list", "--since", "soon"][..],
        &["list", "--limit", "-1"],
        &["list", "--no-such-option"],
        &["no-such-command"],
        &["rename"],
    ] {
        let said = shell.run(wrong);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{wrong:?}: {}", said.stderr);
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let shell = with_ids(&["s1", "s2"]);
    for args in [&["list", "--all"][..], &["list", "--all", "--json"]] {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let mut command = shell.command(args).into_std();
        let output = command.stdout(writer).stderr(Stdio::piped()).output().expect("it runs");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{args:?}");
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let shell = with_ids(&["s1"]);
    let database = rusqlite::Connection::open(shell.home.path().join("rethread.db")).expect("a database");
    database.pragma_update(None, "user_version", 999).expect("it can be changed");
    drop(database);
    shell.check_failure(
        &["list"],
        5,
        &expect![[r#"
            error: the database has version 999, but this program supports only versions up to 7
            hint: use the newer rethread that wrote the database, or another RETHREAD_HOME
        "#]],
    );
    assert_eq!(shell.run(&["archive", "s1"]).code, Some(5));
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let shell = Shell::new();
    std::fs::create_dir(shell.home.path()).expect("a folder");
    std::fs::write(shell.home.path().join("rethread.db"), "not a database ".repeat(500)).expect("a file");
    let said = shell.run(&["list"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(5), ""), "{}", said.stderr);
}

#[test]
fn hostile_titles_and_names_are_escaped() {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    let made = Made {
        id: "\u{1b}]0;owned\u{7}-1",
        cwd: &here,
        agent: "\u{9b}31magent\u{202e}",
        ago: 0,
        updates: turns("x", 1),
    };
    store.add(&made);
    store.wait(store.store.set_title(&made.id.into(), "\u{1b}[2J\u{2066}title")).expect("it can be renamed");
    drop(store);
    for args in [&["list"][..], &["list", "--json"], &["unarchive", "7\u{7}"], &["unarchive", "\u{1b}"]] {
        let said = shell.run(args);
        let text = said.stdout + &said.stderr;
        let hostile = |c: &char| c.is_control() && *c != '\n' || ('\u{202a}'..='\u{2069}').contains(c);
        assert_eq!(text.chars().find(hostile), None, "{text}");
    }
    shell.check(
        &["list"],
        &expect![[r#"
        id            age  state  turns  agent                   title
        owned\u{7}-1  now  idle       1  \u{9b}31magent\u{202e}  title
    "#]],
    );
}

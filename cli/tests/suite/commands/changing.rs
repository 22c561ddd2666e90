//! `rename`, `archive`, `unarchive` and `delete`.

use expect_test::expect;

use super::Shell;
use super::stored::{Made, turns};

fn one_session() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let made = Made { id: "s-11112222", cwd: &here, agent: "codex", ago: 0, updates: turns("Hello", 1) };
    shell.store().add(&made);
    shell
}

#[test]
fn a_title_of_the_user_replaces_any_other() {
    let shell = one_session();
    shell.check(
        &["rename", "2222", "  A better\ntitle \u{1b}[31m"],
        &expect![[r#"
        Renamed s-11112222 to A better title.
    "#]],
    );
    shell.check(
        &["list"],
        &expect![[r#"
        id        age  state  turns  agent  title
        11112222  now  idle       1  codex  A better title
    "#]],
    );
    shell.check(
        &["rename", "@last", "x", "--json"],
        &expect![[r#"
        {
          "id": "s-11112222",
          "title": "x"
        }
    "#]],
    );
    shell.check_failure(
        &["rename", "2222", "\u{1b}[2J"],
        2,
        &expect![[r#"
        error: the title has no visible characters
    "#]],
    );
}

#[test]
fn an_archived_session_is_hidden_until_it_is_restored() {
    let shell = one_session();
    shell.check(
        &["archive", "s-11"],
        &expect![[r#"
        Archived Hello.
    "#]],
    );
    shell.check(
        &["list"],
        &expect![[r#"
        No sessions in this directory; --all lists those of all directories.
    "#]],
    );
    shell.check(
        &["unarchive", "s-11112222"],
        &expect![[r#"
        Restored Hello from the archive.
    "#]],
    );
    shell.check(
        &["archive", "s-11", "--json"],
        &expect![[r#"
        {
          "id": "s-11112222",
          "archived": true
        }
    "#]],
    );
}

#[test]
fn a_deleted_session_is_gone() {
    let shell = one_session();
    shell.check_failure(
        &["delete", "2222"],
        2,
        &expect![[r#"
        error: there is no terminal to ask on
        hint: use --yes to go ahead without a question
    "#]],
    );
    shell.check(
        &["delete", "2222", "--yes"],
        &expect![[r#"
        Deleted Hello.
    "#]],
    );
    shell.check_failure(
        &["delete", "s-11112222", "--yes"],
        3,
        &expect![[r#"
        error: no session has the id s-11112222
        hint: `rethread list --all` shows the sessions
    "#]],
    );
    shell.check(
        &["list"],
        &expect![[r#"
        No sessions in this directory; --all lists those of all directories.
    "#]],
    );
}

#[test]
fn the_text_of_a_deleted_session_is_in_no_file() {
    let shell = Shell::new();
    let store = shell.store();
    let secret = "a-word-that-occurs-nowhere-else";
    let mut updates = turns(secret, 1);
    updates.push(super::stored::answer("more", &format!("{secret} ").repeat(2000)));
    store.add(&Made { id: "s-11112222", cwd: "/w", agent: "codex", ago: 0, updates });
    drop(store);
    let said = shell.run(&["delete", "s-11112222", "--yes"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(shell.files_with(secret), Vec::<String>::new());
    assert!(!shell.files_with("s-11112222").is_empty(), "the files were searched");
}

#[test]
fn a_session_that_is_open_elsewhere_is_not_changed() {
    let shell = Shell::new();
    let store = shell.store();
    let made = Made { id: "s-11112222", cwd: "/w", agent: "codex", ago: 0, updates: turns("Hello", 1) };
    let _lease = store.add_owned(&made);
    for command in [
        &["rename", "s-11112222", "title"][..],
        &["archive", "s-11112222"],
        &["unarchive", "s-11112222"],
        &["delete", "s-11112222", "--yes"],
    ] {
        let said = shell.run(command);
        assert_eq!((said.code, said.stdout.as_str()), (Some(4), ""), "{command:?}: {}", said.stderr);
        let process = format!("session s-11112222 is open in process {}", std::process::id());
        assert!(said.stderr.contains(&process), "{}", said.stderr);
        assert!(said.stderr.contains("rethread release s-11112222"), "{}", said.stderr);
    }
}

//! `rethread move`.

use expect_test::expect;
use rethread::edge::Version;

use super::Shell;
use super::stored::{Made, turns};

fn one_session() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    shell.store().add(&Made {
        id: "s-11112222",
        cwd: &here,
        agent: "codex",
        ago: 0,
        updates: turns("Hello", 1),
    });
    std::fs::create_dir(shell.home.beside().join("other")).expect("a folder");
    shell
}

#[test]
fn lists_by_directory_follow_a_session_that_is_moved() {
    let shell = one_session();
    shell.check(
        &["move", "2222", "../other"],
        &expect![[r#"
        Moved Hello from /project to /tmp/other.
        With the next prompt its agent begins a new session there, and gets the stored transcript.
    "#]],
    );
    shell.check(
        &["list"],
        &expect![[r#"
        No sessions in this directory; --all lists those of all directories.
    "#]],
    );
    assert!(shell.run(&["list", "--all"]).stdout.contains("/tmp/other"));
    shell.check(
        &["move", "2222", "../other/.", "--json"],
        &expect![[r#"
        {
          "id": "s-11112222",
          "cwd": "/tmp/other",
          "before": "/tmp/other"
        }
    "#]],
    );
    shell.check(
        &["move", "2222", "../other"],
        &expect![[r#"
        Hello is in /tmp/other already.
    "#]],
    );
    shell.check(
        &["move", "2222", "."],
        &expect![[r#"
        Moved Hello from /tmp/other to /project.
        With the next prompt its agent begins a new session there, and gets the stored transcript.
    "#]],
    );
    assert!(shell.run(&["list"]).stdout.contains("Hello"));
    // Its conversation is as it was, and it can be forked.
    assert_eq!(shell.run(&["fork", "2222", "--at", "a0"]).code, Some(0));
}

#[test]
fn links_stay_as_they_are_written() {
    let shell = one_session();
    let link = shell.home.beside().join("link");
    std::os::unix::fs::symlink(shell.home.beside().join("other"), &link).expect("a link");
    let said = shell.run(&["move", "2222", &link.display().to_string(), "--json"]);
    assert!(said.stdout.contains("\"cwd\": \"/tmp/link\""), "{}", said.stdout);
    // Behind a link `..` is the parent of what it leads to, which no text tells.
    std::fs::create_dir_all(shell.home.beside().join("deep/down")).expect("a folder");
    std::os::unix::fs::symlink(shell.home.beside().join("deep/down"), shell.here().join("in"))
        .expect("a link");
    let said = shell.run(&["move", "2222", "in/..", "--json"]);
    assert!(said.stdout.contains("\"cwd\": \"/tmp/deep\""), "{}", said.stdout);
}

#[test]
fn a_directory_must_exist() {
    let shell = one_session();
    std::fs::write(shell.here().join("file"), "").expect("a file");
    shell.check_failure(
        &["move", "2222", "nowhere\u{1b}"],
        3,
        &expect![[r#"
        error: nowhere\u{1b} does not exist
        hint: name a directory that exists
    "#]],
    );
    shell.check_failure(
        &["move", "2222", "file"],
        3,
        &expect![[r#"
        error: file is not a directory
        hint: name a directory that exists
    "#]],
    );
    assert_eq!(shell.run(&["move"]).code, Some(2));
    assert!(shell.run(&["list"]).stdout.contains("Hello"), "nothing was moved");
}

#[test]
fn a_live_session_is_not_moved() {
    let shell = Shell::new();
    let store = shell.store();
    let _lease =
        store.add_owned(&Made { id: "s-1", cwd: "/w", agent: "codex", ago: 0, updates: turns("Hello", 1) });
    let said = shell.run(&["move", "s-1", "."]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(4), ""), "{}", said.stderr);
    assert!(said.stderr.contains("rethread release s-1"), "{}", said.stderr);
}

#[tokio::test]
async fn the_agent_goes_on_in_the_new_directory_and_the_client_is_told() {
    let shell = Shell::new();
    let (old, new) = (shell.here().display().to_string(), shell.home.beside().join("other"));
    std::fs::create_dir(&new).expect("a folder");
    let new = new.display().to_string();
    let mut program = shell.home.ready(Version::V2, Version::V1).await;
    let session = program.client.new_session_in(&old).await;
    program.client.prompt(&session, "say one").await;
    program.kill().await;
    let output = shell.command(&["move", &session, &new]).output().await.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let program = shell.home.ready(Version::V2, Version::V1).await;
    program.client.load_in(&new, &session).await;
    program.client.prompt(&session, "say two").await;
    assert_eq!(program.client.view(&session).agent(), ["one", "two"]);
    let told = program.client.updates(&session).iter().any(|update| update.to_string().contains("was moved"));
    assert!(told, "{:?}", program.client.updates(&session));
}

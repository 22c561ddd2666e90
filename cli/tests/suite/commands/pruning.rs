//! `rethread prune`, and `keep_days` of the configuration.

use std::time::{Duration, Instant};

use expect_test::expect;
use rethread::edge::Version;
use rethread::store::{Archived, Store as _};
use serde_json::Value;

use super::Shell;
use super::stored::{Made, answer, prompt, turns};
use crate::pseudo_terminal::OnTerminal;

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Sessions of several ages, of which one is archived.
fn shelf() -> Shell {
    let shell = Shell::new();
    let store = shell.store();
    for (id, ago, first) in [
        ("s-aaaa1111", 1, "A new question"),
        ("s-bbbb2222", 100, "OLDMARK question"),
        ("s-cccc3333", 200, "OLDERMARK question"),
        ("s-dddd4444", 300, "ARCHIVEDMARK question"),
    ] {
        let updates = vec![prompt("p", first), answer("a", &format!("about {first}"))];
        store.add(&Made { id, cwd: "/w", agent: "codex", ago: ago * DAY, updates });
    }
    store.wait(store.store.set_archived(&"s-dddd4444".into(), Archived::Yes, 1)).expect("it can be archived");
    drop(store);
    assert_eq!(shell.run(&["search", "question"]).code, Some(0), "all of it is indexed");
    shell
}

/// Replaces sizes, which depend on the compression, and the spaces that align them.
fn without_sizes(text: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        while let Some(unit) =
            words.iter().position(|word| matches!(word.trim_end_matches([')', '.']), "bytes" | "kB"))
        {
            let end = words.remove(unit).replace("kB", "").replace("bytes", "");
            let open = if words[unit - 1].starts_with('(') { "(" } else { "" };
            words[unit - 1] = format!("{open}SIZE{end}");
        }
        words.join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

#[test]
fn old_sessions_are_deleted_and_their_text_is_in_no_file() {
    let shell = shelf();
    let would = shell.run(&["prune", "--older-than", "90d", "--dry-run"]);
    expect![[r#"
        id age size agent directory title
        cccc3333 6 months SIZE codex /w OLDERMARK question
        bbbb2222 3 months SIZE codex /w OLDMARK question
        Would delete 2 sessions (SIZE).
    "#]]
    .assert_eq(&without_sizes(&would.stdout));
    shell.check_failure(
        &["prune", "--older-than", "90d"],
        2,
        &expect![[r#"
        error: there is no terminal to ask on
        hint: use --yes to go ahead without a question
    "#]],
    );
    assert!(!shell.files_with("OLDMARK").is_empty(), "nothing was deleted so far");
    let said = shell.run(&["prune", "--older-than", "90d", "--yes"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        Deleted 2 sessions (SIZE).
    "#]]
    .assert_eq(&without_sizes(&said.stdout));
    for word in ["OLDMARK", "oldmark", "OLDERMARK", "oldermark"] {
        assert_eq!(shell.files_with(word), Vec::<String>::new(), "{word}");
    }
    let left = shell.run(&["search", "question", "--json"]);
    let left: Value = serde_json::from_str(&left.stdout).expect("JSON");
    let mut sessions: Vec<_> = left["hits"]
        .as_array()
        .expect("hits")
        .iter()
        .map(|hit| hit["session"].as_str().expect("an id"))
        .collect();
    sessions.dedup();
    assert_eq!(sessions, ["s-aaaa1111", "s-dddd4444"], "archived ones are kept");
    shell.check(
        &["prune", "--older-than", "90d", "--yes"],
        &expect![[r#"
        There is nothing to delete.
    "#]],
    );
    assert_eq!(shell.run(&["prune", "--older-than", "90d", "--yes", "--archived"]).code, Some(0));
    assert_eq!(shell.files_with("archivedmark"), Vec::<String>::new());
    assert!(!shell.files_with("question").is_empty());
}

#[test]
fn what_is_pruned_is_json_for_programs() {
    let shell = shelf();
    let mut said: Value =
        serde_json::from_str(&shell.run(&["prune", "--older-than", "150d", "--json", "--yes"]).stdout)
            .expect("JSON");
    let sizes = [said["bytes"].take(), said["sessions"][0]["bytes"].take()];
    assert!(sizes[0].as_u64().is_some_and(|size| size > 0) && sizes[0] == sizes[1], "{sizes:?}");
    expect![[r#"
        {
          "sessions": [
            {
              "id": "s-cccc3333",
              "title": "OLDERMARK question",
              "agent": "codex",
              "cwd": "/w",
              "updatedAt": "TIME",
              "bytes": null
            }
          ],
          "bytes": null,
          "deleted": true
        }
    "#]]
    .assert_eq(&format!("{said:#}\n"));
    let none = shell.run(&["prune", "--older-than", "150d", "--json", "--dry-run"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&none).expect("JSON")["sessions"], serde_json::json!([]));
    let shell = Shell::new();
    shell.check(
        &["prune", "--older-than", "1d"],
        &expect![[r#"
        There is nothing to delete.
    "#]],
    );
    shell.check_failure(&["prune", "--older-than", "soon"], 2, &expect![[r#"
        error: invalid value 'soon' for '--older-than <TIME>': expected a number and a unit, such as 30min, 12h, 90d or 2w

        For more information, try '--help'.
    "#]]);
}

#[test]
fn a_session_that_is_open_is_not_pruned() {
    let shell = Shell::new();
    let store = shell.store();
    let made = Made { id: "s-1", cwd: "/w", agent: "codex", ago: 100 * DAY, updates: turns("Hello", 1) };
    let _lease = store.add_owned(&made);
    shell.check(
        &["prune", "--older-than", "1d", "--yes"],
        &expect![[r#"
        There is nothing to delete.
    "#]],
    );
}

#[test]
fn pruning_asks_first() {
    let shell = shelf();
    for (answer, code) in [("n\r", 4), ("y\r", 0)] {
        let mut command = shell.command(&["prune", "--older-than", "90d"]);
        command.env("TERM", "xterm-256color");
        let mut asking = OnTerminal::start(command);
        asking.screen_with("Delete 2 sessions (");
        asking.types(answer);
        let (status, said) = asking.ends();
        assert_eq!(status.code(), Some(code), "{said}");
        assert_eq!(shell.files_with("oldermark").is_empty(), code == 0);
    }
}

#[tokio::test]
async fn a_server_prunes_once_a_day_if_it_is_configured() {
    let shell = tokio::task::spawn_blocking(shelf).await.expect("a store");
    std::fs::write(shell.home.path().join("config.toml"), "[store]\nkeep_days = 150\n").expect("a file");
    let program = shell.home.ready(Version::V2, Version::V2).await;
    let began = Instant::now();
    while !shell.files_with("oldermark").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "it was not pruned");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!shell.files_with("OLDMARK").is_empty(), "it is not old enough");
    assert!(!shell.files_with("ARCHIVEDMARK").is_empty(), "archived ones are kept");
    drop(program);
    let turn = tokio::task::spawn_blocking(move || {
        let store = shell.store();
        let now = rethread::clock::now();
        store.wait(store.store.begin_pruning(now, now - DAY / 2)).expect("a turn")
    });
    assert_eq!(turn.await.expect("a turn"), rethread::store::PruneTurn::Done, "not again on the same day");
}

//! `rethread search`.

use expect_test::expect;
use rethread::store::{SearchQuery, Store as _};
use rethread_core::search::TextQuery;
use serde_json::json;

use super::Shell;
use super::stored::{Made, answer, prompt, turns};
use crate::pseudo_terminal::OnTerminal;

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// A store with sessions of two directories and agents.
fn shelf() -> Shell {
    let shell = Shell::new();
    let here = shell.here().display().to_string();
    let store = shell.store();
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "title": "Run the parser tests",
        "status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "12 passed"}}]});
    let updates = vec![
        prompt("p1", "Fix the parser of the configuration file"),
        answer("a1", "The parser\nnow reads \u{1b}[31mall\u{1b}[0m files."),
        prompt("p2", "Run the tests"),
        call,
    ];
    store.add(&Made { id: "019a-aaaa1111", cwd: &here, agent: "Claude Code", ago: 5 * MINUTE, updates });
    let updates =
        vec![prompt("p1", "日本語のパーサーを書く"), answer("a1", "Un café parser, s'il vous plaît")];
    store.add(&Made { id: "019a-bbbb2222", cwd: "/srv/app", agent: "codex", ago: 3 * DAY, updates });
    drop(store);
    shell
}

#[test]
fn hits_are_shown_newest_first() {
    let shell = shelf();
    shell.check(
        &["search", "parser"],
        &expect![[r#"
            Fix the parser of the configuration file  Claude Code, 5 min ago
              tool       Run the parser tests 12 passed
              rethread show 019a-aaaa1111 --turn 2

            Fix the parser of the configuration file  Claude Code, 5 min ago
              agent      The parser now reads \u{1b}[31mall\u{1b}[0m files.
              user       Fix the parser of the configuration file
              rethread show 019a-aaaa1111 --turn 1

            日本語のパーサーを書く  codex, 3 days ago
              agent      Un café parser, s'il vous plaît
              rethread show 019a-bbbb2222 --turn 1
        "#]],
    );
    shell.check(
        &["search", "cafe"],
        &expect![[r#"
            日本語のパーサーを書く  codex, 3 days ago
              agent      Un café parser, s'il vous plaît
              rethread show 019a-bbbb2222 --turn 1
        "#]],
    );
    shell.check(
        &["search", "パーサー"],
        &expect![[r#"
            日本語のパーサーを書く  codex, 3 days ago
              user       日本語のパーサーを書く
              rethread show 019a-bbbb2222 --turn 1
        "#]],
    );
    shell.check(
        &["search", "the parser", "--limit", "1"],
        &expect![[r#"
            Fix the parser of the configuration file  Claude Code, 5 min ago
              tool       Run the parser tests 12 passed
              rethread show 019a-aaaa1111 --turn 2

            There are more than 1; --limit shows more of them.
        "#]],
    );
    shell.check(
        &["search", "pars*", "--agent", "CODEX"],
        &expect![[r#"
            日本語のパーサーを書く  codex, 3 days ago
              agent      Un café parser, s'il vous plaît
              rethread show 019a-bbbb2222 --turn 1
        "#]],
    );
    shell.check(
        &["search", "parser", "file*", "--cwd", "."],
        &expect![[r#"
            Fix the parser of the configuration file  Claude Code, 5 min ago
              agent      The parser now reads \u{1b}[31mall\u{1b}[0m files.
              user       Fix the parser of the configuration file
              rethread show 019a-aaaa1111 --turn 1
        "#]],
    );
    shell.check(
        &["search", "parser", "--since", "1d", "--cwd", "/srv/app"],
        &expect![[r#"
        No message was found.
    "#]],
    );
}

#[test]
fn hits_are_json_for_programs() {
    let shell = shelf();
    shell.check(
        &["search", "reads", "--json"],
        &expect![[r#"
        {
          "hits": [
            {
              "session": "019a-aaaa1111",
              "title": "Fix the parser of the configuration file",
              "agent": "Claude Code",
              "cwd": "/project",
              "archived": false,
              "turn": 1,
              "message": "a1",
              "speaker": "agent",
              "time": "TIME",
              "passage": [
                {
                  "text": "The parser now ",
                  "match": false
                },
                {
                  "text": "reads",
                  "match": true
                },
                {
                  "text": " \u001b[31mall\u001b[0m files.",
                  "match": false
                }
              ]
            }
          ],
          "more": false
        }
    "#]],
    );
    shell.check(
        &["search", "nowhere", "--json"],
        &expect![[r#"
        {
          "hits": [],
          "more": false
        }
    "#]],
    );
}

#[test]
fn a_query_without_words_is_refused() {
    let shell = shelf();
    shell.check_failure(
        &["search", "?!"],
        2,
        &expect![[r#"
        error: the query has no words
        hint: words are letters and digits; "several words" are a phrase, pars* is a beginning
    "#]],
    );
    let long = "x".repeat(100_000);
    shell.check_failure(
        &["search", &long],
        2,
        &expect![[r#"
        error: the query is longer than 4096 bytes or has more than 64 words
        hint: words are letters and digits; "several words" are a phrase, pars* is a beginning
    "#]],
    );
    // Nothing of the query language of the database has a meaning.
    for words in ["NEAR(parser", "text:", "parser AND", "(", "^parser", "\"parser", "a\u{1}b", "*", "-parser"]
    {
        let said = shell.run(&["search", "--", words]);
        assert!(matches!(said.code, Some(0 | 2)), "{words}: {said:?}");
        assert!(!said.stderr.contains("syntax"), "{words}: {said:?}");
    }
}

#[test]
fn an_empty_store_has_no_hits() {
    let shell = Shell::new();
    shell.check(
        &["search", "word"],
        &expect![[r#"
        No message was found.
    "#]],
    );
    assert!(!shell.home.path().exists());
}

#[test]
fn the_text_of_a_deleted_session_is_not_found_and_in_no_file() {
    let shell = Shell::new();
    let store = shell.store();
    for (id, secret) in [("s-11112222", "zebrafish"), ("s-33334444", "hedgehog")] {
        let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "title": format!("read {secret}"),
            "content": [{"type": "content", "content": {"type": "text", "text": format!("a {secret} file")}}]});
        let updates = vec![
            prompt("p1", &format!("the {secret} title")),
            answer("a1", &format!("{secret} ").repeat(500)),
            call,
        ];
        store.add(&Made { id, cwd: "/w", agent: "codex", ago: 0, updates });
    }
    drop(store);
    assert!(shell.run(&["search", "zebrafish"]).stdout.contains("zebrafish"));
    assert!(!shell.files_with("zebrafish").is_empty(), "it is indexed");
    let said = shell.run(&["delete", "s-11112222", "--yes"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(shell.files_with("zebrafish"), Vec::<String>::new());
    assert!(!shell.files_with("hedgehog").is_empty());
    assert_eq!(shell.run(&["search", "zebrafish"]).stdout, "No message was found.\n");
    assert!(shell.run(&["search", "hedgehog"]).stdout.contains("hedgehog"));
}

#[test]
fn deleted_text_is_in_no_file_while_another_process_uses_the_store() {
    let shell = Shell::new();
    let store = shell.store();
    for id in ["s-11112222", "s-33334444"] {
        let updates = vec![prompt("p1", &format!("the zebrafish of {id}")), answer("a1", "ZEBRAFISH")];
        store.add(&Made { id, cwd: "/w", agent: "codex", ago: 100 * DAY, updates });
    }
    let query = SearchQuery::new(TextQuery::parse("zebrafish").expect("a query"), 10);
    assert_eq!(store.wait(store.store.search(&query)).expect("a page").hits.len(), 4);
    for command in [&["delete", "s-11112222", "--yes"][..], &["prune", "--older-than", "90d", "--yes"]] {
        let said = shell.run(command);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
    }
    for word in ["zebrafish", "ZEBRAFISH", "ebrafish"] {
        assert_eq!(shell.files_with(word), Vec::<String>::new(), "{word}");
    }
    assert_eq!(store.wait(store.store.search(&query)).expect("a page").hits, []);
}

#[test]
fn the_first_search_shows_its_progress_on_a_terminal() {
    let shell = Shell::new();
    let store = shell.store();
    for number in 0..40 {
        let updates = turns("Hello", 120);
        store.add(&Made { id: &format!("s-{number}"), cwd: "/w", agent: "codex", ago: 0, updates });
    }
    drop(store);
    let mut command = shell.command(&["search", "hello", "--limit", "1"]);
    command.env("TERM", "xterm-256color").env("PAGER", "cat");
    let mut searching = OnTerminal::start(command);
    let screen = searching.screen_with("Indexing");
    assert!(screen.contains("/40 sessions"), "{screen}");
    searching.screen_without("Indexing");
    let (status, said) = searching.ends();
    assert!(status.success() && said.contains("\u{1b}[1mHello\u{1b}[0m"), "{said:?}");
    let mut again = OnTerminal::start({
        let mut command = shell.command(&["search", "hello", "--limit", "1"]);
        command.env("TERM", "xterm-256color").env("PAGER", "cat");
        command
    });
    assert!(!again.screen_with("There are more").contains("Indexing"));
    assert!(again.ends().0.success());
}

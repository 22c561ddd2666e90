//! `rethread import` of the files of other tools: what it says, what it asks, what it makes of bad input.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use expect_test::expect;
use serde_json::{Value, json};

use super::{Said, Shell};

const ONE: &str = "33333333-0000-4000-8000-000000000001";
const TWO: &str = "33333333-0000-4000-8000-000000000002";

/// A session of Claude Code with some turns.
fn session(id: &str, turns: usize) -> String {
    let mut lines = Vec::new();
    let mut parent = Value::Null;
    for turn in 0..turns {
        for (kind, message) in [
            ("user", json!({"role": "user", "content": format!("question {turn} of {}", &id[35..])})),
            (
                "assistant",
                json!({"id": format!("m{turn}"), "role": "assistant", "model": "claude-opus-5",
                    "content": [{"type": "text", "text": format!("answer {turn}")}], "stop_reason": "end_turn"}),
            ),
        ] {
            let uuid = format!("{kind}{turn}");
            let line = json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": id, "cwd": "/w",
                "version": "2.1.239", "timestamp": format!("2026-03-04T10:{turn:02}:00.000Z"), "message": message});
            lines.push(format!("{line}\n"));
            parent = json!(uuid);
        }
    }
    lines.concat()
}

impl Shell {
    /// The folder in which Claude Code would have its projects.
    fn projects(&self) -> PathBuf {
        let folder = self.home.beside().join("claude/.claude/projects/-w");
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// Writes a file of Claude Code, as one that was changed an hour ago.
    fn claude_file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.projects().join(name);
        fs::write(&path, content).expect("it can be written");
        let file = fs::File::options().write(true).open(&path).expect("it can be opened");
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("the time can be set");
        path
    }

    fn tool_command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.command(args).into_std();
        command.env("HOME", self.home.beside().join("claude"));
        for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_DB", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command
    }

    fn import_from(&self, args: &[&str]) -> Said {
        let output = self.tool_command(&[&["import"], args].concat()).output().expect("it runs");
        let text = |bytes: Vec<u8>| self.normalized(&String::from_utf8(bytes).expect("its output is UTF-8"));
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn import_json(&self, args: &[&str]) -> Value {
        let said = self.import_from(&[args, &["--json"]].concat());
        let report: Value = serde_json::from_str(&said.stdout).expect("it is JSON");
        report["tools"][0].clone()
    }
}

#[test]
fn a_second_import_has_only_what_is_new() {
    let shell = Shell::new();
    shell.claude_file(&format!("{ONE}.jsonl"), session(ONE, 2));
    let said = shell.import_from(&["claude"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        Claude Code: imported 1 session (2 new turns).
    "#]]
    .assert_eq(&said.stdout);
    shell.claude_file(&format!("{TWO}.jsonl"), session(TWO, 1));
    let grown = shell.claude_file(&format!("{ONE}.jsonl"), session(ONE, 3));
    expect![[r#"
        Claude Code: imported 1 session, continued 1 (2 new turns).
    "#]]
    .assert_eq(&shell.import_from(&["claude"]).stdout);
    assert_eq!(fs::read_to_string(grown).expect("a file"), session(ONE, 3), "sources are only read");
    expect![[r#"
        Claude Code: nothing new; 2 unchanged.
    "#]]
    .assert_eq(&shell.import_from(&["claude"]).stdout);
    shell.check(
        &["list", "--all", "--json"],
        &expect![[r#"
            {
              "sessions": [
                {
                  "id": "33333333-0000-4000-8000-000000000001",
                  "title": "question 0 of 1",
                  "agent": "@agentclientprotocol/claude-agent-acp",
                  "cwd": "/w",
                  "updatedAt": "TIME",
                  "turns": 3,
                  "state": "idle",
                  "process": null,
                  "clients": null,
                  "archived": false,
                  "parent": null
                },
                {
                  "id": "33333333-0000-4000-8000-000000000002",
                  "title": "question 0 of 2",
                  "agent": "@agentclientprotocol/claude-agent-acp",
                  "cwd": "/w",
                  "updatedAt": "TIME",
                  "turns": 1,
                  "state": "idle",
                  "process": null,
                  "clients": null,
                  "archived": false,
                  "parent": null
                }
              ],
              "more": false
            }
        "#]],
    );
}

#[test]
fn an_import_can_be_read_by_programs() {
    let shell = Shell::new();
    let damaged = format!("{}not JSON\n{{\"type\":\"telepathy\",\"version\":\"9.9\"}}\n", session(ONE, 1));
    shell.claude_file(&format!("{ONE}.jsonl"), damaged);
    shell.claude_file("empty.jsonl", "");
    let said = shell.import_from(&["claude", "--json"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        {
          "tools": [
            {
              "tool": "claude",
              "found": 2,
              "counts": {
                "empty": 1,
                "imported": 1
              },
              "turns": 1,
              "sessions": [
                {
                  "path": "/tmp/claude/.claude/projects/-w/33333333-0000-4000-8000-000000000001.jsonl",
                  "key": "",
                  "outcome": "imported",
                  "id": "33333333-0000-4000-8000-000000000001",
                  "turns": 1
                },
                {
                  "path": "/tmp/claude/.claude/projects/-w/empty.jsonl",
                  "key": "",
                  "outcome": "empty",
                  "id": null
                }
              ],
              "skippedLines": 1,
              "damaged": [
                {
                  "path": "/tmp/claude/.claude/projects/-w/33333333-0000-4000-8000-000000000001.jsonl",
                  "line": 3,
                  "reason": "it is not a JSON object: expected ident at line 1 column 2"
                }
              ],
              "drift": [
                {
                  "version": "9.9",
                  "what": "record telepathy",
                  "count": 1
                }
              ],
              "unreadable": []
            }
          ]
        }
    "#]]
    .assert_eq(&said.stdout);
}

#[test]
fn all_tools_are_imported_after_a_question() {
    let shell = Shell::new();
    shell.claude_file(&format!("{ONE}.jsonl"), session(ONE, 2));
    let asked = shell.import_from(&["--all"]);
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(2), ""));
    expect![[r#"
        Claude Code: 1 session, 1 new or changed (1.0 kB)
        error: there is no terminal to ask on
        hint: use --yes to go ahead without a question
    "#]]
    .assert_eq(&asked.stderr);
    let said = shell.import_from(&["--all", "--yes"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        Claude Code: imported 1 session (2 new turns).
    "#]]
    .assert_eq(&said.stdout);
}

#[test]
fn a_copy_gets_a_new_id() {
    let shell = Shell::new();
    shell.claude_file(&format!("{ONE}.jsonl"), session(ONE, 1));
    shell.import_from(&["claude"]);
    let copy = shell.import_json(&["claude", "--as-new"]);
    assert_eq!(copy["counts"], json!({"imported": 1}));
    assert_ne!(copy["sessions"][0]["id"], ONE);
}

#[test]
fn what_cannot_be_imported_from_is_named() {
    let shell = Shell::new();
    shell.check_failure(
        &["import", "clod", "/tmp"],
        2,
        &expect![[r#"
            error: there is no tool clod to import from
            hint: the tools are claude, codex, gemini, opencode, qwen, goose, zed
        "#]],
    );
    shell.check_failure(
        &["import", "claude", "/none"],
        3,
        &expect![[r#"
            error: /none does not exist
        "#]],
    );
    assert_eq!(shell.run(&["import"]).code, Some(2));
    expect![[r#"
        Claude Code: no sessions found.
    "#]]
    .assert_eq(&shell.import_from(&["claude"]).stdout);
}

/// What is unreadable, no file, a loop or too long is reported, and the rest is imported.
#[test]
fn bad_input_is_reported_and_the_rest_goes_on() {
    let shell = Shell::new();
    let projects = shell.projects();
    shell.claude_file(&format!("{ONE}.jsonl"), session(ONE, 1));
    // A link is not followed, so that a loop is none.
    symlink(&projects, projects.join("loop")).expect("a link");
    symlink(projects.join(format!("{ONE}.jsonl")), projects.join(format!("{TWO}.jsonl"))).expect("a link");
    let long =
        format!("{}{{\"type\":\"user\",\"x\":\"{}\"}}\n", session(TWO, 1), "x".repeat(65 * 1024 * 1024));
    shell.claude_file("33333333-0000-4000-8000-000000000003.jsonl", long);
    shell.claude_file("33333333-0000-4000-8000-000000000004.jsonl", b"\xff\xfe\n\x00\x01\n");
    let closed = projects.join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("our own folder");
    let is_closed = fs::read_dir(&closed).is_err();
    let said = shell.import_from(&["claude"]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("our own folder");
    // Who may read everything meets no closed folder.
    assert_eq!(said.code, Some(i32::from(is_closed)), "{}", said.stderr);
    expect![[r#"
        Claude Code: imported 2 sessions (2 new turns); 1 without a conversation.
    "#]]
    .assert_eq(&said.stdout);
    let warnings: String =
        said.stderr.lines().filter(|line| !line.contains("closed")).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        warning: /tmp/claude/.claude/projects/-w/33333333-0000-4000-8000-000000000003.jsonl:3 was skipped: the line is too long
        warning: /tmp/claude/.claude/projects/-w/33333333-0000-4000-8000-000000000004.jsonl:1 was skipped: it is not UTF-8
        warning: /tmp/claude/.claude/projects/-w/33333333-0000-4000-8000-000000000004.jsonl:2 was skipped: it is not a JSON object: expected value at line 1 column 1
    "#]]
    .assert_eq(&warnings.replace("error: 1 file or folder could not be read\n", ""));
}

#[test]
fn a_line_that_is_half_written_is_had_by_the_next_import() {
    let shell = Shell::new();
    let whole = session(ONE, 2);
    shell.claude_file(&format!("{ONE}.jsonl"), &whole[..whole.len() - 40]);
    let first = shell.import_from(&["claude"]);
    assert_eq!((first.code, first.stderr.as_str()), (Some(0), ""));
    assert_eq!(first.stdout, "Claude Code: imported 1 session (2 new turns).\n");
    shell.claude_file(&format!("{ONE}.jsonl"), whole);
    assert_eq!(shell.import_from(&["claude"]).stdout, "Claude Code: 1 session continued (1 new turn).\n");
    let shown = shell.run(&["show", ONE]).stdout;
    assert!(shown.contains("answer 1"), "{shown}");
}

#[test]
fn what_tools_write_is_followed() {
    let shell = Shell::new();
    shell.claude_file(&format!("{ONE}.jsonl"), session(ONE, 1));
    let mut command = shell.tool_command(&["import", "claude", "--watch", "--json"]);
    let mut watching = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    let mut next =
        || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("a line")).expect("JSON") };
    assert_eq!(next(), json!({"tool": "claude", "id": ONE, "outcome": "imported", "turns": 1}));
    shell.claude_file(&format!("{ONE}.jsonl"), session(ONE, 3));
    assert_eq!(next(), json!({"tool": "claude", "id": ONE, "outcome": "grown", "turns": 2}));
    watching.kill().expect("it can be ended");
    watching.wait().expect("it ends");
}

#[test]
fn doctor_lists_what_is_not_known() {
    let shell = Shell::new();
    let odd = format!("{}{{\"type\":\"telepathy\",\"version\":\"9.9\"}}\n", session(ONE, 1));
    shell.claude_file(&format!("{ONE}.jsonl"), odd);
    let said = shell.import_from(&["claude"]);
    expect![[r#"
        note: Claude Code: 1 unknown kind of record or field; `rethread doctor` lists them
    "#]]
    .assert_eq(&said.stderr);
    let doctor = shell.run(&["doctor"]).stdout;
    let lines: String = doctor
        .lines()
        .filter(|line| line.contains("telepathy"))
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    expect![[r#"
          note     imported from claude 9.9: record telepathy is not known (1 time)
    "#]]
    .assert_eq(&lines);
    let json: Value = serde_json::from_str(&shell.run(&["doctor", "--json"]).stdout).expect("JSON");
    assert_eq!(
        json["store"]["importDrift"],
        json!([{"tool": "claude", "version": "9.9", "what": "record telepathy", "count": 1}])
    );
}

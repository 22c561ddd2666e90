//! A chat without a terminal: text, standard input, JSON lines, permissions, and exit codes.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use expect_test::expect;
use rethread_testkit::processes::signal;

use super::super::Shell;
use super::{agent, run, with_agent, without_ids};

#[test]
fn the_answer_and_nothing_else_is_printed() {
    let shell = Shell::new();
    let said = run(&shell, &["think hm; say **one**; tool; plan a,b; notice careful; say two"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    assert_eq!(said.stdout, "**one**\n\ntwo\n");
}

#[test]
fn the_prompt_may_be_on_standard_input() {
    let shell = Shell::new();
    let mut command = shell.command(&with_agent(&[], &agent())).into_std();
    let mut chat = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"say from\nsay stdin\n").unwrap();
    let output = chat.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "from\n\nstdin\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn without_a_prompt_there_is_nothing_to_do() {
    let shell = Shell::new();
    shell.check_failure(
        &with_agent(&[], &agent()),
        2,
        &expect![[r#"
            error: there is no prompt
            hint: give it as an argument or on standard input
        "#]],
    );
    assert_eq!(shell.run(&["list", "--all"]).stdout, "No sessions.\n");
}

#[test]
fn updates_are_json_lines() {
    let shell = Shell::new();
    let said = run(&shell, &["--json", "--yes", "say \u{1b}[2Jhi; permit; elicit"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    assert!(!said.stdout.contains('\u{1b}'));
    let lines: Vec<serde_json::Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_type = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    assert_eq!(lines[0]["type"], "session");
    let kinds: Vec<&str> =
        of_type("update").iter().filter_map(|line| line["update"]["sessionUpdate"].as_str()).collect();
    assert!(kinds.contains(&"agent_message_chunk") && kinds.contains(&"state_update"), "{kinds:?}");
    let questions: String =
        of_type("question").iter().map(|line| without_ids(&line["answer"].to_string()) + "\n").collect();
    expect![[r#"
        {"optionId":"yes","kind":"allow_once"}
        null
    "#]]
    .assert_eq(&questions);
    assert_eq!(lines.last().unwrap().to_string(), r#"{"type":"end","stopReason":"end_turn"}"#);
}

#[test]
fn permissions_follow_the_options() {
    let shell = Shell::new();
    let allowed = run(&shell, &["--yes", "permit"]);
    assert_eq!((allowed.code, allowed.stdout.as_str()), (Some(0), "permission: selected yes\n"));
    let rejected = run(&shell, &["--no", "permit"]);
    assert_eq!((rejected.code, rejected.stdout.as_str()), (Some(0), "permission: selected no\n"));
    let neither = run(&shell, &["permit; say on"]);
    assert_eq!((neither.code, neither.stdout.as_str()), (Some(4), "permission: selected no\n\non\n"));
    expect![[r#"
        error: the agent asked for a permission, which was rejected: Run it?
        hint: use --yes to allow what the agent asks for, or --no to reject it without an error
    "#]]
    .assert_eq(&neither.stderr);
    let form = run(&shell, &["elicit"]);
    assert_eq!((form.code, form.stdout.as_str()), (Some(0), "elicited: {\"action\":\"cancel\"}\n"));
    assert_eq!(run(&shell, &["--yes", "--no", "hi"]).code, Some(2));
}

#[test]
fn turns_that_fail_have_exit_codes() {
    let shell = Shell::new();
    for (script, code, words) in [
        ("fail", 1, "the script failed"),
        ("say half; crash", 1, "exit status 3"),
        ("stop max_tokens", 1, "incomplete"),
        ("stop refusal", 4, "refused"),
    ] {
        let said = run(&shell, &[script]);
        assert_eq!(said.code, Some(code), "{script}: {said:?}");
        assert!(said.stderr.starts_with("error: ") && said.stderr.contains(words), "{script}: {said:?}");
    }
    shell.check_failure(
        &["chat", "hi", "--", "no-such-agent"],
        1,
        &expect![[r#"
            error: the agent did not start: agent program no-such-agent was not found
            hint: install it, or give its full path; a script also needs its interpreter
        "#]],
    );
    shell.check_failure(
        &["chat", "--agent", "no-such-agent", "hi"],
        3,
        &expect![[r#"
            error: no agent is called no-such-agent
            hint: `rethread agents` lists the agents; a command goes after --
        "#]],
    );
}

#[test]
fn sessions_go_on() {
    let shell = Shell::new();
    assert_eq!(run(&shell, &["say one"]).code, Some(0));
    assert_eq!(run(&shell, &["--last", "say two"]).stdout, "two\n");
    let list = shell.run(&["list"]).stdout;
    let id = list.lines().nth(1).and_then(|line| line.split_whitespace().next()).unwrap().to_owned();
    assert_eq!(run(&shell, &["--resume", &id, "say three"]).stdout, "three\n");
    let list: serde_json::Value = serde_json::from_str(&shell.run(&["list", "--json"]).stdout).unwrap();
    assert_eq!(list["sessions"][0]["turns"], 3);
    assert_eq!(run(&shell, &["--resume", "nothing", "hi"]).code, Some(3));
    let unsaid = shell.run(&["chat", "--last", "hi"]);
    assert_eq!(unsaid.code, Some(2), "the name of the agent is no program: {unsaid:?}");
    assert!(unsaid.stderr.contains("whose command is not known"), "{unsaid:?}");
}

#[test]
fn a_session_that_is_open_elsewhere_is_refused() {
    let shell = Shell::new();
    assert_eq!(run(&shell, &["say one"]).code, Some(0));
    let mut other = shell.command(&with_agent(&["--last", "say on; hang"], &agent())).into_std();
    let mut other = other.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    other.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    let refused = run(&shell, &["--last", "say two"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{refused:?}");
    assert!(
        refused.stderr.contains("is open in process") && refused.stderr.contains("hint: "),
        "{refused:?}"
    );
    signal(i32::try_from(other.id()).unwrap(), libc::SIGINT);
    assert_eq!(other.wait().unwrap().code(), Some(130), "Ctrl-C cancels");
    assert_eq!(run(&shell, &["--last", "say two"]).code, Some(0));
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let shell = Shell::new();
    let mut command = shell.command(&with_agent(&["say one; wait never; say two"], &agent())).into_std();
    let mut chat = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(chat.stdout.take());
    let mut said = String::new();
    chat.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((chat.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn the_assistant_answers_commands_without_a_model() {
    let shell = Shell::new();
    std::fs::write(shell.here().join("a.txt"), "some text\n").unwrap();
    let said = shell.run(&["chat", "/read a.txt"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    let refused = shell.run(&["chat", "/run echo hi"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert_eq!(shell.run(&["chat", "--yes", "/run echo hi > b.txt"]).code, Some(0));
    assert!(shell.here().join("b.txt").exists());
}

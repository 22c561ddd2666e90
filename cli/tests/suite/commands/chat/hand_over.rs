//! A session of one agent goes on with another one, which is given the transcript.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::super::Shell;
use super::run;

/// An agent that keeps no sessions, writes down what it is sent, and answers every prompt with a sentence.
const OTHER: &str = r#"#!/bin/sh
while IFS= read -r line; do
  printf '%s\n' "$line" >> "$LOG"
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"other","version":"1"}}' ;;
    *'"method":"session/new"'*) result='{"sessionId":"other-1"}' ;;
    *'"method":"session/prompt"'*)
      printf '%s\n' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"the other agent goes on"}}}}'
      result='{"stopReason":"end_turn"}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

struct OtherAgent {
    program: PathBuf,
    log: PathBuf,
}

impl OtherAgent {
    fn new(shell: &Shell) -> Self {
        let program = shell.home.beside().join("other-agent");
        std::fs::write(&program, OTHER).expect("it works");
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it works");
        Self { program, log: shell.home.beside().join("other-log") }
    }

    fn chat(&self, shell: &Shell, words: &[&str]) -> (Option<i32>, String) {
        let program = self.program.display().to_string();
        let mut command = shell.command(&[&["chat"], words, &["--", &program]].concat());
        let output = command.env("LOG", &self.log).as_std_mut().output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("it works"))
    }

    fn heard(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

#[test]
fn another_agent_is_given_the_transcript() {
    let shell = Shell::new();
    let other = OtherAgent::new(&shell);
    assert_eq!(run(&shell, &["say the parser is in src/parse.rs"]).code, Some(0));
    let (code, said) = other.chat(&shell, &["--last", "and now?"]);
    assert_eq!((code, said.as_str()), (Some(0), "the other agent goes on\n"));
    let heard = other.heard();
    let prompt = heard.lines().find(|line| line.contains("session/prompt")).unwrap();
    assert!(prompt.contains("the parser is in src/parse.rs") && prompt.contains("and now?"), "{prompt}");
    let list: serde_json::Value = serde_json::from_str(&shell.run(&["list", "--json"]).stdout).unwrap();
    assert_eq!((&list["sessions"][0]["turns"], &list["sessions"][0]["agent"]), (&2.into(), &"other".into()));
}

#[test]
fn the_notice_says_so_and_the_first_agent_can_take_it_back() {
    let shell = Shell::new();
    let other = OtherAgent::new(&shell);
    assert_eq!(run(&shell, &["say first"]).code, Some(0));
    let (_, lines) = other.chat(&shell, &["--json", "--last", "second"]);
    assert!(lines.contains("Another agent continues this session"), "{lines}");
    assert_eq!(run(&shell, &["--last", "say third"]).stdout, "third\n");
}

#[test]
fn the_assistant_and_an_agent_hand_over_to_each_other() {
    let shell = Shell::new();
    assert_eq!(shell.run(&["chat", "/think about it"]).code, Some(0));
    assert_eq!(run(&shell, &["--last", "say taken over"]).stdout, "taken over\n");
    let back = shell.run(&["chat", "--last", "--agent", "assistant", "/help"]);
    assert!(back.code == Some(0) && back.stdout.contains("/read"), "{back:?}");
}

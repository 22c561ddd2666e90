//! Text of agents that would control a terminal is shown, never obeyed.

use serde_json::json;

use super::super::Shell;
use super::{agent, on_terminal, run, with_agent};

const EVIL: &str = "\u{1b}]0;evil\u{7}\u{1b}[2J\u{9b}31m\u{202e}x";
const SHOWN: &str = r"\u{1b}]0;evil\u{7}\u{1b}[2J\u{9b}31m\u{202e}x";

/// A script whose every text is hostile.
fn script() -> String {
    let raw = |update: serde_json::Value| format!("raw {update}\n");
    let text = json!({"type": "text", "text": format!("msg {EVIL}\n```\ncode {EVIL}\n```\n")});
    let call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": format!("call {EVIL}"),
        "kind": "execute", "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": format!("out {EVIL}")}}]});
    let plan = json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p",
        "entries": [{"content": format!("step {EVIL}"), "status": "pending", "priority": "high"}]}});
    let notice = json!({"sessionUpdate": "notice", "severity": "error", "title": format!("warn {EVIL}"),
        "description": format!("why {EVIL}")});
    let title = json!({"sessionUpdate": "session_info_update", "title": format!("name {EVIL}")});
    let message = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text});
    [message, call, plan, notice, title].map(raw).concat()
}

#[test]
fn nothing_that_controls_a_terminal_is_printed() {
    let shell = Shell::new();
    let mut chat = on_terminal(&shell, &with_agent(&[&script()], &agent()), 60, 200);
    // Nothing needs to follow the last line.
    let screen = chat.screen_with(&format!("  why {SHOWN}")) + "\n";
    for what in ["msg", "  code", "call", "  out", "step", "warn", "  why"] {
        assert!(screen.contains(&format!("{what} {SHOWN}\n")), "{what}: {screen}");
    }
    let written = chat.written();
    assert!(
        !written.contains("\u{1b}]0;evil") && !written.contains('\u{9b}') && !written.contains('\u{202e}')
    );
}

#[test]
fn plain_output_is_escaped() {
    let shell = Shell::new();
    let said = run(&shell, &[&script()]);
    assert_eq!(said.stdout, format!("msg {SHOWN}\n```\ncode {SHOWN}\n```\n"));
}

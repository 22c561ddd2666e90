//! What a person reads of each kind of entry: updates in, text out.

use crate::common::{ended, inserted, new, placed, started, text};
use expect_test::{Expect, expect};
use rethread_core::{Entry, Stop, TextPart, TurnNo, UpdateForm, fold, readable};
use serde_json::{Value, json};

fn check(entries: Vec<Entry>, expect: Expect) {
    let line = |entry: &Entry| {
        let Some(passage) = readable(entry) else { return String::new() };
        let form = if passage.form == UpdateForm::Chunk { "+" } else { "" };
        let child = if passage.child.is_empty() { String::new() } else { format!(" of {}", passage.child) };
        format!("{}{child} {}{form}: {:?}\n", passage.speaker.name(), passage.id, passage.text())
    };
    expect.assert_eq(&entries.iter().map(line).collect::<String>());
}

fn call(content: Value) -> Entry {
    new(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Edit a.rs", "status": "completed",
        "content": content}),
    )
}

#[test]
fn messages() {
    check(
        vec![
            inserted("p", 1),
            started(1),
            new(text("agent_message_chunk", "m", "Hel")),
            new(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [
                {"type": "text", "text": "Hello"}, {"type": "image", "data": "", "mimeType": "image/png"},
                {"type": "resource_link", "uri": "file:///a", "name": "a"},
                {"type": "resource", "resource": {"uri": "file:///b", "text": "bee"}}, {"no": "block"}]})),
            new(text("agent_thought_chunk", "t", "Hm")),
            new(
                json!({"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text", "text": "more"}]}),
            ),
            new(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": null})),
            new(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": 7})),
            ended(1),
        ],
        expect![[r#"
            User p: "hi"
            Agent m+: "Hel"
            Agent m: "Hello\n[image]\n[file:///a]\n[file:///b]\nbee"
            Thought t+: "Hm"
            User u: "more"
        "#]],
    );
}

#[test]
fn tool_calls() {
    check(
        vec![
            call(json!([{"type": "content", "content": {"type": "text", "text": "done"}},
                {"type": "terminal", "terminalId": "x"}])),
            call(
                json!([{"type": "diff", "changes": [{"operation": "modify", "path": "/w/a.rs", "fileType": "text"}],
                "patch": {"format": "git_patch", "text": "--- a/w/a.rs\n+++ b/w/a.rs\n"}}]),
            ),
            call(
                json!([{"type": "diff", "changes": [{"operation": "delete", "path": "/w/b"}, {"path": "/w/c"}]}]),
            ),
            new(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"})),
            new(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "locations": []})),
            new(json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c",
                "content": {"type": "content", "content": {"type": "text", "text": "more"}}})),
        ],
        expect![[r#"
            Tool c: "Edit a.rs completed\ndone\n[terminal]"
            Tool c: "Edit a.rs completed\n--- a/w/a.rs\n+++ b/w/a.rs\n"
            Tool c: "Edit a.rs completed\ndelete /w/b\nchange /w/c"
            Tool c: "failed"
            Tool c+: "more"
        "#]],
    );
}

#[test]
fn the_rest() {
    let stop = |stop: Stop| Entry::TurnEnded { turn: TurnNo(1), stop, at: 1, state: json!({}).into() };
    check(
        vec![
            new(json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [
                {"content": "look", "status": "completed"}, {"content": "think", "status": "in_progress"},
                {"content": "write", "status": "pending"}]}})),
            new(
                json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "# Plan"}}),
            ),
            new(
                json!({"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "p", "uri": "file:///plan"}}),
            ),
            new(json!({"sessionUpdate": "plan_removed", "planId": "p"})),
            new(json!({"sessionUpdate": "terminal_update", "terminalId": "x", "command": "ls",
                "output": {"data": "YQpi"}, "exitStatus": {"exitCode": 0}})),
            new(json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "Yw=="})),
            new(json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed",
                "summary": [{"type": "text", "text": "all of it"}]})),
            new(
                json!({"sessionUpdate": "notice", "severity": "warning", "title": "Slow", "description": "very"}),
            ),
            new(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2})),
            new(json!({"sessionUpdate": "session_info_update", "title": "a title"})),
            stop(Stop::plain("cancelled")),
            stop(Stop::plain("max_tokens")),
            stop(Stop::failed(-1, "no more")),
        ],
        expect![[r##"
            Plan p: "[x] look\n[~] think\n[ ] write"
            Plan p: "# Plan"
            Plan p: "[file:///plan]"
            Terminal x: "$ ls\na\nb\n[exit status 0]"
            Terminal x+: "c"
            Compaction k: "completed\nall of it"
            Notice : "Slow warning\nvery"
            Notice : "the turn was cancelled"
            Notice : "the turn ended: max tokens"
            Notice : "the turn failed: no more"
        "##]],
    );
}

#[test]
fn sub_agents_speak_in_their_own_name() {
    let of_child = |body: Value| {
        let mut update = crate::common::update(body);
        update.kind = rethread_core::UpdateKind::Other;
        update.id = "child".to_owned();
        Entry::Updated { update, known: false }
    };
    check(
        vec![
            of_child(text("agent_message_chunk", "m", "I looked")),
            of_child(json!({"sessionUpdate": "subagent_update", "sessionId": "grandchild"})),
            new(json!({"sessionUpdate": "subagent_update", "sessionId": "child"})),
        ],
        expect![[r#"
            Agent of child m+: "I looked"
        "#]],
    );
}

#[test]
fn a_folded_turn_is_read_in_whole_passages() {
    let chunks = ["Hel", "lo ", "you"].map(|words| new(text("agent_message_chunk", "m", words)));
    let entries: Vec<_> = [started(1)].into_iter().chain(chunks).chain([ended(1)]).collect();
    let folded: Vec<_> = fold(&placed(entries)).into_iter().map(|item| item.entry).collect();
    check(
        folded,
        expect![[r#"
        Agent m: "Hello you"
    "#]],
    );
}

#[test]
fn diffs_have_their_paths() {
    let passage = readable(&call(json!([{"type": "diff", "changes": [{"operation": "add", "path": "/w/a"}],
        "patch": {"format": "git_patch", "text": "+a\n"}}])));
    let expected =
        TextPart::Diff { changes: vec![("add".to_owned(), "/w/a".to_owned())], patch: "+a\n".to_owned() };
    assert_eq!(passage.map(|passage| passage.parts), Some(vec![expected]));
}

//! Events in, lines out: what a chat shows of messages, tool calls, plans, notices and history.

use expect_test::{Expect, expect};
use rethread::client::SessionEvent;
use rethread::client::view::SessionView;
use rethread_core::{Json, Update};
use serde_json::{Value, json};

use super::transcript::{Moment, Transcript};
use crate::output::target::Color;

/// Shows these updates, with a mark where lines were printed, and the end of the turn.
fn check(moment: Moment, updates: &[Value], expected: &Expect) {
    let mut transcript = Transcript::new(60, Color::Off, moment);
    let mut view = SessionView::default();
    let mut shown = String::new();
    for update in updates {
        let event = SessionEvent::Updated(Update::read(Json::from(update.clone())));
        let change = view.apply(&event).expect("it changes something");
        shown += &transcript.change(&view, &change);
    }
    shown += &transcript.end_turn(&view);
    expected.assert_eq(&shown);
}

fn chunk(kind: &str, id: &str, text: &str) -> Value {
    json!({"sessionUpdate": format!("{kind}_chunk"), "messageId": id, "content": {"type": "text", "text": text}})
}

fn call(id: &str, members: Value) -> Value {
    let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": id});
    for (name, value) in members.as_object().expect("members") {
        update[name] = value.clone();
    }
    update
}

fn text(text: &str) -> Value {
    json!([{"type": "content", "content": {"type": "text", "text": text}}])
}

#[test]
fn messages_thoughts_and_calls_are_set_apart() {
    check(
        Moment::Live,
        &[
            chunk("agent_thought", "t1", "Let me see."),
            chunk("agent_message", "m1", "I look at"),
            chunk("agent_message", "m1", " the files."),
            call("c1", json!({"title": "Read a.rs", "status": "in_progress"})),
            call("c2", json!({"title": "Read b.rs", "status": "in_progress"})),
            call("c1", json!({"status": "completed"})),
            call("c2", json!({"status": "failed"})),
            chunk("agent_message", "m1", "Done.\n\n- one\n- two"),
        ],
        &expect![[r#"
            Let me see.

            I look at the files.

            ● Read a.rs
            ✗ Read b.rs (failed)

            Done.

            • one
            • two
        "#]],
    );
}

#[test]
fn outputs_are_folded() {
    let many = (1..=9).map(|line| format!("line {line}\n")).collect::<String>();
    check(
        Moment::Live,
        &[
            json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "make"}),
            json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "MQoyCjMKNAo1CjYKNwo4CjkKMTAK"}),
            json!({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 2}}),
            call(
                "c1",
                json!({"title": "`make`", "status": "completed", "content": [{"type": "terminal", "terminalId": "t"}]}),
            ),
            call("c2", json!({"title": "List", "status": "completed", "content": text(&many)})),
            call("c3", json!({"title": "Wait", "status": "in_progress"})),
        ],
        &expect![[r#"
            ● make
              … 2 more lines above
              3
              4
              5
              6
              7
              8
              9
              10
              exit status 2

            ● List
              line 1
              line 2
              line 3
              line 4
              … 5 more lines

            ○ Wait (not finished)
        "#]],
    );
}

#[test]
fn a_plan_is_shown_whole_and_then_by_its_changes() {
    let plan = |statuses: [&str; 2]| {
        let entries: Vec<Value> = ["first", "second"]
            .iter()
            .zip(statuses)
            .map(|(content, status)| json!({"content": content, "status": status, "priority": "low"}))
            .collect();
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": entries}})
    };
    check(
        Moment::Live,
        &[
            plan(["in_progress", "pending"]),
            plan(["completed", "in_progress"]),
            plan(["completed", "in_progress"]),
        ],
        &expect![[r#"
            ▸ first
            ☐ second

            ☑ first
            ▸ second
        "#]],
    );
}

#[test]
fn notices_have_their_details() {
    let long = "It continues in a new session, and the agent gets the kept transcript with the next prompt.";
    check(
        Moment::Live,
        &[
            json!({"sessionUpdate": "notice", "severity": "warning", "title": "Not restored", "description": long}),
            json!({"sessionUpdate": "notice", "severity": "info", "title": format!("Restored: {long}")}),
        ],
        &expect![[r#"
            ! Not restored
              It continues in a new session, and the agent gets the
              kept transcript with the next prompt.

            · Restored: It continues in a new session, and the agent
              gets the kept transcript with the next prompt.
        "#]],
    );
}

#[test]
fn prompts_are_shown_only_in_a_history() {
    let updates = [
        json!({"sessionUpdate": "user_message", "messageId": "u", "content": [{"type": "text", "text": "two\nlines"}]}),
        chunk("agent_message", "m", "answer"),
    ];
    check(
        Moment::Replay,
        &updates,
        &expect![[r#"
        › two
          lines

        answer
    "#]],
    );
    check(
        Moment::Live,
        &updates,
        &expect![[r#"
        answer
    "#]],
    );
}

#[test]
fn a_message_that_is_replaced_is_shown_again() {
    let whole = |text: &str| json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "text", "text": text}]});
    check(
        Moment::Live,
        &[chunk("agent_message", "m", "one"), whole("one and two"), whole("another text")],
        &expect![[r#"
            one and two

            another text
        "#]],
    );
}

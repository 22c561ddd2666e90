//! The view of the client, without a connection: events of both versions in, changes and items out.

use expect_test::{Expect, expect};
use rethread::client::view::{FileLocation, SessionCost, SessionView, TerminalExit, TokenUsage, ViewChange};
use rethread::client::{Decoded, SessionDecoder, SessionEvent};
use rethread::edge::Version;
use rethread_core::{Activity, Json, QuestionId, QuestionKind, Stop, Subject, TextPart, Update, UpdateKind};
use serde_json::{Value, json};

/// The changes of each update of an agent, and then the items.
fn check(version: Version, updates: &[Value], expected: &Expect) -> SessionView {
    let (mut decoder, mut view, mut text) =
        (SessionDecoder::new(version), SessionView::default(), String::new());
    for update in updates {
        let params = json!({"sessionId": "s", "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
        for decoded in decoder.lines(std::iter::once(line.as_bytes())) {
            let Decoded::Event(event) = decoded else { panic!("{decoded:?}") };
            let change = view.apply(&event);
            text.push_str(&change.map_or("nothing\n".to_owned(), |change| format!("{change:?}\n")));
        }
    }
    for item in view.items() {
        let heading = [item.title(), item.status()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("{:?} {heading}{:?}\n", item.subject, item.parts()));
    }
    expected.assert_eq(&text);
    view
}

fn chunk(tag: &str, id: &str, text: &str) -> Value {
    json!({"sessionUpdate": tag, "messageId": id, "content": {"type": "text", "text": text}})
}

#[test]
fn text_is_appended_and_whole_messages_replace_it() {
    let whole = json!({
        "sessionUpdate": "agent_message", "messageId": "m",
        "content": [{"type": "text", "text": "all new"}, {"type": "image", "data": "", "mimeType": "image/png"}],
    });
    let updates = [
        chunk("agent_message_chunk", "m", "one "),
        chunk("agent_message_chunk", "m", "two"),
        chunk("agent_thought_chunk", "m", "hm"),
        whole,
    ];
    let view = check(
        Version::V2,
        &updates,
        &expect![[r#"
            Added(0)
            Appended { item: 0, text: "two" }
            Added(1)
            Changed(0)
            AgentMessage [Text("all new"), Opaque("image")]
            Thought [Text("hm")]
        "#]],
    );
    assert_eq!(view.items()[0].text(), "all new[image]");
}

#[test]
fn a_chunk_with_metadata_is_read_too() {
    let mut noted = chunk("agent_message_chunk", "m", "two");
    noted["_meta"] = json!({"k": 1});
    let view = check(
        Version::V2,
        &[chunk("agent_message_chunk", "m", "one "), noted],
        &expect![[r#"
            Added(0)
            Changed(0)
            AgentMessage [Text("one "), Text("two")]
        "#]],
    );
    assert_eq!(view.items()[0].text(), "one two");
}

#[test]
fn a_tool_call_of_version_1_shows_its_change_as_a_patch() {
    let v1 = [
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", "kind": "edit", "status": "pending",
            "locations": [{"path": "/a", "line": 3}]}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
            "content": [{"type": "diff", "path": "/a", "oldText": "x\n", "newText": "y\n"}]}),
    ];
    let view = check(
        Version::V1,
        &v1,
        &expect![[r#"
            Added(0)
            Changed(0)
            ToolCall Edit completed[Diff { changes: [("modify", "/a")], patch: "diff --git /a /a\n--- /a\n+++ /a\n@@ -1,1 +1,1 @@\n-x\n+y\n" }]
        "#]],
    );
    let call = &view.items()[0];
    assert_eq!(call.locations(), [FileLocation { path: "/a".to_owned(), line: Some(3) }]);
    assert_eq!(call.tool_kind(), Some("edit"));
}

#[test]
fn a_terminal_has_a_command_output_and_an_exit() {
    let updates = [
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run",
            "content": [{"type": "terminal", "terminalId": "t"}]}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls", "cwd": "/w"}),
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "aGk="}),
        json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "IQo="}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 1}}),
    ];
    let view = check(
        Version::V2,
        &updates,
        &expect![[r#"
            Added(0)
            Added(1)
            Changed(1)
            Changed(1)
            Changed(1)
            ToolCall Run[Terminal("t")]
            Terminal [Text("hi!\n")]
        "#]],
    );
    let terminal = view.item(Subject::Terminal, "t").expect("it was announced");
    assert_eq!((terminal.command(), &*terminal.output()), (Some("ls"), &b"hi!\n"[..]));
    assert_eq!(terminal.exit(), Some(TerminalExit { code: Some(1), signal: None }));
    assert_eq!(view.items()[0].parts(), [TextPart::Terminal("t".to_owned())]);
}

#[test]
fn only_the_end_of_a_long_output_is_kept() {
    use base64::Engine;
    let data = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; 700 * 1024]);
    let chunk = json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data});
    let mut view = SessionView::default();
    for _ in 0..3 {
        view.apply(&SessionEvent::Updated(Update::read(chunk.clone().into())));
    }
    assert_eq!(view.items()[0].output().len(), 1024 * 1024);
}

#[test]
fn plans_come_change_and_go() {
    let plan = |id: &str, step: &str| {
        let steps = json!([{"content": step, "status": "pending", "priority": "high"}]);
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": id, "entries": steps}})
    };
    let removed = json!({"sessionUpdate": "plan_removed", "planId": "p"});
    let after = chunk("agent_message_chunk", "m", "x");
    let updates =
        [plan("p", "a"), plan("q", "b"), after.clone(), plan("p", "c"), removed.clone(), removed, after];
    let view = check(
        Version::V2,
        &updates,
        &expect![[r#"
            Added(0)
            Added(1)
            Added(2)
            Changed(0)
            Removed { subject: Plan, id: "p" }
            nothing
            Appended { item: 1, text: "x" }
            Plan []
            AgentMessage [Text("xx")]
        "#]],
    );
    let steps = view.plan().expect("one is left").plan_steps();
    assert_eq!((steps[0].content.as_str(), steps[0].priority.as_deref()), ("b", Some("high")));
}

#[test]
fn modes_options_commands_usage_and_title_are_read() {
    let mut decoder = SessionDecoder::new(Version::V1);
    let mode = |id: &str| json!({"id": id, "name": id.to_uppercase()});
    let answer = json!({"sessionId": "s", "modes": {"currentModeId": "ask", "availableModes": [mode("ask"), mode("code")]}});
    let mut view = SessionView::of(&decoder.opened(&answer.into()));
    for update in [
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"}),
        json!({"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 0.5, "currency": "EUR"}}),
        json!({"sessionUpdate": "session_info_update", "title": "T"}),
        json!({"sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "go", "description": "goes", "input": {"hint": "where"}}]}),
    ] {
        let params = json!({"sessionId": "s", "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string();
        for decoded in decoder.lines(std::iter::once(line.as_bytes())) {
            let Decoded::Event(event) = decoded else { panic!("{decoded:?}") };
            view.apply(&event);
        }
    }
    let mode = view.option_of("mode").expect("modes are options");
    assert_eq!((mode.value_text().as_str(), mode.choices.len()), ("code", 2));
    let cost = SessionCost { amount: 0.5, currency: "EUR".to_owned() };
    assert_eq!(view.usage(), Some(TokenUsage { used: 10, size: 100, cost: Some(cost) }));
    assert_eq!(view.title(), Some("T"));
    let commands = view.commands();
    assert_eq!((commands[0].name.as_str(), commands[0].hint.as_deref()), ("go", Some("where")));
}

#[test]
fn an_open_question_waits_for_the_user() {
    let question = QuestionId::from("q");
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let body = json!({"title": "May I?", "options": options}).into();
    let mut view = SessionView::default();
    view.apply(&SessionEvent::Asked { question: question.clone(), kind: QuestionKind::Permission, body });
    assert_eq!(view.activity(), Some(Activity::RequiresAction));
    assert_eq!(view.questions()[0].choices()[0].kind, "allow_once");
    let settled = SessionEvent::Settled { question: question.clone() };
    assert_eq!(view.apply(&settled), Some(ViewChange::Settled(question)));
    assert_eq!((view.apply(&settled), view.activity()), (None, None));
}

#[test]
fn sub_agents_have_views_of_their_own() {
    let announced = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "title": "Helper"});
    let body = chunk("agent_message_chunk", "m", "hi").into();
    let mut view = SessionView::default();
    view.apply(&SessionEvent::Updated(Update::read(announced.into())));
    let said = Update { kind: UpdateKind::Other, id: "kid".to_owned(), body };
    let change = view.apply(&SessionEvent::Updated(said));
    assert_eq!(
        change,
        Some(ViewChange::Child { session: "kid".to_owned(), change: Box::new(ViewChange::Added(0)) })
    );
    assert_eq!(view.items()[0].other_tag(), Some("subagent_update"));
    assert_eq!(view.children()[0].1.items()[0].text(), "hi");
}

#[test]
fn the_prompts_of_this_client_are_shown_where_the_agent_does_not_repeat_them() {
    let content: Json = json!([{"type": "text", "text": "hello"}]).into();
    assert!(SessionDecoder::new(Version::V2).prompt_sent(&content).is_empty());
    let mut decoder = SessionDecoder::new(Version::V1);
    let mut view = SessionView::of(&decoder.prompt_sent(&content));
    assert_eq!(view.items()[0].text(), "hello");
    assert_eq!(view.activity(), Some(Activity::Running));
    for event in decoder.prompt_answered(Ok(&json!({"stopReason": "refusal"}).into())) {
        view.apply(&event);
    }
    assert_eq!((view.activity(), view.stop()), (Some(Activity::Idle), Some(&Stop::plain("refusal"))));
}

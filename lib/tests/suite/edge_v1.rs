//! Updates between the canonical shape and the first protocol version, through the public interface only, each
//! result read by the schema's own types. Recordings of real agents join in where `RETHREAD_RECORDINGS` names them.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;

use agent_client_protocol_schema::{v1, v2};
use expect_test::{Expect, expect};
use rethread::edge::v1::{
    Announced, BooleanOptions, CallContent, Compaction, Notices, Options, PlanForm, Subagents, TerminalText,
    TerminalView, V1Context, permission, plan, to_canonical_simple, to_v1,
};
use rethread_core::{Fields, Json, Update};

struct Known;

impl TerminalText for Known {
    fn render(&self, terminal_id: &str) -> TerminalView {
        TerminalView::Text(format!("output of {terminal_id}"))
    }
}

impl CallContent for Known {
    fn content(&self, tool_call_id: &str) -> Option<Json> {
        let items = r#"[{"type":"content","content":{"type":"text","text":"a"}},{"type":"terminal","terminalId":"t"}]"#;
        (tool_call_id == "c").then(|| json(items))
    }
}

const PLAIN: V1Context<'static> = V1Context {
    plan: PlanForm::Entries,
    booleans: BooleanOptions::Withheld,
    notices: Notices::AsText,
    compaction: Compaction::AsText,
    subagents: Subagents::Withheld,
    terminals: &Known,
    calls: &Known,
    note_id: "n",
};

const RICH: V1Context<'static> = V1Context {
    plan: PlanForm::Native,
    booleans: BooleanOptions::Offered,
    notices: Notices::Accepted,
    compaction: Compaction::Accepted,
    subagents: Subagents::Accepted,
    ..PLAIN
};

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn update_of(body: Json) -> Update {
    Update::read(body)
}

/// Converts a canonical update and reads what comes out with the types of the first version.
fn encode(body: Json, announced: Announced, view: &V1Context<'_>) -> Vec<Json> {
    let updates = to_v1(&update_of(body), announced, view);
    for update in &updates {
        update.read::<v1::SessionUpdate>().unwrap_or_else(|error| panic!("{error}: {update}"));
        for item in update.fields().get("content").and_then(Json::items).unwrap_or_default() {
            item.read::<v1::ToolCallContent>().unwrap_or_else(|error| panic!("{error}: {item}"));
        }
    }
    updates
}

fn check(body: &str, view: &V1Context<'_>, expect: &Expect) {
    let body = json(body);
    let typed: v2::SessionUpdate = body.read().unwrap();
    assert!(!matches!(typed, v2::SessionUpdate::Other(_)), "{body}");
    let updates = encode(body, Announced::Known, view);
    expect.assert_eq(&updates.iter().map(|update| format!("{update}\n")).collect::<String>());
}

#[test]
fn a_content_chunk_of_a_tool_call_is_sent_with_what_came_before() {
    check(
        r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"terminal","terminalId":"t"}}"#,
        &PLAIN,
        &expect![[r#"
            {"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"a"}},{"type":"content","content":{"type":"text","text":"output of t"},"_meta":{"rethread":{"terminalId":"t"}}}]}
        "#]],
    );
}

#[test]
fn terminals_and_states_say_nothing_by_themselves() {
    check(r#"{"sessionUpdate":"terminal_update","terminalId":"t"}"#, &PLAIN, &expect![""]);
    check(
        r#"{"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"YQ=="}"#,
        &PLAIN,
        &expect![""],
    );
    check(r#"{"sessionUpdate":"state_update","state":"running"}"#, &PLAIN, &expect![""]);
}

#[test]
fn a_notice_is_said_in_words() {
    let notice = r#"{"sessionUpdate":"notice","severity":"warning","title":"Low","description":"disk"}"#;
    check(
        notice,
        &PLAIN,
        &expect![[r#"
        {"sessionUpdate":"agent_message_chunk","messageId":"n","content":{"type":"text","text":"\n\n[warning] Low: disk\n\n"}}
    "#]],
    );
    check(
        notice,
        &RICH,
        &expect![[r#"
        {"sessionUpdate":"notice","severity":"warning","title":"Low","description":"disk"}
    "#]],
    );
}

#[test]
fn a_compaction_is_said_in_words() {
    let done = r#"{"sessionUpdate":"compaction_update","compactionId":"k","status":"completed","summary":[{"type":"text","text":"s"}]}"#;
    check(
        done,
        &PLAIN,
        &expect![[r#"
            {"sessionUpdate":"agent_thought_chunk","messageId":"n","content":{"type":"text","text":"\n\n[the conversation was compacted]\n\n"}}
            {"sessionUpdate":"agent_thought_chunk","messageId":"k","content":{"type":"text","text":"s"}}
        "#]],
    );
    check(
        done,
        &RICH,
        &expect![[r#"
        {"sessionUpdate":"compaction_update","compactionId":"k","status":"completed","summary":[{"type":"text","text":"s"}]}
    "#]],
    );
    check(
        r#"{"sessionUpdate":"compaction_update","compactionId":"k","status":"failed","error":"no room"}"#,
        &PLAIN,
        &expect![[r#"
            {"sessionUpdate":"agent_thought_chunk","messageId":"n","content":{"type":"text","text":"\n\n[compacting the conversation failed: no room]\n\n"}}
        "#]],
    );
    let chunk = r#"{"sessionUpdate":"compaction_summary_chunk","compactionId":"k","content":{"type":"text","text":"s"}}"#;
    check(
        chunk,
        &PLAIN,
        &expect![[r#"
        {"sessionUpdate":"agent_thought_chunk","messageId":"k","content":{"type":"text","text":"s"}}
    "#]],
    );
    check(
        chunk,
        &RICH,
        &expect![[r#"
        {"sessionUpdate":"compaction_summary_chunk","compactionId":"k","content":{"type":"text","text":"s"}}
    "#]],
    );
}

#[test]
fn sub_agents_are_said_in_words() {
    let news = r#"{"sessionUpdate":"subagent_update","sessionId":"kid","title":"Reader","state":{"state":"running"}}"#;
    check(
        news,
        &PLAIN,
        &expect![[r#"
            {"sessionUpdate":"agent_thought_chunk","messageId":"n","content":{"type":"text","text":"\n\n[sub-agent Reader is running]\n\n"}}
        "#]],
    );
    check(
        news,
        &RICH,
        &expect![[r#"
        {"sessionUpdate":"subagent_update","sessionId":"kid","title":"Reader","state":{"state":"running"}}
    "#]],
    );
    let message = r#"{"sessionUpdate":"session_message","messageId":"m","senderSessionId":"a","recipientSessionId":"b","content":[{"type":"text","text":"go"}]}"#;
    check(
        message,
        &PLAIN,
        &expect![[r#"
            {"sessionUpdate":"agent_thought_chunk","messageId":"n","content":{"type":"text","text":"\n\n[message from a to b]\n\n"}}
            {"sessionUpdate":"agent_thought_chunk","messageId":"m","content":{"type":"text","text":"go"}}
        "#]],
    );
    let chunk =
        r#"{"sessionUpdate":"session_message_chunk","messageId":"m","content":{"type":"text","text":"go"}}"#;
    check(
        chunk,
        &PLAIN,
        &expect![[r#"
        {"sessionUpdate":"agent_thought_chunk","messageId":"m","content":{"type":"text","text":"go"}}
    "#]],
    );
}

#[test]
fn options_are_named_as_the_first_version_does() {
    check(
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"configId":"f","name":"F","type":"boolean","currentValue":true},{"configId":"m","name":"M","type":"select","currentValue":"a","options":[{"value":"a","name":"A"}]}]}"#,
        &PLAIN,
        &expect![[r#"
            {"sessionUpdate":"config_option_update","configOptions":[{"id":"m","name":"M","type":"select","currentValue":"a","options":[{"value":"a","name":"A"}]}],"_meta":{"rethread":{"withheld":["f"]}}}
        "#]],
    );
}

#[test]
fn a_cleared_cost_is_left_out() {
    check(
        r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":null}"#,
        &PLAIN,
        &expect![[r#"
        {"sessionUpdate":"usage_update","used":1,"size":2}
    "#]],
    );
    check(
        r#"{"sessionUpdate":"session_info_update","title":null,"_meta":null}"#,
        &PLAIN,
        &expect![[r#"
        {"sessionUpdate":"session_info_update","title":null}
    "#]],
    );
}

#[test]
fn messages_become_chunks_of_their_kind() {
    for (whole, chunk) in [
        ("user_message", "user_message_chunk"),
        ("agent_message", "agent_message_chunk"),
        ("agent_thought", "agent_thought_chunk"),
    ] {
        let body = serde_json::json!({"sessionUpdate": whole, "messageId": "m", "content": [{"type": "text", "text": "a"}]});
        let updates = to_v1(&update_of(body.into()), Announced::New, &PLAIN);
        assert_eq!(updates[0].fields().text("sessionUpdate").as_deref(), Some(chunk));
        assert_eq!(updates[0].fields().text("messageId").as_deref(), Some("m"));
    }
}

#[test]
fn unknown_updates_travel_untouched() {
    let body = json(r#"{"sessionUpdate":"_weather","rain":1.50}"#);
    assert_eq!(to_canonical_simple("_weather", body.fields()), body);
    assert_eq!(to_v1(&update_of(body.clone()), Announced::New, &PLAIN), [body]);
}

/// Every `session/update` and `session/request_permission` of an agent in the recordings whose names fit.
fn recorded(wanted: fn(&str) -> bool) -> Vec<(String, Fields)> {
    let Some(folder) = std::env::var_os("RETHREAD_RECORDINGS") else { return Vec::new() };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().filter(|path| wanted(&name(path))).flat_map(|path| messages_of(path)).collect()
}

fn messages_of(path: &Path) -> Vec<(String, Fields)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| Json::parse(line.to_owned()).ok());
    lines
        .map(|line| line.fields())
        .filter(|line| line.text("dir").as_deref() == Some("a2c"))
        .filter_map(|line| {
            let message = line.get("msg")?.fields();
            Some((message.text("method")?, message.get("params")?.fields()))
        })
        .collect()
}

/// Does what the stateful part of the edge does, with ids made up on the spot.
fn canonical(mut body: Fields) -> Option<Json> {
    let tag = body.text("sessionUpdate").unwrap();
    let chunk = tag.ends_with("_message_chunk") || tag.ends_with("_thought_chunk");
    if chunk && body.text("messageId").is_none() {
        body.set("messageId", Json::of("made-up"));
    }
    match tag.as_str() {
        "current_mode_update" => None,
        "plan" => Some(plan::from_v1(body, "p")),
        "config_option_update" => {
            let (options, _) = Options::from_v1(None, None, body.get("configOptions"));
            body.set("configOptions", options.to_v2());
            Some(body.json())
        }
        _ => Some(to_canonical_simple(&tag, body)),
    }
}

#[test]
fn recordings_of_the_first_version_go_and_return() {
    for (method, params) in recorded(|name| !name.contains("-v2-")) {
        match method.as_str() {
            "session/update" => {
                let Some(body) = canonical(params.get("update").unwrap().fields()) else { continue };
                let typed: v2::SessionUpdate = body.read().unwrap_or_else(|error| panic!("{error}: {body}"));
                assert!(!matches!(typed, v2::SessionUpdate::Other(_)), "{body}");
                for announced in [Announced::New, Announced::Known] {
                    encode(body.clone(), announced, &PLAIN);
                }
            }
            "session/request_permission" => {
                let mut question = permission::from_v1(params, "fallback").fields();
                question.set("sessionId", Json::of("s"));
                question.json().read::<v2::RequestPermissionRequest>().unwrap();
                asks(&question);
            }
            _ => {}
        }
    }
}

#[test]
fn recordings_of_the_second_version_can_be_shown() {
    for (method, params) in recorded(|name| name.contains("-v2-")) {
        match method.as_str() {
            "session/update" => {
                for view in [PLAIN, RICH] {
                    encode(params.get("update").unwrap().clone(), Announced::Known, &view);
                    encode(params.get("update").unwrap().clone(), Announced::New, &view);
                }
            }
            "session/request_permission" => asks(&params),
            _ => {}
        }
    }
}

fn asks(question: &Fields) {
    let mut params = permission::to_v1(&question.json(), "minted", &Known);
    params.set("sessionId", Json::of("s"));
    params.json().read::<v1::RequestPermissionRequest>().unwrap();
}

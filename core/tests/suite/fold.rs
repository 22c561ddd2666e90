//! The rules of the fold, one by one: entries in, text out.

use crate::common::{ended, inserted, known, new, placed, started, state, text};
use expect_test::{Expect, expect};
use rethread_core::{
    Activity, AskId, Dropped, Entry, Folded, QuestionId, QuestionKind, TitleSource, TurnNo, fold,
};
use serde_json::json;

fn check(entries: Vec<Entry>, expect: Expect) {
    let folded = fold(&placed(entries));
    assert_eq!(fold(&folded), folded, "folding again changes nothing");
    expect.assert_eq(&folded.iter().map(line).collect::<String>());
}

fn line(item: &Folded) -> String {
    let place = if item.first == item.last {
        item.first.to_string()
    } else {
        format!("{}-{}", item.first, item.last)
    };
    if let Entry::Updated { update, known } = &item.entry {
        return format!("{place} {} {}\n", if *known { "known" } else { "new" }, update.body);
    }
    let entry = format!("{:?}", item.entry);
    format!("{place} {}\n", entry.split([' ', '{']).next().unwrap_or_default())
}

fn agent(id: &str, words: &str) -> serde_json::Value {
    text("agent_message_chunk", id, words)
}

#[test]
fn chunks_become_a_message() {
    check(
        vec![
            started(1),
            new(agent("m", "Hel")),
            known(agent("m", "lo\n\"")),
            known(agent("m", "\u{1f600}")),
            ended(1),
        ],
        expect![[r#"
            1 TurnStarted
            2-4 new {"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"Hello\n\"😀"}]}
            5 TurnEnded
        "#]],
    );
}

#[test]
fn a_lone_chunk_becomes_a_message_and_any_other_lone_update_stays_untouched() {
    check(
        vec![
            new(agent("m", "Hello")),
            known(agent("from before", "Hello")),
            new(
                json!({"sessionUpdate": "agent_thought", "messageId": "t", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            ),
        ],
        expect![[r#"
            1 new {"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"Hello"}]}
            2 known {"sessionUpdate":"agent_message_chunk","messageId":"from before","content":{"type":"text","text":"Hello"}}
            3 new {"sessionUpdate":"agent_thought","messageId":"t","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}
        "#]],
    );
}

#[test]
fn messages_interleave_and_keep_their_places() {
    check(
        vec![
            new(agent("a", "1")),
            new(text("agent_thought_chunk", "a", "x")),
            new(agent("b", "2")),
            known(agent("a", "3")),
            known(text("agent_thought_chunk", "a", "y")),
            known(agent("b", "4")),
        ],
        expect![[r#"
            1-4 new {"sessionUpdate":"agent_message","messageId":"a","content":[{"type":"text","text":"13"}]}
            2-5 new {"sessionUpdate":"agent_thought","messageId":"a","content":[{"type":"text","text":"xy"}]}
            3-6 new {"sessionUpdate":"agent_message","messageId":"b","content":[{"type":"text","text":"24"}]}
        "#]],
    );
}

#[test]
fn other_blocks_stay_blocks() {
    let image = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "image", "data": "AA=="}});
    let noted = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "!", "annotations": {}}});
    check(
        vec![
            new(agent("m", "a")),
            known(agent("m", "b")),
            known(image),
            known(agent("m", "c")),
            known(noted),
            known(agent("m", "d")),
        ],
        expect![[r#"
            1-6 new {"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"ab"},{"type":"image","data":"AA=="},{"type":"text","text":"c"},{"type":"text","text":"!","annotations":{}},{"type":"text","text":"d"}]}
        "#]],
    );
}

#[test]
fn chunks_of_a_message_from_before_stay_chunks() {
    let image = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "image", "data": "AA=="}});
    check(
        vec![
            known(agent("m", "a")),
            known(agent("m", "b")),
            known(image),
            known(agent("m", "c")),
            known(agent("m", "d")),
        ],
        expect![[r#"
            1-2 known {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"ab"}}
            3 known {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"image","data":"AA=="}}
            4-5 known {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"cd"}}
        "#]],
    );
}

#[test]
fn a_chunk_that_says_more_stays_in_its_place() {
    let noted = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "!"}, "_meta": {"x": 1}});
    let null = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "e"}, "_meta": null});
    check(
        vec![
            new(agent("m", "a")),
            known(agent("m", "b")),
            known(noted),
            known(agent("m", "c")),
            known(agent("m", "d")),
            known(null),
        ],
        expect![[r#"
            1-2 new {"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"ab"}]}
            3 known {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"!"},"_meta":{"x":1}}
            4-6 known {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"cde"}}
        "#]],
    );
}

#[test]
fn upserts_replace_content_and_patch_the_rest() {
    check(
        vec![
            new(agent("m", "a")),
            known(
                json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"a": 1, "b": 2}, "x": 1}),
            ),
            known(agent("m", "b")),
            known(
                json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "text", "text": "c"}], "_meta": {"a": null, "c": 3}}),
            ),
            known(agent("m", "d")),
        ],
        expect![[r#"
            1-5 new {"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"cd"}],"_meta":{"a":null,"b":2,"c":3},"x":1}
        "#]],
    );
}

#[test]
fn an_upsert_takes_the_place_of_the_chunks_that_it_replaces() {
    check(
        vec![
            known(agent("m", "a")),
            known(json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"a": 1}})),
            known(agent("m", "b")),
            new(agent("n", "other")),
            known(json!({"sessionUpdate": "agent_message", "messageId": "m", "content": null})),
            known(agent("m", "c")),
        ],
        expect![[r#"
            1-6 known {"sessionUpdate":"agent_message","messageId":"m","_meta":{"a":1},"content":[{"type":"text","text":"c"}]}
            4 new {"sessionUpdate":"agent_message","messageId":"n","content":[{"type":"text","text":"other"}]}
        "#]],
    );
}

#[test]
fn clearing_metadata_from_before_merges_with_nothing() {
    let patch = |meta| json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": meta});
    check(
        vec![
            known(patch(json!({"a": 1}))),
            known(patch(json!({"a": 2}))),
            known(patch(json!(null))),
            known(patch(json!({"b": 1}))),
            known(patch(json!({"c": 1}))),
        ],
        expect![[r#"
            1-2 known {"sessionUpdate":"agent_message","messageId":"m","_meta":{"a":2}}
            3 known {"sessionUpdate":"agent_message","messageId":"m","_meta":null}
            4-5 known {"sessionUpdate":"agent_message","messageId":"m","_meta":{"b":1,"c":1}}
        "#]],
    );
}

#[test]
fn clearing_metadata_of_something_new_merges() {
    let patch = |meta| json!({"sessionUpdate": "agent_message", "messageId": "m", "_meta": meta});
    check(
        vec![new(patch(json!({"a": 1}))), known(patch(json!(null))), known(patch(json!({"b": 1})))],
        expect![[r#"
            1-3 new {"sessionUpdate":"agent_message","messageId":"m","_meta":{"b":1}}
        "#]],
    );
}

#[test]
fn a_prompt_is_a_message_too() {
    check(
        vec![
            inserted("u", 1),
            new(text("user_message_chunk", "u", "a")),
            known(text("user_message_chunk", "u", "b")),
        ],
        expect![[r#"
            1 PromptInserted
            2-3 known {"sessionUpdate":"user_message_chunk","messageId":"u","content":{"type":"text","text":"ab"}}
        "#]],
    );
}

fn item(words: &str) -> serde_json::Value {
    json!({"type": "content", "content": {"type": "text", "text": words}})
}

fn item_chunk(words: &str) -> serde_json::Value {
    json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item(words)})
}

#[test]
fn a_tool_call_is_one_upsert() {
    check(
        vec![
            new(
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Run", "status": "pending", "rawInput": {"a": 1}}),
            ),
            known(item_chunk("1")),
            known(item_chunk("2")),
            known(
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawInput": null, "_meta": {"k": 1}}),
            ),
        ],
        expect![[r#"
            1-4 new {"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Run","status":"completed","rawInput":null,"content":[{"type":"content","content":{"type":"text","text":"1"}},{"type":"content","content":{"type":"text","text":"2"}}],"_meta":{"k":1}}
        "#]],
    );
}

#[test]
fn a_tool_call_from_before_keeps_its_chunks() {
    check(
        vec![
            known(item_chunk("1")),
            known(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "x"})),
            known(item_chunk("2")),
            known(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})),
            known(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "y"})),
        ],
        expect![[r#"
            1 known {"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"content","content":{"type":"text","text":"1"}}}
            2 known {"sessionUpdate":"tool_call_update","toolCallId":"c","title":"x"}
            3 known {"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"content","content":{"type":"text","text":"2"}}}
            4-5 known {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","title":"y"}
        "#]],
    );
}

#[test]
fn content_given_whole_replaces_the_chunks_of_a_tool_call() {
    check(
        vec![
            known(item_chunk("1")),
            known(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [item("2")]})),
            known(item_chunk("3")),
        ],
        expect![[r#"
            1-3 known {"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"2"}},{"type":"content","content":{"type":"text","text":"3"}}]}
        "#]],
    );
}

fn output(data: &str) -> serde_json::Value {
    json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data})
}

#[test]
fn terminal_output_is_joined_as_bytes() {
    check(
        vec![
            new(json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls"})),
            known(output("YQ==")),
            known(output("YmM=")),
            known(
                json!({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}}),
            ),
        ],
        expect![[r#"
            1-4 new {"sessionUpdate":"terminal_update","terminalId":"t","command":"ls","output":{"data":"YWJj"},"exitStatus":{"exitCode":0}}
        "#]],
    );
}

#[test]
fn terminal_output_of_unknown_start_stays_a_chunk_before_the_exit() {
    check(
        vec![
            known(json!({"sessionUpdate": "terminal_update", "terminalId": "t", "size": {"columns": 80}})),
            known(output("YQ==")),
            known(output("YmM=")),
            known(
                json!({"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 0}}),
            ),
        ],
        expect![[r#"
            1 known {"sessionUpdate":"terminal_update","terminalId":"t","size":{"columns":80}}
            2-3 known {"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"YWJj"}
            4 known {"sessionUpdate":"terminal_update","terminalId":"t","exitStatus":{"exitCode":0}}
        "#]],
    );
}

#[test]
fn an_output_snapshot_replaces_and_is_appended_to() {
    check(
        vec![
            known(output("YQ==")),
            known(
                json!({"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": "eA==", "_meta": {"cut": true}}}),
            ),
            known(output("eQ==")),
        ],
        expect![[r#"
            1-3 known {"sessionUpdate":"terminal_update","terminalId":"t","output":{"data":"eHk=","_meta":{"cut":true}}}
        "#]],
    );
}

#[test]
fn output_that_is_not_base64_stays_as_it_is() {
    check(
        vec![
            new(output("YQ==")),
            known(output("YQ==")),
            known(output("?")),
            known(output("YQ==")),
            known(output("YQ==")),
        ],
        expect![[r#"
            1-2 new {"sessionUpdate":"terminal_update","terminalId":"t","output":{"data":"YWE="}}
            3 known {"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"?"}
            4-5 known {"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"YWE="}
        "#]],
    );
}

#[test]
fn the_last_word_on_a_plan_counts() {
    let plan = |id, n| {
        new(json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": id, "entries": [n]}}))
    };
    let removed = |id| new(json!({"sessionUpdate": "plan_removed", "planId": id}));
    check(
        vec![
            plan("p", 1),
            plan("q", 1),
            plan("p", 2),
            removed("q"),
            plan("q", 3),
            plan("q", 4),
            plan("r", 1),
            removed("r"),
        ],
        expect![[r#"
            1-3 new {"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[2]}}
            2-4 new {"sessionUpdate":"plan_removed","planId":"q"}
            5-6 new {"sessionUpdate":"plan_update","plan":{"type":"items","planId":"q","entries":[4]}}
            7-8 new {"sessionUpdate":"plan_removed","planId":"r"}
        "#]],
    );
}

#[test]
fn a_compaction_keeps_its_summary() {
    let chunk = |words| {
        new(
            json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": {"type": "text", "text": words}}),
        )
    };
    check(
        vec![
            new(json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress"})),
            chunk("a"),
            chunk("b"),
            new(json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed"})),
        ],
        expect![[r#"
            1 new {"sessionUpdate":"compaction_update","compactionId":"k","status":"in_progress"}
            2-3 new {"sessionUpdate":"compaction_summary_chunk","compactionId":"k","content":{"type":"text","text":"ab"}}
            4 new {"sessionUpdate":"compaction_update","compactionId":"k","status":"completed"}
        "#]],
    );
}

#[test]
fn of_what_replaces_itself_the_last_stays() {
    check(
        vec![
            new(json!({"sessionUpdate": "usage_update", "used": 1})),
            new(json!({"sessionUpdate": "config_option_update", "configOptions": [1]})),
            new(json!({"sessionUpdate": "available_commands_update", "availableCommands": [1]})),
            new(json!({"sessionUpdate": "notice", "message": "once"})),
            new(json!({"sessionUpdate": "_custom", "x": 1})),
            new(json!({"sessionUpdate": "usage_update", "used": 2})),
            new(json!({"sessionUpdate": "config_option_update", "configOptions": [2]})),
            new(json!({"sessionUpdate": "available_commands_update", "availableCommands": [2]})),
        ],
        expect![[r#"
            5 new {"sessionUpdate":"_custom","x":1}
            6 new {"sessionUpdate":"usage_update","used":2}
            7 new {"sessionUpdate":"config_option_update","configOptions":[2]}
            8 new {"sessionUpdate":"available_commands_update","availableCommands":[2]}
        "#]],
    );
}

#[test]
fn infos_merge_on_either_side_of_the_last_title() {
    let info = |body: serde_json::Value| {
        let mut body = body;
        body["sessionUpdate"] = "session_info_update".into();
        new(body)
    };
    let title = |title: &str| Entry::TitleSet { title: title.to_owned(), by: TitleSource::User };
    check(
        vec![
            info(json!({"title": "a"})),
            title("first"),
            info(json!({"title": "b", "_meta": {"x": 1}})),
            title("second"),
            info(json!({"title": "c"})),
            info(json!({"title": null, "updatedAt": "now"})),
        ],
        expect![[r#"
            1-3 new {"title":"b","sessionUpdate":"session_info_update","_meta":{"x":1}}
            4 TitleSet
            5-6 new {"title":null,"sessionUpdate":"session_info_update","updatedAt":"now"}
        "#]],
    );
}

#[test]
fn nothing_is_merged_across_the_end_of_a_turn() {
    check(
        vec![
            started(1),
            new(agent("m", "a")),
            known(agent("m", "b")),
            new(json!({"sessionUpdate": "usage_update", "used": 1})),
            ended(1),
            started(2),
            new(agent("m", "c")),
            new(agent("m", "d")),
            new(json!({"sessionUpdate": "usage_update", "used": 2})),
            ended(2),
        ],
        expect![[r#"
            1 TurnStarted
            2-3 new {"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"ab"}]}
            4 new {"sessionUpdate":"usage_update","used":1}
            5 TurnEnded
            6 TurnStarted
            7-8 known {"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"cd"}}
            9 new {"sessionUpdate":"usage_update","used":2}
            10 TurnEnded
        "#]],
    );
}

fn held(message: &str) -> Entry {
    Entry::PromptHeld { message: message.into(), content: json!([]).into() }
}

fn sent(message: &str) -> Entry {
    Entry::PromptSent { message: message.into() }
}

#[test]
fn prompts_that_are_done_with_leave_only_their_message() {
    let dropped = |message: &str| Entry::PromptDropped { message: message.into(), why: Dropped::Cancelled };
    check(
        vec![
            held("a"),
            sent("a"),
            inserted("a", 1),
            started(1),
            held("b"),
            held("c"),
            sent("c"),
            dropped("b"),
            dropped("z"),
            ended(1),
        ],
        expect![[r#"
            3 PromptInserted
            4 TurnStarted
            6 PromptHeld
            7 PromptSent
            9 PromptDropped
            10 TurnEnded
        "#]],
    );
}

#[test]
fn questions_and_requests_that_are_settled_go() {
    let asked = |id: &str| Entry::QuestionAsked {
        question: QuestionId::from(id),
        kind: QuestionKind::Permission,
        body: json!({}).into(),
    };
    let answered =
        |id: &str| Entry::QuestionAnswered { question: QuestionId::from(id), answer: json!({}).into() };
    let withdrawn = |id: &str| Entry::QuestionWithdrawn { question: QuestionId::from(id) };
    let option = |id: &str| Entry::OptionAsked {
        ask: AskId::from(id),
        option: "mode".to_owned(),
        value: json!("x").into(),
    };
    let settled = |id: &str| Entry::OptionSettled { ask: AskId::from(id), error: None };
    check(
        vec![
            asked("1"),
            answered("1"),
            asked("2"),
            withdrawn("2"),
            asked("open"),
            answered("from before"),
            option("3"),
            settled("3"),
            option("open"),
            settled("from before"),
        ],
        expect![[r#"
            5 QuestionAsked
            6 QuestionAnswered
            9 OptionAsked
            10 OptionSettled
        "#]],
    );
}

#[test]
fn states_of_an_ended_turn_go_and_cancels_stay() {
    let changed =
        || Entry::StateChanged { activity: Activity::RequiresAction, state: state("requires_action") };
    let cancel = |turn| Entry::CancelAsked { turn: TurnNo(turn) };
    check(
        vec![
            changed(),
            changed(),
            started(1),
            changed(),
            cancel(1),
            ended(1),
            changed(),
            changed(),
            started(2),
            changed(),
            changed(),
            cancel(2),
        ],
        expect![[r#"
            2 StateChanged
            3 TurnStarted
            5 CancelAsked
            6 TurnEnded
            8 StateChanged
            9 TurnStarted
            11 StateChanged
            12 CancelAsked
        "#]],
    );
}

#[test]
fn of_roots_and_titles_the_last_stays() {
    let roots = || Entry::RootsSet { roots: Vec::new(), servers: Vec::new() };
    let title = || Entry::TitleSet { title: "t".to_owned(), by: TitleSource::Prompt };
    let lost = Entry::AgentLost { generation: 1, reason: "gone".to_owned() };
    check(
        vec![roots(), title(), lost, roots(), title()],
        expect![[r#"
        3 AgentLost
        4 RootsSet
        5 TitleSet
    "#]],
    );
}

#[test]
fn a_turn_of_very_many_chunks_folds() {
    let mut entries = vec![started(1), new(agent("m", "a"))];
    entries.extend(std::iter::repeat_n(known(agent("m", "a")), 199_999));
    entries.push(ended(1));
    let folded = fold(&placed(entries));
    assert_eq!(folded.len(), 3);
    let Entry::Updated { update, .. } = &folded[1].entry else { panic!("not an update") };
    assert_eq!(update.body.value()["content"][0]["text"].as_str().map(str::len), Some(200_000));
}

//! The acts that random journals are made of.

use proptest::prelude::*;
use serde_json::{Value, json};

/// One thing that happens. Whether it can happen then and there, the journal decides.
#[derive(Clone, Debug)]
pub enum Act {
    /// A user sends a prompt.
    Prompt,
    /// The oldest prompt that waits is sent, inserted or dropped.
    Send,
    Insert,
    Drop,
    /// The agent begins or ends a turn.
    Start,
    End,
    /// The agent says something of a thing; the members that name it are added by the journal.
    Say {
        tag: &'static str,
        id: u8,
        body: Value,
    },
    Ask,
    Answer,
    Withdraw,
    SetOption,
    OptionSet,
    State,
    Cancel,
    Title,
    Roots,
    Bind,
    Lose,
    /// The session is moved to another directory.
    Move,
}

/// Acts of a realistic session.
pub fn acts() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act(), 0..60)
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => control(),
        12 => message_chunk(),
        5 => message(),
        5 => call(),
        3 => call_chunk(),
        3 => terminal(),
        5 => terminal_chunk(),
        5 => other(),
    ]
}

fn control() -> impl Strategy<Value = Act> {
    prop::sample::select(vec![
        Act::Prompt,
        Act::Prompt,
        Act::Send,
        Act::Insert,
        Act::Drop,
        Act::Start,
        Act::End,
        Act::End,
        Act::Ask,
        Act::Answer,
        Act::Withdraw,
        Act::SetOption,
        Act::OptionSet,
        Act::State,
        Act::Cancel,
        Act::Title,
        Act::Roots,
        Act::Bind,
        Act::Lose,
        Act::Move,
    ])
}

fn say(tag: &'static str, body: impl Strategy<Value = Value>) -> impl Strategy<Value = Act> {
    (0..3u8, body).prop_map(move |(id, body)| Act::Say { tag, id, body })
}

fn message_chunk() -> impl Strategy<Value = Act> {
    let tags = prop::sample::select(vec!["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]);
    (tags, 0..3u8, chunk("content", block())).prop_map(|(tag, id, body)| Act::Say { tag, id, body })
}

fn message() -> impl Strategy<Value = Act> {
    let tags = prop::sample::select(vec!["agent_message", "agent_thought", "user_message"]);
    let body = members(vec![("content", list(block())), ("_meta", meta()), ("futureMember", scalar())]);
    (tags, 0..3u8, body).prop_map(|(tag, id, body)| Act::Say { tag, id, body })
}

fn call() -> impl Strategy<Value = Act> {
    let statuses = ["pending", "in_progress", "completed", "failed", "cancelled"];
    let status = prop::sample::select(statuses.to_vec()).prop_map(Value::from);
    let body = members(vec![
        ("title", scalar()),
        ("status", status.boxed()),
        ("content", list(item())),
        ("rawInput", scalar()),
        ("_meta", meta()),
    ]);
    say("tool_call_update", body)
}

fn call_chunk() -> impl Strategy<Value = Act> {
    say("tool_call_content_chunk", chunk("content", item()))
}

fn terminal() -> impl Strategy<Value = Act> {
    let snapshot = (data(), prop::option::weighted(0.3, meta()));
    let snapshot = snapshot.prop_map(|(data, meta)| match meta {
        Some(meta) => json!({"data": data, "_meta": meta}),
        None => json!({"data": data}),
    });
    let body = members(vec![
        ("command", scalar()),
        ("output", prop_oneof![1 => Just(Value::Null), 3 => snapshot].boxed()),
        ("exitStatus", prop_oneof![Just(Value::Null), Just(json!({"exitCode": 0}))].boxed()),
        ("_meta", meta()),
    ]);
    say("terminal_update", body)
}

fn terminal_chunk() -> impl Strategy<Value = Act> {
    say("terminal_output_chunk", chunk("data", data()))
}

fn other() -> impl Strategy<Value = Act> {
    let number = || (0..9u8).prop_map(Value::from).boxed();
    prop_oneof![
        say("plan_update", number().prop_map(|n| json!({"plan": {"type": "items", "entries": [n]}}))),
        say("plan_removed", Just(json!({}))),
        say("compaction_update", compaction()),
        say("compaction_summary_chunk", chunk("content", block())),
        say("usage_update", number().prop_map(|used| json!({"used": used}))),
        say("config_option_update", number().prop_map(|n| json!({"configOptions": [n]}))),
        say("available_commands_update", number().prop_map(|n| json!({"availableCommands": [n]}))),
        say(
            "session_info_update",
            members(vec![("title", scalar()), ("updatedAt", scalar()), ("_meta", meta())])
        ),
        say("notice", Just(json!({"message": "once"}))),
        say("_future_update", number().prop_map(|n| json!({"x": n}))),
    ]
}

fn compaction() -> impl Strategy<Value = Value> {
    let status = prop::sample::select(vec!["in_progress", "completed"]);
    let rest = members(vec![("summary", list(block())), ("error", scalar()), ("_meta", meta())]);
    (status, rest).prop_map(|(status, mut body)| {
        body["status"] = status.into();
        body
    })
}

/// Some of these members.
fn members(all: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> {
    let each: Vec<_> = all
        .into_iter()
        .map(|(name, value)| prop::option::weighted(0.35, value).prop_map(move |value| (name, value)))
        .collect();
    each.prop_map(|members| {
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

/// A chunk, now and then with something beside its content.
fn chunk(name: &'static str, content: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let beside = prop_oneof![
        12 => Just(None),
        1 => Just(Some(("_meta", json!(null)))),
        1 => Just(Some(("_meta", json!({"k": 1})))),
        1 => Just(Some(("futureMember", json!(true)))),
    ];
    (content, beside).prop_map(move |(content, beside)| {
        let mut body = json!({name: content});
        if let Some((name, value)) = beside {
            body[name] = value;
        }
        body
    })
}

fn block() -> BoxedStrategy<Value> {
    let text = prop::sample::select(vec!["", "a", "b ", "\n", "\"\\", "\u{1f600}é", "\u{1}"]);
    prop_oneof![
        8 => text.prop_map(|text| json!({"type": "text", "text": text})),
        1 => Just(json!({"type": "image", "data": "AA==", "mimeType": "image/png"})),
        1 => Just(json!({"type": "text", "text": "noted", "annotations": {"priority": 1}})),
        1 => Just(json!({"type": "text", "text": "noted", "_meta": {}})),
    ]
    .boxed()
}

fn item() -> BoxedStrategy<Value> {
    prop_oneof![
        block().prop_map(|block| json!({"type": "content", "content": block})),
        Just(json!({"type": "terminal", "terminalId": "terminal-0"})),
    ]
    .boxed()
}

fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 4 => prop::collection::vec(item, 0..4).prop_map(Value::from)].boxed()
}

fn meta() -> BoxedStrategy<Value> {
    let object = prop::collection::btree_map("[abc]", scalar(), 0..3);
    prop_oneof![1 => Just(Value::Null), 4 => object.prop_map(|map| json!(map))].boxed()
}

fn scalar() -> BoxedStrategy<Value> {
    prop::sample::select(vec![json!(null), json!("x"), json!("y"), json!(1), json!({"a": [1]})]).boxed()
}

fn data() -> BoxedStrategy<Value> {
    prop_oneof![
        12 => prop::sample::select(vec!["", "YQ==", "YmM=", "AAEC", "/+8="]).prop_map(Value::from),
        1 => Just(json!("not base64")),
    ]
    .boxed()
}

/// Bodies that no protocol would make: members of any type, missing, or no object at all.
pub fn wild_acts() -> impl Strategy<Value = Vec<Act>> {
    let tags = prop::sample::select(TAGS.to_vec());
    let wild = (tags, 0..2u8, wild_body()).prop_map(|(tag, id, body)| Act::Say { tag, id, body });
    prop::collection::vec(prop_oneof![4 => wild, 1 => act()], 0..40)
}

fn wild_body() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![scalar(), block(), data(), meta(), list(block())];
    let value = || leaf.clone();
    let names = ["content", "output", "data", "summary", "_meta", "status", "exitStatus", "plan"];
    let member = (prop::sample::select(names.to_vec()), value());
    prop_oneof![
        6 => prop::collection::vec(member, 0..4)
            .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        1 => value(),
    ]
}

/// The tags of all kinds of update.
pub const TAGS: [&str; 20] = [
    "user_message_chunk",
    "user_message",
    "agent_message_chunk",
    "agent_message",
    "agent_thought_chunk",
    "agent_thought",
    "tool_call_update",
    "tool_call_content_chunk",
    "terminal_update",
    "terminal_output_chunk",
    "plan_update",
    "plan_removed",
    "available_commands_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "compaction_update",
    "compaction_summary_chunk",
    "notice",
    "other",
];

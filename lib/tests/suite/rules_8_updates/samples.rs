//! One sample of every update of schema 1.15.1, in both versions, each with a word that is in no other.

use rethread::edge::Version;
use serde_json::{Value, json};

/// An update and what becomes of it.
pub(crate) struct Sample {
    /// The update as the agent says it.
    pub(crate) update: Value,
    /// A word to find it by.
    pub(crate) word: &'static str,
    /// Its tag for clients of version 1; none where they are told in another way.
    pub(crate) one: Option<&'static str>,
    /// Its tag for clients of version 2.
    pub(crate) two: &'static str,
    /// Whether a replay has it.
    pub(crate) kept: Kept,
}

/// Whether a replay has an update.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Yes.
    Yes,
    /// No: it is of the moment only.
    No,
}

impl Sample {
    /// Its tag for clients of a version.
    pub(crate) fn tag(&self, client: Version) -> Option<&'static str> {
        match client {
            Version::V1 => self.one,
            Version::V2 => Some(self.two),
        }
    }
}

/// All updates of an agent of this version.
pub(crate) fn all(agent: Version) -> Vec<Sample> {
    let mut samples = both(agent);
    samples.extend(match agent {
        Version::V1 => of_one(),
        Version::V2 => of_two(),
    });
    samples
}

fn sample(update: Value, word: &'static str, one: Option<&'static str>, two: &'static str) -> Sample {
    assert!(update.to_string().contains(word), "{word} is not in {update}");
    Sample { update, word, one, two, kept: Kept::Yes }
}

/// The same name on both sides.
fn same(update: Value, word: &'static str, tag: &'static str) -> Sample {
    sample(update, word, Some(tag), tag)
}

fn text(word: &str) -> Value {
    json!({"type": "text", "text": word})
}

fn chunk(tag: &'static str, id: &str, word: &'static str) -> Sample {
    let update = json!({"sessionUpdate": tag, "messageId": id, "content": text(word), "_meta": {"k": [1, null]},
        "_future": {"deep": {"er": 1.5e300}}});
    same(update, word, tag)
}

/// Updates that both versions know in much the same words.
fn both(agent: Version) -> Vec<Sample> {
    let named = |name: &str| match agent {
        Version::V1 => json!({"name": name, "description": "d", "input": {"hint": "h"}}),
        Version::V2 => json!({"name": name, "description": "d", "input": {"type": "text", "hint": "h"}}),
    };
    let option = match agent {
        Version::V1 => "id",
        Version::V2 => "configId",
    };
    let mode = json!({option: "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "a",
        "options": [{"value": "a", "name": "a"}, {"value": "b", "name": "b"}]});
    let depth = json!({option: "depth", "name": "w-option", "type": "select", "currentValue": "1",
        "options": [{"value": "1", "name": "one"}], "_meta": {"k": 1}});
    vec![
        chunk("user_message_chunk", "u", "w-user"),
        chunk("agent_message_chunk", "m", "w-said"),
        chunk("agent_thought_chunk", "t", "w-thought"),
        same(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "completed",
                "rawOutput": {"w-call": [1, {"deep": null}]}, "_meta": {"k": 1}}),
            "w-call",
            "tool_call_update",
        ),
        same(
            json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p",
                "content": "- w-plan", "_meta": {"k": 1}}}),
            "w-plan",
            "plan_update",
        ),
        same(json!({"sessionUpdate": "plan_removed", "planId": "w-gone"}), "w-gone", "plan_removed"),
        same(
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [named("w-command")]}),
            "w-command",
            "available_commands_update",
        ),
        same(
            json!({"sessionUpdate": "config_option_update", "configOptions": [mode, depth]}),
            "w-option",
            "config_option_update",
        ),
        same(
            json!({"sessionUpdate": "session_info_update", "title": "w-title", "_meta": {"k": 1}}),
            "w-title",
            "session_info_update",
        ),
        same(
            json!({"sessionUpdate": "usage_update", "used": 7, "size": 9,
                "cost": {"amount": 0.5, "currency": "EUR"}, "_meta": {"w-usage": 1}}),
            "w-usage",
            "usage_update",
        ),
        Sample {
            kept: Kept::No,
            ..same(
                json!({"sessionUpdate": "notice", "severity": "warning", "title": "w-notice",
                    "description": "d"}),
                "w-notice",
                "notice",
            )
        },
        same(
            json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress",
                "summary": [text("w-compaction")], "_meta": {"k": 1}}),
            "w-compaction",
            "compaction_update",
        ),
        same(
            json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text("w-summary")}),
            "w-summary",
            "compaction_summary_chunk",
        ),
        same(
            json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "w-child",
                "state": {"state": "running"}, "cwd": "/work", "_meta": {"k": 1}}),
            "w-child",
            "subagent_update",
        ),
        same(
            json!({"sessionUpdate": "session_message", "messageId": "s", "recipientSessionId": "child",
                "content": [text("w-letter")]}),
            "w-letter",
            "session_message",
        ),
        same(
            json!({"sessionUpdate": "session_message_chunk", "messageId": "s", "content": text("w-postscript")}),
            "w-postscript",
            "session_message_chunk",
        ),
        same(
            json!({"sessionUpdate": "future_update", "w-future": {"deep": [1, {"_x": null}]}, "_meta": {"k": 1}}),
            "w-future",
            "future_update",
        ),
        same(json!({"sessionUpdate": "_own_update", "w-own": 1.5e300}), "w-own", "_own_update"),
    ]
}

fn of_one() -> Vec<Sample> {
    vec![
        sample(
            json!({"sessionUpdate": "tool_call", "toolCallId": "call_2", "title": "w-begins", "kind": "edit",
                "status": "pending", "content": [{"type": "content", "content": text("c")}],
                "locations": [{"path": "/work/a", "line": 3}], "rawInput": {"a": 1}, "_meta": {"k": 1}}),
            "w-begins",
            Some("tool_call"),
            "tool_call_update",
        ),
        sample(
            json!({"sessionUpdate": "plan", "entries":
                [{"content": "w-entry", "priority": "high", "status": "in_progress", "_meta": {"k": 1}}]}),
            "w-entry",
            Some("plan_update"),
            "plan_update",
        ),
        Sample {
            kept: Kept::No,
            ..sample(
                json!({"sessionUpdate": "current_mode_update", "currentModeId": "b"}),
                "\"b\"",
                Some("current_mode_update"),
                "config_option_update",
            )
        },
    ]
}

fn of_two() -> Vec<Sample> {
    let whole = |tag: &'static str, id: &str, word: &'static str, one: &'static str| {
        let update =
            json!({"sessionUpdate": tag, "messageId": id, "content": [text(word)], "_meta": {"k": 1}});
        sample(update, word, Some(one), tag)
    };
    vec![
        whole("user_message", "u2", "w-asks", "user_message_chunk"),
        whole("agent_message", "m2", "w-whole", "agent_message_chunk"),
        whole("agent_thought", "t2", "w-hm", "agent_thought_chunk"),
        Sample {
            kept: Kept::No,
            ..sample(
                json!({"sessionUpdate": "state_update", "state": "running", "background":
                    [{"type": "tool_call", "toolCallId": "call_1"}], "_meta": {"w-state": 1}}),
                "w-state",
                None,
                "state_update",
            )
        },
        sample(
            json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "call_1",
                "content": {"type": "content", "content": text("w-item")}}),
            "w-item",
            Some("tool_call_update"),
            "tool_call_content_chunk",
        ),
        sample(
            json!({"sessionUpdate": "terminal_update", "terminalId": "term_1", "command": "w-command-line",
                "cwd": "/work", "_meta": {"k": 1}}),
            "w-command-line",
            None,
            "terminal_update",
        ),
        // "hi"
        sample(
            json!({"sessionUpdate": "terminal_output_chunk", "terminalId": "term_1", "data": "aGk="}),
            "aGk=",
            None,
            "terminal_output_chunk",
        ),
    ]
}

//! Builds the updates of a scripted agent in the form of either version.

use rethread::edge::Version;
use serde_json::{Value, json};

use super::quirk::LONG_LINE;

/// A chunk of text of this kind: `user_message`, `agent_message`, `agent_thought`.
pub(super) fn chunk(kind: &str, id: Option<&str>, text: &str) -> Value {
    let mut update = json!({"sessionUpdate": format!("{kind}_chunk")});
    if let Some(id) = id {
        update["messageId"] = json!(id);
    }
    update["content"] = json!({"type": "text", "text": text});
    update
}

/// A message as a whole; version 2 only.
pub(super) fn whole(kind: &str, id: &str, content: Value) -> Value {
    json!({"sessionUpdate": kind, "messageId": id, "content": content})
}

/// A text that makes a long line.
pub(super) fn long_text() -> String {
    "long ".repeat(LONG_LINE / 5)
}

pub(super) fn tool_begins(version: Version, id: &str) -> Value {
    let tag = match version {
        Version::V1 => "tool_call",
        Version::V2 => "tool_call_update",
    };
    json!({
        "sessionUpdate": tag, "toolCallId": id, "title": "Edit a file", "kind": "edit", "status": "pending",
        "locations": [{"path": "/work/a.txt"}], "rawInput": {"path": "/work/a.txt"},
    })
}

/// A tool call that can be cancelled, if the version supports that.
pub(super) fn tool_opens(version: Version, id: &str) -> Value {
    let mut update = tool_begins(version, id);
    if version == Version::V2 {
        update["capabilities"] = json!({"cancel": {}});
    }
    update
}

/// Returns whether an update ends a tool call or a terminal.
pub(super) fn is_final(update: &Value) -> bool {
    let over = matches!(update["status"].as_str(), Some("completed" | "failed" | "cancelled"));
    over || !update["exitStatus"].is_null()
}

pub(super) fn tool_runs(id: &str) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress"})
}

pub(super) fn tool_ends(version: Version, id: &str) -> Value {
    let diff = match version {
        Version::V1 => json!({"type": "diff", "path": "/work/a.txt", "oldText": "one\n", "newText": "two\n"}),
        Version::V2 => json!({
            "type": "diff",
            "changes": [{"operation": "modify", "path": "/work/a.txt", "fileType": "text"}],
            "patch": {
                "format": "git_patch",
                "text": "diff --git a/work/a.txt b/work/a.txt\n--- a/work/a.txt\n+++ b/work/a.txt\n@@ -1 +1 @@\n-one\n+two\n",
            },
        }),
    };
    json!({
        "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "edited"}}, diff],
        "rawOutput": {"changed": 1},
    })
}

/// The content of a tool call that shows a terminal.
pub(super) fn tool_shows(id: &str, terminal: &str) -> Value {
    json!({
        "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress",
        "content": [{"type": "terminal", "terminalId": terminal}],
    })
}

pub(super) fn tool_over(id: &str) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed"})
}

/// A tool call whose `_meta` is patched.
pub(super) fn meta(version: Version, id: &str) -> [Value; 2] {
    let mut begins = tool_begins(version, id);
    begins["_meta"] = json!({"a": 1, "b": {"deep": 1}});
    let mut ends = tool_over(id);
    ends["_meta"] = json!({"a": null, "b": {"other": 2}, "c": 3});
    [begins, ends]
}

pub(super) fn plan(version: Version, entries: &[String]) -> Value {
    let status = |at: usize| if at == 0 { "completed" } else { "pending" };
    let entries: Vec<_> = entries
        .iter()
        .enumerate()
        .map(|(at, entry)| json!({"content": entry, "priority": "medium", "status": status(at)}))
        .collect();
    match version {
        Version::V1 => json!({"sessionUpdate": "plan", "entries": entries}),
        Version::V2 => json!({
            "sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "main", "entries": entries},
        }),
    }
}

pub(super) fn commands(version: Version, names: &[String]) -> Value {
    let commands: Vec<_> = names.iter().map(|name| command(version, name)).collect();
    json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})
}

pub(super) fn command(version: Version, name: &str) -> Value {
    let mut command = json!({"name": name, "description": format!("Does {name}")});
    command["input"] = match version {
        Version::V1 => json!({"hint": "what"}),
        Version::V2 => json!({"type": "text", "hint": "what"}),
    };
    command
}

pub(super) fn unknown(tag: &str) -> Value {
    json!({
        "sessionUpdate": tag, "deep": {"er": [1, {"_x": null, "y": 1.5e300}]}, "_own": "kept",
        "_meta": {"trace": "t"},
    })
}

pub(super) fn compaction(id: &str, status: &str) -> Value {
    json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": status})
}

pub(super) fn state(state: &str, stop: Option<&str>) -> Value {
    let mut update = json!({"sessionUpdate": "state_update", "state": state});
    if let Some(stop) = stop {
        update["stopReason"] = json!(stop);
    }
    update
}

pub(super) fn permission(version: Version, session: &str, call: &str) -> Value {
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let call = json!({"toolCallId": call, "title": "Run it", "kind": "execute", "status": "pending"});
    match version {
        Version::V1 => json!({"sessionId": session, "toolCall": call, "options": options}),
        Version::V2 => json!({
            "sessionId": session, "title": "Run it?", "options": options,
            "subject": {"type": "tool_call", "toolCall": call},
        }),
    }
}

pub(super) fn elicitation(session: &str) -> Value {
    json!({
        "sessionId": session, "mode": "form", "message": "Your name?",
        "requestedSchema":
            {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    })
}

/// A chunk of a message that is sent at a pace: every fortieth ends a paragraph.
pub(super) fn paced_text(at: usize) -> String {
    format!("c{at}{}", if at.is_multiple_of(40) { "\n\n" } else { " " })
}

/// A title made of the beginning of a prompt.
pub(super) fn title_of(content: &Value) -> Value {
    let text =
        |block: &Value| block["text"].as_str().or(block["resource"]["text"].as_str()).map(str::to_owned);
    let texts: Vec<String> = content.as_array().into_iter().flatten().filter_map(text).collect();
    let title: String =
        texts.join(" ").split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
    json!({"sessionUpdate": "session_info_update", "title": title})
}

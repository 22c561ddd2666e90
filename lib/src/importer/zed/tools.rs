//! What the tools of Zed are called for people, what sort they are, and the changes of files that they record.

use rethread_core::Json;
use serde_json::Value;

use super::content::result_blocks;
use crate::importer::updates::{RecordedCall, ToolStatus, changed_file, shown};

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

/// The text of the result of a call that the user stopped.
const CANCELED: &str = "Tool canceled by user";

/// Begins a call with what is known from its use.
pub(super) fn begun(id: &str, call: &Value) -> RecordedCall {
    let name = call["name"].as_str().unwrap_or("tool");
    let input = input(call);
    let path = ["path", "source_path"].iter().find_map(|name| field(&input, name));
    let kind = kind(name);
    let said = ["label", "command", "display_description"].iter().find_map(|name| field(&input, name));
    let about = ["path", "source_path", "regex", "glob", "query", "url"];
    let about = about.iter().find_map(|name| field(&input, name));
    let title = match (said, about) {
        (Some(said), _) => said.to_owned(),
        (None, Some(about)) => format!("{} {about}", name.replace('_', " ")),
        (None, None) => name.replace('_', " "),
    };
    let title: String = title.trim().chars().take(MAX_TITLE).collect();
    let begun = RecordedCall::new(id).title(&title).kind(kind).name(name).status(ToolStatus::InProgress);
    let begun = if input.is_null() { begun } else { begun.input(input.clone().into()) };
    match path {
        Some(path) => begun.paths(&[path]),
        None => begun,
    }
}

/// Ends a call with its result.
pub(super) fn ended(id: &str, result: &Value) -> RecordedCall {
    let is_failure = result["is_error"] == true;
    let status = if is_failure { ToolStatus::Failed } else { ToolStatus::Completed };
    let output = if result["output"].is_null() { &result["content"] } else { &result["output"] };
    let call = RecordedCall::new(id).status(status).output(output.clone().into());
    let mut content: Vec<Json> = changes(&result["output"]).into_iter().collect();
    if content.is_empty() || is_failure {
        content.extend(result_blocks(&result["content"]).iter().map(shown));
    }
    if content.is_empty() { call } else { call.content(&content) }
}

/// Says whether the user stopped a call.
pub(super) fn is_canceled(result: &Value) -> bool {
    result["is_error"] == true
        && result_blocks(&result["content"]).iter().any(|block| block["text"] == CANCELED)
}

/// The thread of the sub-agent that a call started.
pub(super) fn subagent<'a>(name: &str, result: &'a Value) -> Option<&'a str> {
    let output = &result["output"];
    let id = output["session_id"].as_str().or_else(|| output["session_info"]["session_id"].as_str());
    id.filter(|_| matches!(name, "spawn_agent" | "subagent"))
}

/// The input of a call: newer threads say whether it is JSON or text.
fn input(call: &Value) -> Value {
    let input = &call["input"];
    let is_marked = input.as_object().is_some_and(|members| members.len() == 2)
        && matches!(input["type"].as_str(), Some("json" | "text"))
        && input.get("value").is_some();
    if is_marked { input["value"].clone() } else { input.clone() }
}

/// The change of a file that a result records with the text before and after it.
fn changes(output: &Value) -> Option<Json> {
    let path = ["input_path", "original_path", "path"].iter().find_map(|name| field(output, name))?;
    let old = output["old_text"].as_str();
    Some(changed_file(path, old.filter(|old| !old.is_empty()), output["new_text"].as_str()?))
}

fn kind(name: &str) -> &'static str {
    match name {
        "terminal" | "sandboxed_terminal" => "execute",
        "read_file" | "list_directory" | "diagnostics" | "open" | "skill" => "read",
        "edit_file"
        | "write_file"
        | "create_file"
        | "create_directory"
        | "apply_code_action"
        | "rename_symbol"
        | "streaming_edit_file"
        | "save_file"
        | "restore_file_from_disk" => "edit",
        "delete_path" => "delete",
        "move_path" | "copy_path" => "move",
        "find_path" | "grep" | "find_references" | "go_to_definition" | "get_code_actions" => "search",
        "fetch" | "search_web" | "web_search" => "fetch",
        "thinking" | "spawn_agent" | "subagent" => "think",
        _ => "other",
    }
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value[name].as_str().filter(|text| !text.is_empty())
}

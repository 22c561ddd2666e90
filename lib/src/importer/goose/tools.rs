//! What the tools of goose are called for people, what sort they are, and the changes of files that they record.

use rethread_core::Json;
use serde_json::Value;

use super::content::{block, items};
use crate::importer::updates::{RecordedCall, ToolStatus, changed_file, shown, text};

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

/// Where goose keeps the title that it made for a call.
const TITLE: &str = "goose.toolSummary.title";

/// Begins a call with what is known from its request.
pub(super) fn begun(id: &str, request: &Value) -> RecordedCall {
    let (call, value) = (&request["toolCall"], &request["toolCall"]["value"]);
    let name = value["name"].as_str().unwrap_or("tool");
    let input = &value["arguments"];
    let (kind, path) = (kind(name, input), field(input, "path"));
    let given = request["_meta"][TITLE].as_str().filter(|title| !title.is_empty());
    let title = given.map_or_else(|| title_of(name, input), str::to_owned);
    let title: String = title.trim().chars().take(MAX_TITLE).collect();
    let begun = RecordedCall::new(id).title(&title).kind(kind).name(name).status(ToolStatus::InProgress);
    let begun = if input.is_null() { begun } else { begun.input(input.clone().into()) };
    let begun = match path {
        Some(path) => begun.paths(&[path]),
        None => begun,
    };
    if call["status"] == "error" {
        let words = call["error"].as_str().unwrap_or("the call cannot be read");
        return begun.status(ToolStatus::Failed).content(&[shown(&text(words))]);
    }
    match changes(name, input) {
        changes if changes.is_empty() => begun,
        changes => begun.content(&changes),
    }
}

/// Ends a call with its response. One that changes a file shows the change and not what the tool says of it.
pub(super) fn ended(id: &str, response: &Value, shows: CallShows) -> RecordedCall {
    let (result, value) = (&response["toolResult"], &response["toolResult"]["value"]);
    let call = RecordedCall::new(id);
    if result["status"] == "error" {
        let words = result["error"].as_str().unwrap_or_default();
        let call = call.status(ToolStatus::Failed).content(&[shown(&text(words))]);
        return call.output(result["error"].clone().into());
    }
    let is_failure = value["isError"] == true;
    let status = if is_failure { ToolStatus::Failed } else { ToolStatus::Completed };
    let call = call.status(status).output(value.clone().into());
    let content: Vec<Json> = items(value).filter_map(block).map(|block| shown(&block)).collect();
    let is_told = shows == CallShows::Changes && !is_failure;
    if content.is_empty() || is_told { call } else { call.content(&content) }
}

/// What a call shows before its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallShows {
    /// Nothing.
    Nothing,
    /// The files that it changes.
    Changes,
}

impl CallShows {
    /// What a request shows.
    pub(super) fn of(request: &Value) -> Self {
        let value = &request["toolCall"]["value"];
        let changes = changes(value["name"].as_str().unwrap_or_default(), &value["arguments"]);
        if changes.is_empty() { Self::Nothing } else { Self::Changes }
    }
}

fn title_of(name: &str, input: &Value) -> String {
    let what = ["command", "path", "file_path", "query", "url", "pattern", "instructions"];
    let what = what.iter().filter(|field| **field != "command" || is_shell(name));
    match what.filter_map(|name| field(input, name)).next() {
        Some(command) if is_shell(name) => command.to_owned(),
        Some(what) => format!("{} {what}", short_name(name)),
        None => short_name(name).to_owned(),
    }
}

/// The name of a tool without that of its extension.
fn short_name(name: &str) -> &str {
    name.rsplit_once("__").map_or(name, |(_, name)| name)
}

fn is_shell(name: &str) -> bool {
    matches!(short_name(name), "shell" | "bash")
}

fn kind(name: &str, input: &Value) -> &'static str {
    match (short_name(name), input["command"].as_str()) {
        ("shell" | "bash", _) => "execute",
        ("text_editor", Some("view")) => "read",
        ("text_editor" | "write" | "edit" | "write_file" | "edit_file", _) => "edit",
        ("read" | "read_file" | "view" | "image_processor" | "read_image", _) => "read",
        ("tree" | "analyze" | "search" | "grep" | "glob" | "list_windows", _) => "search",
        ("web_scrape" | "fetch" | "web_search", _) => "fetch",
        ("delegate" | "subagent" | "dynamic_task__create_task" | "execute_task", _) => "think",
        _ => "other",
    }
}

fn changes(name: &str, input: &Value) -> Vec<Json> {
    let Some(path) = field(input, "path").or_else(|| field(input, "file_path")) else { return Vec::new() };
    let string = |name: &str| input[name].as_str();
    let change = match (short_name(name), string("command")) {
        ("text_editor", Some("write")) => string("file_text").map(|new| changed_file(path, None, new)),
        ("text_editor", Some("str_replace" | "edit_file")) => {
            replaced(path, string("old_str"), string("new_str"))
        }
        ("write" | "write_file", _) => string("content").map(|new| changed_file(path, None, new)),
        ("edit" | "edit_file", _) => replaced(path, string("before"), string("after")),
        _ => None,
    };
    change.into_iter().collect()
}

fn replaced(path: &str, old: Option<&str>, new: Option<&str>) -> Option<Json> {
    Some(changed_file(path, Some(old?), new?))
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value[name].as_str().filter(|text| !text.is_empty())
}

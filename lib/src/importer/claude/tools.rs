//! What the tools of Claude Code are called for people, what sort they are, and the changes of files that they record.

use rethread_core::Json;
use serde_json::Value;

use crate::importer::updates::{PlanEntry, PlanStatus, RecordedCall, changed_file, image, shown, text};

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

/// Begins a tool call with what is known from its input.
pub(super) fn begun(id: &str, name: &str, input: &Value) -> RecordedCall {
    let field = |name: &str| input[name].as_str().unwrap_or_default();
    let path =
        [field("file_path"), field("notebook_path"), field("path")].into_iter().find(|path| !path.is_empty());
    let path = path.unwrap_or_default();
    let (kind, title) = match name {
        "Bash" | "BashOutput" | "KillShell" | "PowerShell" => ("execute", field("command").to_owned()),
        "Read" | "NotebookRead" => ("read", format!("Read {path}")),
        "Write" => ("edit", format!("Write {path}")),
        "Edit" | "MultiEdit" | "NotebookEdit" => ("edit", format!("Edit {path}")),
        "Glob" => ("search", format!("Find {}", field("pattern"))),
        "Grep" => ("search", format!("Search {}", field("pattern"))),
        "LS" => ("search", format!("List {path}")),
        "WebFetch" => ("fetch", format!("Fetch {}", field("url"))),
        "WebSearch" => ("fetch", format!("Search the web for {}", field("query"))),
        "Task" | "Agent" => ("think", field("description").to_owned()),
        "ExitPlanMode" => ("switch_mode", "Ready to code?".to_owned()),
        _ => ("other", name.to_owned()),
    };
    let title = if title.trim().is_empty() { name.to_owned() } else { title };
    let title: String = title.chars().take(MAX_TITLE).collect();
    let call = RecordedCall::new(id).title(title.trim()).kind(kind).name(name).input(input.clone().into());
    let call = if path.is_empty() { call } else { call.paths(&[path]) };
    match changes(name, path, input) {
        changes if changes.is_empty() => call,
        changes => call.content(&changes),
    }
}

/// The plan that a call sets, if it is one that does.
pub(super) fn plan_of(name: &str, input: &Value) -> Option<Vec<PlanEntry>> {
    let todos = input["todos"].as_array().filter(|_| name == "TodoWrite")?;
    let entry = |todo: &Value| PlanEntry {
        content: todo["content"].as_str().unwrap_or_default().to_owned(),
        status: PlanStatus::of(todo["status"].as_str().unwrap_or_default()),
    };
    Some(todos.iter().map(entry).collect())
}

/// Says whether the input of a tool has the changes that it makes.
pub(super) fn changes_files(name: &str) -> bool {
    matches!(name, "Edit" | "MultiEdit" | "Write")
}

/// The changes of files that the input of a call has.
fn changes(name: &str, path: &str, input: &Value) -> Vec<Json> {
    let edit = |edit: &Value| {
        let old = edit["old_string"].as_str()?;
        Some(changed_file(path, Some(old), edit["new_string"].as_str()?))
    };
    match name {
        _ if path.is_empty() => Vec::new(),
        "Edit" => edit(input).into_iter().collect(),
        "MultiEdit" => input["edits"].as_array().into_iter().flatten().filter_map(edit).collect(),
        "Write" => {
            let content = input["content"].as_str();
            content.map(|content| changed_file(path, None, content)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The content that a result shows; nothing where the changes of a file say it all.
pub(super) fn result_content(content: &Value) -> Vec<Json> {
    match content {
        Value::String(words) if words.is_empty() => Vec::new(),
        Value::String(words) => vec![shown(&text(words))],
        Value::Array(blocks) => blocks.iter().filter_map(result_block).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

fn result_block(block: &Value) -> Option<Json> {
    let source = |name: &str| block["source"][name].as_str().unwrap_or_default();
    match block["type"].as_str()? {
        "text" => Some(shown(&text(block["text"].as_str()?))),
        "image" => Some(shown(&image(source("media_type"), source("data")))),
        "tool_reference" => Some(shown(&text(block["tool_name"].as_str()?))),
        _ => None,
    }
}

//! What the tools of Gemini CLI and Qwen Code are called for people, and what sort they are.

use serde_json::Value;

use crate::importer::updates::{PlanEntry, PlanStatus, RecordedCall};

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

/// Begins a call with what is known from its input, and what the tool says that it does.
pub(crate) fn begun(id: &str, name: &str, input: &Value, description: Option<&str>) -> RecordedCall {
    let field = |name: &str| input[name].as_str().unwrap_or_default();
    let paths = ["file_path", "absolute_path", "dir_path", "path", "notebook_path"];
    let path = paths.into_iter().map(field).find(|path| !path.is_empty()).unwrap_or_default();
    let (kind, title) = match name {
        "run_shell_command" | "shell" => ("execute", field("command").to_owned()),
        "read_file" | "read_many_files" => ("read", format!("Read {path}")),
        "write_file" => ("edit", format!("Write {path}")),
        "replace" | "edit" | "notebook_edit" => ("edit", format!("Edit {path}")),
        "list_directory" => ("search", format!("List {path}")),
        "glob" => ("search", format!("Find {}", field("pattern"))),
        "grep_search" | "search_file_content" => ("search", format!("Search {}", field("pattern"))),
        "web_fetch" => ("fetch", format!("Fetch {}{}", field("url"), field("prompt"))),
        "google_web_search" | "web_search" => ("fetch", format!("Search the web for {}", field("query"))),
        "task" | "agent" | "invoke_agent" => ("think", field("description").to_owned()),
        "exit_plan_mode" => ("switch_mode", "Ready to code?".to_owned()),
        _ => ("other", name.to_owned()),
    };
    // A command says more than what it is said to be for.
    let title = match description.filter(|said| !said.is_empty() && kind != "execute") {
        Some(said) => said.to_owned(),
        None => title,
    };
    let title = if title.trim().is_empty() { name } else { title.trim() };
    let title: String = title.chars().take(MAX_TITLE).collect();
    let call = RecordedCall::new(id).title(&title).kind(kind).name(name).input(input.clone().into());
    if path.is_empty() { call } else { call.paths(&[path]) }
}

/// The plan that a call sets, if it is one that does.
pub(crate) fn plan_of(name: &str, input: &Value) -> Option<Vec<PlanEntry>> {
    let todos = input["todos"].as_array().filter(|_| matches!(name, "todo_write" | "write_todos"))?;
    let entry = |todo: &Value| PlanEntry {
        content: todo["content"]
            .as_str()
            .or_else(|| todo["description"].as_str())
            .unwrap_or_default()
            .to_owned(),
        status: PlanStatus::of(todo["status"].as_str().unwrap_or_default()),
    };
    Some(todos.iter().map(entry).collect())
}

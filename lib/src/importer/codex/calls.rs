//! Calls of tools as the model asked for them: what they are called for people, and what sort they are.

use serde_json::{Value, json};

use super::patches;
use crate::importer::updates::{PlanEntry, PlanStatus, RecordedCall};

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

/// Begins a call with what is known from its input.
pub(super) fn begun(id: &str, name: &str, input: &Value) -> RecordedCall {
    let field = |name: &str| input[name].as_str().unwrap_or_default();
    let (kind, title) = match name {
        "shell" | "local_shell" | "container.exec" => ("execute", command(&input["command"])),
        "shell_command" => ("execute", field("command").to_owned()),
        "exec_command" => ("execute", field("cmd").to_owned()),
        "exec" => ("execute", input.as_str().unwrap_or_default().to_owned()),
        "write_stdin" => ("execute", format!("Type into a running command: {}", field("chars").trim_end())),
        "apply_patch" => return patch(id, name, input),
        "view_image" => ("read", format!("View {}", field("path"))),
        "read_file" => ("read", format!("Read {}", field("file_path"))),
        "list_dir" => ("search", format!("List {}", field("dir_path"))),
        "grep_files" => ("search", format!("Search {}", field("pattern"))),
        "web_search" => ("fetch", format!("Search the web for {}", field("query"))),
        "spawn_agent" => ("think", format!("Start a sub-agent: {}", first_line(field("message")))),
        "send_input" | "send_message" | "followup_task" => {
            ("think", format!("Tell a sub-agent: {}", first_line(field("message"))))
        }
        "wait" | "wait_agent" => ("think", "Wait for sub-agents".to_owned()),
        "close_agent" | "interrupt_agent" => ("think", "End a sub-agent".to_owned()),
        _ => ("other", name.to_owned()),
    };
    let call = titled(RecordedCall::new(id), &title, name).kind(kind).name(name).input(input.clone().into());
    match field("path") {
        "" => call,
        path => call.paths(&[path]),
    }
}

/// Sets the title of a call; without one it is that of the tool.
pub(super) fn titled(call: RecordedCall, title: &str, name: &str) -> RecordedCall {
    let title = if title.trim().is_empty() { name } else { title.trim() };
    call.title(&title.chars().take(MAX_TITLE).collect::<String>())
}

/// The input of a function, which is JSON in a text.
pub(super) fn arguments(text: &Value) -> Value {
    match text.as_str() {
        Some(words) => serde_json::from_str(words).unwrap_or_else(|_| json!(words)),
        None => text.clone(),
    }
}

/// A command as a person would type it: what a shell is given, without the shell.
pub(super) fn command(words: &Value) -> String {
    let Some(list) = words.as_array() else { return words.as_str().unwrap_or_default().to_owned() };
    let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    match words.as_slice() {
        [_, "-lc" | "-c" | "-Command", script] => (*script).to_owned(),
        words => words.join(" "),
    }
}

/// The plan that a call sets, if it is one that does.
pub(super) fn plan_of(name: &str, input: &Value) -> Option<Vec<PlanEntry>> {
    let steps = input["plan"].as_array().filter(|_| name == "update_plan")?;
    let entry = |step: &Value| PlanEntry {
        content: step["step"].as_str().unwrap_or_default().to_owned(),
        status: PlanStatus::of(step["status"].as_str().unwrap_or_default()),
    };
    Some(steps.iter().map(entry).collect())
}

fn patch(id: &str, name: &str, input: &Value) -> RecordedCall {
    let text = input.as_str().or_else(|| input["input"].as_str()).or_else(|| input["patch"].as_str());
    let (changes, paths) = patches::wanted(text.unwrap_or_default());
    let call = RecordedCall::new(id).kind("edit").name(name).input(input.clone().into());
    let call = titled(call, &edit_title(&paths), name).paths(&paths);
    if changes.is_empty() { call } else { call.content(&changes) }
}

/// The title of a change of files.
pub(super) fn edit_title(paths: &[&str]) -> String {
    format!("Edit {}", paths.join(", "))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

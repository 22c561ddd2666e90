//! What the tools of opencode are called for people, what sort they are, and the changes of files that they record.

use rethread_core::Json;
use serde_json::{Value, json};

use super::content::image_block;
use crate::importer::updates::{
    FileOperation, PlanEntry, PlanStatus, RecordedCall, ToolStatus, changed_file, patched_file, shown, text,
};

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

/// Begins a call with what is known from its input.
pub(super) fn begun(id: &str, tool: &str, state: &Value) -> RecordedCall {
    let input = &state["input"];
    let title = match (is_shell(tool), field(input, "command").or_else(|| field(input, "cmd"))) {
        (true, Some(command)) => command,
        (true | false, _) => {
            let task = field(input, "description").filter(|_| tool == "task");
            field(state, "title").or(task).unwrap_or(tool)
        }
    };
    let call = RecordedCall::new(id).title(&short(title)).kind(kind(tool)).name(tool);
    let call = if input.is_null() { call } else { call.input(input.clone().into()) };
    let call = match path(tool, input) {
        Some(path) => call.paths(&[path]),
        None => call,
    };
    // What a command has printed so far, if it did not get to its end.
    let printed = field(&state["metadata"], "output").filter(|_| state["status"] == "running");
    let call = match printed {
        Some(printed) => call.content(&[shown(&text(printed))]),
        None => call,
    };
    call.status(ToolStatus::InProgress)
}

/// Ends a call, if the record says that it ended.
pub(super) fn ended(id: &str, tool: &str, state: &Value) -> Option<RecordedCall> {
    let call = RecordedCall::new(id);
    match state["status"].as_str()? {
        "completed" => {
            let mut output = json!({"output": state["output"]});
            if !state["metadata"].is_null() {
                output["metadata"] = state["metadata"].clone();
            }
            let call = match field(state, "title") {
                Some(title) => call.title(&short(title)),
                None => call,
            };
            let content = content(tool, state);
            Some(call.status(ToolStatus::Completed).content(&content).output(output.into()))
        }
        "error" => {
            let words = state["error"].as_str().or_else(|| state["error"]["message"].as_str());
            let words = words.unwrap_or_default();
            let call = call.status(ToolStatus::Failed).content(&[shown(&text(words))]);
            Some(call.output(json!({"error": words}).into()))
        }
        _ => None,
    }
}

/// The plan that a call sets, if it is one that does.
pub(super) fn plan_of(tool: &str, input: &Value) -> Option<Vec<PlanEntry>> {
    let todos = input["todos"].as_array().filter(|_| tool == "todowrite")?;
    let entry = |todo: &Value| PlanEntry {
        content: todo["content"].as_str().unwrap_or_default().to_owned(),
        status: PlanStatus::of(todo["status"].as_str().unwrap_or_default()),
    };
    // What was given up is no part of the plan any more.
    Some(todos.iter().filter(|todo| todo["status"] != "cancelled").map(entry).collect())
}

/// What a completed call shows: its text, the files that it changed, its images.
fn content(tool: &str, state: &Value) -> Vec<Json> {
    let words = read_text(tool, &state["metadata"]);
    let words = words.or_else(|| state["output"].as_str().map(str::to_owned)).unwrap_or_default();
    let mut items = vec![shown(&text(&words))];
    items.extend(changes(tool, state));
    let attachments = state["attachments"].as_array().into_iter().flatten();
    items.extend(attachments.filter_map(image_block).map(|block| shown(&block)));
    items
}

/// The text that was read, without the numbers of lines that the model gets.
fn read_text(tool: &str, metadata: &Value) -> Option<String> {
    let display = &metadata["display"];
    match display["type"].as_str().filter(|_| tool == "read")? {
        "file" => display["text"].as_str().map(str::to_owned),
        "directory" => {
            let entries = display["entries"].as_array()?.iter().filter_map(Value::as_str);
            Some(entries.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

fn changes(tool: &str, state: &Value) -> Vec<Json> {
    let (input, metadata) = (&state["input"], &state["metadata"]);
    let path = field(input, "filePath").or_else(|| field(input, "filepath"));
    match (tool, path) {
        ("edit", Some(path)) => match (input["oldString"].as_str(), input["newString"].as_str()) {
            (Some(old), Some(new)) => vec![changed_file(path, Some(old), new)],
            (Some(_) | None, _) => Vec::new(),
        },
        // What was there before is not recorded.
        ("write", Some(_)) if metadata["exists"] == true => Vec::new(),
        ("write", Some(path)) => {
            input["content"].as_str().map(|new| changed_file(path, None, new)).into_iter().collect()
        }
        ("apply_patch" | "patch", _) => {
            metadata["files"].as_array().into_iter().flatten().filter_map(patched).collect()
        }
        _ => Vec::new(),
    }
}

fn patched(file: &Value) -> Option<Json> {
    let path = field(file, "movePath").or_else(|| field(file, "filePath"))?;
    let operation = match file["type"].as_str() {
        Some("add") => FileOperation::Add,
        Some("delete") => FileOperation::Delete,
        Some(_) | None => FileOperation::Modify,
    };
    let diff = file["patch"].as_str().or_else(|| file["diff"].as_str());
    diff.map(|diff| patched_file(path, operation, diff))
}

fn path<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    match tool {
        "read" | "edit" | "write" => field(input, "filePath").or_else(|| field(input, "filepath")),
        "grep" | "glob" | "list" => field(input, "path"),
        _ => None,
    }
}

fn kind(tool: &str) -> &'static str {
    match tool {
        "bash" | "shell" => "execute",
        "webfetch" | "websearch" => "fetch",
        "edit" | "apply_patch" | "patch" | "write" => "edit",
        "grep" | "glob" | "list" => "search",
        "read" => "read",
        "task" => "think",
        _ => "other",
    }
}

fn is_shell(tool: &str) -> bool {
    matches!(tool, "bash" | "shell")
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value[name].as_str().filter(|text| !text.is_empty())
}

fn short(title: &str) -> String {
    title.trim().chars().take(MAX_TITLE).collect()
}

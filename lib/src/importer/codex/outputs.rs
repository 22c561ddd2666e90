//! What tools of Codex give back: text with a header, JSON in a text, or a list of blocks.

use rethread_core::Json;
use serde_json::Value;

use super::prompt::picture;
use crate::importer::updates::{ToolStatus, image, link, shown, text};

/// What a tool gave back.
pub(super) struct CallOutput {
    pub(super) status: ToolStatus,
    pub(super) content: Vec<Json>,
}

/// How outputs begin of calls that were not made or broken off.
const FAILED: [&str; 8] = [
    "aborted",
    "exec_command failed",
    "execution error",
    "failed to parse function arguments",
    "failed in sandbox",
    "unsupported call",
    "apply_patch verification failed",
    "patch rejected",
];

/// Reads the output of a function or a custom tool.
pub(super) fn read(output: &Value) -> CallOutput {
    match output {
        Value::String(words) => of_text(words),
        Value::Array(blocks) => {
            CallOutput { status: ToolStatus::Completed, content: blocks.iter().filter_map(block).collect() }
        }
        Value::Object(fields) if fields.contains_key("content") => {
            let mut read = read(&fields["content"]);
            if fields.get("success").is_some_and(|success| success == false) {
                read.status = ToolStatus::Failed;
            }
            read
        }
        Value::Object(_) => {
            CallOutput { status: ToolStatus::Completed, content: block(output).into_iter().collect() }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            CallOutput { status: ToolStatus::Completed, content: Vec::new() }
        }
    }
}

fn of_text(words: &str) -> CallOutput {
    // Versions before 0.50 put an object into the text.
    if words.starts_with("{\"output\":")
        && let Ok(Value::Object(fields)) = serde_json::from_str(words)
    {
        let inner = fields.get("output").and_then(Value::as_str).unwrap_or_default();
        let code = fields.get("metadata").and_then(|metadata| metadata["exit_code"].as_i64());
        return CallOutput { status: status(code), content: shown_text(inner) };
    }
    let (code, inner) = without_header(words);
    let is_failure = code.is_none()
        && FAILED
            .iter()
            .any(|start| inner.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start)));
    let status = if is_failure { ToolStatus::Failed } else { status(code) };
    CallOutput { status, content: shown_text(inner) }
}

/// Takes the lines off that Codex puts before what a command printed.
pub(super) fn without_header(words: &str) -> (Option<i64>, &str) {
    let Some((header, output)) = words.split_once("Output:\n") else { return (None, words) };
    let marks = ["Exit code: ", "Process exited with code "];
    let is_header = |line: &str| {
        let known =
            ["Chunk ID: ", "Wall time: ", "Duration: ", "Original token count: ", "Total output lines: "];
        let running = "Process running with session ID ";
        line.is_empty()
            || line.starts_with(running)
            || known.iter().chain(&marks).any(|mark| line.starts_with(mark))
    };
    if !header.lines().all(is_header) {
        return (None, words);
    }
    let code = header.lines().find_map(|line| marks.iter().find_map(|mark| line.strip_prefix(mark)));
    (code.and_then(|code| code.trim().parse().ok()), output)
}

/// How a command ended that gave this code.
pub(super) fn status(code: Option<i64>) -> ToolStatus {
    if code.is_none_or(|code| code == 0) { ToolStatus::Completed } else { ToolStatus::Failed }
}

/// A text as the content of a call, unless it is empty.
pub(super) fn shown_text(words: &str) -> Vec<Json> {
    if words.is_empty() { Vec::new() } else { vec![shown(&text(words))] }
}

fn block(block: &Value) -> Option<Json> {
    let field = |name: &str| block[name].as_str().filter(|text| !text.is_empty());
    let shows = match field("type")? {
        "input_text" | "inputText" | "text" | "output_text" => text(field("text")?),
        "input_image" | "inputImage" => picture(field("image_url").or_else(|| field("imageUrl"))?),
        "image" => image(field("mimeType")?, field("data")?),
        "input_audio" => link(field("audio_url")?, "audio"),
        "resource_link" => link(field("uri")?, field("name").unwrap_or_default()),
        _ => return None,
    };
    Some(shown(&shows))
}

//! What the tools of Gemini CLI and Qwen Code show to people: a text, the lines of a terminal, or the change of a file.

use rethread_core::Json;
use serde_json::Value;

use crate::importer::updates::{changed_file, shown, text};

/// Reads what a call shows; nothing if that says no more than its title.
pub(crate) fn content(display: &Value) -> Vec<Json> {
    match display {
        Value::String(words) if words.trim().is_empty() => Vec::new(),
        Value::String(words) => vec![shown(&text(words))],
        Value::Array(lines) => shown_text(&terminal(lines)),
        Value::Object(_) => of_object(display),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

fn of_object(display: &Value) -> Vec<Json> {
    if let (Some(_), Some(new)) = (display["fileDiff"].as_str(), display["newContent"].as_str()) {
        let path = display["filePath"].as_str().or_else(|| display["fileName"].as_str()).unwrap_or_default();
        let old = display["originalContent"].as_str().filter(|_| display["isNewFile"] != true);
        return vec![changed_file(path, old.filter(|old| !old.is_empty()), new)];
    }
    if let Some(lines) = display["ansiOutput"].as_array() {
        return shown_text(&terminal(lines));
    }
    let words = ["output", "text", "result", "summary", "message", "plan"];
    let words = words.into_iter().find_map(|name| display[name].as_str().filter(|text| !text.is_empty()));
    words.map(shown_text).unwrap_or_default()
}

/// The lines of a terminal, without their colours and the empty ones at the end.
fn terminal(lines: &[Value]) -> String {
    let line = |line: &Value| {
        let spans = line.as_array().map(Vec::as_slice).unwrap_or_default();
        let words: String = spans.iter().filter_map(|span| span["text"].as_str()).collect();
        words.trim_end().to_owned()
    };
    let lines: Vec<String> = lines.iter().map(line).collect();
    lines.join("\n").trim_end().to_owned()
}

fn shown_text(words: &str) -> Vec<Json> {
    if words.trim().is_empty() { Vec::new() } else { vec![shown(&text(words))] }
}

//! Tells what a user record of Claude Code is: what a person typed, or what the tool put there on its own.

use serde_json::Value;

use crate::importer::updates::{image, link, text};

/// What a user record says, besides results of tools.
#[derive(Debug, PartialEq)]
pub(super) enum UserSays {
    /// A person wrote this.
    Prompt(Vec<Value>),
    /// The user stopped the turn.
    Interrupted,
    /// The output of a command that ran in the tool itself.
    LocalOutput(String),
    /// Nothing that a person wrote.
    Nothing,
}

/// The texts by which Claude Code records that the user stopped a turn.
const INTERRUPTED: [&str; 2] =
    ["[Request interrupted by user]", "[Request interrupted by user for tool use]"];

/// The kinds of origin that stand for a person.
const HUMAN: [&str; 4] = ["human", "user", "cli", "sdk"];

/// Reads the content of a user record or of a command that was queued.
pub(super) fn user_says(content: &Value) -> UserSays {
    let blocks: Vec<Value> = match content {
        Value::String(words) => vec![text(words)],
        Value::Array(blocks) => blocks.iter().filter_map(block).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let mut said = Vec::new();
    let mut output = String::new();
    for block in blocks {
        let Some(words) = block["text"].as_str() else {
            said.push(block);
            continue;
        };
        if INTERRUPTED.contains(&words.trim()) {
            return UserSays::Interrupted;
        }
        let spoken = spoken(words);
        output += &spoken.output;
        if !spoken.words.is_empty() {
            said.push(text(&spoken.words));
        }
    }
    match (said.is_empty(), output.is_empty()) {
        (false, _) => UserSays::Prompt(said),
        (true, false) => UserSays::LocalOutput(output),
        (true, true) => UserSays::Nothing,
    }
}

/// Says whether a person is behind a record.
pub(super) fn is_human(record: &Value) -> bool {
    let is = |name: &str| record[name] == true;
    let origin = record["origin"]["kind"].as_str();
    !is("isMeta") && !is("isCompactSummary") && origin.is_none_or(|origin| HUMAN.contains(&origin))
}

/// A content block of a message as the protocol has it.
fn block(block: &Value) -> Option<Value> {
    let source = &block["source"];
    let field = |name: &str| source[name].as_str().unwrap_or_default();
    match block["type"].as_str()? {
        "text" => Some(text(block["text"].as_str()?)),
        "image" if source["type"] == "url" => Some(link(field("url"), "image")),
        "image" => Some(image(field("media_type"), field("data"))),
        "document" if source["type"] == "text" => Some(text(field("data"))),
        "document" if source["type"] == "url" => Some(link(field("url"), "document")),
        "document" => {
            let name = block["title"].as_str().unwrap_or("document");
            let blob = serde_json::json!({"uri": format!("file:///{name}"), "mimeType": field("media_type"),
                "blob": field("data")});
            Some(serde_json::json!({"type": "resource", "resource": blob}))
        }
        _ => None,
    }
}

/// What of a text a person typed, and what a local command printed.
#[derive(Default)]
struct TypedText {
    words: String,
    output: String,
}

/// Takes a text apart that the tool may have wrapped.
fn spoken(words: &str) -> TypedText {
    let words = without(words, "system-reminder");
    let trimmed = words.trim();
    let tag = |name: &str| inside(trimmed, name);
    if let Some(command) = tag("command-name") {
        let arguments = tag("command-args").unwrap_or_default();
        let words = format!("{} {}", command.trim(), arguments.trim()).trim().to_owned();
        return TypedText { words, output: String::new() };
    }
    if let Some(command) = tag("bash-input") {
        return TypedText { words: format!("! {}", command.trim()), output: String::new() };
    }
    let outputs = ["local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr"];
    if outputs.iter().any(|name| trimmed.starts_with(&format!("<{name}>"))) {
        let parts =
            outputs.iter().filter_map(|name| tag(name)).map(str::trim).filter(|part| !part.is_empty());
        return TypedText { words: String::new(), output: parts.collect::<Vec<_>>().join("\n") };
    }
    let injected = ["local-command-caveat", "task-notification", "teammate-message", "ide_opened_file"];
    if injected.iter().any(|name| trimmed.starts_with(&format!("<{name}>"))) {
        return TypedText::default();
    }
    // A prompt is kept as it was typed unless something was taken out of it.
    TypedText { words: if trimmed.is_empty() { String::new() } else { words }, output: String::new() }
}

/// The text inside of an element.
fn inside<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>")).map_or(rest, |(inner, _)| inner))
}

/// A text without the elements of a name.
fn without(text: &str, name: &str) -> String {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(&start) {
        kept += before;
        rest = after.split_once(&end).map_or("", |(_, rest)| rest);
    }
    kept + rest
}

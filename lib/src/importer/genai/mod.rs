//! What Gemini CLI and Qwen Code have in common, as one began as the other: parts of messages in the shape of the Gemini
//! API, and the tools with what they show.

use rethread_core::Json;
use serde_json::{Value, json};

use super::updates::{image, link, shown, text};

pub(super) mod display;
pub(super) mod tools;

/// How messages begin that the tool writes in the user's name.
const INJECTED: [&str; 5] = [
    "<session_context>",
    "<hook_context>",
    "<system-reminder>",
    "This is the Gemini CLI. We are setting up the context",
    "This is the Qwen Code. We are setting up the context",
];

/// The parts of a message, which may be a text, one part, or a list of both.
pub(super) fn parts(content: &Value) -> Vec<Value> {
    match content {
        Value::String(words) => vec![json!({"text": words})],
        Value::Array(parts) => parts.iter().flat_map(self::parts).collect(),
        Value::Object(_) => vec![content.clone()],
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// The blocks of a message that a person wrote: texts and what was attached, without what the tool added.
pub(super) fn typed(content: &Value) -> Vec<Value> {
    let blocks = parts(content);
    let blocks = blocks.iter().filter(|part| part["thought"] != true).filter_map(block);
    blocks.filter(|block| !block["text"].as_str().is_some_and(is_injected)).collect()
}

fn is_injected(words: &str) -> bool {
    let words = words.trim_start();
    words.is_empty() || INJECTED.iter().any(|start| words.starts_with(start))
}

/// A part as a block of the protocol.
pub(super) fn block(part: &Value) -> Option<Value> {
    let field = |of: &str, name: &str| part[of][name].as_str().filter(|text| !text.is_empty());
    if let Some(words) = part["text"].as_str() {
        return Some(text(words));
    }
    if let Some(data) = field("inlineData", "data") {
        let mime = field("inlineData", "mimeType").unwrap_or("application/octet-stream");
        return Some(match mime.starts_with("image/") {
            true => image(mime, data),
            false => {
                let name = field("inlineData", "displayName").unwrap_or("attachment");
                let blob = json!({"uri": format!("file:///{name}"), "mimeType": mime, "blob": data});
                json!({"type": "resource", "resource": blob})
            }
        });
    }
    let uri = field("fileData", "fileUri")?;
    Some(link(uri, field("fileData", "displayName").unwrap_or(uri)))
}

/// What a call gave back to the model, and whether that was a failure.
pub(super) fn response(response: &Value) -> (Vec<Json>, ResponseKind) {
    let kind = match response["error"].is_string() {
        true => ResponseKind::Failure,
        false => ResponseKind::Result,
    };
    let words = response["output"].as_str().or_else(|| response["error"].as_str());
    let words = words.map(|words| within(words, "untrusted_context")).filter(|words| !words.is_empty());
    (words.map(|words| shown(&text(words))).into_iter().collect(), kind)
}

/// What a call gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    Result,
    Failure,
}

/// A text without the element that is around all of it.
fn within<'a>(words: &'a str, name: &str) -> &'a str {
    let inner = words.strip_prefix(&format!("<{name}>"));
    let inner = inner.and_then(|rest| rest.trim_end().strip_suffix(&format!("</{name}>")));
    inner.map_or(words, |inner| inner.trim_matches('\n'))
}

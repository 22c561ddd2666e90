//! Replaces what looks like a secret in entries and JSON: in every string, and in the output of terminals, which is stored as
//! base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rethread_core::{Entry, Json};
use serde_json::Value;

use super::SecretFinder;

/// The kinds of update that have the output of a terminal.
const TERMINAL_UPDATES: [&str; 2] = ["terminal_update", "terminal_output_chunk"];

/// A longer string without spaces is an image or the like.
const MAX_WORD: usize = 16 * 1024;

/// Replaces what looks like a secret in an entry.
#[must_use]
pub fn redacted_entry(entry: Entry, finder: &mut SecretFinder) -> Entry {
    match serde_json::to_value(&entry) {
        Ok(mut value) => {
            redact(&mut value, finder);
            serde_json::from_value(value).expect("a redacted entry has the shape that it had")
        }
        Err(_) => redacted_text(entry, finder),
    }
}

/// Replaces what looks like a secret in a value, such as an update.
#[must_use]
pub fn redacted_json(json: &Json, finder: &mut SecretFinder) -> Json {
    let mut value = json.value();
    redact(&mut value, finder);
    value.into()
}

/// Of JSON that is nested too deeply for a tree, the text is redacted.
fn redacted_text(entry: Entry, finder: &mut SecretFinder) -> Entry {
    let text = Json::of(&entry);
    match finder.redact(text.text()) {
        std::borrow::Cow::Borrowed(_) => entry,
        std::borrow::Cow::Owned(redacted) => serde_json::from_str(&redacted).unwrap_or(entry),
    }
}

fn redact(value: &mut Value, finder: &mut SecretFinder) {
    match value {
        Value::String(text) => redact_text(text, finder),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, finder)),
        Value::Object(members) => {
            if members
                .get("sessionUpdate")
                .and_then(Value::as_str)
                .is_some_and(|tag| TERMINAL_UPDATES.contains(&tag))
            {
                members.get_mut("data").into_iter().for_each(|data| redact_bytes(data, finder));
                let output = members.get_mut("output").and_then(|output| output.get_mut("data"));
                output.into_iter().for_each(|data| redact_bytes(data, finder));
            }
            members.iter_mut().for_each(|(_, member)| redact(member, finder));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_text(text: &mut String, finder: &mut SecretFinder) {
    if text.len() > MAX_WORD && !text.contains(char::is_whitespace) {
        return;
    }
    if let std::borrow::Cow::Owned(redacted) = finder.redact(text) {
        *text = redacted;
    }
}

fn redact_bytes(data: &mut Value, finder: &mut SecretFinder) {
    let Some(bytes) = data.as_str().and_then(|data| STANDARD.decode(data).ok()) else { return };
    let text = String::from_utf8_lossy(&bytes);
    if let std::borrow::Cow::Owned(redacted) = finder.redact(&text) {
        *data = Value::String(STANDARD.encode(redacted));
    }
}

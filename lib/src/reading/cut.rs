//! Shortens an update that is too large for a page: its texts first, then its lists. Ids and tags stay.

use rethread_core::{Json, UpdateKind};
use serde::Serialize;
use serde_json::{Value, json};

/// Texts are shortened to this many bytes at first, then to half of that, and so on.
const FIRST_TEXT: usize = 64 * 1024;
/// Shorter texts stay: ids and names are among them.
const SHORTEST_TEXT: usize = 128;

/// What is noted beside a shortened update.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CutNote {
    /// The size of the whole update.
    pub(super) bytes: usize,
}

/// An update of at most about `longest` bytes.
pub(super) fn shortened(body: &Json, longest: usize) -> Json {
    let whole = body.value();
    let mut text = FIRST_TEXT;
    while text >= SHORTEST_TEXT {
        let mut value = whole.clone();
        shorten(&mut value, text, longest / (SHORTEST_TEXT / 2));
        let json = Json::from(value);
        if json.text().len() <= longest {
            return json;
        }
        text /= 4;
    }
    bare(&whole)
}

/// Nothing but what it is about.
fn bare(whole: &Value) -> Json {
    let tag = whole["sessionUpdate"].as_str().unwrap_or_default();
    let mut bare = json!({"sessionUpdate": whole["sessionUpdate"]});
    if let Some(id) = UpdateKind::of_tag(tag).meaning().id.name()
        && let Some(id_value) = whole.get(id)
    {
        bare[id] = id_value.clone();
    }
    bare.into()
}

fn shorten(value: &mut Value, text: usize, items: usize) {
    match value {
        Value::String(words) => shorten_text(words, text),
        Value::Array(list) => {
            list.truncate(items.max(1));
            list.iter_mut().for_each(|item| shorten(item, text, items));
        }
        Value::Object(members) => {
            // Half of an image is none.
            let is_media = members.contains_key("mimeType");
            for (name, member) in members.iter_mut() {
                match (name.as_str(), member) {
                    ("data" | "blob", Value::String(data)) if is_media && data.len() > text => data.clear(),
                    ("data", Value::String(data)) if data.len() > text => data.truncate(text / 4 * 4),
                    (_, member) => shorten(member, text, items),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn shorten_text(words: &mut String, longest: usize) {
    if words.len() > longest {
        let end = words.floor_char_boundary(longest);
        words.truncate(end);
        words.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(body: Value, longest: usize) -> Value {
        let cut = shortened(&body.into(), longest);
        assert!(cut.text().len() <= longest, "{} is at most {longest}", cut.text().len());
        cut.value()
    }

    #[test]
    fn long_texts_become_shorter_and_short_ones_stay() {
        let body = json!({
            "sessionUpdate": "agent_message", "messageId": "m1",
            "content": [{"type": "text", "text": "ä".repeat(200_000)}, {"type": "text", "text": "end"}],
        });
        let shown = cut(body, 100_000);
        assert_eq!((&shown["messageId"], &shown["content"][1]["text"]), (&json!("m1"), &json!("end")));
        let text = shown["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("ää") && text.ends_with('…'), "{} bytes", text.len());
    }

    #[test]
    fn images_and_output_stay_what_they_are() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "QUJD".repeat(100_000)});
        let shown =
            cut(json!({"sessionUpdate": "user_message", "messageId": "m", "content": [image]}), 10_000);
        assert_eq!(shown["content"][0]["data"], "");
        let output = json!({"data": "QUJD".repeat(100_000)});
        let shown =
            cut(json!({"sessionUpdate": "terminal_update", "terminalId": "t", "output": output}), 10_000);
        assert_eq!(shown["output"]["data"].as_str().map(|data| data.len() % 4), Some(0));
    }

    #[test]
    fn of_many_small_texts_or_deep_lists_some_stay() {
        let entries: Vec<_> = (0..100_000).map(|at| json!({"content": format!("step {at}")})).collect();
        let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": entries});
        assert_eq!(cut(body, 20_000)["toolCallId"], "c");
        let members: serde_json::Map<_, _> = (0..100_000).map(|at| (format!("m{at}"), json!(at))).collect();
        let body = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": members});
        assert_eq!(cut(body, 20_000), json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"}));
    }
}

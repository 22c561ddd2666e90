//! JSON for programs. Characters that control a terminal are escaped, so that it can be looked at too.

use serde::Serialize;

use super::escape::is_hostile;

/// One value as several lines, with a line end.
pub(crate) fn json_document(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("values of commands have only text keys");
    text.split('\n').map(|line| escaped(line) + "\n").collect()
}

/// One value as one line, with a line end.
pub(crate) fn json_line(value: &impl Serialize) -> String {
    escaped(&serde_json::to_string(value).expect("values of commands have only text keys")) + "\n"
}

/// Escapes what JSON allows in strings as it is. Outside of strings JSON has no such characters.
fn escaped(line: &str) -> String {
    let mut safe = String::with_capacity(line.len());
    let mut rest = line;
    // Most text has none, and is copied in one piece.
    while let Some(at) = rest.find(is_hostile) {
        let (before, after) = rest.split_at(at);
        safe += before;
        let mut letters = after.chars();
        let mut units = [0; 2];
        for unit in letters.next().into_iter().flat_map(|c| c.encode_utf16(&mut units).to_vec()) {
            safe += &format!("\\u{unit:04x}");
        }
        rest = letters.as_str();
    }
    safe + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn control_characters_are_escaped_and_read_back() {
        let value = json!({"a": "\u{1b}\u{9b}\u{202e}\u{7f}\n日本"});
        let line = json_line(&value);
        assert_eq!(line, "{\"a\":\"\\u001b\\u009b\\u202e\\u007f\\n日本\"}\n");
        for text in [line, json_document(&value)] {
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        }
    }
}

//! Text for questions to the user: invisible characters, and those that move or reorder text, are written as escapes.
//! Also labels: one short line that says how much is left out.

use std::borrow::Cow;

use serde_json::Value;

/// The text with invisible characters written as escapes such as `\u{1b}`. Line feeds, tabs and the carriage returns of
/// line endings stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !has_hidden(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if is_hidden(c, rest.peek().copied()) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The text on one line, with invisible characters written as escapes.
pub(crate) fn visible_line(text: &str) -> String {
    let hides = |c: char| c.is_control() || is_invisible(c);
    text.chars().map(|c| if hides(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Whether the text has a character that [`visible`] would escape.
pub(crate) fn has_hidden(text: &str) -> bool {
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if is_hidden(c, rest.peek().copied()) {
            return true;
        }
    }
    false
}

/// The same value with [`visible`] applied to all its strings.
pub(crate) fn visible_json(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(visible(text)),
        Value::Array(items) => items.iter().map(visible_json).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (visible(name).into_owned(), visible_json(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The beginning of a text on one line, at most this many characters, and how much was left out.
pub(crate) fn label(text: &str, most: usize) -> String {
    let mut lines = text.trim().lines();
    let first = visible(lines.next().unwrap_or_default()).replace('\t', " ");
    let (more_lines, length) = (lines.count(), first.chars().count());
    let cut: String = first.chars().take(most).collect();
    match (more_lines, length.saturating_sub(most)) {
        (0, 0) => cut,
        (0, more) => format!("{cut}… ({more} more characters)"),
        (1, _) => format!("{cut} … (1 more line)"),
        (more, _) => format!("{cut} … ({more} more lines)"),
    }
}

/// Whether [`visible`] escapes a character, given the next one.
fn is_hidden(c: char, next: Option<char>) -> bool {
    match c {
        '\n' | '\t' => false,
        '\r' => next != Some('\n'),
        _ => c.is_control() || is_invisible(c),
    }
}

/// Whether a character is invisible, or changes the direction or the place of others.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        // Zero-width characters, marks of direction, line and paragraph separators, embeddings and overrides.
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        // Joiners, invisible operators, isolates.
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        // Tags and the variation selectors of the supplement.
        | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{has_hidden, label, visible, visible_json, visible_line};

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(visible("a\u{1b}[2K\u{202e}b\rc\r\n\td\0"), "a\\u{1b}[2K\\u{202e}b\\rc\r\n\td\\u{0}");
        assert_eq!(visible("plain é 漢字 🙂\n"), "plain é 漢字 🙂\n");
        assert_eq!(visible_line("a\n\tb\u{202e}"), "a\\n\\tb\\u{202e}");
        assert!(has_hidden("\u{200b}") && has_hidden("\u{e0041}") && !has_hidden("a\r\nb"));
        assert_eq!(visible_json(&json!({"a\u{7}": ["\u{feff}", 1]})), json!({"a\\u{7}": ["\\u{feff}", 1]}));
    }

    #[test]
    fn a_label_is_one_line_and_says_what_it_leaves_out() {
        assert_eq!(label("ls -l", 100), "ls -l");
        assert_eq!(label("\n echo safe\n\nrm -rf ~\n", 100), "echo safe … (2 more lines)");
        assert_eq!(label("a\n b", 100), "a … (1 more line)");
        assert_eq!(label("abcdef", 4), "abcd… (2 more characters)");
        assert_eq!(label("a\u{2028}b\u{1b}", 100), "a\\u{2028}b\\u{1b}");
    }
}

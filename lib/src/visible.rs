//! Makes text of agents, users and files safe to show: characters that control a terminal or reorder a line become escapes
//! such as `\u{1b}`.

use std::borrow::Cow;

/// Escapes all control characters, so that the text stays on one line.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hostile)
}

/// Escapes control characters except line ends and tabs.
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hostile(c) && c != '\n' && c != '\t')
}

/// Returns whether a character controls a terminal, or changes the order or the lines of other characters.
#[must_use]
pub fn is_hostile(c: char) -> bool {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks_lines = matches!(c, '\u{2028}' | '\u{2029}');
    // Text between these is not shown.
    let annotates = matches!(c, '\u{fff9}'..='\u{fffb}');
    c.is_control() || reorders || breaks_lines || annotates
}

fn escaped(text: &str, escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&escape) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if escape(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(visible("a\u{1b}[31m\u{9b}b\r\n"), r"a\u{1b}[31m\u{9b}b\u{d}\u{a}");
        assert_eq!(visible("\u{202e}txt.exe\u{2066}\u{2028}"), r"\u{202e}txt.exe\u{2066}\u{2028}");
        assert_eq!(visible_lines("a\n\tb\r\u{7}"), "a\n\tb\\u{d}\\u{7}");
    }

    #[test]
    fn other_text_is_unchanged() {
        let text = "日本 שלום مرحبا e\u{301} 👩\u{200d}🚀 \u{200f}";
        assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
    }
}

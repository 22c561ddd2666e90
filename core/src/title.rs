//! Titles as they are kept, whoever wrote them: one line of visible characters, of bounded length.

use std::iter::Peekable;
use std::str::Chars;

use crate::{Json, RawMembers};

/// The most characters that a title has.
pub const LONGEST_TITLE: usize = 500;

const ESCAPE: char = '\u{1b}';

/// Makes a title of any text: one line, without escape sequences, control characters and characters that reorder the
/// text or take no room. What is too long ends with an ellipsis. The result may be empty.
#[must_use]
pub fn clean_title(text: &str) -> String {
    let (mut title, mut length, mut gap) = (String::new(), 0, false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == ESCAPE || matches!(c, '\u{90}' | '\u{9b}' | '\u{9d}') {
            skip_escape(c, &mut rest);
        } else if c.is_whitespace() {
            gap = !title.is_empty();
        } else if !c.is_control() && !is_unseen(c) && (!is_joiner(c) || !title.is_empty()) {
            if std::mem::take(&mut gap) {
                title.push(' ');
                length += 1;
            }
            title.push(c);
            length += 1;
        }
        if length > LONGEST_TITLE {
            return title.chars().take(LONGEST_TITLE - 1).chain(['…']).collect();
        }
    }
    title
}

/// Makes a title of the content blocks of a prompt: the first line of its first text that says something.
#[must_use]
pub fn prompt_title(content: &Json) -> Option<String> {
    const LONGEST: usize = 80;
    let blocks = content.raw_items()?;
    let text = blocks.into_iter().find_map(|block| RawMembers::of(block).text("text"))?;
    let words = text.lines().map(clean_title).find(|line| !line.is_empty())?;
    if words.chars().count() <= LONGEST {
        return Some(words);
    }
    Some(words.chars().take(LONGEST - 1).chain(['…']).collect())
}

/// Skips what follows the first character of a terminal's escape sequence.
fn skip_escape(first: char, rest: &mut Peekable<Chars<'_>>) {
    let kind = match first {
        '\u{9b}' => Some('['),
        '\u{90}' | '\u{9d}' => Some(']'),
        _ => rest.next_if(|c| !c.is_control()),
    };
    match kind {
        Some('[') => {
            while rest.next_if(|c| (' '..='?').contains(c)).is_some() {}
            let _ = rest.next_if(|c| ('@'..='~').contains(c));
        }
        // A string that the terminal acts on, up to its end or that of the line.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let ends = |c: &char| matches!(c, '\u{7}' | '\u{9c}' | '\n' | &ESCAPE);
            while rest.next_if(|c| !ends(c)).is_some() {}
            if rest.next() == Some(ESCAPE) {
                let _ = rest.next_if_eq(&'\\');
            }
        }
        Some(_) | None => {}
    }
}

/// Characters that reorder the text around them or take no room: with them a title looks like another.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Characters that join or part their neighbours, which emoji and some scripts need.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_of_visible_characters() {
        for (text, title) in [
            ("  My \n\t title ", "My title"),
            ("a\0b\u{7f}c\u{85}d", "abc d"),
            ("\u{1b}[31;1mred\u{1b}[0m \u{9b}2Jand", "red and"),
            ("\u{1b}]0;owned\u{7}safe \u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "safe link"),
            ("\u{1b}cplain \u{1b}", "plain"),
            ("\u{1b}]0;no end\nnext", "next"),
            ("\u{202e}txt.exe\u{2066}\u{200b}", "txt.exe"),
            ("one\u{2028}two", "one two"),
            ("👩\u{200d}💻 größer", "👩\u{200d}💻 größer"),
            ("\u{200d}\u{feff}\u{1b}[m \0", ""),
            ("", ""),
        ] {
            assert_eq!(clean_title(text), title, "{text:?}");
            assert_eq!(clean_title(title), title, "{text:?}");
        }
    }

    #[test]
    fn a_title_is_bounded() {
        assert_eq!(clean_title(&"é".repeat(LONGEST_TITLE)), "é".repeat(LONGEST_TITLE));
        let cut = clean_title(&"word ".repeat(1_000_000));
        assert_eq!(cut.chars().count(), LONGEST_TITLE);
        assert!(cut.ends_with('…'), "{cut}");
        assert_eq!(clean_title(&cut), cut);
    }
}

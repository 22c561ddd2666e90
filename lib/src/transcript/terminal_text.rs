//! The text of a terminal's output: without colours and other escape sequences, and of lines that were overwritten only the
//! last state. Other control characters stay, for those who show the text to escape.

use std::iter::Peekable;
use std::str::Chars;

const ESCAPE: char = '\u{1b}';

/// Makes a readable text of what a program wrote to a terminal.
pub(super) fn terminal_text(output: &str) -> String {
    let plain = without_sequences(output);
    if !plain.contains('\r') {
        return plain;
    }
    let line = |line: &str| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or(line).to_owned()
    };
    plain.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn without_sequences(output: &str) -> String {
    if !output.contains(ESCAPE) {
        return output.to_owned();
    }
    let mut text = String::with_capacity(output.len());
    let mut rest = output.chars().peekable();
    while let Some(c) = rest.next() {
        if c == ESCAPE { skip_sequence(&mut rest, &mut text) } else { text.push(c) }
    }
    text
}

/// Skips an escape sequence. What is none stays.
fn skip_sequence(rest: &mut Peekable<Chars<'_>>, text: &mut String) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            while rest.next_if(|c| matches!(c, '\u{20}'..='\u{3f}')).is_some() {}
            rest.next_if(|c| matches!(c, '\u{40}'..='\u{7e}'));
        }
        Some(']' | 'P' | '_' | '^') => {
            while let Some(c) = rest.next_if(|c| *c != '\n') {
                if c == '\u{7}' || (c == ESCAPE && rest.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        Some('(' | ')') => {
            rest.next();
            rest.next_if(|c| c.is_ascii_alphanumeric());
        }
        Some('=' | '>' | '7' | '8' | 'M' | 'c') => {
            rest.next();
        }
        Some(_) | None => text.push(ESCAPE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_overwritten_lines_are_removed() {
        assert_eq!(terminal_text("\u{1b}[1;32mok\u{1b}[0m\r\n"), "ok\n");
        assert_eq!(terminal_text("1%\r50%\r100%\ndone"), "100%\ndone");
        assert_eq!(terminal_text("\u{1b}]0;title\u{7}x\u{1b}]8;;http://a\u{1b}\\link\u{1b}(B"), "xlink");
        assert_eq!(terminal_text("\u{1b}Zx\u{1b}"), "\u{1b}Zx\u{1b}", "what is no sequence stays");
        assert_eq!(terminal_text("\u{1b}[31"), "");
        assert_eq!(terminal_text("plain \u{7}"), "plain \u{7}");
    }
}

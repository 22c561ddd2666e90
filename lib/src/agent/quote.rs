//! Quotes the output of a failed program in an error, without escape sequences or characters that hide text.

/// The text to append to an error; empty if the program printed nothing.
pub(crate) fn output_suffix(stderr: &str, stdout: &str) -> String {
    let quoted = |how: &str, text: &str| match plain(text).trim() {
        "" => String::new(),
        text => format!("; {how}: {text}"),
    };
    quoted("it said", stderr) + &quoted("it printed", stdout)
}

/// Removes escape sequences, control characters and marks that change the writing direction.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' => skip_sequence(&mut rest),
            '\n' | '\t' => plain.push(next),
            _ if next.is_control() || is_direction_mark(next) => {}
            _ => plain.push(next),
        }
    }
    plain
}

/// Skips an escape sequence: `[` up to a letter, `]` up to its terminator, otherwise one character.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => {
            rest.find(|c| ('@'..='~').contains(c));
        }
        Some(']') => {
            let end = rest.find(|c| matches!(c, '\u{7}' | '\u{1b}' | '\n'));
            if end == Some('\u{1b}') {
                rest.next();
            }
        }
        Some(_) | None => {}
    }
}

fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_output_adds_nothing() {
        assert_eq!(output_suffix(" \n", "\u{1b}[0m"), "");
    }

    #[test]
    fn both_streams_are_quoted_without_what_controls_a_terminal() {
        let stderr = "\u{1b}[31merror\u{1b}[0m:\r\n\tno key\u{7}";
        let stdout = "\u{1b}]8;;http://x\u{1b}\\usage\u{1b}]8;;\u{7} \u{202e}now\u{9b}\u{1b}";
        assert_eq!(output_suffix(stderr, stdout), "; it said: error:\n\tno key; it printed: usage now");
    }
}

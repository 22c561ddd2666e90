//! The last words of a program that failed, as they are put into an error: what it wrote on stderr and on stdout,
//! without anything that would do something to a terminal or hide a part of the text.

/// What is added to the reason of a failure; nothing if the program said nothing.
pub(crate) fn last_words(stderr: &str, stdout: &str) -> String {
    let quoted = |how: &str, text: &str| match plain(text).trim() {
        "" => String::new(),
        text => format!("; {how}: {text}"),
    };
    quoted("it said", stderr) + &quoted("it printed", stdout)
}

/// The text without escape sequences, control characters and marks that turn the direction of writing.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '\u{1b}' => skip_sequence(&mut rest),
            '\n' | '\t' => plain.push(next),
            _ if next.is_control() || turns_direction(next) => {}
            _ => plain.push(next),
        }
    }
    plain
}

/// Skips what follows the escape character: `[` up to a letter or the like, `]` up to its end, else one character.
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

fn turns_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_is_nothing_quoted() {
        assert_eq!(last_words(" \n", "\u{1b}[0m"), "");
    }

    #[test]
    fn both_streams_are_quoted_without_what_controls_a_terminal() {
        let stderr = "\u{1b}[31merror\u{1b}[0m:\r\n\tno key\u{7}";
        let stdout = "\u{1b}]8;;http://x\u{1b}\\usage\u{1b}]8;;\u{7} \u{202e}now\u{9b}\u{1b}";
        assert_eq!(last_words(stderr, stdout), "; it said: error:\n\tno key; it printed: usage now");
    }
}

//! Breaks plain text between words, so that it fits the width of a terminal.

use super::target::OutputTarget;
use super::width::width;

/// The least room for text, on a terminal that is very narrow.
const LEAST_ROOM: usize = 20;

/// Breaks a text that has been escaped. The lines after the first are indented, and the first has as much room as they have.
/// Words that are too long stay whole.
pub(crate) fn paragraph(target: OutputTarget, text: &str, indent: usize) -> String {
    let room = target.width().saturating_sub(indent).max(LEAST_ROOM);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && width(&line) + 1 + width(word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::super::target::Color;
    use super::*;

    #[test]
    fn words_stay_whole() {
        let narrow = OutputTarget::Terminal { width: 26, color: Color::Off };
        let text = "one two three four five 日本語の文字 a-very-long-word-that-does-not-fit six";
        let expected =
            "one two three four\n    five 日本語の文字\n    a-very-long-word-that-does-not-fit\n    six";
        assert_eq!(paragraph(narrow, text, 4), expected);
        assert_eq!(paragraph(OutputTarget::Plain, text, 4), text);
        assert_eq!(paragraph(narrow, "", 4), "");
    }
}

//! Breaks styled text into lines of a given width: between words, between wide characters, and inside words that are longer
//! than a line. Counts columns, not characters.

use unicode_segmentation::UnicodeSegmentation as _;

use super::style::{StyledText, TextStyle};
use crate::output::width::width;

/// Characters that do not begin a line after a wide one.
const CLOSING: &str = ".,;:!?)]}、。，．！？：；）］｝」』】〉》〕…";
/// Characters that do not end a line before a wide one.
const OPENING: &str = "([{（［｛「『【〈《〔";

/// Breaks text into lines that are at most `max` columns wide, as far as single characters are not wider.
pub(crate) fn wrap(text: &[StyledText], max: usize) -> Vec<Vec<StyledText>> {
    let mut lines = LineBreaker { max: max.max(1), ..LineBreaker::default() };
    for piece in text {
        for character in piece.text.graphemes(true) {
            lines.add(character, piece.style);
        }
    }
    lines.finish()
}

/// A character with its style and its width.
type WrapCell<'a> = (&'a str, TextStyle, usize);

#[derive(Default)]
struct LineBreaker<'a> {
    max: usize,
    lines: Vec<Vec<StyledText>>,
    line: Vec<StyledText>,
    line_width: usize,
    /// Spaces between the line and the word.
    spaces: Vec<WrapCell<'a>>,
    word: Vec<WrapCell<'a>>,
    word_width: usize,
}

impl<'a> LineBreaker<'a> {
    fn add(&mut self, character: &'a str, style: TextStyle) {
        match character {
            "\n" | "\r\n" => {
                self.end_word();
                self.end_line();
            }
            " " | "\t" => {
                self.end_word();
                self.spaces.push((" ", style, 1));
            }
            _ => self.add_to_word((character, style, width(character))),
        }
    }

    /// Beside a wide character a line may break, except between brackets or points and what they belong to.
    fn add_to_word(&mut self, cell: WrapCell<'a>) {
        let breaks = self.word.last().is_some_and(|last| {
            (last.2 > 1 || cell.2 > 1) && !CLOSING.contains(cell.0) && !OPENING.contains(last.0)
        });
        if breaks {
            self.end_word();
        }
        self.word_width += cell.2;
        self.word.push(cell);
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let fits = self.line_width + self.spaces.len() + self.word_width <= self.max;
        if fits {
            for cell in std::mem::take(&mut self.spaces) {
                self.put(cell);
            }
        } else if self.line_width > 0 {
            self.end_line();
        }
        self.spaces.clear();
        self.word_width = 0;
        for cell in std::mem::take(&mut self.word) {
            if self.line_width > 0 && self.line_width + cell.2 > self.max {
                self.end_line();
            }
            self.put(cell);
        }
    }

    fn put(&mut self, (character, style, columns): WrapCell<'_>) {
        self.line_width += columns;
        match self.line.last_mut() {
            Some(last) if last.style == style => last.text.push_str(character),
            Some(_) | None => self.line.push(StyledText::new(character, style)),
        }
    }

    fn end_line(&mut self) {
        self.spaces.clear();
        self.line_width = 0;
        self.lines.push(std::mem::take(&mut self.line));
    }

    fn finish(mut self) -> Vec<Vec<StyledText>> {
        self.end_word();
        if !self.line.is_empty() || self.lines.is_empty() {
            self.end_line();
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, max: usize) -> Vec<String> {
        let lines = wrap(&[StyledText::new(text, TextStyle::PLAIN)], max);
        let lines: Vec<String> =
            lines.into_iter().map(|line| line.into_iter().map(|piece| piece.text).collect()).collect();
        assert!(lines.iter().all(|line| width(line) <= max.max(2)), "{lines:?}");
        lines
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrapped("a\nb", 10), ["a", "b"]);
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("exactly ten", 11), ["exactly ten"]);
        assert_eq!(wrapped("   indented", 20), ["   indented"]);
    }

    #[test]
    fn long_words_are_broken_between_characters() {
        assert_eq!(wrapped("see https://example.org/a", 8), ["see", "https://", "example.", "org/a"]);
        assert_eq!(wrapped("e\u{301}e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}", "e\u{301}"]);
        assert_eq!(wrapped("👩\u{200d}🚀👩\u{200d}🚀", 3), ["👩\u{200d}🚀", "👩\u{200d}🚀"]);
    }

    #[test]
    fn wide_text_breaks_between_characters_but_not_before_closing_ones() {
        assert_eq!(wrapped("日本語のテキスト", 6), ["日本語", "のテキ", "スト"]);
        assert_eq!(wrapped("日本語。次の文", 6), ["日本", "語。次", "の文"]);
        assert_eq!(wrapped("日本「語」", 6), ["日本", "「語」"]);
    }

    #[test]
    fn styles_stay_with_their_characters() {
        let pieces =
            [StyledText::new("plain ", TextStyle::PLAIN), StyledText::new("bold words", TextStyle::BOLD)];
        let lines = wrap(&pieces, 10);
        assert_eq!(
            lines,
            [
                vec![StyledText::new("plain ", TextStyle::PLAIN), StyledText::new("bold", TextStyle::BOLD)],
                vec![StyledText::new("words", TextStyle::BOLD)]
            ]
        );
    }
}

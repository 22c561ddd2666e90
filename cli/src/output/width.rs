//! The width of texts on a terminal, and texts of a given width.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Stands for what was cut off.
const ELLIPSIS: &str = "…";

/// The number of columns that a text without control characters takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts the end off a text that is wider than `max`.
pub(crate) fn cut_end(text: &str, max: usize) -> Cow<'_, str> {
    if width(text) <= max {
        return Cow::Borrowed(text);
    }
    let kept = fitting(text.graphemes(true), max);
    Cow::Owned(kept.concat() + if max > 0 { ELLIPSIS } else { "" })
}

/// Cuts the beginning off a text that is wider than `max`. The end of a path says more than its beginning.
pub(crate) fn cut_start(text: &str, max: usize) -> Cow<'_, str> {
    if width(text) <= max {
        return Cow::Borrowed(text);
    }
    let mut kept = fitting(text.graphemes(true).rev(), max);
    kept.extend((max > 0).then_some(ELLIPSIS));
    kept.reverse();
    Cow::Owned(kept.concat())
}

/// Fills a text with spaces on its right up to a width.
pub(crate) fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

/// Fills a text with spaces on its left up to a width.
pub(crate) fn padded_left(text: &str, to: usize) -> String {
    format!("{}{text}", " ".repeat(to.saturating_sub(width(text))))
}

/// The first of these characters that leave room for an ellipsis.
fn fitting<'a>(characters: impl Iterator<Item = &'a str>, max: usize) -> Vec<&'a str> {
    let mut room = max.saturating_sub(width(ELLIPSIS));
    characters
        .take_while(|character| {
            let fits = width(character) <= room;
            room = if fits { room - width(character) } else { 0 };
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut_end("hello", 5), "hello");
        assert_eq!(cut_end("hello!", 5), "hell…");
        assert_eq!(cut_end("日本語", 5), "日本…");
        assert_eq!(cut_end("日本語", 4), "日…");
        assert_eq!(cut_end("a👩\u{200d}🚀b", 3), "a…");
        assert_eq!(cut_end("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
        assert_eq!(cut_start("/home/me/src", 8), "…/me/src");
        assert_eq!((cut_end("abc", 1), cut_end("abc", 0)), ("…".into(), "".into()));
    }

    #[test]
    fn texts_are_filled_by_width() {
        assert_eq!(padded("日本", 6), "日本  ");
        assert_eq!(padded_left("7", 3), "  7");
        assert_eq!(padded("too long", 3), "too long");
    }
}

//! Splits text into the words by which it is found: letters, digits and `_`, in lower case and without diacritics. Runs of
//! Chinese, Japanese and Korean characters have no spaces, so each pair of neighbouring characters counts as a word.

use std::ops::Range;

use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// The most characters of a word that count: longer ones are encoded data, and are found by their beginning.
const MAX_WORD_CHARS: usize = 100;

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWord {
    /// Where it is in the text, in bytes.
    pub range: Range<usize>,
    /// The form in which words are compared.
    pub form: String,
}

/// Visits the words of a text. Of a run of CJK characters each character gives one word: itself and the next one, or itself
/// alone at the end of the run.
pub fn words(text: &str) -> impl Iterator<Item = TextWord> + '_ {
    let mut scanner = Scanner { text, at: 0 };
    std::iter::from_fn(move || {
        let mut form = String::new();
        scanner.next(&mut form).map(|range| TextWord { range, form })
    })
}

/// The words of a text, with spaces in between, for an index that splits at spaces.
#[must_use]
pub fn index_text(text: &str) -> String {
    let (mut scanner, mut all) = (Scanner { text, at: 0 }, String::with_capacity(text.len()));
    while scanner.next(&mut all).is_some() {
        all.push(' ');
    }
    all
}

/// Returns whether a character belongs to a script that is written without spaces and indexed by pairs.
pub(super) fn is_cjk(c: char) -> bool {
    let listed = matches!(c,
        '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{30ff}'
        | '\u{3105}'..='\u{312f}'
        | '\u{31a0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}');
    listed && c.is_alphanumeric()
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    /// Appends the next word in its form to `into`, and returns its place.
    fn next(&mut self, into: &mut String) -> Option<Range<usize>> {
        let rest = &self.text[self.at..];
        let Some(skipped) = rest.find(is_word_char) else {
            self.at = self.text.len();
            return None;
        };
        let start = self.at + skipped;
        let mut chars = self.text[start..].chars();
        let first = chars.next().filter(|c| is_cjk(*c));
        Some(match first {
            Some(first) => self.pair(start, first, chars.next(), into),
            None => self.word(start, into),
        })
    }

    fn pair(&mut self, start: usize, first: char, next: Option<char>, into: &mut String) -> Range<usize> {
        self.at = start + first.len_utf8();
        into.push(first);
        let Some(second) = next.filter(|c| is_cjk(*c)) else { return start..self.at };
        into.push(second);
        start..self.at + second.len_utf8()
    }

    fn word(&mut self, start: usize, into: &mut String) -> Range<usize> {
        let rest = &self.text[start..];
        let inside = |c: char| (is_word_char(c) && !is_cjk(c)) || (!c.is_ascii() && is_combining_mark(c));
        let length = rest.find(|c| !inside(c)).unwrap_or(rest.len());
        for c in rest[..length].chars().take(MAX_WORD_CHARS) {
            push_form(c, into);
        }
        self.at = start + length;
        start..self.at
    }
}

fn is_word_char(c: char) -> bool {
    match c {
        '_' => true,
        c if c.is_ascii() => c.is_ascii_alphanumeric(),
        '\u{e000}'..='\u{f8ff}' => true,
        // Alphabetic marks only continue a word.
        c => c.is_alphanumeric() && !is_combining_mark(c),
    }
}

/// Appends a character in lower case and without diacritics.
fn push_form(c: char, into: &mut String) {
    if c.is_ascii() {
        return into.push(c.to_ascii_lowercase());
    }
    for lower in c.to_lowercase() {
        decompose_canonical(lower, |part| match part {
            part if is_diacritic(part) => {}
            // The form of sigma at the end of a word.
            'ς' => into.push('σ'),
            part => into.push(part),
        });
    }
}

/// The marks of European scripts. Those of other scripts are letters.
fn is_diacritic(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(index_text(text).trim_end(), expected, "{text:?}");
        let found: Vec<_> = words(text).collect();
        assert_eq!(found.iter().map(|word| word.form.as_str()).collect::<Vec<_>>().join(" "), expected);
        assert!(found.iter().all(|word| text.get(word.range.clone()).is_some_and(|part| !part.is_empty())));
    }

    #[test]
    fn words_are_letters_digits_and_underscores() {
        check("Fix snake_case in foo::bar(x2)!", "fix snake_case in foo bar x2");
        check("a-b.c/d\0e\tf", "a b c d e f");
        check("", "");
        check("-- ** \u{1f600} \u{301}", "");
    }

    #[test]
    fn case_and_diacritics_make_no_difference() {
        check("Ünïcödé CAFÉ cafe\u{301} Ångström İ ΣΊΣΥΦΟΣ", "unicode cafe cafe angstrom i σισυφοσ");
        check("Ёлка Việt Nam", "елка viet nam");
        assert_eq!(index_text("हिन्दी").split_whitespace().count(), 1, "marks of other scripts are letters");
    }

    #[test]
    fn cjk_runs_are_pairs() {
        check("日本語", "日本 本語 語");
        check("字", "字");
        check("Rust言語で書く。", "rust 言語 語で で書 書く く");
        check("한국어 テスト、x", "한국 국어 어 テス スト ト x");
    }

    #[test]
    fn long_words_are_found_by_their_beginning() {
        let long = "a".repeat(5000);
        check(&format!("{long} b"), &format!("{} b", "a".repeat(MAX_WORD_CHARS)));
    }
}

//! The part of a text that a query has found, with the matches marked. White space becomes single spaces; control characters
//! stay, whoever shows the excerpt escapes them.

use std::ops::Range;

use super::query::{TextQuery, TextTerm};
use super::words::{TextWord, words};

/// A part of a text around its matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The text in parts. An ellipsis at either end stands for what was left out.
    pub parts: Vec<ExcerptPart>,
}

/// A part of an excerpt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcerptPart {
    /// The text; not empty.
    pub text: String,
    /// Whether the query has found it.
    pub kind: PartKind,
}

/// Whether a query has found a part of an excerpt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// It is around what was found.
    Plain,
    /// It was found.
    Match,
}

const ELLIPSIS: &str = "…";

impl TextQuery {
    /// Returns whether a text has all terms.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let found: Vec<TextWord> = words(text).collect();
        self.terms().iter().all(|term| (0..found.len()).any(|at| term.begins(&found[at..])))
    }

    /// Cuts a part of about `max` bytes out of a text, where most of the terms are.
    #[must_use]
    pub fn excerpt(&self, text: &str, max: usize) -> Excerpt {
        let found: Vec<TextWord> = words(text).collect();
        let matches = all_matches(self.terms(), &found);
        let window = window(text, &best_place(&matches, max), max);
        let inside = |range: &Range<usize>| range.start >= window.start && range.end <= window.end;
        let marked = joined(matches.into_iter().map(|found| found.range).filter(inside));
        build(text, &window, &marked)
    }
}

struct FoundTerm {
    term: usize,
    range: Range<usize>,
}

fn all_matches(terms: &[TextTerm], found: &[TextWord]) -> Vec<FoundTerm> {
    let mut matches = Vec::new();
    for at in 0..found.len() {
        for (term, wanted) in terms.iter().enumerate() {
            if wanted.begins(&found[at..]) {
                let last = &found[at + wanted.words.len() - 1];
                matches.push(FoundTerm { term, range: found[at].range.start..last.range.end });
            }
        }
    }
    matches
}

/// Where the first window begins that has the most different terms, and ends.
fn best_place(matches: &[FoundTerm], max: usize) -> Range<usize> {
    let (mut best, mut most) = (0..0, 0);
    for (at, first) in matches.iter().enumerate() {
        let near = matches[at..].iter().take_while(|other| other.range.end < first.range.start + max * 3 / 4);
        let (mut terms, mut end) = (Vec::new(), first.range.end);
        for other in near {
            if !terms.contains(&other.term) {
                terms.push(other.term);
                end = end.max(other.range.end);
            }
        }
        if terms.len() > most || (at == 0 && most == 0) {
            (best, most) = (first.range.start..end, terms.len());
        }
    }
    best
}

/// The part of the text to show: a little before the place, and as much behind it as there is room.
fn window(text: &str, place: &Range<usize>, max: usize) -> Range<usize> {
    if text.len() <= max {
        return 0..text.len();
    }
    let mut start = text.floor_char_boundary(place.start.saturating_sub(max / 4).min(text.len() - max));
    if start > 0 {
        // Begins with a whole word, if one begins before the place.
        let before = &text[start..place.start.max(start)];
        start += before.find(char::is_whitespace).map_or(0, |at| at + 1);
        start = text.ceil_char_boundary(start);
    }
    let mut end = text.floor_char_boundary((start + max).max(place.end).min(text.len()));
    if end < text.len() {
        let after = &text[place.end.clamp(start, end)..end];
        end -= after.rfind(char::is_whitespace).map_or(0, |at| after.len() - at);
    }
    start..end
}

/// Joins ranges that overlap or touch: the pairs of a CJK run.
fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            Some(_) | None => all.push(range),
        }
    }
    all
}

fn build(text: &str, window: &Range<usize>, marked: &[Range<usize>]) -> Excerpt {
    let mut excerpt = Excerpt::default();
    if window.start > 0 {
        excerpt.push(ELLIPSIS, PartKind::Plain);
    }
    let mut at = window.start;
    for range in marked {
        excerpt.push(&text[at..range.start], PartKind::Plain);
        excerpt.push(&text[range.clone()], PartKind::Match);
        at = range.end;
    }
    excerpt.push(&text[at..window.end], PartKind::Plain);
    if window.end < text.len() {
        excerpt.push(ELLIPSIS, PartKind::Plain);
    }
    excerpt.trim_end();
    excerpt
}

impl Excerpt {
    /// The text without marks.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    fn push(&mut self, text: &str, kind: PartKind) {
        for c in text.chars() {
            let after_space = self.parts.last().is_none_or(|part| part.text.ends_with(' '));
            let c = if c.is_whitespace() { ' ' } else { c };
            if c == ' ' && after_space {
                continue;
            }
            match self.parts.last_mut() {
                Some(part) if part.kind == kind => part.text.push(c),
                Some(_) | None => self.parts.push(ExcerptPart { text: c.to_string(), kind }),
            }
        }
    }

    fn trim_end(&mut self) {
        if let Some(last) = self.parts.last_mut() {
            last.text.truncate(last.text.trim_end().len());
        }
        self.parts.retain(|part| !part.text.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, text: &str, max: usize, expected: &str) {
        let query = TextQuery::parse(query).expect("a query");
        let excerpt = query.excerpt(text, max);
        let show = |part: &ExcerptPart| match part.kind {
            PartKind::Plain => part.text.clone(),
            PartKind::Match => format!("[{}]", part.text),
        };
        assert_eq!(excerpt.parts.iter().map(show).collect::<String>(), expected, "{query:?} in {text:?}");
    }

    #[test]
    fn matches_are_marked() {
        check("parser fix", "Fix the\n\tPARSER  now ", 100, "[Fix] the [PARSER] now");
        check("\"the parser\" no*", "the parser, the not parser", 100, "[the parser], the [not] parser");
        check("cafe", "Café", 100, "[Café]");
        check("日本語", "これは日本語です", 100, "これは[日本語]です");
        check("日", "本日", 100, "本[日]");
    }

    #[test]
    fn the_window_is_where_most_terms_are() {
        let text = format!("one {} one two {}", "x ".repeat(100), "y ".repeat(100));
        check("one two", &text, 40, "…x x x x [one] [two] y y y y y y y y y y y…");
        check("missing", "a b c d e f", 6, "a b c…");
        check("f", "a b c d e f", 6, "…d e [f]");
        check("long", &format!("{}long{}", "a".repeat(50), "b".repeat(50)), 10, "aaaaaaaaaa…");
    }

    #[test]
    fn all_terms_must_match() {
        let matches = |query: &str, text: &str| TextQuery::parse(query).expect("a query").matches(text);
        assert!(matches("b a", "a b") && matches("\"a b\"", "x A-B y") && matches("日本", "日本語"));
        assert!(!matches("a c", "a b") && !matches("\"b a\"", "a b") && !matches("語日", "日本語"));
        assert!(matches("pre*", "a prefix") && !matches("pre", "a prefix") && matches("日", "今日は"));
    }
}

//! The query language: words that must all occur, "phrases", and prefix*. Nothing else has a meaning: other characters
//! separate words, as they do in the text. Independent of any database.

use super::words::{TextWord, is_cjk, words};

/// The most bytes of a query.
pub const MAX_QUERY_BYTES: usize = 4096;

/// The most words of a query.
pub const MAX_QUERY_WORDS: usize = 64;

/// A query that was understood. It has at least one term, and a text must have all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextQuery {
    terms: Vec<TextTerm>,
}

/// Words that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTerm {
    /// The words in the form in which they are compared; at least one.
    pub words: Vec<String>,
    /// How the last word is compared.
    pub end: TermEnd,
}

/// How the last word of a term is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermEnd {
    /// It is a whole word.
    Whole,
    /// It is the beginning of a word.
    Prefix,
}

/// Why a query cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It has no words.
    #[error("the query has no words")]
    NoWords,
    /// It is too long.
    #[error("the query is longer than {MAX_QUERY_BYTES} bytes or has more than {MAX_QUERY_WORDS} words")]
    TooLong,
}

impl TextQuery {
    /// Reads a query as a user wrote it.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(QueryError::TooLong);
        }
        let mut terms: Vec<TextTerm> = Vec::new();
        for piece in pieces(text) {
            let term = TextTerm::of(&piece);
            terms.extend(term.filter(|term| !terms.contains(term)));
        }
        let count: usize = terms.iter().map(|term| term.words.len()).sum();
        match count {
            0 => Err(QueryError::NoWords),
            count if count > MAX_QUERY_WORDS => Err(QueryError::TooLong),
            _ => Ok(Self { terms }),
        }
    }

    /// What a text must have, all of it.
    #[must_use]
    pub fn terms(&self) -> &[TextTerm] {
        &self.terms
    }
}

impl TextTerm {
    fn of(piece: &QueryPiece<'_>) -> Option<Self> {
        let mut found: Vec<TextWord> = words(piece.text).collect();
        // Text has the last character of a CJK run as a word only where a run ends; a query may end in the midst of one.
        let last = found.last()?;
        let mut end = piece.end;
        if piece.text[last.range.clone()].chars().all(is_cjk) && last.form.chars().count() == 1 {
            if end_of_run(&found) {
                found.pop();
            } else {
                end = TermEnd::Prefix;
            }
        }
        Some(Self { words: found.into_iter().map(|word| word.form).collect(), end })
    }

    /// Returns whether this term is at the beginning of these words.
    pub(super) fn begins(&self, text: &[TextWord]) -> bool {
        let Some((last, before)) = self.words.split_last() else { return false };
        let Some(text) = text.get(..self.words.len()) else { return false };
        let equal = before.iter().zip(text).all(|(word, found)| *word == found.form);
        equal
            && text.last().is_some_and(|found| match self.end {
                TermEnd::Whole => found.form == *last,
                TermEnd::Prefix => found.form.starts_with(last.as_str()),
            })
    }
}

/// Returns whether the last word is the end of a run whose last pair comes before it.
fn end_of_run(found: &[TextWord]) -> bool {
    let [.., before, last] = found else { return false };
    before.range.end == last.range.end
}

/// A part of a query that is one term.
struct QueryPiece<'a> {
    text: &'a str,
    end: TermEnd,
}

/// Splits a query at spaces outside quotes. A quote that is not closed ends with the query.
fn pieces(text: &str) -> Vec<QueryPiece<'_>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        rest = &rest[start..];
        let (piece, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (phrase, after) = quoted.split_once('"').unwrap_or((quoted, ""));
                let starred = after.strip_prefix('*');
                (QueryPiece { text: phrase, end: end_of(starred) }, starred.unwrap_or(after))
            }
            None => {
                let length = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
                let (word, after) = rest.split_at(length);
                (QueryPiece { text: word, end: end_of(word.strip_suffix('*')) }, after)
            }
        };
        found.push(piece);
        rest = after;
    }
    found
}

fn end_of<T>(starred: Option<T>) -> TermEnd {
    if starred.is_some() { TermEnd::Prefix } else { TermEnd::Whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, QueryError> {
        let query = TextQuery::parse(text)?;
        let show = |term: &TextTerm| {
            let star = if term.end == TermEnd::Prefix { "*" } else { "" };
            format!("<{}{star}>", term.words.join(" "))
        };
        Ok(query.terms().iter().map(show).collect())
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(shown(text).as_deref(), Ok(expected), "{text:?}");
    }

    #[test]
    fn words_phrases_and_prefixes() {
        check("fix parser", "<fix><parser>");
        check("\"fix the Parser\" pars*", "<fix the parser><pars*>");
        check("fix fix FIX", "<fix>");
        check("a\"b c\"d \"e f\"*", "<a><b c><d><e f*>");
        check("open \"not closed", "<open><not closed>");
        check("foo::bar* snake_case", "<foo bar*><snake_case>");
    }

    #[test]
    fn operators_of_databases_are_words_or_nothing() {
        check("a AND b OR NOT c", "<a><and><b><or><not><c>");
        check("NEAR(a b, 3)", "<near a><b><3>");
        check("text:secret {a b}:c ^d -e +f", "<text secret><a><b c><d><e><f>");
        check("it's; DROP TABLE message --", "<it s><drop><table><message>");
        check("a\0b %_' ) ( a & b | !c <-> d:*", "<a b><_><a><b><c><d*>");
        check("* ** a *b *", "<a><b>");
        check("\"\" \"*\" x", "<x>");
    }

    #[test]
    fn cjk_queries_find_parts_of_runs() {
        check("日本語", "<日本 本語>");
        check("日", "<日*>");
        check("日本語*", "<日本 本語*>");
        check("\"日本 tokyo\"", "<日本 本 tokyo>");
        check("\"tokyo 日\"", "<tokyo 日*>");
        check("東京タワー", "<東京 京タ タワ ワー>");
    }

    #[test]
    fn what_has_no_words_is_refused() {
        for text in ["", "  \n", "\"\"", "*", "!?.,;()[]{}<>\"'*&|^~", "\0", "\u{1f600}"] {
            assert_eq!(shown(text), Err(QueryError::NoWords), "{text:?}");
        }
    }

    #[test]
    fn huge_queries_are_refused() {
        for text in ["a ".repeat(500_000), "(".repeat(1_000_000), "\"".repeat(1_000_000), "x".repeat(5000)] {
            assert_eq!(shown(&text), Err(QueryError::TooLong));
        }
        let many: String = (0..=MAX_QUERY_WORDS).map(|number| format!("w{number} ")).collect();
        assert_eq!(shown(&many), Err(QueryError::TooLong));
    }
}

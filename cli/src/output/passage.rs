//! A passage with marked parts, wrapped to a width.

use rethread_core::search::{Excerpt, PartKind};
use unicode_segmentation::UnicodeSegmentation as _;

use super::escape::visible;
use super::target::{OutputTarget, Paint};
use super::width::width;

/// Lays out an excerpt in lines of at most `columns`, at most `max` of them. Matches are bold on a terminal with colours.
pub(crate) fn passage_lines(
    target: OutputTarget,
    excerpt: &Excerpt,
    columns: usize,
    max: usize,
) -> Vec<String> {
    let mut lines = vec![Vec::new()];
    for character in characters(excerpt) {
        let line = lines.last_mut().expect("there is always a line");
        let full = line_width(line) + width(&character.text) > columns;
        if full && character.text == " " {
            lines.push(Vec::new());
            continue;
        }
        if full {
            let next = rest_behind_space(line);
            lines.push(next);
        }
        let line = lines.last_mut().expect("there is always a line");
        if !(line.is_empty() && character.text == " ") {
            line.push(character);
        }
    }
    lines.retain(|line| !line.is_empty());
    if lines.len() > max {
        lines.truncate(max);
        if let Some(last) = lines.last_mut() {
            shorten(last, columns);
        }
    }
    lines.iter().map(|line| painted(target, line)).collect()
}

/// What a reader sees as one character, and whether it was found.
struct ShownCharacter {
    text: String,
    kind: PartKind,
}

fn characters(excerpt: &Excerpt) -> Vec<ShownCharacter> {
    let mut all = Vec::new();
    for part in &excerpt.parts {
        let text = visible(&part.text);
        all.extend(
            text.graphemes(true).map(|text| ShownCharacter { text: text.to_owned(), kind: part.kind }),
        );
    }
    all
}

fn line_width(line: &[ShownCharacter]) -> usize {
    line.iter().map(|character| width(&character.text)).sum()
}

/// Takes the last word off a line that is full; nothing if the line is one word.
fn rest_behind_space(line: &mut Vec<ShownCharacter>) -> Vec<ShownCharacter> {
    match line.iter().rposition(|character| character.text == " ") {
        Some(space) => {
            let rest = line.split_off(space + 1);
            line.pop();
            rest
        }
        None => Vec::new(),
    }
}

fn shorten(line: &mut Vec<ShownCharacter>, columns: usize) {
    while line_width(line) + 1 > columns || line.last().is_some_and(|last| last.text == " ") {
        line.pop();
    }
    line.push(ShownCharacter { text: "…".to_owned(), kind: PartKind::Plain });
}

fn painted(target: OutputTarget, line: &[ShownCharacter]) -> String {
    let runs = line.chunk_by(|a, b| a.kind == b.kind);
    runs.map(|run| {
        let text: String = run.iter().map(|character| character.text.as_str()).collect();
        match run[0].kind {
            PartKind::Plain => text,
            PartKind::Match => target.paint(Paint::Bold, &text),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use rethread_core::search::TextQuery;

    use super::super::target::Color;
    use super::*;

    fn check(query: &str, text: &str, columns: usize, expected: &[&str]) {
        let excerpt = TextQuery::parse(query).expect("a query").excerpt(text, 1000);
        let target = OutputTarget::Terminal { width: columns, color: Color::On };
        let lines = passage_lines(target, &excerpt, columns, 3);
        let shown: Vec<_> =
            lines.iter().map(|line| line.replace("\u{1b}[1m", "[").replace("\u{1b}[0m", "]")).collect();
        assert_eq!(shown, expected);
        let bare = |line: &String| line.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert!(lines.iter().all(|line| width(&bare(line)) <= columns), "{lines:?}");
    }

    #[test]
    fn lines_break_between_words() {
        check("parser", "Fix the parser, now", 10, &["Fix the", "[parser],", "now"]);
        check("b", "a b c d e f g h i j", 5, &["a [b] c", "d e f", "g h…"]);
        check("x", "x 123456789012", 5, &["[x]", "12345", "6789…"]);
        check("東京", "これは東京タワーです", 8, &["これは[東]", "[京]タワー", "です"]);
        check("a", "a \u{1b}[31m", 40, &["[a] \\u{1b}[31m"]);
    }
}

//! Texts in columns of the database, which cannot have a zero byte. Ids, titles and paths come from anybody, so that one may
//! have one: it is escaped, and comes back as it was.

/// A character that no text has by the rules of Unicode; one that has it is escaped too.
const ESCAPE: char = '\u{10ffff}';

/// A text as a column has it.
pub(super) fn to_column(text: &str) -> String {
    if !text.contains(['\0', ESCAPE]) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 4);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text that a column has.
pub(super) fn from_column(column: String) -> String {
    if !column.contains(ESCAPE) {
        return column;
    }
    let (mut text, mut chars) = (String::with_capacity(column.len()), column.chars());
    while let Some(c) = chars.next() {
        match c {
            ESCAPE => text.push(if chars.next() == Some('0') { '\0' } else { ESCAPE }),
            c => text.push(c),
        }
    }
    text
}

/// Several texts as a column has them.
pub(super) fn to_columns(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| to_column(text)).collect()
}

/// Several texts that a column has.
pub(super) fn from_columns(columns: Vec<String>) -> Vec<String> {
    columns.into_iter().map(from_column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_comes_back() {
        for text in ["", "plain", "a\0b", "\0", "\u{10ffff}", "\u{10ffff}0\0\u{10ffff}1", "ü日\0本"] {
            let column = to_column(text);
            assert!(!column.contains('\0'));
            assert_eq!(from_column(column), text);
        }
    }
}

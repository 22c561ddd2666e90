//! Recognizes the marks at the beginning of a Markdown line: headings, fences, rules, quotes, list items, tables. Looks at one
//! line only.

/// The beginning of fenced code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    mark: char,
    length: usize,
    /// The spaces before it, which its lines lose too.
    pub(crate) indent: usize,
    /// The first word after it.
    pub(crate) language: String,
}

/// The beginning of a list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemMark {
    /// What is shown before the item.
    pub(crate) marker: String,
    /// The number of an ordered item.
    pub(crate) number: Option<u64>,
    /// The column where its text begins.
    pub(crate) content: usize,
}

/// The number of spaces at the beginning.
pub(crate) fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The level and the text of a heading.
pub(crate) fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches(' ');
    let level = text.len() - text.trim_start_matches('#').len();
    let rest = &text[level..];
    if indent_of(line) > 3 || !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let rest = rest.trim();
    let without = rest.trim_end_matches('#');
    Some((level, if without.is_empty() || without.ends_with(' ') { without.trim_end() } else { rest }))
}

/// The level of a heading whose underline this is.
pub(crate) fn underline(line: &str) -> Option<usize> {
    let text = line.trim();
    let all = |mark: char| !text.is_empty() && text.chars().all(|c| c == mark);
    match () {
        () if indent_of(line) > 3 => None,
        () if all('=') => Some(1),
        () if all('-') => Some(2),
        () => None,
    }
}

/// Whether the line is a rule.
pub(crate) fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| *c != ' ');
    let Some(first) = marks.next().filter(|c| matches!(c, '-' | '*' | '_')) else { return false };
    indent_of(line) <= 3 && marks.clone().count() >= 2 && marks.all(|c| c == first)
}

/// The beginning of fenced code.
pub(crate) fn fence(line: &str) -> Option<Fence> {
    let text = line.trim_start_matches(' ');
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = text.trim_start_matches(mark);
    let length = text.len() - info.len();
    if indent_of(line) > 3 || length < 3 || (mark == '`' && info.contains('`')) {
        return None;
    }
    let language = info.trim().split([' ', ',', '{']).next().unwrap_or_default().to_owned();
    Some(Fence { mark, length, indent: indent_of(line), language })
}

impl Fence {
    /// Whether the line ends the code.
    pub(crate) fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        let marks = text.chars().filter(|c| *c == self.mark).count();
        indent_of(line) <= 3 && marks >= self.length && marks == text.chars().count()
    }
}

/// The text behind the mark of a quote.
pub(crate) fn quoted(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ').strip_prefix('>').filter(|_| indent_of(line) <= 3)?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// The beginning of a list item.
pub(crate) fn item(line: &str) -> Option<ItemMark> {
    let indent = indent_of(line);
    let text = &line[indent..];
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (length, number, marker) = match text.as_bytes().get(digits)? {
        b'-' | b'*' | b'+' if digits == 0 => (1, None, "•".to_owned()),
        b'.' | b')' if (1..=9).contains(&digits) => {
            let number: u64 = text[..digits].parse().ok()?;
            (digits + 1, Some(number), text[..=digits].to_owned())
        }
        _ => return None,
    };
    let rest = &text[length..];
    if indent > 3 || !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    // Four spaces and more after the mark belong to code inside the item.
    let gap = match indent_of(rest) {
        gap @ 1..=4 if !rest.trim().is_empty() => gap,
        _ => 1,
    };
    Some(ItemMark { marker, number, content: indent + length + gap })
}

/// The cells of a row of a table.
pub(crate) fn cells(line: &str) -> Vec<String> {
    let text = line.trim();
    let text = text.strip_prefix('|').unwrap_or(text);
    let (mut cells, mut cell, mut characters) = (Vec::new(), String::new(), text.chars().peekable());
    while let Some(c) = characters.next() {
        match c {
            '\\' if characters.peek() == Some(&'|') => cell.extend(characters.next()),
            '|' => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            _ => cell.push(c),
        }
    }
    if !cell.trim().is_empty() || cells.is_empty() {
        cells.push(cell.trim().to_owned());
    }
    cells
}

/// How a column of a table is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    Left,
    Center,
    Right,
}

/// The columns that the line below the head of a table announces.
pub(crate) fn table_columns(line: &str) -> Option<Vec<Alignment>> {
    if !line.contains('-') || !line.contains('|') && !line.contains(':') {
        return None;
    }
    let column = |cell: &String| {
        let dashes = cell.trim_start_matches(':').trim_end_matches(':');
        let is_column = !dashes.is_empty() && dashes.chars().all(|c| c == '-');
        is_column.then(|| match (cell.starts_with(':'), cell.ends_with(':')) {
            (true, true) => Alignment::Center,
            (false, true) => Alignment::Right,
            (_, false) => Alignment::Left,
        })
    };
    cells(line).iter().map(column).collect()
}

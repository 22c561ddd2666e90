//! Long outputs in a few lines: the first ones of a text, the last ones of a terminal.

use crate::output::escape::visible;
use crate::output::width::cut_end;

/// The beginning of a text: at most `max` lines, and a line that says how many are left out.
pub(crate) fn first_lines(text: &str, max: usize, columns: usize) -> Vec<String> {
    let lines: Vec<&str> = without_fence(text);
    let mut shown: Vec<String> = lines.iter().take(max).map(|line| shown_line(line, columns)).collect();
    if lines.len() > max {
        shown.push(format!("… {}", more(lines.len() - max)));
    }
    shown
}

/// The end of a terminal's output.
pub(crate) fn last_lines(output: &[u8], max: usize, columns: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(max);
    let mut shown = Vec::new();
    if from > 0 {
        shown.push(format!("… {} above", more(from)));
    }
    shown.extend(lines[from..].iter().map(|line| shown_line(&printed(line), columns)));
    shown
}

fn more(count: usize) -> String {
    if count == 1 { "1 more line".to_owned() } else { format!("{count} more lines") }
}

fn shown_line(line: &str, columns: usize) -> String {
    let line = line.trim_end().replace('\t', "    ");
    // Far longer lines than any terminal has need not be measured.
    let end = line.char_indices().nth(columns.saturating_mul(4)).map_or(line.len(), |(at, _)| at);
    let cut = if end < line.len() { "…" } else { "" };
    cut_end(&format!("{}{cut}", visible(&line[..end])), columns).into_owned()
}

/// A text that is one piece of fenced code is shown without the fence.
fn without_fence(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.trim_matches('\n').lines().collect();
    match lines.as_slice() {
        [first, inner @ .., last] if first.starts_with("```") && last.trim() == "```" => inner.to_vec(),
        _ => lines,
    }
}

/// What a terminal shows of a line of output: what was overwritten is gone, and so are colours.
fn printed(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let (mut text, mut rest) = (String::new(), line);
    while let Some(at) = rest.find("\u{1b}[") {
        text.push_str(&rest[..at]);
        let code = &rest[at + 2..];
        let end = code.find(|c: char| !c.is_ascii_digit() && c != ';');
        match end.map(|end| (end, code.as_bytes()[end])) {
            Some((end, b'm' | b'K')) => rest = &code[end + 1..],
            Some(_) | None => {
                text.push_str("\u{1b}[");
                rest = code;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_terminal_is_shown_without_colors() {
        let output = b"1\n2\n3\n\x1b[31mred\x1b[0m \x1b[2Jx\n10%\r100%\r\n";
        assert_eq!(last_lines(output, 2, 40), ["… 3 more lines above", r"red \u{1b}[2Jx", "100%"]);
        assert_eq!(last_lines(b"", 2, 40), Vec::<String>::new());
    }

    #[test]
    fn the_beginning_of_a_text_is_shown_without_its_fence() {
        assert_eq!(first_lines("```rs\na\nb\nc\n```", 2, 40), ["a", "b", "… 1 more line"]);
        assert_eq!(first_lines("a\u{1b}c", 2, 40), [r"a\u{1b}c"]);
        assert_eq!(first_lines(&"x".repeat(100_000), 2, 10), ["xxxxxxxxx…"]);
    }
}

//! Pieces of Markdown: code spans, fenced blocks, quotes, and shortened texts.

use crate::visible::{visible, visible_lines};

/// Text that is no Markdown, in one line.
pub(in crate::transcript) fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in visible(&text.replace(['\n', '\t'], " ")).chars() {
        if matches!(c, '*' | '`' | '<' | '[' | ']' | '|') {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

/// Text as code inside a line.
pub(super) fn code_span(text: &str) -> String {
    let text = visible(text);
    let ticks = "`".repeat(longest_run(&text, '`') + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Text as a block of code.
pub(super) fn fenced(text: &str, language: &str) -> String {
    let text = visible_lines(text);
    let ticks = "`".repeat((longest_run(&text, '`') + 1).max(3));
    format!("{ticks}{language}\n{}\n{ticks}\n", text.trim_end_matches('\n'))
}

/// Markdown of an agent or a user, with open code blocks closed.
pub(super) fn closed(text: &str) -> String {
    let mut safe = visible_lines(text.trim_end()).into_owned();
    if let Some(fence) = open_fence(&safe) {
        safe.push('\n');
        safe += &fence;
    }
    safe.push('\n');
    safe
}

/// Text as a quote.
pub(super) fn quoted(text: &str) -> String {
    closed(text).lines().map(|line| format!("> {line}").trim_end().to_owned() + "\n").collect()
}

/// The beginning of a text: at most this many lines and characters.
pub(in crate::transcript) fn shortened(text: &str, lines: usize, characters: usize) -> String {
    let mut short = first_lines(text.trim(), lines);
    if let Some((end, _)) = short.char_indices().nth(characters) {
        short.truncate(end);
        short.push('…');
    }
    short
}

/// The first lines of a text, and how many follow.
pub(in crate::transcript) fn first_lines(text: &str, lines: usize) -> String {
    let total = text.lines().count();
    if total <= lines {
        return text.to_owned();
    }
    let kept: Vec<_> = text.lines().take(lines).collect();
    format!("{}\n… {}", kept.join("\n"), more_lines(total - lines))
}

/// The last lines of a text, and how many are before them.
pub(in crate::transcript) fn last_lines(text: &str, lines: usize) -> String {
    let text = text.trim_end();
    let total = text.lines().count();
    if total <= lines {
        return text.to_owned();
    }
    let kept: Vec<_> = text.lines().skip(total - lines).collect();
    format!("… {}\n{}", more_lines(total - lines), kept.join("\n"))
}

fn more_lines(count: usize) -> String {
    if count == 1 { "1 more line".to_owned() } else { format!("{count} more lines") }
}

/// The fence that would close the code block which a text leaves open.
fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(mark) = line.chars().next().filter(|mark| matches!(mark, '`' | '~')) else { continue };
        let length = line.chars().take_while(|c| *c == mark).count();
        let rest = &line[length..];
        match open {
            Some((opened, least)) if opened == mark && length >= least && rest.trim().is_empty() => {
                open = None
            }
            None if length >= 3 && !(mark == '`' && rest.contains('`')) => open = Some((mark, length)),
            Some(_) | None => {}
        }
    }
    open.map(|(mark, length)| mark.to_string().repeat(length))
}

fn longest_run(text: &str, mark: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == mark { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_cannot_leave_its_block() {
        assert_eq!(code_span("a`b"), "``a`b``");
        assert_eq!(code_span("`"), "`` ` ``");
        assert_eq!(fenced("```\nx\n```\n", "diff"), "````diff\n```\nx\n```\n````\n");
        assert_eq!(fenced("\u{1b}[2J", ""), "```\n\\u{1b}[2J\n```\n");
    }

    #[test]
    fn open_blocks_are_closed() {
        assert_eq!(closed("a\n```rust\nfn"), "a\n```rust\nfn\n```\n");
        assert_eq!(closed("~~~~\n```\n~~~"), "~~~~\n```\n~~~\n~~~~\n");
        assert_eq!(closed("```\na\n```\nb"), "```\na\n```\nb\n");
        assert_eq!(closed("`` `x` ``"), "`` `x` ``\n");
        assert_eq!(quoted("a\n\n```\nb"), "> a\n>\n> ```\n> b\n> ```\n");
    }

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(first_lines("a\nb\nc", 2), "a\nb\n… 1 more line");
        assert_eq!(last_lines("a\nb\nc\n", 1), "… 2 more lines\nc");
        assert_eq!(shortened("  äöü one  ", 3, 4), "äöü …");
        assert_eq!(plain("a*b\n<x>\u{1b}"), "a\\*b \\<x>\\u{1b}");
    }
}

//! Patches in colour, and their size in one line.

use crate::markdown::style::{TextColor, TextStyle};
use crate::output::escape::visible;
use crate::output::target::Color;

/// The lines of a patch, escaped and coloured. Lines that only repeat the paths are left out.
pub(crate) fn diff_lines(patch: &str, color: Color) -> Vec<String> {
    let mut in_header = true;
    patch
        .lines()
        .filter(|line| {
            in_header = (in_header || line.starts_with("diff ")) && !line.starts_with("@@");
            !in_header
        })
        .map(|line| line_style(line).paint(color, &visible(&line.replace('\t', "    "))))
        .collect()
}

/// How many lines a patch adds and removes.
pub(crate) fn diff_size(patch: &str) -> (usize, usize) {
    let mut in_header = true;
    let (mut added, mut removed) = (0, 0);
    for line in patch.lines() {
        in_header = (in_header || line.starts_with("diff ")) && !line.starts_with("@@");
        match line.as_bytes().first() {
            Some(b'+') if !in_header => added += 1,
            Some(b'-') if !in_header => removed += 1,
            Some(_) | None => {}
        }
    }
    (added, removed)
}

fn line_style(line: &str) -> TextStyle {
    match line.as_bytes().first() {
        Some(b'+') => TextStyle::colored(TextColor::Green),
        Some(b'-') => TextStyle::colored(TextColor::Red),
        Some(b'@') => TextStyle::colored(TextColor::Cyan),
        Some(_) | None => TextStyle::PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\u{1b}[2J\n--- a line that begins with dashes\n same\n";

    #[test]
    fn a_patch_loses_its_header_and_keeps_its_lines() {
        let lines = diff_lines(PATCH, Color::Off);
        assert_eq!(
            lines,
            ["@@ -1,2 +1,2 @@", "-old", r"+new\u{1b}[2J", "--- a line that begins with dashes", " same"]
        );
        assert_eq!(diff_size(PATCH), (1, 2));
        assert_eq!(diff_lines("@@ -0,0 +1 @@\n+a", Color::On)[1], "\u{1b}[32m+a\u{1b}[0m");
    }
}

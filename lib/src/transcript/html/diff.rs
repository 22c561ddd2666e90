//! A patch as HTML, with a class for each line.

use super::escape::escaped;

/// Writes a patch.
pub(super) fn diff(patch: &str) -> String {
    let lines = patch.trim_end_matches('\n').split('\n').map(|line| {
        let text = escaped(line.trim_end_matches('\r'));
        match class(line) {
            Some(class) => format!("<span class=\"{class}\">{text}</span>\n"),
            None => format!("{text}\n"),
        }
    });
    format!("<pre class=\"diff\">{}</pre>\n", lines.collect::<String>())
}

fn class(line: &str) -> Option<&'static str> {
    let is_head = ["--- ", "+++ ", "diff ", "index "].iter().any(|head| line.starts_with(head));
    match line.chars().next() {
        _ if is_head => Some("head"),
        Some('@') => Some("hunk"),
        Some('+') => Some("added"),
        Some('-') => Some("removed"),
        Some(_) | None => None,
    }
}

//! The tool `edit`: replaces text in a file.

use std::sync::Arc;

use super::arguments::Arguments;
use super::change::{self, Change, LARGEST, PlannedChange};
use super::closest_match;
use super::error::ToolError;
use super::prepared::{Action, PreparedCall};
use super::spec::{Effect, Kind, ToolSpec, flag, object, text};
use super::workspace::Workspace;

pub(super) const NAME: &str = "edit";

/// The maximum number of matching lines that an error names.
const MOST_NAMED: usize = 10;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME,
        description: "Replaces text in a file. The old text has to be in the file exactly as given, including \
            white space, and only once unless `all` is set: include enough of the lines around it. Line numbers that read \
            shows are not part of the text.",
        schema: object(
            [
                ("path", text("The file, absolute or from the working directory.")),
                ("old", text("The text that is there now.")),
                ("new", text("The text that takes its place. May be empty.")),
                ("all", flag("Replace every occurrence. Default: false.")),
            ],
            &["path", "old", "new"],
        ),
        kind: Kind::Edit,
        effect: Effect::Writes,
    }
}

pub(super) fn prepare(
    workspace: &Arc<Workspace>,
    arguments: &Arguments<'_>,
) -> Result<PreparedCall, ToolError> {
    let (sent, old, new) = (arguments.some_text("path")?, arguments.text("old")?, arguments.text("new")?);
    let extent = if arguments.flag("all")? { ReplaceScope::All } else { ReplaceScope::Once };
    if old.is_empty() {
        return Err(arguments.wrong(
            "old",
            "the text to replace",
            Some("use write for a new file".to_owned()),
        ));
    }
    if old == new {
        return Err(arguments.wrong("new", "a text other than `old`", None));
    }
    let (at, text) = change::current(workspace, sent)?;
    let Some(text) = text else {
        return Err(workspace.error(sent, std::io::Error::from_raw_os_error(libc::ENOENT)));
    };
    let shown = workspace.shown(&at.shown);
    let replaced =
        replace(&text, old, new, extent).map_err(|error| error.tool_error(arguments, &shown, &text, old))?;
    if replaced.text.len() > LARGEST {
        return Err(change::too_large(sent, replaced.text.len() as u64));
    }
    let summary = match replaced.count {
        1 => format!("{shown} was changed at line {}.", replaced.line),
        count => format!("{shown} was changed in {count} places, first at line {}.", replaced.line),
    };
    let change = Change { path: at.shown.clone(), old: Some(text), new: replaced.text };
    let plan = Action::Change(PlannedChange { change, real: at.real, summary });
    Ok(PreparedCall::new(workspace, Kind::Edit, format!("Edit {shown}"), plan)
        .at(at.shown, Some(replaced.line)))
}

/// How often a text is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplaceScope {
    Once,
    All,
}

/// The result of a replacement.
struct Replaced {
    text: String,
    count: usize,
    /// The first line with a change.
    line: u64,
}

/// Why a replacement failed.
#[derive(Debug)]
enum ReplaceError {
    /// The old text is not in the file.
    Missing,
    /// The old text occurs more than once.
    Several,
}

fn replace(text: &str, old: &str, new: &str, extent: ReplaceScope) -> Result<Replaced, ReplaceError> {
    // Models do not see the line endings, so those of the file are kept.
    let new_lines = if ends_in_crlf(text) { windows(new) } else { new.to_owned() };
    match replace_exactly(text, old, &new_lines, extent) {
        Err(ReplaceError::Missing) if text.contains("\r\n") && old.contains('\n') && !old.contains('\r') => {
            replace_exactly(text, &windows(old), &windows(new), extent)
        }
        replaced => replaced,
    }
}

/// Whether all lines of a text end in CRLF.
fn ends_in_crlf(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut ends = memchr::memchr_iter(b'\n', bytes).peekable();
    ends.peek().is_some() && ends.all(|at| at > 0 && bytes[at - 1] == b'\r')
}

fn windows(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn replace_exactly(text: &str, old: &str, new: &str, extent: ReplaceScope) -> Result<Replaced, ReplaceError> {
    let first = text.find(old).ok_or(ReplaceError::Missing)?;
    let line = line_of(text, first);
    if extent == ReplaceScope::All {
        return Ok(Replaced { text: text.replace(old, new), count: text.matches(old).count(), line });
    }
    // The next match may overlap the first.
    let step = old.chars().next().map_or(1, char::len_utf8);
    if text[first + step..].contains(old) {
        return Err(ReplaceError::Several);
    }
    Ok(Replaced { text: text.replacen(old, new, 1), count: 1, line })
}

impl ReplaceError {
    fn tool_error(&self, arguments: &Arguments<'_>, shown: &str, text: &str, old: &str) -> ToolError {
        let (expected, hint) = match self {
            Self::Missing => {
                (format!("text that is in {shown}; it was not found"), closest_match::miss(text, old))
            }
            Self::Several => {
                let lines: Vec<_> = text.match_indices(old).map(|(at, _)| line_of(text, at)).collect();
                let named: Vec<_> = lines.iter().take(MOST_NAMED).map(u64::to_string).collect();
                let more = if lines.len() > MOST_NAMED { " and more" } else { "" };
                let hint = format!(
                    "the matches begin at lines {}{more}; give more of the text around the one you mean, or set `all`",
                    named.join(", ")
                );
                // Overlapping matches are counted as one line but are at least two.
                let count = lines.len().max(2);
                (format!("text that is in {shown} once; it occurs {count} times"), hint)
            }
        };
        arguments.wrong("old", &expected, Some(hint))
    }
}

fn line_of(text: &str, at: usize) -> u64 {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::{ReplaceError, ReplaceScope, replace};

    #[test]
    fn text_is_replaced_once_or_everywhere() {
        let once = |text, old| replace(text, old, "X", ReplaceScope::Once);
        assert_eq!(once("a b c", "b").unwrap().text, "a X c");
        assert!(matches!(once("a b c", "d"), Err(ReplaceError::Missing)));
        assert!(matches!(once("a b a", "a"), Err(ReplaceError::Several)));
        assert!(matches!(once("aaa", "aa"), Err(ReplaceError::Several)));
        assert!(matches!(once("ééé", "éé"), Err(ReplaceError::Several)));
        let all = replace("a\nb\na", "a", "X", ReplaceScope::All).unwrap();
        assert_eq!((all.text.as_str(), all.count, all.line), ("X\nb\nX", 2, 1));
    }

    #[test]
    fn line_endings_are_kept() {
        let replaced = replace("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", ReplaceScope::Once).unwrap();
        assert_eq!(replaced.text, "x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(replace("a\nb\n", "a\nb", "x", ReplaceScope::Once).unwrap().text, "x\n");
    }
}

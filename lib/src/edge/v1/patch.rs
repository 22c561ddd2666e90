//! Writes a git patch for one file with all of its lines, and parses patches file by file. Independent of protocols.
//! Paths have no `a/` or `b/` prefix.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Longer texts are not compared: the patch removes all old lines and adds all new ones.
const COMPARED_LINES: usize = 100_000;
/// After this time the comparison returns a coarser result.
const COMPARED_FOR: Duration = Duration::from_millis(200);

/// What a patch does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    Add,
    Delete,
    Modify,
    Move,
    Copy,
    /// Only the mode changes, or the file has no lines: a link, binary data.
    NoText,
}

/// One file of a patch, with the text of its hunks joined.
#[derive(Clone, Debug)]
pub(super) struct FilePatch {
    pub(super) change: FileChange,
    /// The path after the change, or before it if the file is deleted.
    pub(super) path: Option<String>,
    pub(super) old_path: Option<String>,
    pub(super) hunks: usize,
    pub(super) old: String,
    pub(super) new: String,
    /// The part of the patch that concerns this file.
    pub(super) section: String,
}

/// Writes a patch from `old` to `new` with every line of both. Without `old` the file is new.
pub(super) fn write(path: &str, old: Option<&str>, new: &str) -> String {
    let quoted = quote(path);
    let mut text = format!("diff --git {quoted} {quoted}\n");
    if old.is_none() {
        text.push_str("new file mode 100644\n");
    }
    let before: Vec<&str> = old.unwrap_or("").split_inclusive('\n').collect();
    let after: Vec<&str> = new.split_inclusive('\n').collect();
    if before.is_empty() && after.is_empty() {
        return text;
    }
    let from = if old.is_some() { with_tab(&quoted) } else { "/dev/null".to_owned() };
    text.push_str(&format!("--- {from}\n+++ {}\n", with_tab(&quoted)));
    text.push_str(&format!("@@ -{} +{} @@\n", range(before.len()), range(after.len())));
    for op in compare(&before, &after) {
        write_op(&mut text, op, &before, &after);
    }
    text
}

/// Parses a patch; `None` if the text is not entirely a patch.
pub(super) fn read(text: &str) -> Option<Vec<FilePatch>> {
    let mut reader = PatchReader::default();
    for line in text.split_inclusive('\n') {
        reader.line(line)?;
    }
    let done = reader.left == (0, 0) && !reader.files.is_empty();
    done.then_some(reader.files)
}

fn compare(before: &[&str], after: &[&str]) -> Vec<DiffOp> {
    if before.len().max(after.len()) > COMPARED_LINES {
        let (old_len, new_len) = (before.len(), after.len());
        return vec![DiffOp::Replace { old_index: 0, old_len, new_index: 0, new_len }];
    }
    let deadline = Instant::now() + COMPARED_FOR;
    capture_diff_slices_deadline(Algorithm::Myers, before, after, Some(deadline))
}

fn write_op(text: &mut String, op: DiffOp, before: &[&str], after: &[&str]) {
    let (tag, old, new) = op.as_tag_tuple();
    if tag == similar::DiffTag::Equal {
        return before[old].iter().for_each(|line| write_line(text, ' ', line));
    }
    before[old].iter().for_each(|line| write_line(text, '-', line));
    after[new].iter().for_each(|line| write_line(text, '+', line));
}

fn write_line(text: &mut String, mark: char, line: &str) {
    text.push(mark);
    text.push_str(line);
    if !line.ends_with('\n') {
        text.push_str("\n\\ No newline at end of file\n");
    }
}

fn range(lines: usize) -> String {
    format!("{},{lines}", usize::from(lines > 0))
}

/// Git ends a path that contains a space with a tab, so that parsers find its end.
fn with_tab(quoted: &str) -> String {
    if quoted.contains(' ') && !quoted.starts_with('"') { format!("{quoted}\t") } else { quoted.to_owned() }
}

fn quote(path: &str) -> String {
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    if path.as_bytes().iter().all(plain) {
        return path.to_owned();
    }
    let mut quoted = String::from("\"");
    for byte in path.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b'\n' => quoted.push_str("\\n"),
            b'\t' => quoted.push_str("\\t"),
            b'\r' => quoted.push_str("\\r"),
            0x20..0x7f => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Unquotes a path at the start of `text`, and returns it with the rest of the text.
fn unquote(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let (mut bytes, mut at) = (Vec::new(), 0);
    let raw = inner.as_bytes();
    loop {
        match *raw.get(at)? {
            b'"' => return Some((String::from_utf8(bytes).ok()?, &inner[at + 1..])),
            b'\\' => at = unescape(raw, at + 1, &mut bytes)?,
            byte => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
}

fn unescape(raw: &[u8], at: usize, bytes: &mut Vec<u8>) -> Option<usize> {
    let escape = *raw.get(at)?;
    if (b'0'..=b'7').contains(&escape) {
        let digits = std::str::from_utf8(raw.get(at..at + 3)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 8).ok()?);
        return Some(at + 3);
    }
    bytes.push(match escape {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        other => other,
    });
    Some(at + 1)
}

/// Parses a patch line by line; the counts of a hunk say where it ends.
#[derive(Default)]
struct PatchReader {
    files: Vec<FilePatch>,
    /// The remaining old and new lines of the hunk.
    left: (usize, usize),
    /// The first character of the last hunk line.
    last: Option<char>,
}

impl PatchReader {
    fn line(&mut self, line: &str) -> Option<()> {
        let body = line.strip_suffix('\n').unwrap_or(line);
        let headless = body.starts_with("--- ") && self.files.last().is_none_or(|file| file.hunks > 0);
        if self.left == (0, 0) && (body.starts_with("diff --git ") || headless) {
            self.files.push(FilePatch::titled(body));
            self.last = None;
        }
        let Some(file) = self.files.last_mut() else { return Some(()) };
        file.section.push_str(line);
        if body.starts_with('\\') {
            file.strip_newline(self.last?);
        } else if self.left != (0, 0) {
            self.last = Some(file.hunk_line(body, &mut self.left)?);
        } else if body.starts_with("@@ ") {
            self.left = hunk_counts(body)?;
            file.hunks += 1;
        } else {
            file.header(body);
        }
        Some(())
    }
}

impl FilePatch {
    fn titled(body: &str) -> Self {
        let path = body.strip_prefix("diff --git ").and_then(title_path);
        let (old, new, section) = (String::new(), String::new(), String::new());
        Self { change: FileChange::Modify, old_path: path.clone(), path, hunks: 0, old, new, section }
    }

    fn strip_newline(&mut self, mark: char) {
        if mark != '+' {
            self.old.pop();
        }
        if mark != '-' {
            self.new.pop();
        }
    }

    fn hunk_line(&mut self, body: &str, left: &mut (usize, usize)) -> Option<char> {
        // Some tools strip the space of an empty context line.
        let mark = body.chars().next().unwrap_or(' ');
        let text = body.get(1..).unwrap_or_default();
        if matches!(mark, ' ' | '-') {
            left.0 = left.0.checked_sub(1)?;
            self.old.extend([text, "\n"]);
        }
        if matches!(mark, ' ' | '+') {
            left.1 = left.1.checked_sub(1)?;
            self.new.extend([text, "\n"]);
        }
        matches!(mark, ' ' | '-' | '+').then_some(mark)
    }

    fn header(&mut self, body: &str) {
        let Some((key, value)) = HEADERS.iter().find_map(|key| Some((*key, body.strip_prefix(key)?))) else {
            return;
        };
        match key {
            "new file mode " => self.change = text_or_no_text(value, FileChange::Add),
            "deleted file mode " => self.change = text_or_no_text(value, FileChange::Delete),
            "rename from " => (self.change, self.old_path) = (FileChange::Move, Some(path_of(value))),
            "copy from " => (self.change, self.old_path) = (FileChange::Copy, Some(path_of(value))),
            "rename to " | "copy to " => self.path = Some(path_of(value)),
            "--- " => self.side(value, FileChange::Add),
            "+++ " => self.side(value, FileChange::Delete),
            "index " if !value.ends_with(" 120000") => {}
            _ => self.change = FileChange::NoText,
        }
    }

    /// Handles a `---` or `+++` line; `absent` is the change if the file does not exist on this side.
    fn side(&mut self, value: &str, absent: FileChange) {
        let path = path_of(value);
        if path == "/dev/null" {
            self.change = if self.change == FileChange::NoText { FileChange::NoText } else { absent };
        } else if absent == FileChange::Add {
            self.path.get_or_insert_with(|| path.clone());
            self.old_path = Some(path);
        } else {
            self.path = Some(path);
        }
        // A file whose mode changes may have changed lines too.
        if self.change == FileChange::NoText && !self.section.contains("120000") {
            self.change = FileChange::Modify;
        }
    }
}

const HEADERS: [&str; 12] = [
    "new file mode ",
    "deleted file mode ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "--- ",
    "+++ ",
    "index ",
    "old mode ",
    "Binary files ",
    "GIT binary patch",
];

fn text_or_no_text(mode: &str, change: FileChange) -> FileChange {
    if mode.trim() == "120000" { FileChange::NoText } else { change }
}

fn path_of(value: &str) -> String {
    match unquote(value) {
        Some((path, _)) => path,
        None => value.split('\t').next().unwrap_or(value).trim_end_matches('\r').to_owned(),
    }
}

/// The path of a `diff --git` line, which contains it twice.
fn title_path(value: &str) -> Option<String> {
    if let Some((_, rest)) = unquote(value) {
        return Some(path_of(rest.trim_start()));
    }
    let middle = value.len() / 2;
    let (left, right) = (value.get(..middle)?, value.get(middle + 1..)?);
    let same = left == right || left.strip_prefix("a/").is_some_and(|l| right.strip_prefix("b/") == Some(l));
    same.then(|| right.to_owned())
}

fn hunk_counts(header: &str) -> Option<(usize, usize)> {
    let (old, rest) = header.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    Some((count(old)?, count(new)?))
}

fn count(range: &str) -> Option<usize> {
    match range.split_once(',') {
        Some((_, lines)) => lines.parse().ok(),
        None => range.parse::<usize>().ok().map(|_| 1),
    }
}

//! Files that a prompt mentions as `@path`: found in its text, and sent along as resources or links.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Larger files are sent as links; the agent reads them if it needs to.
const MAX_EMBEDDED_BYTES: u64 = 256 * 1024;

/// Whether the agent accepts the text of files in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Embedding {
    /// It does.
    Accepted,
    /// It takes only links.
    LinksOnly,
}

/// The content blocks of a prompt: its text, and the files that it mentions.
pub(crate) fn content(text: &str, cwd: &Path, embedding: Embedding) -> Value {
    let files = mentions(text).into_iter().filter_map(|mention| block(&mention, cwd, embedding));
    std::iter::once(json!({"type": "text", "text": text})).chain(files).collect()
}

/// The paths that a text mentions: `@src/main.rs` or `@"a file"`, at the beginning of a word.
pub(crate) fn mentions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '@' && (before.is_whitespace() || before == '(') {
            let (path, length) = path_at(rest);
            if !path.is_empty() && !found.iter().any(|known| known == path) {
                found.push(path.to_owned());
            }
            rest = &rest[length..];
        }
        before = c;
    }
    found
}

/// The path at the beginning of a text, and how much of the text it takes.
fn path_at(text: &str) -> (&str, usize) {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.find('"').map_or(("", 0), |end| (&quoted[..end], end + 2));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], end)
}

/// The file at a path; marks of a sentence behind it do not belong to it.
fn block(mention: &str, cwd: &Path, embedding: Embedding) -> Option<Value> {
    let trimmed = mention.trim_end_matches(['.', ',', ';', ':', '?', '!', ')']);
    let path = [mention, trimmed].into_iter().map(|name| full(name, cwd)).find(|path| path.exists())?;
    let path = path.canonicalize().ok()?;
    let uri = file_uri(&path);
    let text = match embedding {
        Embedding::Accepted => text_of(&path),
        Embedding::LinksOnly => None,
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Some(match text {
        Some(text) => json!({"type": "resource", "resource": {"uri": uri, "text": text}}),
        None => json!({"type": "resource_link", "uri": uri, "name": name}),
    })
}

fn full(path: &str, cwd: &Path) -> PathBuf {
    let home =
        path.strip_prefix("~/").and_then(|rest| Some(PathBuf::from(std::env::var_os("HOME")?).join(rest)));
    home.unwrap_or_else(|| cwd.join(path))
}

/// The text of a file that is not too large.
fn text_of(path: &Path) -> Option<String> {
    let file = std::fs::metadata(path).ok()?;
    if !file.is_file() || file.len() > MAX_EMBEDDED_BYTES {
        return None;
    }
    String::from_utf8(std::fs::read(path).ok()?).ok().filter(|text| !text.contains('\0'))
}

fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(*byte))
            }
            other => write!(uri, "%{other:02X}").expect("writing to a string cannot fail"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_mentioned_at_the_beginning_of_a_word() {
        let found = mentions("see @src/main.rs, me@example.org (@a) @\"b c.txt\" @a @ @\"open");
        assert_eq!(found, ["src/main.rs,", "a)", "b c.txt", "a"]);
    }

    #[test]
    fn files_are_embedded_or_linked() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        std::fs::write(cwd.join("ü 1.txt"), "text").unwrap();
        std::fs::write(cwd.join("b.bin"), b"\0\xff").unwrap();
        let text = "look at @\"ü 1.txt\" and @b.bin. And @missing";
        let root = cwd.display().to_string();
        let shown = |embedding| content(text, &cwd, embedding).to_string().replace(&root, "");
        assert_eq!(
            shown(Embedding::Accepted),
            json!([
                {"type": "text", "text": text},
                {"type": "resource", "resource": {"uri": "file:///%C3%BC%201.txt", "text": "text"}},
                {"type": "resource_link", "uri": "file:///b.bin", "name": "b.bin"},
            ])
            .to_string()
        );
        assert!(
            shown(Embedding::LinksOnly).contains(r#"{"type":"resource_link","uri":"file:///%C3%BC%201.txt""#)
        );
    }
}

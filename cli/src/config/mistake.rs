//! Errors in the configuration file, with file, line, key and a suggestion. Never shows values, which may be keys.

use std::fmt;
use std::path::Path;

use strsim::damerau_levenshtein;

/// The number of wrong letters up to which a word is suggested.
const MAX_EDIT_DISTANCE: usize = 2;

/// A position in the configuration file.
pub(super) struct FilePosition<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    /// The byte offset.
    pub(super) at: usize,
}

impl fmt::Display for FilePosition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text.get(..self.at).unwrap_or_default();
        write!(f, "{}, line {}", self.file.display(), before.matches('\n').count() + 1)
    }
}

impl<'a> FilePosition<'a> {
    /// The first following line that sets this key; this position if there is none.
    pub(super) fn of_key(self, key: &str) -> Self {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut offset = 0;
        for line in rest.split_inclusive('\n') {
            if key_of(line) == Some(key) {
                return Self { at: self.at + offset, ..self };
            }
            offset += line.len();
        }
        self
    }

    /// The key that this line sets.
    fn key(&self) -> Option<&'a str> {
        let start = self.text.get(..self.at)?.rfind('\n').map_or(0, |end| end + 1);
        self.text[start..].lines().next().and_then(key_of)
    }
}

fn key_of(line: &str) -> Option<&str> {
    line.split_once('=').map(|(key, _)| key.trim()).filter(|key| !key.is_empty() && !key.starts_with('#'))
}

/// Explains an error of the parser.
pub(super) fn explain(position: &FilePosition<'_>, error: &toml::de::Error) -> String {
    let message = error.message().lines().next().unwrap_or_default();
    let why = if let Some((word, expected)) = unknown(message, "unknown field `") {
        unknown_key(word, &expected)
    } else if let Some((word, expected)) = unknown(message, "unknown variant `") {
        let guess = guess(word, &expected).map_or_else(
            || format!("expected one of {}", listed(&expected)),
            |meant| format!("did you mean `{meant}`?"),
        );
        format!("{}unknown value `{word}`: {guess}", of_key(position))
    } else if let Some(field) = message.strip_prefix("missing field ") {
        format!("missing key {field}")
    } else {
        format!("{}{}", of_key(position), without_value(message))
    };
    format!("{position}: {why}")
}

fn of_key(position: &FilePosition<'_>) -> String {
    position.key().map(|key| format!("key `{key}`: ")).unwrap_or_default()
}

/// The unknown word in a message, and the words that the parser expected.
fn unknown<'a>(message: &'a str, prefix: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (word, rest) = message.strip_prefix(prefix)?.split_once('`')?;
    Some((word, rest.split('`').skip(1).step_by(2).collect()))
}

fn unknown_key(word: &str, expected: &[&str]) -> String {
    let is_top_level = expected.contains(&"provider");
    let hint = match guess(word, expected) {
        Some("provider") if is_top_level => "did you mean `[[provider]]`?".to_owned(),
        Some(meant) if is_top_level => format!("did you mean `[{meant}]`?"),
        Some(meant) => format!("did you mean `{meant}`?"),
        None if is_top_level && word == "models" => "did you mean `[[provider.models]]`?".to_owned(),
        None if is_top_level => "the keys of a provider go below a line `[[provider]]`".to_owned(),
        None => format!("expected one of {}", listed(expected)),
    };
    format!("unknown key `{word}`: {hint}")
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The closest expected word, if it is close enough or one is a prefix of the other.
fn guess<'a>(word: &str, expected: &[&'a str]) -> Option<&'a str> {
    let plain = |word: &str| word.to_ascii_lowercase().replace('-', "_");
    let word = plain(word);
    let distance = |known: &&&str| damerau_levenshtein(&word, &plain(known));
    let nearest = expected.iter().min_by_key(distance).filter(|known| distance(known) <= MAX_EDIT_DISTANCE);
    let longer =
        |known: &&&str| word.len() > 2 && (plain(known).contains(&word) || word.contains(&plain(known)));
    nearest.or_else(|| expected.iter().find(longer)).copied()
}

/// Removes the written value from a message like `invalid type: string "…", expected u64`.
fn without_value(message: &str) -> String {
    match (message.split_once(": "), message.rsplit_once(", expected ")) {
        (Some((what @ ("invalid type" | "invalid value" | "invalid length"), rest)), Some((_, expected))) => {
            let kind = rest.split([' ', ',']).next().unwrap_or_default();
            format!("{what} {kind}, expected {expected}")
        }
        _ => message.to_owned(),
    }
}

//! Errors in the configuration file, with file, line, key and a suggestion. Never shows values, which may be keys.

use std::fmt;
use std::path::{Path, PathBuf};

use strsim::damerau_levenshtein;

/// The number of wrong letters up to which a word is suggested.
const MAX_EDIT_DISTANCE: usize = 2;

/// The keys that are often written at the top although they belong below a heading.
const HEADINGS: [(&str, &[&str]); 3] = [
    ("[[provider]]", &["name", "kind", "base_url", "key", "key_env"]),
    ("[agents.NAME]", &["command", "env", "args"]),
    ("[assistant]", &["model", "mode", "mcp_servers"]),
];

/// What is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The file.
    pub(crate) file: PathBuf,
    /// The line, if it is known.
    pub(crate) line: Option<usize>,
    /// What is wrong, without the place.
    pub(crate) what: String,
}

impl Mistake {
    /// A mistake that concerns the whole file.
    pub(crate) fn of_file(file: &Path, what: String) -> Self {
        Self { file: file.to_owned(), line: None, what }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.file.display(), self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// A position in the configuration file.
pub(super) struct FilePosition<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    /// The byte offset.
    pub(super) at: usize,
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

    /// A mistake at this position.
    pub(super) fn mistake(&self, what: String) -> Mistake {
        let before = self.text.get(..self.at).unwrap_or_default();
        Mistake { file: self.file.to_owned(), line: Some(before.matches('\n').count() + 1), what }
    }

    /// The key that this line sets.
    fn key(&self) -> Option<&'a str> {
        let start = self.text.get(..self.at)?.rfind('\n').map_or(0, |end| end + 1);
        self.text[start..].lines().next().and_then(key_of)
    }
}

fn key_of(line: &str) -> Option<&str> {
    let key = line.split_once('=').map(|(key, _)| key.trim())?;
    // Anything else before the sign may be part of a value.
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.\"'".contains(c);
    (!key.is_empty() && key.chars().all(is_key)).then_some(key)
}

/// Explains an error of the parser.
pub(super) fn explain(position: &FilePosition<'_>, error: &toml::de::Error) -> Mistake {
    let message = error.message().lines().next().unwrap_or_default();
    let why = if let Some((word, expected)) = unknown(message, "unknown field `") {
        unknown_key(word, &expected)
    } else if let Some((word, expected)) = unknown(message, "unknown variant `") {
        unknown_value(position, word, &expected)
    } else if let Some(field) = message.strip_prefix("missing field ") {
        format!("missing key {field}")
    } else {
        format!("{}{}", of_key(position), without_value(message))
    };
    position.mistake(why)
}

fn of_key(position: &FilePosition<'_>) -> String {
    position.key().map(|key| format!("key `{key}`: ")).unwrap_or_default()
}

/// The unknown word in a message, and the words that the parser expected.
fn unknown<'a>(message: &'a str, prefix: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (word, rest) = message.strip_prefix(prefix)?.split_once('`')?;
    Some((word, rest.split('`').skip(1).step_by(2).collect()))
}

fn unknown_value(position: &FilePosition<'_>, word: &str, expected: &[&str]) -> String {
    let meant = nearest(word, expected);
    // A value that resembles none of the known ones may be a key in the wrong place.
    match meant {
        Some(meant) => format!("{}unknown value `{word}`: did you mean `{meant}`?", of_key(position)),
        None => format!("{}unknown value: expected one of {}", of_key(position), listed(expected)),
    }
}

fn unknown_key(word: &str, expected: &[&str]) -> String {
    let is_top_level = expected.contains(&"default_agent");
    let hint = match nearest(word, expected) {
        Some("provider") if is_top_level => "did you mean `[[provider]]`?".to_owned(),
        Some("agents") if is_top_level => "did you mean `[agents.NAME]`?".to_owned(),
        Some("store") if is_top_level => "did you mean `[store]`?".to_owned(),
        Some("assistant") if is_top_level => "did you mean `[assistant]`?".to_owned(),
        Some("notify") if is_top_level => "did you mean `[notify]`?".to_owned(),
        Some("serve") if is_top_level => "did you mean `[serve]`?".to_owned(),
        Some(meant) => format!("did you mean `{meant}`?"),
        None if is_top_level && word == "models" => "did you mean `[[provider.models]]`?".to_owned(),
        None if is_top_level => misplaced(word).unwrap_or_else(|| {
            "expected `default_agent`, `[agents.NAME]`, `[assistant]`, `[store]`, `[serve]`, `[notify]` or `[[provider]]`".to_owned()
        }),
        None => format!("expected one of {}", listed(expected)),
    };
    format!("unknown key `{word}`: {hint}")
}

/// Where a key belongs that is written at the top.
fn misplaced(word: &str) -> Option<String> {
    let place = |(heading, keys): &(&str, &[&str])| keys.contains(&word).then(|| (*heading).to_owned());
    HEADINGS.iter().find_map(place).map(|heading| format!("it goes below a line `{heading}`"))
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The closest expected word, if it is close enough or one is a prefix of the other.
pub(crate) fn nearest<'a>(word: &str, expected: &[&'a str]) -> Option<&'a str> {
    let plain = |word: &str| word.to_ascii_lowercase().replace('-', "_");
    let word = plain(word);
    let distance = |known: &&&str| damerau_levenshtein(&word, &plain(known));
    let near = expected.iter().min_by_key(distance).filter(|known| distance(known) <= MAX_EDIT_DISTANCE);
    let longer =
        |known: &&&str| word.len() > 2 && (plain(known).contains(&word) || word.contains(&plain(known)));
    near.or_else(|| expected.iter().find(longer)).copied()
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

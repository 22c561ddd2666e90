//! Mistakes in the configuration file, told with file, line and key, and with the word that was probably meant. Shows
//! no value of the file: it may be a key.

use std::fmt;
use std::path::Path;

use strsim::damerau_levenshtein;

/// The most letters that may be wrong in a word for us to guess what was meant.
const MOST_WRONG: usize = 2;

/// A place in the configuration file.
pub(super) struct Place<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    /// The byte at which it begins.
    pub(super) at: usize,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text.get(..self.at).unwrap_or_default();
        write!(f, "{}, line {}", self.file.display(), before.matches('\n').count() + 1)
    }
}

impl<'a> Place<'a> {
    /// The first line from here on that sets this key; this place if there is none.
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

/// What the parser found wrong, in words for the user.
pub(super) fn explain(place: &Place<'_>, error: &toml::de::Error) -> String {
    let message = error.message().lines().next().unwrap_or_default();
    let why = if let Some((word, expected)) = unknown(message, "unknown field `") {
        unknown_key(word, &expected)
    } else if let Some((word, expected)) = unknown(message, "unknown variant `") {
        let guess = guess(word, &expected).map_or_else(
            || format!("expected one of {}", listed(&expected)),
            |meant| format!("did you mean `{meant}`?"),
        );
        format!("{}unknown value `{word}`: {guess}", of_key(place))
    } else if let Some(field) = message.strip_prefix("missing field ") {
        format!("missing key {field}")
    } else {
        format!("{}{}", of_key(place), without_value(message))
    };
    format!("{place}: {why}")
}

fn of_key(place: &Place<'_>) -> String {
    place.key().map(|key| format!("key `{key}`: ")).unwrap_or_default()
}

/// The unknown word of a message, and the words that the parser expected instead.
fn unknown<'a>(message: &'a str, prefix: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (word, rest) = message.strip_prefix(prefix)?.split_once('`')?;
    Some((word, rest.split('`').skip(1).step_by(2).collect()))
}

fn unknown_key(word: &str, expected: &[&str]) -> String {
    let is_top_level = expected == ["provider"];
    let hint = match guess(word, expected) {
        Some(_) if is_top_level => "did you mean `[[provider]]`?".to_owned(),
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

/// The expected word that is nearest, if it is near enough, or that the written one begins with or is the beginning of.
fn guess<'a>(word: &str, expected: &[&'a str]) -> Option<&'a str> {
    let plain = |word: &str| word.to_ascii_lowercase().replace('-', "_");
    let word = plain(word);
    let distance = |known: &&&str| damerau_levenshtein(&word, &plain(known));
    let nearest = expected.iter().min_by_key(distance).filter(|known| distance(known) <= MOST_WRONG);
    let longer =
        |known: &&&str| word.len() > 2 && (plain(known).contains(&word) || word.contains(&plain(known)));
    nearest.or_else(|| expected.iter().find(longer)).copied()
}

/// A message like `invalid type: string "…", expected u64` without what was written.
fn without_value(message: &str) -> String {
    match (message.split_once(": "), message.rsplit_once(", expected ")) {
        (Some((what @ ("invalid type" | "invalid value" | "invalid length"), rest)), Some((_, expected))) => {
            let kind = rest.split([' ', ',']).next().unwrap_or_default();
            format!("{what} {kind}, expected {expected}")
        }
        _ => message.to_owned(),
    }
}

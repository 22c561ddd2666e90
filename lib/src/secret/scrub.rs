//! Replaces secrets in texts. Distinguishes values that are certainly keys from values that may be secret.

use super::{MIN_SECRET_LENGTH, REDACTED, Secret};

/// The length from which a plain word may be a password.
const PASSWORD_LENGTH: usize = 8;

/// The length from which a value of letters and digits counts as a key.
const KEY_LENGTH: usize = 20;

/// A set of values to replace.
#[derive(Clone, Default)]
pub struct Scrub {
    /// Longest first, since one value may be part of another.
    all: Vec<String>,
    /// Values that are certainly keys; paths and words may legitimately appear in a tool result.
    keys: Vec<String>,
    /// All values except short words and paths, which any text may contain.
    likely: Vec<String>,
}

impl Scrub {
    /// Adds a value with the name of its variable or header.
    pub fn add(&mut self, name: &str, secret: &Secret) {
        self.add_with_parts(secret.reveal(), names_a_key(name) || looks_like_a_key(secret.reveal()));
    }

    /// Adds a value that is a key because of where it comes from.
    pub fn add_key(&mut self, secret: &Secret) {
        self.add_with_parts(secret.reveal(), true);
    }

    /// Adds the value of a header. Most headers authenticate, so they count as keys unless they are settings.
    pub fn add_header(&mut self, name: &str, secret: &Secret) {
        self.add_with_parts(secret.reveal(), names_a_key(name) || !is_setting(secret.reveal()));
    }

    /// Adds a word if it looks like a key.
    pub fn add_if_key(&mut self, word: &str) {
        if looks_like_a_key(word) {
            self.add_with_parts(word, true);
        }
    }

    fn add_with_parts(&mut self, value: &str, is_key: bool) {
        self.add_value(value, is_key);
        // `Bearer abc`: the second word alone is a secret as well.
        for word in value.split_whitespace().filter(|word| looks_like_a_key(word)) {
            self.add_value(word, is_key);
        }
        for part in embedded_keys(value) {
            self.add_value(part, true);
            self.add_value(value, true);
        }
        // A key may have several lines and be shown line by line.
        for line in value.lines().filter(|line| *line != value && line.len() >= PASSWORD_LENGTH) {
            self.add_value(line, is_key);
        }
        for list in [&mut self.all, &mut self.keys, &mut self.likely] {
            list.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
            list.dedup();
        }
    }

    /// Replaces all values, for texts that are shown to people or logged.
    pub fn text(&self, text: &str) -> String {
        redact(text, &self.all)
    }

    /// Replaces only keys, for tool results.
    pub fn result(&self, text: &str) -> String {
        redact(text, &self.keys)
    }

    /// Replaces the values that are probably secret, for general text.
    pub(crate) fn words(&self, text: &str) -> String {
        redact(text, &self.likely)
    }

    /// The length of the longest of these values.
    pub(crate) fn longest(&self) -> usize {
        self.likely.first().map_or(0, String::len)
    }

    /// Adds the keys of a command line: `--api-key=abc`, `--token abc`.
    pub fn add_args<'a>(&mut self, args: impl IntoIterator<Item = &'a str>) {
        let mut before = "";
        for arg in args {
            match arg.split_once('=') {
                Some((name, value)) if names_a_key(name) => self.add_key(&Secret::new(value)),
                Some(_) => {}
                None if before.starts_with('-') && names_a_key(before) => self.add_key(&Secret::new(arg)),
                None => self.add_if_key(arg),
            }
            before = if arg.contains('=') { "" } else { arg };
        }
    }

    fn add_value(&mut self, value: &str, is_key: bool) {
        if value.len() < MIN_SECRET_LENGTH || matches!(value, "true" | "false" | "null") {
            return;
        }
        let quoted = serde_json::Value::from(value).to_string();
        // The value itself, and its JSON-escaped form.
        for form in [value, &quoted[1..quoted.len() - 1]] {
            self.all.push(form.to_owned());
            if is_key {
                self.keys.push(form.to_owned());
            }
            if is_key || may_be_secret(value) {
                self.likely.push(form.to_owned());
            }
        }
    }
}

/// Returns whether a value that is not known to be a key may be secret.
fn may_be_secret(value: &str) -> bool {
    let path = value.starts_with(['/', '~', '.']);
    !path && (value.len() >= PASSWORD_LENGTH || !is_setting(value))
}

fn redact(text: &str, values: &[String]) -> String {
    let mut text = text.to_owned();
    for value in values.iter().filter(|value| !value.is_empty()) {
        if text.contains(value.as_str()) {
            text = text.replace(value.as_str(), REDACTED);
        }
    }
    text
}

/// Returns whether a variable, header or option of this name contains a key.
pub(crate) fn names_a_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let says_so = [
        "key",
        "token",
        "secret",
        "pass",
        "auth",
        "credential",
        "cookie",
        "bearer",
        "jwt",
        "dsn",
        "signature",
        "private",
    ];
    // `PWD` is the working directory, not a password.
    let is_password = name.contains("pwd") && !matches!(name.as_str(), "pwd" | "oldpwd");
    is_password || says_so.iter().any(|word| name.contains(word))
}

/// Returns whether a value is a typical setting: words, a number, a date, a version.
fn is_setting(value: &str) -> bool {
    let words = |c: char| c.is_ascii_lowercase() || " ,_-".contains(c);
    let numbers = |c: char| c.is_ascii_digit() || ".:-".contains(c);
    value.chars().all(words) || value.chars().all(numbers)
}

/// Keys inside a longer value: the password of a URL, `Password=...;` of a connection string.
fn embedded_keys(value: &str) -> Vec<&str> {
    let authority = value.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    let password = user.map(|user| user.split_once(':').map_or(user, |(_, password)| password));
    let pairs = value.split([';', '&', '?', ' ']).filter_map(|pair| pair.split_once('='));
    let named = pairs.filter(|(name, _)| names_a_key(name)).map(|(_, value)| value);
    password.into_iter().chain(named).collect()
}

fn looks_like_a_key(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+=~".contains(c);
    value.len() >= KEY_LENGTH
        && value.chars().all(plain)
        && value.contains(|c: char| c.is_ascii_digit())
        && value.contains(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrub(values: &[(&str, &str)]) -> Scrub {
        let mut scrub = Scrub::default();
        for (name, value) in values {
            scrub.add(name, &Secret::new(*value));
        }
        scrub
    }

    #[test]
    fn a_secret_is_not_in_its_debug_output() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "[secret]");
    }

    #[test]
    fn values_are_redacted_everywhere() {
        let scrub = scrub(&[
            ("A", "hunter2"),
            ("B", "hunter2-long"),
            ("C", "with \"quotes\""),
            ("D", "1"),
            ("E", ""),
        ]);
        assert_eq!(scrub.text("hunter2-long, hunter2; 1"), "[secret], [secret]; 1");
        assert_eq!(scrub.text(r#"{"c":"with \"quotes\""}"#), r#"{"c":"[secret]"}"#);
    }

    #[test]
    fn a_token_is_redacted_without_its_scheme_too() {
        let scrub = scrub(&[("Authorization", "Bearer abcdefghij0123456789xyz")]);
        assert_eq!(scrub.text("token abcdefghij0123456789xyz"), "token [secret]");
        assert_eq!(scrub.result("sent: Bearer abcdefghij0123456789xyz"), "sent: [secret]");
    }

    #[test]
    fn keys_inside_a_value_are_redacted_in_results_too() {
        let scrub = scrub(&[
            ("DATABASE_URL", "postgres://me:s3same!@db.example/app"),
            ("CONNECTION", "Server=db;User=me;Password=opensesame;Timeout=5"),
            ("REPORTS", "https://publickey@reports.example/7"),
            ("DB_PWD", "letmein"),
            ("PWD", "/home/me"),
        ]);
        let said = "s3same! opensesame publickey letmein /home/me db.example";
        assert_eq!(scrub.result(said), "[secret] [secret] [secret] [secret] /home/me db.example");
        assert_eq!(scrub.result("at postgres://me:s3same!@db.example/app"), "at [secret]");
    }

    #[test]
    fn headers_are_keys_unless_they_are_settings() {
        let mut scrub = Scrub::default();
        for (name, value) in [
            ("X-Who", "Sesame7"),
            ("X-Token", "letmein"),
            ("X-Readonly", "true"),
            ("X-Toolsets", "repos,issues"),
            ("X-Api-Version", "2026-01-31"),
        ] {
            scrub.add_header(name, &Secret::new(value));
        }
        let said = "Sesame7 letmein true repos,issues 2026-01-31";
        assert_eq!(scrub.result(said), "[secret] [secret] true repos,issues 2026-01-31");
        assert_eq!(scrub.text("true 2026-01-31"), "true [secret]");
    }

    #[test]
    fn general_text_keeps_short_words_and_paths() {
        let scrub = scrub(&[
            ("LEVEL", "debug"),
            ("PATH", "/usr/bin:/bin"),
            ("WHO", "opensesame"),
            ("PIN_TOKEN", "pear"),
            ("PEM", "-----BEGIN-----\nabcdefgh\n-----END-----"),
        ]);
        let said = "debug /usr/bin:/bin opensesame pear: abcdefgh";
        assert_eq!(scrub.words(said), "debug /usr/bin:/bin [secret] [secret]: [secret]");
    }

    #[test]
    fn a_result_keeps_values_that_are_not_keys() {
        let scrub = scrub(&[("ROOT", "/home/me/project"), ("MODE", "production"), ("API_KEY", "opensesame")]);
        let said = "opensesame is in /home/me/project, for production";
        assert_eq!(scrub.result(said), "[secret] is in /home/me/project, for production");
        assert_eq!(scrub.text(said), "[secret] is in [secret], for [secret]");
    }
}

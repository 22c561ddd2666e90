//! A secret value (API keys, environments and headers of MCP servers) that is never printed. `scrub` removes such
//! values from texts; `session_secrets` collects those of all sessions of a server; `detect` finds what looks like one.

mod detect;
mod entry;
mod held_back;
pub mod scrub;
mod session_secrets;

use std::fmt;

use serde::{Deserialize, Deserializer};

pub use detect::SecretFinder;
pub use entry::{redacted_entry, redacted_json};
pub(crate) use held_back::RedactedEntries;
pub use session_secrets::Secrets;

/// Whether what looks like a secret is replaced before somebody is shown it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redaction {
    /// It is shown.
    #[default]
    Off,
    /// It is replaced. Text that comes in chunks is then shown when its turn has ended.
    Secrets,
}

/// The replacement for a secret in a text.
pub(crate) const REDACTED: &str = "[secret]";
/// Shorter values are placeholders or common words, and removing them would garble the text.
pub(crate) const MIN_SECRET_LENGTH: usize = 4;

/// A string that is redacted in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value unchanged.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Wraps a key, trimmed of white space from a file or shell.
    #[must_use]
    pub fn key(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Returns whether the value is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value, to be sent to its destination.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Replaces the secret in a text.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        if self.0.len() < MIN_SECRET_LENGTH { text.to_owned() } else { text.replace(&self.0, REDACTED) }
    }
}

/// A secret in a configuration is a key.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::key(&String::deserialize(deserializer)?))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn it_is_redacted_in_debug_output_and_texts() {
        let key = Secret::key(" sk-secret\n");
        assert_eq!(format!("{key:?}"), "[secret]");
        assert_eq!(key.scrub("bad key sk-secret, sk-secret!"), "bad key [secret], [secret]!");
        assert_eq!(Secret::new("x").scrub("next"), "next");
    }

    #[test]
    fn only_a_key_is_trimmed() {
        assert_eq!(Secret::new(" a ").reveal(), " a ");
        let read: Secret = serde_json::from_str("\" a \"").unwrap();
        assert_eq!(read, Secret::key("a"));
    }
}

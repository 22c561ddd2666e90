//! A value that is sent where it belongs and shown to nobody: keys of models, environments and headers of MCP
//! servers. `scrub` strikes values out of texts, `known` has those of all sessions that a server serves.

mod known;
pub mod scrub;

use std::fmt;

use serde::{Deserialize, Deserializer};

pub use known::Secrets;

/// What stands in the place of a secret.
pub(crate) const STRUCK_OUT: &str = "[secret]";
/// A shorter value is a stand-in or a common word; striking it out would only garble the text.
pub(crate) const SHORTEST: usize = 4;

/// A text that shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value as it is.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Takes a key, without the blanks around it that a file or a shell may have left.
    #[must_use]
    pub fn key(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value itself. Call it only to send the value to the service that it is for.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The text without the secret.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        if self.0.len() < SHORTEST { text.to_owned() } else { text.replace(&self.0, STRUCK_OUT) }
    }
}

/// What stands in a configuration is a key.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::key(&String::deserialize(deserializer)?))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STRUCK_OUT)
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn it_is_neither_shown_nor_left_in_a_text() {
        let key = Secret::key(" sk-secret\n");
        assert_eq!(format!("{key:?}"), "[secret]");
        assert_eq!(key.scrub("bad key sk-secret, sk-secret!"), "bad key [secret], [secret]!");
        assert_eq!(Secret::new("x").scrub("next"), "next");
    }

    #[test]
    fn only_a_key_loses_the_blanks_around_it() {
        assert_eq!(Secret::new(" a ").reveal(), " a ");
        let read: Secret = serde_json::from_str("\" a \"").unwrap();
        assert_eq!(read, Secret::key("a"));
    }
}

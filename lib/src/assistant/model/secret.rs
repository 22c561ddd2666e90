//! A key: it is sent, and it is never shown.

use std::fmt;

use serde::Deserialize;

/// What stands where a key stood.
const HIDDEN: &str = "[key]";
/// Shorter ones are stand-ins for servers that want any key at all; hiding them would only garble the text.
const SHORTEST: usize = 4;

/// A text that shows itself to nobody.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Secret(String);

impl Secret {
    /// Takes a key, without the blanks around it that a file or a shell may have left.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key itself, for the request that needs it.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// The text without the key.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        if self.0.len() < SHORTEST { text.to_owned() } else { text.replace(&self.0, HIDDEN) }
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn it_is_neither_shown_nor_left_in_a_text() {
        let key = Secret::new(" sk-secret\n");
        assert_eq!(format!("{key:?}"), "[key]");
        assert_eq!(key.scrub("bad key sk-secret, sk-secret!"), "bad key [key], [key]!");
        assert_eq!(Secret::new("x").scrub("next"), "next");
    }
}

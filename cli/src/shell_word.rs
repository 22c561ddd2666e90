//! Words for a shell, in commands that are shown to be copied.

use std::borrow::Cow;

use crate::output::escape::visible;

/// A text as one word of a POSIX shell. Control characters are shown as escapes: such a word is not meant to be copied.
pub(crate) fn shell_word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", visible(text).replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strange_words_are_quoted() {
        assert_eq!(shell_word("019a-bbbb"), "019a-bbbb");
        assert_eq!(shell_word("a b; $(x) 'y'"), r"'a b; $(x) '\''y'\'''");
        assert_eq!(shell_word(""), "''");
    }
}

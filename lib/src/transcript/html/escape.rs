//! Escapes text for HTML, in elements and in quoted attributes. Control characters are shown as `\u{1b}`.

use std::borrow::Cow;

use crate::visible::visible_lines;

/// Escapes a text.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    let text = visible_lines(text);
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    Cow::Owned(safe)
}

/// Addresses that a reader may follow.
pub(super) fn is_safe_address(address: &str) -> bool {
    let scheme = address.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https" | "mailto"))
}

/// A link that gives nothing away; the address alone if it cannot be followed.
pub(super) fn link(address: &str, text: &str) -> String {
    if is_safe_address(address) {
        format!("<a href=\"{}\" rel=\"noopener noreferrer\">{text}</a>", escaped(address))
    } else {
        format!("<span class=\"address\">{text}</span>")
    }
}

/// An image that is part of the page; nothing if it is of a type that is not only an image.
pub(super) fn image(mime_type: &str, data: &str, text: &str) -> Option<String> {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"].contains(&mime_type);
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    (known && data.chars().all(is_base64))
        .then(|| format!("<img src=\"data:{mime_type};base64,{data}\" alt=\"{}\">", escaped(text)))
}

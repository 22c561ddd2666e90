//! The JSON-RPC envelope, parsed without copying: everything inside stays raw text.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A request id as the peer wrote it, to be given back to the letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id(String);

/// What sort of value an id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// `null`.
    Null,
    /// A whole number.
    Integer,
    /// Another number.
    Fraction,
    /// A string.
    Text,
}

impl Id {
    /// The id of a message that has none that could be read.
    #[must_use]
    pub fn null() -> Self {
        Self("null".to_owned())
    }

    /// One of our own ids.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self(number.to_string())
    }

    /// An id of our own that is no number, and so none that a peer's numbering could meet.
    #[must_use]
    pub fn own(name: &str) -> Self {
        Self(format!("\"{name}\""))
    }

    /// The id as JSON.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The number, if it is one of ours.
    #[must_use]
    pub fn as_number(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// What sort of value it is.
    #[must_use]
    pub fn kind(&self) -> IdKind {
        match self.0.as_bytes().first() {
            Some(b'"') => IdKind::Text,
            Some(b'n') => IdKind::Null,
            Some(_) | None if self.0.parse::<i64>().is_ok() => IdKind::Integer,
            Some(_) | None => IdKind::Fraction,
        }
    }

    /// Reads an id out of JSON text; only strings, numbers and null are ids.
    #[must_use]
    pub fn read(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let plausible = matches!(text.as_bytes().first(), Some(b'"' | b'n' | b'-' | b'0'..=b'9'));
        plausible.then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One message.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants an answer.
    Request {
        /// Its id.
        id: Id,
        /// Its method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<&'a RawValue>,
    },
    /// Wants none.
    Notification {
        /// Its method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<&'a RawValue>,
    },
    /// An answer.
    Response {
        /// The id of the request.
        id: Id,
        /// The result or the error.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

/// A line that is no message.
#[derive(Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not UTF-8.
    NotUtf8,
    /// Not JSON.
    NotJson(String),
    /// An array: batches are gone.
    Batch,
    /// JSON, but no request, notification or response.
    NotAMessage(Id),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Tells `null` from absent, which a plain `Option` does not.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// Parses one line.
pub fn parse(line: &[u8]) -> Result<Message<'_>, Malformed> {
    let text = std::str::from_utf8(line).map_err(|_| Malformed::NotUtf8)?;
    if text.trim_start().starts_with('[') {
        return match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => Err(Malformed::Batch),
            Err(error) => Err(Malformed::NotJson(error.to_string())),
        };
    }
    let envelope: Envelope<'_> = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) => return Err(unreadable(text, &error)),
    };
    let id = match envelope.id.map(Id::read) {
        Some(None) => return Err(Malformed::NotAMessage(Id::null())),
        Some(Some(id)) => Some(id),
        None => None,
    };
    match (id, envelope.method, envelope.result, envelope.error) {
        (Some(id), Some(method), None, None) => Ok(Message::Request { id, method, params: envelope.params }),
        (None, Some(method), None, None) => Ok(Message::Notification { method, params: envelope.params }),
        (Some(id), None, Some(result), None) => Ok(Message::Response { id, outcome: Ok(result) }),
        (Some(id), None, None, Some(error)) => Ok(Message::Response { id, outcome: Err(error) }),
        (id, ..) => Err(Malformed::NotAMessage(id.unwrap_or_else(Id::null))),
    }
}

/// Valid JSON of another shape is a bad request, not a parse error.
fn unreadable(text: &str, error: &serde_json::Error) -> Malformed {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Malformed::NotAMessage(Id::null()),
        Err(_) => Malformed::NotJson(error.to_string()),
    }
}

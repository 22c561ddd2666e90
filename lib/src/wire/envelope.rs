//! Parses the JSON-RPC envelope without copying: ids, parameters and results stay raw text.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A request id exactly as the peer wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id(String);

/// The JSON type of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// `null`.
    Null,
    /// An integer.
    Integer,
    /// A number that is not an integer.
    Fraction,
    /// A string.
    Text,
}

impl Id {
    /// The `null` id, for answers to messages without a readable id.
    #[must_use]
    pub fn null() -> Self {
        Self("null".to_owned())
    }

    /// Makes a numeric id for a request of ours.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self(number.to_string())
    }

    /// Makes a string id for a request of ours, which cannot collide with a peer's numeric ids.
    #[must_use]
    pub fn own(name: &str) -> Self {
        Self(format!("\"{name}\""))
    }

    /// Returns the id as JSON text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the number if it is one of our numeric ids.
    #[must_use]
    pub fn as_number(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// Returns the JSON type of the id.
    #[must_use]
    pub fn kind(&self) -> IdKind {
        match self.0.as_bytes().first() {
            Some(b'"') => IdKind::Text,
            Some(b'n') => IdKind::Null,
            Some(_) | None if self.0.parse::<i64>().is_ok() => IdKind::Integer,
            Some(_) | None => IdKind::Fraction,
        }
    }

    /// Reads an id; only strings, numbers and null are ids.
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

/// A JSON-RPC message.
#[derive(Debug)]
pub enum RpcMessage<'a> {
    /// A request, which needs an answer.
    Request {
        /// The request id.
        id: Id,
        /// The method.
        method: Cow<'a, str>,
        /// The raw parameters.
        params: Option<&'a RawValue>,
    },
    /// A notification, which needs no answer.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// The raw parameters.
        params: Option<&'a RawValue>,
    },
    /// A response to one of our requests.
    Response {
        /// The id of the request.
        id: Id,
        /// The raw result or error.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

/// A line that is not a valid message.
#[derive(Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The line is not UTF-8.
    NotUtf8,
    /// The line is not JSON.
    NotJson(String),
    /// The line is an array: batches are not supported.
    Batch,
    /// The line is JSON but neither request, notification nor response.
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

/// Distinguishes `null` from absent, which a plain `Option` does not.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// Parses one line.
pub fn parse(line: &[u8]) -> Result<RpcMessage<'_>, Malformed> {
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
        (Some(id), Some(method), None, None) => {
            Ok(RpcMessage::Request { id, method, params: envelope.params })
        }
        (None, Some(method), None, None) => Ok(RpcMessage::Notification { method, params: envelope.params }),
        (Some(id), None, Some(result), None) => Ok(RpcMessage::Response { id, outcome: Ok(result) }),
        (Some(id), None, None, Some(error)) => Ok(RpcMessage::Response { id, outcome: Err(error) }),
        (id, ..) => Err(Malformed::NotAMessage(id.unwrap_or_else(Id::null))),
    }
}

/// Valid JSON of another shape is an invalid request, not a parse error.
fn unreadable(text: &str, error: &serde_json::Error) -> Malformed {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Malformed::NotAMessage(Id::null()),
        Err(_) => Malformed::NotJson(error.to_string()),
    }
}

//! JSON-RPC errors with a code, a message and structured data.

use rethread_core::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Formats an error and its sources in one line.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// The JSON-RPC error codes in use.
pub mod code {
    /// The line is not JSON.
    pub const PARSE: i64 = -32700;
    /// The JSON is not a request, or the request is not allowed now.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are invalid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// An error in Rethread or in the agent.
    pub const INTERNAL: i64 = -32603;
    /// The request was cancelled.
    pub const CANCELLED: i64 = -32800;
    /// The agent requires a login.
    pub const AUTH_REQUIRED: i64 = -32000;
    /// The session does not exist.
    pub const NOT_FOUND: i64 = -32002;
    /// The session is live in another process.
    pub const LIVE_ELSEWHERE: i64 = -32010;
    /// The client may not do this.
    pub const NOT_ALLOWED: i64 = -32011;
    /// The session is not open on this host; said between hosts only.
    pub const NOT_HERE: i64 = -32012;
    /// No protocol version is supported by both sides.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// The error in one sentence.
    #[serde(default)]
    pub message: String,
    /// Details: the field, the value, a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

impl RpcError {
    /// Makes an error without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds a member to the data.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let mut data = self.data.take().map(|data| data.fields()).unwrap_or_default();
        data.set(name, value.into().into());
        self.data = Some(data.json());
        self
    }

    /// Adds advice to the data.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.with("hint", hint.into())
    }

    /// The error for an invalid parameter.
    #[must_use]
    pub fn field(field: &str, got: &Value, expected: &str) -> Self {
        Self::new(code::INVALID_PARAMS, format!("invalid {field}: expected {expected}"))
            .with("field", field)
            .with("got", shortened(got))
            .with("expected", expected)
    }

    /// The error for a session that does not exist.
    #[must_use]
    pub fn unknown_session(id: &str) -> Self {
        Self::new(code::NOT_FOUND, format!("session {id} not found")).with("sessionId", id)
    }

    /// The error for a session that this connection is not attached to, whether it exists or not.
    #[must_use]
    pub fn not_attached(id: &str) -> Self {
        Self::unknown_session(id).hint("load or resume the session on this connection first")
    }

    /// The error between hosts for a session that is not open on the host that was asked.
    #[must_use]
    pub fn not_here(id: &str) -> Self {
        Self::new(code::NOT_HERE, format!("session {id} is not open on this host")).with("sessionId", id)
    }

    /// The error for a method that does not exist.
    #[must_use]
    pub fn unknown_method(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("method {method} not found")).with("method", method)
    }

    /// Makes an internal error.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message)
    }

    /// The error for a cancelled request.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(code::CANCELLED, "request cancelled")
    }

    /// Reads an error that a peer sent; anything else becomes an internal error that quotes it.
    #[must_use]
    pub fn read(error: &Json) -> Self {
        error.read().unwrap_or_else(|_| Self::internal("malformed error").with("error", error.value()))
    }

    /// Encodes the error as JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        Json::of(self)
    }
}

/// Shortens a value for an error: no megabytes, and no nested values that may contain secrets.
fn shortened(got: &Value) -> Value {
    match got {
        Value::String(text) if text.len() > 200 => {
            json!(format!("{}…", text.chars().take(200).collect::<String>()))
        }
        Value::Array(items) => json!(format!("an array of {}", items.len())),
        Value::Object(members) => json!(format!("an object of {}", members.len())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => got.clone(),
    }
}

//! JSON-RPC errors as they go over the wire, with the data that helps whoever reads them.

use rethread_core::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An error and its causes in one line.
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

/// The error codes in use.
pub mod code {
    /// A line that is not JSON.
    pub const PARSE: i64 = -32700;
    /// JSON that is not a request, or a request out of order.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method here.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Parameters that do not fit.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Something broke on our side or the agent's.
    pub const INTERNAL: i64 = -32603;
    /// The request was withdrawn.
    pub const CANCELLED: i64 = -32800;
    /// The agent wants the user to log in.
    pub const AUTH_REQUIRED: i64 = -32000;
    /// No such session.
    pub const NOT_FOUND: i64 = -32002;
    /// The session is live in another process.
    pub const LIVE_ELSEWHERE: i64 = -32010;
    /// No common protocol version.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// One sentence.
    #[serde(default)]
    pub message: String,
    /// What helps to mend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

impl RpcError {
    /// An error with no data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with one more member of its data.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let mut data = self.data.take().map(|data| data.fields()).unwrap_or_default();
        data.set(name, value.into().into());
        self.data = Some(data.json());
        self
    }

    /// The same error with advice.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.with("hint", hint.into())
    }

    /// A parameter that does not fit.
    #[must_use]
    pub fn field(field: &str, got: &Value, expected: &str) -> Self {
        Self::new(code::INVALID_PARAMS, format!("invalid {field}: expected {expected}"))
            .with("field", field)
            .with("got", shortened(got))
            .with("expected", expected)
    }

    /// No such session.
    #[must_use]
    pub fn unknown_session(id: &str) -> Self {
        Self::new(code::NOT_FOUND, format!("session {id} not found")).with("sessionId", id)
    }

    /// A session that this connection does not follow, whether it exists or not.
    #[must_use]
    pub fn not_followed(id: &str) -> Self {
        Self::unknown_session(id).hint("load or resume the session on this connection first")
    }

    /// No such method.
    #[must_use]
    pub fn unknown_method(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("method {method} not found")).with("method", method)
    }

    /// Something broke.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message)
    }

    /// The request was withdrawn.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(code::CANCELLED, "request cancelled")
    }

    /// An error as a peer sent it; one that is no error object still becomes one.
    #[must_use]
    pub fn read(error: &Json) -> Self {
        error.read().unwrap_or_else(|_| Self::internal("malformed error").with("error", error.value()))
    }

    /// The error as JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        Json::of(self)
    }
}

/// An error must not repeat megabytes, nor what may be a secret deep inside.
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

//! The errors of MCP servers: failed connections and failed calls. Secrets are already removed from all texts.

use std::fmt;
use std::time::Duration;

/// A server that could not be connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// The configured name of the server.
    pub server: String,
    /// Why connecting failed.
    pub cause: String,
    /// What the user can do.
    pub remedy: String,
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MCP server {} is not available: {}", self.server, self.cause)
    }
}

impl std::error::Error for ServerFailure {}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No server has this tool, prompt or resource.
    #[error("no MCP server has {0}")]
    Unknown(String),
    /// The arguments are not an object.
    #[error("the arguments of {0} must be a JSON object")]
    Arguments(String),
    /// The server is still being connected.
    #[error("MCP server {server} is still connecting")]
    Connecting {
        /// The configured name of the server.
        server: String,
    },
    /// The caller cancelled the call.
    #[error("the call of MCP server {server} was cancelled")]
    Cancelled {
        /// The configured name of the server.
        server: String,
    },
    /// The call reached its time limit; the server was sent a cancellation.
    #[error("MCP server {server} did not answer within {} s", .after.as_secs_f32())]
    TimedOut {
        /// The configured name of the server.
        server: String,
        /// The time limit.
        after: Duration,
    },
    /// The server answered with an error.
    #[error("MCP server {server} returned an error: {message} ({code})")]
    Refused {
        /// The configured name of the server.
        server: String,
        /// The error code.
        code: i32,
        /// The error message.
        message: String,
    },
    /// The server sent an invalid answer.
    #[error("MCP server {server} sent an invalid answer to {method}: {what}")]
    Nonsense {
        /// The configured name of the server.
        server: String,
        /// The method of the request.
        method: &'static str,
        /// The beginning of the answer.
        what: String,
    },
    /// The server is connected but did not accept the request.
    #[error("MCP server {server} did not accept the call: {cause}")]
    NotAccepted {
        /// The configured name of the server.
        server: String,
        /// The reason.
        cause: String,
    },
    /// The connection was lost during the call.
    #[error("MCP server {server} disconnected: {cause}")]
    Lost {
        /// The configured name of the server.
        server: String,
        /// The reason.
        cause: String,
    },
    /// The connection was lost before and could not be restored.
    #[error("MCP server {server} is no longer available: {cause}")]
    Gone {
        /// The configured name of the server.
        server: String,
        /// The reason.
        cause: String,
    },
}

impl CallError {
    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            CallError::Connecting { .. } => Some("try again later, or continue without it"),
            CallError::Unknown(_) => Some("list the tools: they may have changed"),
            CallError::Lost { .. } => Some("the next call starts it again"),
            CallError::Gone { .. } => Some("repair the server, then open the session again"),
            CallError::TimedOut { .. } => Some("ask for less at once, or try again"),
            CallError::NotAccepted { .. } => Some("try again, or continue without it"),
            CallError::Arguments(_)
            | CallError::Cancelled { .. }
            | CallError::Refused { .. }
            | CallError::Nonsense { .. } => None,
        }
    }
}

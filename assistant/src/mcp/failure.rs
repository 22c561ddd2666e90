//! What goes wrong with a server, in words for people. Every text here has been through the server's `Scrub`.

use std::fmt;
use std::time::Duration;

/// A server that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// What people call the server.
    pub server: String,
    /// Why it is not there.
    pub cause: String,
    /// What one could do about it.
    pub remedy: String,
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MCP server {} is not available: {}", self.server, self.cause)
    }
}

impl std::error::Error for ServerFailure {}

/// A call that got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing goes by this name.
    #[error("no MCP server has {0}")]
    Unknown(String),
    /// The arguments are not an object.
    #[error("the arguments of {0} must be a JSON object")]
    Arguments(String),
    /// The server is still being connected.
    #[error("MCP server {server} is still connecting")]
    Connecting {
        /// What people call the server.
        server: String,
    },
    /// The caller did not want it any more.
    #[error("the call of MCP server {server} was cancelled")]
    Cancelled {
        /// What people call the server.
        server: String,
    },
    /// It took too long; the server was told to stop.
    #[error("MCP server {server} did not answer within {} s", .after.as_secs_f32())]
    TimedOut {
        /// What people call the server.
        server: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The server answered with an error.
    #[error("MCP server {server} refused: {message} ({code})")]
    Refused {
        /// What people call the server.
        server: String,
        /// Its code.
        code: i32,
        /// Its words.
        message: String,
    },
    /// The server answered with something that is no answer.
    #[error("MCP server {server} gave an invalid answer to {method}: {what}")]
    Nonsense {
        /// What people call the server.
        server: String,
        /// What it was asked.
        method: &'static str,
        /// What came.
        what: String,
    },
    /// The server is there, but the call did not get through to it.
    #[error("MCP server {server} did not accept the call: {cause}")]
    NotTaken {
        /// What people call the server.
        server: String,
        /// Why.
        cause: String,
    },
    /// The server was lost in the middle of the call.
    #[error("MCP server {server} disconnected: {cause}")]
    Lost {
        /// What people call the server.
        server: String,
        /// Why.
        cause: String,
    },
    /// The server had been lost and could not be brought back.
    #[error("MCP server {server} is no longer available: {cause}")]
    Gone {
        /// What people call the server.
        server: String,
        /// Why.
        cause: String,
    },
}

impl CallError {
    /// What one could do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            CallError::Connecting { .. } => Some("try again in a while, or go on without it"),
            CallError::Unknown(_) => Some("list the tools: they may have changed"),
            CallError::Lost { .. } => Some("the next call starts it again"),
            CallError::Gone { .. } => Some("repair the server, then open the session again"),
            CallError::TimedOut { .. } => Some("ask for less at once, or try again"),
            CallError::NotTaken { .. } => Some("try again, or go on without it"),
            CallError::Arguments(_)
            | CallError::Cancelled { .. }
            | CallError::Refused { .. }
            | CallError::Nonsense { .. } => None,
        }
    }
}

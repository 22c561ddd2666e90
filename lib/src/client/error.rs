//! Why a call of the client failed.

use crate::agent::peer::{NotDelivered, SessionIdInUse};
use crate::wire::{RpcError, code};

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The agent does not offer what was asked for; nothing was sent.
    #[error("the agent does not offer {0}")]
    NotOffered(String),
    /// The agent answered with an error.
    #[error("{}", .0.message)]
    Refused(RpcError),
    /// The connection ended before the answer.
    #[error("the agent ended before it answered {0}")]
    Ended(String),
}

impl ClientError {
    /// Advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(error) => error.data.as_ref()?.fields().text("hint"),
            Self::NotOffered(_) | Self::Ended(_) => None,
        }
    }

    /// Whether the agent requires a login.
    #[must_use]
    pub fn requires_login(&self) -> bool {
        self.code() == Some(code::AUTH_REQUIRED)
    }

    /// The code of the agent's error.
    #[must_use]
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Refused(error) => Some(error.code),
            Self::NotOffered(_) | Self::Ended(_) => None,
        }
    }
}

impl From<RpcError> for ClientError {
    fn from(error: RpcError) -> Self {
        Self::Refused(error)
    }
}

impl From<SessionIdInUse> for ClientError {
    fn from(error: SessionIdInUse) -> Self {
        Self::Refused(error.into())
    }
}

impl From<NotDelivered> for ClientError {
    fn from(error: NotDelivered) -> Self {
        Self::Refused(RpcError::internal(error.to_string()))
    }
}

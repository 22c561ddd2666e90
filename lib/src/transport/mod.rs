//! How bytes get to a peer and back. Each transport ends in a [`Wire`]; what the bytes mean is not known here.

use std::fmt;

use tokio::io::{AsyncRead, AsyncWrite};

mod blocking;
pub mod memory;
pub mod messages;
mod polled;
pub mod stdio;

/// A byte stream to a peer and one from it.
pub struct Wire {
    /// What the peer says. Its end is the end of the peer.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What is said to the peer. Dropping it is the end for the peer.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Wire {
    /// Puts two streams together.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Wire {
        Wire { reader: Box::new(reader), writer: Box::new(writer) }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

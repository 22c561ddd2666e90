//! Transports: byte streams to and from a peer. Each produces a [`Wire`] and is independent of the protocol.

use std::fmt;

use tokio::io::{AsyncRead, AsyncWrite};

mod blocking;
pub mod local_socket;
pub mod memory;
pub mod messages;
pub(crate) mod pipe_size;
mod polled;
pub mod stdio;

/// A byte stream to a peer and one from it.
pub struct Wire {
    /// The bytes from the peer; ends when the peer does.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// The bytes to the peer; dropping it closes the connection.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Wire {
    /// Combines two streams.
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

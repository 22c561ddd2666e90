//! A transport that carries whole messages, for wires that are not one byte stream: several HTTP streams, or frames of a
//! WebSocket.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::Wire;

/// Messages from a client and to it, each the JSON text of one JSON-RPC message without a line break.
pub struct MessageChannel {
    /// What the client sends. Its end is the end of the client.
    pub incoming: mpsc::Receiver<Bytes>,
    /// What the client is sent, in order. Which stream a message goes to is decided by whoever receives it.
    pub outgoing: mpsc::Sender<Bytes>,
}

/// How a client is connected.
pub enum ClientTransport {
    /// By a byte stream in each direction, one message in each line.
    Bytes(Wire),
    /// By whole messages.
    Messages(MessageChannel),
}

impl<T: Into<Wire>> From<T> for ClientTransport {
    fn from(stream: T) -> Self {
        Self::Bytes(stream.into())
    }
}

impl From<MessageChannel> for ClientTransport {
    fn from(channel: MessageChannel) -> Self {
        Self::Messages(channel)
    }
}

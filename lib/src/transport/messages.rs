//! A transport that carries whole messages, for wires that are not one byte stream: several HTTP streams, or frames of a
//! WebSocket.

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::{Wire, memory};

/// Messages from a client and to it, each the JSON text of one JSON-RPC message without a line break.
pub struct MessageChannel {
    /// What the client sends. Its end is the end of the client.
    pub incoming: mpsc::Receiver<Bytes>,
    /// What the client is sent, in order. Which stream a message goes to is decided by whoever receives it.
    pub outgoing: mpsc::Sender<Bytes>,
}

impl MessageChannel {
    /// Carries the messages as lines. Must be called in a runtime.
    #[must_use]
    pub fn into_wire(self) -> Wire {
        let (here, there) = memory::pair();
        let there = Wire::from(there);
        let (mut incoming, outgoing) = (self.incoming, self.outgoing);
        let mut writer = there.writer;
        tokio::spawn(async move {
            while let Some(message) = incoming.recv().await {
                let line = [&message[..], b"\n"].concat();
                if writer.write_all(&line).await.is_err() || writer.flush().await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            let mut lines = BufReader::new(there.reader).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                if outgoing.send(line.into()).await.is_err() {
                    return;
                }
            }
        });
        here.into()
    }
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

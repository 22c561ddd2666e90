//! Reads from and writes to a client on either transport, byte streams or whole messages.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::transport::messages::ClientTransport;
use crate::wire::{Line, LineReader, Out};

/// How many messages are taken from a channel at once.
const BATCH: usize = 256;

/// Where the messages of a client come from.
pub(super) enum ClientSource {
    Bytes(LineReader<Box<dyn AsyncRead + Send + Unpin>>),
    Messages { incoming: mpsc::Receiver<Bytes>, longest: usize },
}

/// Where the messages for a client go.
pub(super) enum ClientSink {
    Bytes(Box<dyn AsyncWrite + Send + Unpin>),
    Messages(mpsc::Sender<Bytes>),
}

/// Splits a transport into its two halves.
pub(super) fn split(transport: ClientTransport, longest: usize) -> (ClientSource, ClientSink) {
    match transport {
        ClientTransport::Bytes(wire) => {
            (ClientSource::Bytes(LineReader::new(wire.reader, longest)), ClientSink::Bytes(wire.writer))
        }
        ClientTransport::Messages(channel) => (
            ClientSource::Messages { incoming: channel.incoming, longest },
            ClientSink::Messages(channel.outgoing),
        ),
    }
}

impl ClientSource {
    /// The next messages; nothing when the client is gone. Dropping the future loses nothing.
    pub(super) async fn batch(&mut self) -> Option<Vec<Line>> {
        match self {
            Self::Bytes(lines) => lines.batch().await.ok().flatten(),
            Self::Messages { incoming, longest } => {
                let mut messages = Vec::new();
                incoming.recv_many(&mut messages, BATCH).await;
                let line = |message: Bytes| match message.len() > *longest {
                    true => Line::TooLong,
                    false => Line::Text(message),
                };
                (!messages.is_empty()).then(|| messages.into_iter().map(line).collect())
            }
        }
    }
}

impl ClientSink {
    /// Writes everything that was collected, and empties it.
    ///
    /// # Errors
    /// If the client is gone.
    pub(super) async fn write(&mut self, out: &mut Out) -> std::io::Result<()> {
        let lines = out.take();
        match self {
            Self::Bytes(writer) => {
                writer.write_all(&lines).await?;
                writer.flush().await?;
            }
            Self::Messages(outgoing) => {
                for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
                    outgoing.send(Bytes::copy_from_slice(line)).await.map_err(gone)?;
                }
            }
        }
        out.reuse(lines);
        Ok(())
    }
}

//! An in-process byte pipe with a bounded buffer, for agents in this process and for tests.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::Wire;

/// The buffer in each direction, the size of a system pipe.
const BUFFER_BYTES: usize = 64 * 1024;

/// Makes two connected endpoints.
pub fn pair() -> (Endpoint, Endpoint) {
    // Two streams, each used in one direction only, so that dropping just the writer is seen as the end of that
    // direction.
    let (here_out, there_in) = tokio::io::duplex(BUFFER_BYTES);
    let (there_out, here_in) = tokio::io::duplex(BUFFER_BYTES);
    (Endpoint { reader: here_in, writer: here_out }, Endpoint { reader: there_in, writer: there_out })
}

/// One end of a [`pair`].
#[derive(Debug)]
pub struct Endpoint {
    reader: DuplexStream,
    writer: DuplexStream,
}

impl From<Endpoint> for Wire {
    fn from(end: Endpoint) -> Wire {
        Wire::new(end.reader, end.writer)
    }
}

impl AsyncRead for Endpoint {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl AsyncWrite for Endpoint {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn bytes_go_both_ways() {
        let (mut a, mut b) = pair();
        a.write_all(b"to b").await.unwrap();
        b.write_all(b"to a").await.unwrap();
        let mut got = [0; 4];
        b.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"to b");
        a.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"to a");
    }

    #[tokio::test]
    async fn dropping_the_writer_ends_one_direction_only() {
        let (a, b) = pair();
        let (mut a, mut b): (Wire, Wire) = (a.into(), b.into());
        a.writer.write_all(b"last").await.unwrap();
        drop(a.writer);
        let mut heard = String::new();
        b.reader.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "last");
        b.writer.write_all(b"heard").await.unwrap();
        drop(b);
        heard.clear();
        a.reader.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "heard");
    }

    #[tokio::test]
    async fn a_writer_waits_for_a_reader_that_does_not_read() {
        let (mut a, _b) = pair();
        let big = vec![0; BUFFER_BYTES + 1];
        let written = tokio::time::timeout(std::time::Duration::from_millis(20), a.write_all(&big)).await;
        assert!(written.is_err());
    }
}

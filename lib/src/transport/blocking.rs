//! Reads and writes files and terminals, which cannot be polled, on threads. These are plain threads and not the
//! runtime's: a read of a terminal may never return, and the runtime would wait for it when it shuts down.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

const CHUNK_BYTES: usize = 64 * 1024;
const READ_AHEAD_CHUNKS: usize = 2;

/// A reader backed by a thread.
#[derive(Debug)]
pub(super) struct BlockingReader {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    taken: usize,
}

impl BlockingReader {
    /// Starts the reading thread.
    pub(super) fn new(fd: OwnedFd) -> io::Result<BlockingReader> {
        let (send, chunks) = mpsc::channel(READ_AHEAD_CHUNKS);
        let file = File::from(fd);
        std::thread::Builder::new().name("blocking-read".into()).spawn(move || read_all(file, &send))?;
        Ok(BlockingReader { chunks, chunk: Vec::new(), taken: 0 })
    }
}

impl AsyncRead for BlockingReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken == self.chunk.len() {
            match ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => self.chunk = chunk?,
                None => return Poll::Ready(Ok(())),
            }
            self.taken = 0;
        }
        let count = buf.remaining().min(self.chunk.len() - self.taken);
        buf.put_slice(&self.chunk[self.taken..self.taken + count]);
        self.taken += count;
        Poll::Ready(Ok(()))
    }
}

/// A writer backed by a thread, which writes one chunk at a time. A flush waits until everything is written.
#[derive(Debug)]
pub(super) struct BlockingWriter {
    chunks: std::sync::mpsc::Sender<Vec<u8>>,
    results: mpsc::Receiver<io::Result<()>>,
    state: Writing,
}

/// Whether the thread is writing a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Idle,
    Busy,
}

impl BlockingWriter {
    /// Starts the writing thread.
    pub(super) fn new(fd: OwnedFd) -> io::Result<BlockingWriter> {
        let (chunks, written) = std::sync::mpsc::channel();
        let (send, results) = mpsc::channel(1);
        let file = File::from(fd);
        std::thread::Builder::new()
            .name("blocking-write".into())
            .spawn(move || write_all(file, &written, &send))?;
        Ok(BlockingWriter { chunks, results, state: Writing::Idle })
    }
}

impl AsyncWrite for BlockingWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.as_mut().poll_flush(cx))?;
        let count = buf.len().min(CHUNK_BYTES);
        self.chunks.send(buf[..count].to_vec()).map_err(|_gone| io::ErrorKind::BrokenPipe)?;
        self.state = Writing::Busy;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state == Writing::Idle {
            return Poll::Ready(Ok(()));
        }
        let result = ready!(self.results.poll_recv(cx));
        self.state = Writing::Idle;
        Poll::Ready(result.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into())))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// Reads until the end of the file or until the receiver is dropped.
fn read_all(mut file: File, chunks: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let chunk = match file.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => Ok(buffer[..count].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = chunk.is_err();
        if chunks.blocking_send(chunk).is_err() || failed {
            return;
        }
    }
}

/// Writes chunks until the sender is dropped.
fn write_all(
    mut file: File,
    chunks: &std::sync::mpsc::Receiver<Vec<u8>>,
    results: &mpsc::Sender<io::Result<()>>,
) {
    for chunk in chunks {
        if results.blocking_send(file.write_all(&chunk)).is_err() {
            return;
        }
    }
}

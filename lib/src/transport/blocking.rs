//! Files and terminals, which cannot be polled: a plain thread reads or writes each. Plain, not one of the
//! runtime's: a read of a terminal may never return, and the runtime would wait for it at its end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

/// How much is read or written at once.
const CHUNK: usize = 64 * 1024;
/// How many chunks are read ahead.
const AHEAD: usize = 2;

/// What a thread reads.
#[derive(Debug)]
pub(super) struct BlockingReader {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    taken: usize,
}

impl BlockingReader {
    /// Starts to read.
    pub(super) fn new(fd: OwnedFd) -> io::Result<BlockingReader> {
        let (send, chunks) = mpsc::channel(AHEAD);
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

/// What a thread writes, one chunk after the other. Flushed means that the thread has written all.
#[derive(Debug)]
pub(super) struct BlockingWriter {
    chunks: std::sync::mpsc::Sender<Vec<u8>>,
    results: mpsc::Receiver<io::Result<()>>,
    state: Writing,
}

/// Whether the thread has a chunk in hand; it never has more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Idle,
    Busy,
}

impl BlockingWriter {
    /// Starts a thread to write with.
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
        let count = buf.len().min(CHUNK);
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

/// Reads to the end, or until nobody listens.
fn read_all(mut file: File, chunks: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; CHUNK];
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

/// Writes what comes until nobody sends.
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

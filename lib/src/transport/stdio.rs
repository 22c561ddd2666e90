//! Standard input and output as a [`Wire`]. Pipes and sockets are polled, files and terminals use a thread. Replaces
//! descriptors 0 and 1.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Wire;
use super::blocking::{BlockingReader, BlockingWriter};
use super::pipe_size::enlarge;
use super::polled::{PolledFd, SavedFlags};

/// The pipe size for a client, so that the next piece of a replay is written while it reads one.
const CLIENT_PIPE_BYTES: libc::c_int = 256 * 1024;

/// Takes standard input and output for the protocol. Must be called once, inside a tokio runtime.
///
/// Afterwards descriptor 1 is stderr, so that a stray print cannot corrupt the protocol, and descriptor 0 is empty, so
/// that nothing else reads from it. The streams close when they are dropped.
pub fn open() -> io::Result<(StdinReader, StdoutWriter)> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let stderr = io::stderr();
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let stdout_is_stderr = FileIdentity::of(stdout.as_fd())? == FileIdentity::of(stderr.as_fd())?;
    let streams = if stdout_is_stderr {
        // If stdout and stderr are the same file, a non-blocking stderr would make messages fail.
        (StdinReader::from_fd(stdin)?, StdoutWriter::from_fd_blocking(stdout)?)
    } else {
        streams(stdin, stdout)?
    };
    replace(libc::STDIN_FILENO, null.as_fd())?;
    replace(libc::STDOUT_FILENO, if stdout_is_stderr { null.as_fd() } else { stderr.as_fd() })?;
    Ok(streams)
}

/// The bytes from the client.
#[derive(Debug)]
pub struct StdinReader(StdinSource);

/// The bytes to the client.
#[derive(Debug)]
pub struct StdoutWriter(StdoutSink);

impl From<(StdinReader, StdoutWriter)> for Wire {
    fn from((reader, writer): (StdinReader, StdoutWriter)) -> Wire {
        Wire::new(reader, writer)
    }
}

#[derive(Debug)]
enum StdinSource {
    Polled(PolledFd),
    Blocking(BlockingReader),
}

#[derive(Debug)]
enum StdoutSink {
    Polled(PolledFd),
    Blocking(BlockingWriter),
}

impl StdinReader {
    fn from_fd(fd: OwnedFd) -> io::Result<StdinReader> {
        match FileKind::of(fd.as_fd())? {
            FileKind::Pollable => {
                let flags = Arc::new(SavedFlags::non_blocking(&fd)?);
                Ok(StdinReader(StdinSource::Polled(PolledFd::reading(fd, flags)?)))
            }
            FileKind::Other => Ok(StdinReader(StdinSource::Blocking(BlockingReader::new(fd)?))),
        }
    }
}

impl StdoutWriter {
    fn from_fd(fd: OwnedFd) -> io::Result<StdoutWriter> {
        match FileKind::of(fd.as_fd())? {
            FileKind::Pollable => {
                enlarge(&fd, CLIENT_PIPE_BYTES);
                let flags = Arc::new(SavedFlags::non_blocking(&fd)?);
                Ok(StdoutWriter(StdoutSink::Polled(PolledFd::writing(fd, flags)?)))
            }
            FileKind::Other => StdoutWriter::from_fd_blocking(fd),
        }
    }

    fn from_fd_blocking(fd: OwnedFd) -> io::Result<StdoutWriter> {
        Ok(StdoutWriter(StdoutSink::Blocking(BlockingWriter::new(fd)?)))
    }
}

/// Makes both streams. If they are one socket, its flags are restored when both are dropped.
fn streams(stdin: OwnedFd, stdout: OwnedFd) -> io::Result<(StdinReader, StdoutWriter)> {
    let one_socket = FileKind::of(stdin.as_fd())? == FileKind::Pollable
        && FileIdentity::of(stdin.as_fd())? == FileIdentity::of(stdout.as_fd())?;
    if !one_socket {
        return Ok((StdinReader::from_fd(stdin)?, StdoutWriter::from_fd(stdout)?));
    }
    let flags = Arc::new(SavedFlags::non_blocking(&stdin)?);
    let reader = StdinSource::Polled(PolledFd::reading(stdin, Arc::clone(&flags))?);
    let writer = StdoutSink::Polled(PolledFd::writing(stdout, flags)?);
    Ok((StdinReader(reader), StdoutWriter(writer)))
}

/// Whether a file can be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    /// Pipes and sockets.
    Pollable,
    /// Files and devices. A terminal could be polled too, but the shell shares its flags.
    Other,
}

impl FileKind {
    fn of(fd: BorrowedFd<'_>) -> io::Result<FileKind> {
        match stat(fd)?.st_mode & libc::S_IFMT {
            libc::S_IFIFO | libc::S_IFSOCK => Ok(FileKind::Pollable),
            _ => Ok(FileKind::Other),
        }
    }
}

/// Identifies the file of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: libc::dev_t,
    inode: libc::ino_t,
}

impl FileIdentity {
    fn of(fd: BorrowedFd<'_>) -> io::Result<FileIdentity> {
        let stat = stat(fd)?;
        Ok(FileIdentity { device: stat.st_dev, inode: stat.st_ino })
    }
}

fn stat(fd: BorrowedFd<'_>) -> io::Result<libc::stat> {
    // SAFETY: all zeroes is a valid `stat`, and it is valid for the call.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stat)
}

/// Replaces a standard stream. It is not closed, because the next file to be opened would take its number.
fn replace(stream: RawFd, by: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; nothing owns the standard streams.
    if unsafe { libc::dup2(by.as_raw_fd(), stream) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl AsyncRead for StdinReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            StdinSource::Polled(reader) => Pin::new(reader).poll_read(cx, buf),
            StdinSource::Blocking(reader) => Pin::new(reader).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for StdoutWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            StdoutSink::Polled(writer) => Pin::new(writer).poll_write(cx, buf),
            StdoutSink::Blocking(writer) => Pin::new(writer).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            StdoutSink::Polled(writer) => Pin::new(writer).poll_flush(cx),
            StdoutSink::Blocking(writer) => Pin::new(writer).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            StdoutSink::Polled(writer) => Pin::new(writer).poll_shutdown(cx),
            StdoutSink::Blocking(writer) => Pin::new(writer).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn is_non_blocking(fd: impl AsFd) -> bool {
        // SAFETY: a plain call on an open descriptor.
        unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK != 0 }
    }

    #[tokio::test]
    async fn pipes_are_polled_and_their_flags_restored() {
        let (in_read, mut in_write) = io::pipe().unwrap();
        let (mut out_read, out_write) = io::pipe().unwrap();
        let (held_in, held_out) = (in_read.try_clone().unwrap(), out_write.try_clone().unwrap());
        let (mut reader, mut writer) = streams(in_read.into(), out_write.into()).unwrap();
        assert!(is_non_blocking(&held_in) && is_non_blocking(&held_out));

        in_write.write_all(b"hello").unwrap();
        let mut got = [0; 5];
        reader.read_exact(&mut got).await.unwrap();
        writer.write_all(&got).await.unwrap();
        out_read.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");

        drop((reader, writer));
        assert!(!is_non_blocking(&held_in) && !is_non_blocking(&held_out));
    }

    #[tokio::test]
    async fn a_full_pipe_does_not_stop_the_runtime() {
        let (_in_read, in_write) = io::pipe().unwrap();
        let (mut out_read, out_write) = io::pipe().unwrap();
        let (_reader, mut writer) = streams(_in_read.into(), out_write.into()).unwrap();
        let big = vec![b'x'; 1024 * 1024];
        let length = big.len();
        let task = tokio::spawn(async move { writer.write_all(&big).await });
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            out_read.read_to_end(&mut all).map(|_| all.len())
        });
        task.await.unwrap().unwrap();
        assert_eq!(read.await.unwrap().unwrap(), length);
        drop(in_write);
    }

    #[tokio::test]
    async fn a_shared_socket_is_restored_after_both_ends_are_dropped() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let second = ours.try_clone().unwrap();
        let held = ours.try_clone().unwrap();
        let (mut reader, mut writer) = streams(ours.into(), second.into()).unwrap();
        theirs.write_all(b"a").unwrap();
        assert_eq!(reader.read_u8().await.unwrap(), b'a');
        drop(reader);
        assert!(is_non_blocking(&held));
        writer.write_all(b"b").await.unwrap();
        let mut got = [0];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"b");
        drop(writer);
        assert!(!is_non_blocking(&held));
    }

    #[tokio::test]
    async fn files_use_a_thread() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("in"), dir.path().join("out"));
        let content = b"0123456789".repeat(50_000);
        std::fs::write(&from, &content).unwrap();
        let reader = File::open(&from).unwrap();
        let writer = File::create(&to).unwrap();
        let (mut reader, mut writer) = streams(reader.into(), writer.into()).unwrap();
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        writer.shutdown().await.unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), content);
    }
}

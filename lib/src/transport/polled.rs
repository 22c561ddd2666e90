//! Async I/O on inherited pipes and sockets. They are non-blocking while in use; the original flags are restored at the
//! end, because other processes may share the same open file.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// One direction of a pipe or a socket.
#[derive(Debug)]
pub(super) struct PolledFd {
    fd: AsyncFd<OwnedFd>,
    _flags: Arc<SavedFlags>,
}

impl PolledFd {
    /// Takes a descriptor to read from.
    pub(super) fn reading(fd: OwnedFd, flags: Arc<SavedFlags>) -> io::Result<PolledFd> {
        PolledFd::register(fd, flags, Interest::READABLE)
    }

    /// Takes a descriptor to write to.
    pub(super) fn writing(fd: OwnedFd, flags: Arc<SavedFlags>) -> io::Result<PolledFd> {
        PolledFd::register(fd, flags, Interest::WRITABLE)
    }

    fn register(fd: OwnedFd, flags: Arc<SavedFlags>, interest: Interest) -> io::Result<PolledFd> {
        // SAFETY: the descriptor is owned, so it stays open and valid as long as the `AsyncFd` has it.
        let fd = unsafe { AsyncFd::register_with_interest(fd, interest) }?;
        Ok(PolledFd { fd, _flags: flags })
    }
}

/// The original flags of an open file, restored on drop. Shared where two descriptors refer to one open file, as with a
/// socket for both directions.
#[derive(Debug)]
pub(super) struct SavedFlags {
    file: OwnedFd,
    before: libc::c_int,
}

impl SavedFlags {
    /// Makes an open file non-blocking.
    pub(super) fn non_blocking(file: impl AsFd) -> io::Result<SavedFlags> {
        let file = file.as_fd().try_clone_to_owned()?;
        // SAFETY: plain calls on a descriptor that we own.
        let before = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
        if before < 0
            || unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, before | libc::O_NONBLOCK) } < 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(SavedFlags { file, before })
    }
}

impl Drop for SavedFlags {
    fn drop(&mut self) {
        // SAFETY: a plain call on a descriptor that we own. A failure cannot be handled here.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETFL, self.before) };
    }
}

impl AsyncRead for PolledFd {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.fd.poll_read_ready(cx))?;
            let before = buf.filled().len();
            match ready.try_io(|fd| read(fd, buf)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => {
                    // A short read has emptied the pipe: the next event says when to read again.
                    if buf.filled().len() > before && buf.remaining() > 0 {
                        ready.clear_ready();
                    }
                    return Poll::Ready(result);
                }
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for PolledFd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.fd.poll_write_ready(cx))?;
            match ready.try_io(|fd| write(fd, buf)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The end is signalled by dropping: a shutdown would also affect other processes that share the file.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn read(fd: &AsyncFd<OwnedFd>, buf: &mut ReadBuf<'_>) -> io::Result<()> {
    // SAFETY: the kernel only writes to the spare capacity and never makes any of it uninitialised.
    let spare = unsafe { buf.unfilled_mut() };
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { libc::read(fd.as_raw_fd(), spare.as_mut_ptr().cast(), spare.len()) };
    let count = usize::try_from(count).map_err(|_negative| io::Error::last_os_error())?;
    // SAFETY: the kernel has just initialised that many bytes.
    unsafe { buf.assume_init(count) };
    buf.advance(count);
    Ok(())
}

fn write(fd: &AsyncFd<OwnedFd>, buf: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { libc::write(fd.as_raw_fd(), buf.as_ptr().cast(), buf.len()) };
    usize::try_from(count).map_err(|_negative| io::Error::last_os_error())
}

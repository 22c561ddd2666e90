//! Carries the bytes between standard input and output and a server, unread. Two threads that block: nothing else wakes up
//! between the editor's write and the server's read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// More than a pipe holds.
const BUFFER_BYTES: usize = 128 * 1024;

/// How one direction ended.
enum Ended {
    /// There was no more to read.
    Reading,
    /// Nobody reads what is written.
    Writing,
}

/// Carries bytes until the client on standard input and output ends, or the server does.
pub(crate) fn run(mut from_server: UnixStream) -> Result<(), Failure> {
    let mut to_server = from_server.try_clone()?;
    let (mut input, mut output) = (file(&io::stdin())?, file(&io::stdout())?);
    let client_ended = Arc::new(AtomicBool::new(false));
    let ended = client_ended.clone();
    std::thread::Builder::new().name("input".into()).spawn(move || {
        if let Ended::Reading = carry(&mut input, &mut to_server) {
            ended.store(true, Ordering::Release);
            // The server still has answers for a client that has said everything.
            let _ = to_server.shutdown(Shutdown::Write);
        }
    })?;
    match carry(&mut from_server, &mut output) {
        Ended::Reading if !client_ended.load(Ordering::Acquire) => {
            Err(Failure::plain("the server has ended; the sessions are kept"))
        }
        // A client that reads no more has ended, too.
        Ended::Reading | Ended::Writing => Ok(()),
    }
}

/// Without the buffer that the standard library puts before it.
fn file(stream: &impl AsFd) -> io::Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

fn carry(from: &mut (impl Read + AsRawFd), to: &mut (impl Write + AsRawFd)) -> Ended {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ended::Reading,
            Ok(count) => count,
            Err(error) if is_temporary(&error, from, libc::POLLIN) => continue,
            Err(_) => return Ended::Reading,
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if is_temporary(&error, to, libc::POLLOUT) => {}
                Err(_) => return Ended::Writing,
            }
        }
    }
}

/// Says whether to try again. Whoever started this process may have made its streams non-blocking; then this waits.
fn is_temporary(error: &io::Error, stream: &impl AsRawFd, events: libc::c_short) -> bool {
    if error.kind() == io::ErrorKind::WouldBlock {
        let mut poll = libc::pollfd { fd: stream.as_raw_fd(), events, revents: 0 };
        // SAFETY: the struct is valid for the call.
        unsafe { libc::poll(&raw mut poll, 1, -1) };
    }
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

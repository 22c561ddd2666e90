//! Signal handling of a guardian: ignored signals, notification of exited children, and the signal state that an agent
//! starts with.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// The descriptor that the signal handler writes to. Set once, before the handler is installed, and never closed.
static NOTICE: AtomicI32 = AtomicI32::new(-1);

/// Ignores all signals that ask a process to end or stop: only the control pipe ends a guardian.
pub(super) fn ignore_requests_to_end() -> io::Result<()> {
    for signal in [
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ] {
        set_action(signal, libc::SIG_IGN)?;
    }
    Ok(())
}

/// Returns a non-blocking file that becomes readable whenever a child has exited.
pub(super) fn notice_children() -> io::Result<File> {
    let (read, write) = io::pipe()?;
    let (read, write) = (OwnedFd::from(read), OwnedFd::from(write));
    for end in [&read, &write] {
        // SAFETY: an open descriptor that we own; a fresh pipe has no other status flags to keep.
        if unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    NOTICE.store(write.into_raw_fd(), Ordering::SeqCst);
    let handler: extern "C" fn(libc::c_int) = note_child;
    set_action(libc::SIGCHLD, handler as libc::sighandler_t)?;
    unblock_all();
    Ok(File::from(read))
}

/// Restores the default signal handling in a new process. Async-signal-safe.
pub(super) fn restore_defaults() {
    for signal in 1..=64 {
        // SAFETY: plain calls; those for SIGKILL, SIGSTOP and unknown numbers are refused and change nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_all();
}

/// The signal handler: writes a byte to the pipe. If the pipe is full, it is readable already.
extern "C" fn note_child(_signal: libc::c_int) {
    // SAFETY: writing one byte from a constant is async-signal-safe, and so is saving errno around it.
    unsafe {
        let errno = errno_location();
        let saved = *errno;
        libc::write(NOTICE.load(Ordering::SeqCst), c"c".as_ptr().cast(), 1);
        *errno = saved;
    }
}

fn set_action(signal: libc::c_int, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all zeroes is a valid sigaction, and each field that matters is set below.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action;
    new.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
    // SAFETY: `new` is valid for both calls; the old action is not requested.
    let set = unsafe {
        libc::sigemptyset(&mut new.sa_mask);
        libc::sigaction(signal, &new, std::ptr::null_mut())
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A parent may have started us with blocked signals, SIGCHLD among them.
fn unblock_all() {
    // SAFETY: the first call initialises the set before the second reads it.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

#[cfg(target_os = "linux")]
unsafe fn errno_location() -> *mut libc::c_int {
    // SAFETY: always valid for the calling thread.
    unsafe { libc::__errno_location() }
}

#[cfg(not(target_os = "linux"))]
unsafe fn errno_location() -> *mut libc::c_int {
    // SAFETY: always valid for the calling thread.
    unsafe { libc::__error() }
}

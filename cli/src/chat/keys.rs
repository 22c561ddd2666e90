//! The keyboard outside of the input line: typed characters are not shown and wait for the next prompt, except when a
//! question is answered by one key. Ctrl-C stays a signal.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const STDIN: RawFd = libc::STDIN_FILENO;

/// Keeps typed characters from being shown. Dropping it restores the terminal.
pub(crate) struct QuietKeyboard {
    before: Option<libc::termios>,
}

impl QuietKeyboard {
    /// Changes the mode of the terminal on stdin, if it is one.
    pub(crate) fn begin() -> Self {
        let before = mode();
        if let Some(before) = before {
            let mut quiet = before;
            quiet.c_lflag &= !(libc::ICANON | libc::ECHO);
            quiet.c_lflag |= libc::ISIG;
            // Enter stays Enter, as the input line reads it.
            quiet.c_iflag &= !libc::ICRNL;
            quiet.c_cc[libc::VMIN] = 1;
            quiet.c_cc[libc::VTIME] = 0;
            set_mode(&quiet);
        }
        Self { before }
    }
}

impl Drop for QuietKeyboard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            set_mode(before);
        }
    }
}

/// Shows typed characters and passes whole lines, as other programs expect it. Dropping it restores the mode before.
pub(crate) struct UsualKeyboard {
    before: Option<libc::termios>,
}

impl UsualKeyboard {
    /// Changes the mode of the terminal on stdin, if it is one.
    pub(crate) fn begin() -> Self {
        let before = mode();
        if let Some(before) = before {
            let mut usual = before;
            usual.c_lflag |= libc::ICANON | libc::ECHO | libc::ISIG;
            usual.c_iflag |= libc::ICRNL;
            set_mode(&usual);
        }
        Self { before }
    }
}

impl Drop for UsualKeyboard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            set_mode(before);
        }
    }
}

/// Forgets what was typed, so that it does not answer a question that the user has not seen.
pub(crate) fn forget_typed() {
    // SAFETY: a plain call on a descriptor that may also be closed.
    unsafe { libc::tcflush(STDIN, libc::TCIFLUSH) };
}

/// Reads keys, one at a time.
pub(crate) struct Keyboard {
    stdin: AsyncFd<StdinFd>,
    /// Keys that were read together with others.
    read: VecDeque<char>,
}

struct StdinFd;

impl AsRawFd for StdinFd {
    fn as_raw_fd(&self) -> RawFd {
        STDIN
    }
}

impl Keyboard {
    /// Listens to stdin. Must be called in a runtime.
    pub(crate) fn open() -> io::Result<Self> {
        // SAFETY: the descriptor of stdin stays the same and open as long as the process runs.
        let stdin = unsafe { AsyncFd::register_with_interest(StdinFd, Interest::READABLE) };
        Ok(Self { stdin: stdin.map_err(io::Error::from)?, read: VecDeque::new() })
    }

    /// Waits for a key.
    pub(crate) async fn key(&mut self) -> io::Result<char> {
        loop {
            if let Some(key) = self.read.pop_front() {
                return Ok(key);
            }
            let mut ready = self.stdin.readable().await?;
            let Ok(read) = ready.try_io(|_| read_available()) else { continue };
            match read? {
                bytes if bytes.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.read.extend(keys(&bytes)),
            }
        }
    }
}

/// The keys that these bytes are. Sequences such as those of arrow keys are left out; a lone escape is a key.
fn keys(bytes: &[u8]) -> Vec<char> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (0x1b, [b'[' | b'O', sequence @ ..]) => {
                let end = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
                end.map_or(&[][..], |end| &sequence[end + 1..])
            }
            (0x1b, [_, after @ ..]) => after,
            (byte, after) => {
                keys.push(char::from(*byte).to_ascii_lowercase());
                after
            }
        };
    }
    keys
}

/// Reads what was typed by now.
fn read_available() -> io::Result<Vec<u8>> {
    let mut poll = libc::pollfd { fd: STDIN, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, and the struct is valid for the call.
    match unsafe { libc::poll(&raw mut poll, 1, 0) } {
        0 => return Err(io::ErrorKind::WouldBlock.into()),
        ready if ready < 0 => return Err(io::Error::last_os_error()),
        _ => {}
    }
    let mut bytes = [0_u8; 32];
    // SAFETY: the buffer is as long as the call is told.
    let read = unsafe { libc::read(STDIN, bytes.as_mut_ptr().cast(), bytes.len()) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    Ok(bytes[..read].to_vec())
}

fn mode() -> Option<libc::termios> {
    let mut mode = MaybeUninit::uninit();
    // SAFETY: the struct is written if the call succeeds, and only then read.
    unsafe { (libc::tcgetattr(STDIN, mode.as_mut_ptr()) == 0).then(|| mode.assume_init()) }
}

fn set_mode(mode: &libc::termios) {
    // SAFETY: the struct is valid for the call. Typed characters are kept.
    unsafe { libc::tcsetattr(STDIN, libc::TCSANOW, mode) };
}

#[cfg(test)]
mod tests {
    use super::keys;

    #[test]
    fn sequences_are_no_keys() {
        assert_eq!(keys(b"\r\x1b[AxY\x1b[1;5Cn\x1bOP\x1b"), ['\r', 'x', 'y', 'n', '\u{1b}']);
        assert!(keys(b"\x1by").is_empty(), "Alt-Y is not Y");
        assert!(keys(b"\x1b[12").is_empty());
    }
}

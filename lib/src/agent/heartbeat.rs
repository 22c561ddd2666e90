//! Signs of life for guardians, on their control pipes, for a store whose leases expire: each says until when the agent may
//! run. One thread for all guardians of the process. A host that is stopped sends none, and its agents end in time.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use rethread_core::lease::BootMillis;

use crate::host_deadline::HostDeadline;
use crate::lock::locked;

/// The first byte of a sign of life. Digits follow, and a line end.
pub(super) const BEAT: u8 = b'h';

/// How often signs of life are sent.
const INTERVAL: Duration = Duration::from_secs(1);

type Pipes = Arc<Mutex<Vec<(Weak<File>, HostDeadline)>>>;

/// Sends signs of life on a control pipe from now on, until it is closed. The first is sent before this returns, so that a
/// guardian that is started now has one.
pub(crate) fn send(control: &Arc<File>, deadline: &HostDeadline) -> io::Result<()> {
    static PIPES: OnceLock<Pipes> = OnceLock::new();
    never_block(control)?;
    if let Some(limit) = deadline.first_beat() {
        write(control, limit)?;
    }
    let mut failed = None;
    let pipes = PIPES.get_or_init(|| {
        let pipes = Pipes::default();
        let shared = pipes.clone();
        let started = std::thread::Builder::new().name("heartbeats".to_owned()).spawn(move || run(&shared));
        failed = started.err();
        pipes
    });
    locked(pipes).push((Arc::downgrade(control), deadline.clone()));
    failed.map_or(Ok(()), Err)
}

fn run(pipes: &Pipes) {
    loop {
        std::thread::sleep(INTERVAL);
        locked(pipes).retain(|(control, deadline)| {
            let Some(control) = control.upgrade() else { return false };
            // A guardian that does not read has its last one.
            if let Some(limit) = deadline.beat() {
                let _ = write(&control, limit);
            }
            true
        });
    }
}

fn write(mut control: &File, limit: BootMillis) -> io::Result<()> {
    control.write_all(format!("{}{}\n", char::from(BEAT), limit.0).as_bytes())
}

fn never_block(control: &File) -> io::Result<()> {
    // SAFETY: plain calls on an open descriptor.
    let set = unsafe {
        let flags = libc::fcntl(control.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(control.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads signs of life byte by byte, since a pipe may cut them.
#[derive(Debug, Default)]
pub(super) struct BeatReader {
    /// The digits so far, inside of one.
    number: Option<u64>,
}

impl BeatReader {
    /// Reads one byte. Returns whether it belongs to a sign of life, and the limit when one is complete.
    pub(super) fn read(&mut self, byte: u8) -> (BeatByte, Option<BootMillis>) {
        match (byte, self.number) {
            (BEAT, _) => self.number = Some(0),
            (b'0'..=b'9', Some(number)) => {
                let digit = u64::from(byte - b'0');
                self.number = Some(number.saturating_mul(10).saturating_add(digit));
            }
            (b'\n', Some(number)) => {
                self.number = None;
                return (BeatByte::Beat, Some(BootMillis(number)));
            }
            _ => return (BeatByte::Command, None),
        }
        (BeatByte::Beat, None)
    }
}

/// What a byte on a control pipe belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeatByte {
    /// A sign of life.
    Beat,
    /// A command.
    Command,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_may_come_in_pieces_between_commands() {
        let mut reader = BeatReader::default();
        let (mut limits, mut commands) = (Vec::new(), String::new());
        for byte in b"h12\ntkh99999\nh7h8\nq" {
            let (belongs, limit) = reader.read(*byte);
            limits.extend(limit);
            if belongs == BeatByte::Command {
                commands.push(char::from(*byte));
            }
        }
        assert_eq!((limits, commands.as_str()), ([12, 99999, 8].map(BootMillis).to_vec(), "tkq"));
    }
}

//! A command under a guardian, which tracks all its descendants, including those in other sessions. This is our end of
//! the guardian's pipes; the guardian itself is in `agent`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::GuardianCommand;
use super::exit::CommandExit;
use super::group::{Leftover, POLL_INTERVAL, ProgramArgs};
use crate::agent::guardian::{END, KILL, STAY, TERMINATE};
use crate::agent::heartbeat;
use crate::agent::process::{END_LIMIT, kill_group};
use crate::agent::status::StatusLine;

/// How long a guardian may take to start its program, long enough for a very busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A command under a guardian. Dropping it makes the guardian end the tree.
pub(crate) struct Guarded {
    guardian: Child,
    /// The only write end: the guardian ends the tree when it is closed.
    control: Arc<File>,
    status: Receiver,
    /// Status output of the guardian without a newline yet.
    unread: Vec<u8>,
    leader: i32,
    exit: Option<CommandExit>,
    leftover: Leftover,
}

/// Why a command does not run under a guardian.
pub(super) enum NotGuarded {
    /// The guardian cannot run.
    NoGuardian,
    /// The guardian runs, but the program did not start.
    NotStarted(io::Error),
}

impl From<io::Error> for NotGuarded {
    fn from(_: io::Error) -> Self {
        Self::NoGuardian
    }
}

/// A guardian that is starting its program.
pub(super) struct StartingGuardian {
    guardian: Child,
    control: Arc<File>,
    status: Receiver,
}

impl StartingGuardian {
    /// Starts a guardian without waiting for its program.
    pub(super) fn begin(
        guardian: &GuardianCommand,
        words: ProgramArgs<'_>,
        configure: impl Fn(&mut Command) -> io::Result<()>,
    ) -> Result<Self, NotGuarded> {
        let (their_control, control) = io::pipe()?;
        let (status, their_status) = io::pipe()?;
        let control = Arc::new(File::from(OwnedFd::from(control)));
        if let Some(deadline) = &guardian.deadline {
            heartbeat::send(&control, deadline)?;
        }
        let mut command = guardian.with_pipes(&[STAY], &their_control, &their_status);
        command.arg(words.program).args(words.args);
        configure(&mut command)?;
        let guardian = command.spawn()?;
        // Our copies of its pipe ends are dropped, so that each side sees the other's end.
        drop((command, their_control, their_status));
        Ok(Self { guardian, control, status: Receiver::from_owned_fd(status.into())? })
    }

    /// Waits until the program has started or failed, up to the limit.
    pub(super) async fn started(mut self) -> Result<Guarded, NotGuarded> {
        let first = tokio::time::timeout(START_LIMIT, first_line(&mut self.status)).await;
        let failed = match first {
            Ok(Some(StatusLine::Started(leader))) => {
                let Self { guardian, control, status } = self;
                let (unread, leftover) = (Vec::new(), Leftover::None);
                return Ok(Guarded { guardian, control, status, unread, leader, exit: None, leftover });
            }
            Ok(Some(StatusLine::Failed(errno))) => {
                NotGuarded::NotStarted(io::Error::from_raw_os_error(errno))
            }
            Ok(Some(StatusLine::Exited(_) | StatusLine::Killed(_) | StatusLine::Left(_)) | None) => {
                NotGuarded::NoGuardian
            }
            // The program may be running: it must not be started a second time.
            Err(_) => NotGuarded::NotStarted(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the guardian process did not answer within {} s", START_LIMIT.as_secs()),
            )),
        };
        // The program, if there is one, dies with its guardian.
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        Err(failed)
    }
}

impl Guarded {
    #[cfg(test)]
    pub(super) fn number(&self) -> u32 {
        self.leader.unsigned_abs()
    }

    pub(super) fn ask_to_end(&mut self) {
        self.send(TERMINATE);
    }

    pub(super) fn kill(&mut self) {
        self.send(KILL);
    }

    pub(super) fn exited(&mut self) -> Option<CommandExit> {
        let mut bytes = [0; 256];
        while self.exit.is_none() {
            match self.status.try_read(&mut bytes) {
                Ok(read) if read > 0 => self.handle_status(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The command has ended with its guardian.
                Ok(_) | Err(_) => {
                    kill_group(self.leader);
                    self.exit = Some(CommandExit::of(ExitStatus::from_raw(libc::SIGKILL)));
                }
            }
        }
        self.exit
    }

    pub(super) async fn changed(&mut self) {
        // The error appears again on the next read.
        let _ = self.status.readable().await;
    }

    pub(super) async fn clear(mut self) -> Leftover {
        self.send(END);
        let give_up = Instant::now() + END_LIMIT;
        while let Ok(None) = self.guardian.try_wait() {
            if Instant::now() >= give_up {
                self.give_up();
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.remaining_status()
    }

    /// The guardian hangs, or something in the tree cannot be killed. The command dies with its guardian.
    fn give_up(&mut self) {
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        kill_group(self.leader);
    }

    fn remaining_status(self) -> Leftover {
        let Self { status, mut leftover, unread, .. } = self;
        let mut status_text = unread;
        if let Ok(mut status) = status.into_nonblocking_fd().map(File::from) {
            // The pipe contains everything that the guardian has written.
            let _ = status.read_to_end(&mut status_text);
        }
        if lines(&mut status_text).into_iter().any(|line| matches!(line, StatusLine::Left(_))) {
            leftover = Leftover::Processes;
        }
        leftover
    }

    fn send(&mut self, byte: u8) {
        // If this fails, the guardian is ending already.
        let _ = (&*self.control).write_all(&[byte]);
    }

    fn handle_status(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        for line in lines(&mut self.unread) {
            match line {
                StatusLine::Exited(code) => {
                    self.exit = Some(CommandExit::of(ExitStatus::from_raw((code & 0xff) << 8)));
                }
                StatusLine::Killed(signal) => {
                    self.exit = Some(CommandExit::of(ExitStatus::from_raw(signal & 0x7f)))
                }
                StatusLine::Left(_) => self.leftover = Leftover::Processes,
                StatusLine::Started(_) | StatusLine::Failed(_) => {}
            }
        }
    }
}

/// Reads the first line, which arrives when the program has started or failed. Nothing after it is read.
async fn first_line(status: &mut Receiver) -> Option<StatusLine> {
    let mut line = Vec::new();
    loop {
        match status.read_u8().await.ok()? {
            b'\n' => return StatusLine::parse(std::str::from_utf8(&line).ok()?),
            byte => line.push(byte),
        }
    }
}

/// Takes the complete lines.
fn lines(status_text: &mut Vec<u8>) -> Vec<StatusLine> {
    let whole = status_text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text: Vec<u8> = status_text.drain(..whole).collect();
    String::from_utf8_lossy(&text).lines().filter_map(StatusLine::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silent_guardian_does_not_block_the_thread() {
        // It starts and never reports that the program runs.
        let guardian = GuardianCommand {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), "sleep 30".into()],
            deadline: None,
        };
        let words = ProgramArgs { program: "true", args: &[] };
        let Ok(starting) = StartingGuardian::begin(&guardian, words, |_| Ok(())) else {
            panic!("the guardian starts")
        };
        let pid = starting.guardian.id();
        let waited = tokio::time::timeout(Duration::from_millis(100), starting.started()).await;
        assert!(waited.is_err(), "others have their turn meanwhile");
        // SAFETY: a plain call, for a process that this test started.
        unsafe { libc::kill(-pid.cast_signed(), libc::SIGKILL) };
    }
}

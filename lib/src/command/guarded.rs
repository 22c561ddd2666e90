//! A command below a guardian, which keeps all that descends from it together: what leaves the group for a session
//! of its own is found as well. The guardian itself is in `agent`; here is what it is told and what it says.

use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::GuardianCommand;
use super::exit::Exit;
use super::group::{Leftover, ROUND, Words};
use crate::agent::guardian::{ASK, END, KILL, STAY};
use crate::agent::process::{END_LIMIT, sweep_group};
use crate::agent::status::StatusLine;

/// How long a guardian may take to start its program. Long enough for a machine that is very busy.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A command below a guardian. Dropping it lets the guardian end the tree.
pub(super) struct Guarded {
    guardian: Child,
    /// The only write end: the guardian ends the tree when it is closed.
    tie: PipeWriter,
    status: Receiver,
    /// What the guardian has said and no line feed has ended yet.
    unread: Vec<u8>,
    leader: i32,
    exit: Option<Exit>,
    leftover: Leftover,
}

/// Why nothing runs below a guardian.
pub(super) enum NotGuarded {
    /// There is no guardian to be had.
    NoGuardian,
    /// There is one, and the program does not start.
    NotStarted(io::Error),
}

impl From<io::Error> for NotGuarded {
    fn from(_: io::Error) -> Self {
        Self::NoGuardian
    }
}

/// A guardian that is starting its program.
pub(super) struct Starting {
    guardian: Child,
    tie: PipeWriter,
    status: Receiver,
}

impl Starting {
    /// Starts a guardian. Does not wait for the program below it.
    pub(super) fn begin(
        guardian: &GuardianCommand,
        words: Words<'_>,
        dress: impl Fn(&mut Command) -> io::Result<()>,
    ) -> Result<Self, NotGuarded> {
        let (their_tie, tie) = io::pipe()?;
        let (status, their_status) = io::pipe()?;
        let mut command = guardian.holding(&[STAY], &their_tie, &their_status);
        command.arg(words.program).args(words.args);
        dress(&mut command)?;
        let guardian = command.spawn()?;
        // Our copies of its ends go: its end must be seen here, and ours there.
        drop((command, their_tie, their_status));
        Ok(Self { guardian, tie, status: Receiver::from_owned_fd(status.into())? })
    }

    /// Waits until the program runs or does not, but not longer than the limit.
    pub(super) async fn started(mut self) -> Result<Guarded, NotGuarded> {
        let first = tokio::time::timeout(START_LIMIT, first_line(&mut self.status)).await;
        let failed = match first {
            Ok(Some(StatusLine::Started(leader))) => {
                let Self { guardian, tie, status } = self;
                let (unread, leftover) = (Vec::new(), Leftover::Nobody);
                return Ok(Guarded { guardian, tie, status, unread, leader, exit: None, leftover });
            }
            Ok(Some(StatusLine::Failed(errno))) => {
                NotGuarded::NotStarted(io::Error::from_raw_os_error(errno))
            }
            Ok(Some(StatusLine::Exited(_) | StatusLine::Killed(_) | StatusLine::Left(_)) | None) => {
                NotGuarded::NoGuardian
            }
            // The program may run by now: it must not be started a second time.
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
        self.tell(ASK);
    }

    pub(super) fn kill(&mut self) {
        self.tell(KILL);
    }

    pub(super) fn exited(&mut self) -> Option<Exit> {
        let mut bytes = [0; 256];
        while self.exit.is_none() {
            match self.status.try_read(&mut bytes) {
                Ok(read) if read > 0 => self.hear(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The command has gone with its guardian.
                Ok(_) | Err(_) => {
                    sweep_group(self.leader);
                    self.exit = Some(Exit::of(ExitStatus::from_raw(libc::SIGKILL)));
                }
            }
        }
        self.exit
    }

    pub(super) async fn stirred(&mut self) {
        // An error is found again by whoever looks.
        let _ = self.status.readable().await;
    }

    pub(super) async fn clear(mut self) -> Leftover {
        self.tell(END);
        let give_up = Instant::now() + END_LIMIT;
        while let Ok(None) = self.guardian.try_wait() {
            if Instant::now() >= give_up {
                self.give_up();
                break;
            }
            tokio::time::sleep(ROUND).await;
        }
        self.last_words()
    }

    /// The guardian hangs, or something in the tree cannot be killed. The command dies with its guardian.
    fn give_up(&mut self) {
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        sweep_group(self.leader);
    }

    fn last_words(self) -> Leftover {
        let Self { status, mut leftover, unread, .. } = self;
        let mut said = unread;
        if let Ok(mut status) = status.into_nonblocking_fd().map(File::from) {
            // What a guardian that is gone has said is all there; one that is not leaves nothing to wait for.
            let _ = status.read_to_end(&mut said);
        }
        if lines(&mut said).into_iter().any(|line| matches!(line, StatusLine::Left(_))) {
            leftover = Leftover::Somebody;
        }
        leftover
    }

    fn tell(&mut self, byte: u8) {
        // A guardian that does not hear this any more is at its end already.
        let _ = self.tie.write_all(&[byte]);
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        for line in lines(&mut self.unread) {
            match line {
                StatusLine::Exited(code) => {
                    self.exit = Some(Exit::of(ExitStatus::from_raw((code & 0xff) << 8)));
                }
                StatusLine::Killed(signal) => self.exit = Some(Exit::of(ExitStatus::from_raw(signal & 0x7f))),
                StatusLine::Left(_) => self.leftover = Leftover::Somebody,
                StatusLine::Started(_) | StatusLine::Failed(_) => {}
            }
        }
    }
}

/// The first line: it comes as soon as the program runs or does not. Nothing behind it is read.
async fn first_line(status: &mut Receiver) -> Option<StatusLine> {
    let mut line = Vec::new();
    loop {
        match status.read_u8().await.ok()? {
            b'\n' => return StatusLine::parse(std::str::from_utf8(&line).ok()?),
            byte => line.push(byte),
        }
    }
}

/// Takes the whole lines out of what was said.
fn lines(said: &mut Vec<u8>) -> Vec<StatusLine> {
    let whole = said.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text: Vec<u8> = said.drain(..whole).collect();
    String::from_utf8_lossy(&text).lines().filter_map(StatusLine::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_guardian_that_says_nothing_does_not_stop_the_thread() {
        // It starts, and never says that the program runs.
        let guardian =
            GuardianCommand { program: "/bin/sh".into(), args: vec!["-c".into(), "sleep 30".into()] };
        let words = Words { program: "true", args: &[] };
        let Ok(starting) = Starting::begin(&guardian, words, |_| Ok(())) else {
            panic!("the guardian starts")
        };
        let pid = starting.guardian.id();
        let waited = tokio::time::timeout(Duration::from_millis(100), starting.started()).await;
        assert!(waited.is_err(), "others have their turn meanwhile");
        // SAFETY: a plain call, for a process that this test has started.
        unsafe { libc::kill(-pid.cast_signed(), libc::SIGKILL) };
    }
}

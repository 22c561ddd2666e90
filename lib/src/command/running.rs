//! A command that runs: what it writes and how it ends, one thing after the other, and its end when it is asked
//! for. Keeps nothing of it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::group::{Group, Leftover, ROUND, TERM_WAIT};
use super::{Exit, Launch, start};

/// How long the last output is waited for after the command's end: something it left running may hold the pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(100);
/// Why there always is a group.
const TAKEN: &str = "it is taken out by what takes all";
/// How much is read at once.
const READ: usize = 64 * 1024;

/// What [`Running::next`] reports.
#[derive(Debug)]
pub enum Heard<'a> {
    /// Output of the command, or of a process that it left running.
    Output(&'a [u8]),
    /// The command has ended. Reported once.
    Exited(Exit),
}

/// A running command with its output. Dropping it ends the command and everything that it started.
pub struct Running {
    /// `None` only while it is taken out to be ended.
    group: Option<Group>,
    /// `None` when nobody can write any more.
    pipe: Option<Receiver>,
    buffer: Vec<u8>,
    phase: Phase,
    /// When the group is killed next, once its end was asked for.
    kill_at: Option<Instant>,
}

/// How far a command is.
#[derive(Clone, Copy)]
enum Phase {
    Runs,
    /// It has ended, and its last words are waited for until then.
    Ended(Exit, Instant),
    /// Its end was told.
    Told,
}

/// What a wait ended with.
enum Woken {
    Look,
    Read(usize),
    Kill,
    Enough,
}

impl Running {
    /// Starts a command in an open directory. It gets no input; stdout and stderr share one pipe, so that their order is
    /// kept.
    ///
    /// # Errors
    /// If the program does not exist or cannot be started.
    pub async fn start(launch: &Launch, directory: &OwnedFd) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let pipe = Some(Receiver::from_owned_fd(reader.into())?);
        let group = Some(start(launch, directory, &writer).await?);
        Ok(Self { group, pipe, buffer: vec![0; READ], phase: Phase::Runs, kill_at: None })
    }

    /// The number of its process group.
    #[cfg(test)]
    pub(crate) fn number(&self) -> u32 {
        self.group.as_ref().expect(TAKEN).number()
    }

    /// Sends SIGTERM to everything that the command started. What has not ended 400 ms later is killed by
    /// [`next`](Self::next), so keep calling it.
    pub fn end(&mut self) {
        if self.kill_at.is_none() {
            self.group().ask_to_end();
            self.kill_at = Some(Instant::now() + TERM_WAIT);
        }
    }

    /// Waits for output or for the exit of the command. After the exit it goes on to report the output of processes that
    /// the command left running, and waits forever if there are none.
    ///
    /// Cancel safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Heard<'_> {
        loop {
            if let (Phase::Runs, Some(exit)) = (self.phase, self.group().exited()) {
                self.phase = Phase::Ended(exit, Instant::now() + LAST_OUTPUT);
            }
            match self.wait().await {
                Woken::Look => {}
                Woken::Read(read) => return Heard::Output(&self.buffer[..read]),
                Woken::Kill => self.kill(),
                Woken::Enough => {
                    if let Phase::Ended(exit, _) = self.phase {
                        self.phase = Phase::Told;
                        return Heard::Exited(exit);
                    }
                }
            }
        }
    }

    /// Ends all remaining processes, first with SIGTERM, then with SIGKILL, and reports whether the command left any.
    pub async fn clear(mut self) -> Leftover {
        match self.group.take() {
            Some(group) => group.clear().await,
            None => Leftover::Nobody,
        }
    }

    async fn wait(&mut self) -> Woken {
        let (runs, silent) = (matches!(self.phase, Phase::Runs), self.pipe.is_none());
        let enough = match self.phase {
            Phase::Ended(..) if silent => return Woken::Enough,
            Phase::Ended(_, until) => Some(until),
            Phase::Runs | Phase::Told => None,
        };
        let kill_at = self.kill_at.filter(|_| runs);
        let group = self.group.as_mut().expect(TAKEN);
        tokio::select! {
            () = group.stirred(), if runs => Woken::Look,
            read = read(&mut self.pipe, &mut self.buffer) => match read {
                0 => Woken::Look,
                read => Woken::Read(read),
            },
            () = at(kill_at) => Woken::Kill,
            () = at(enough) => Woken::Enough,
        }
    }

    fn kill(&mut self) {
        self.group().kill();
        self.kill_at = Some(Instant::now() + ROUND);
    }

    fn group(&mut self) -> &mut Group {
        self.group.as_mut().expect(TAKEN)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut group) = self.group.take() else { return };
        group.ask_to_end();
        // Without a runtime its guardian or its watcher kills it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(group.clear());
        }
    }
}

/// Reads some bytes; nothing means the end, and after it this waits for ever.
async fn read(pipe: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    let Some(reader) = pipe else { return std::future::pending().await };
    match reader.read(buffer).await {
        Ok(0) | Err(_) => {
            *pipe = None;
            0
        }
        Ok(read) => read,
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

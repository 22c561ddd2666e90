//! A running command: a stream of its output and its exit, and a way to end it. Stores no output.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::group::{Group, Leftover, POLL_INTERVAL, TERM_WAIT};
use super::{CommandExit, CommandSpec, start};

/// How long to wait for the last output after the exit, since a remaining process may hold the pipe open.
const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(100);
const GROUP_PRESENT: &str = "the group is only taken by methods that consume the command";
const READ_BYTES: usize = 64 * 1024;

/// An event of a command.
#[derive(Debug)]
pub enum CommandEvent<'a> {
    /// Output of the command or of a process that it left running.
    Output(&'a [u8]),
    /// The command has exited. Reported once.
    Exited(CommandExit),
}

/// A command and everything it has started. Dropping it ends them.
pub struct RunningCommand {
    /// `None` only while it is taken to be ended.
    group: Option<Group>,
    /// `None` once the output has ended.
    pipe: Option<Receiver>,
    buffer: Vec<u8>,
    phase: RunPhase,
    /// When the group is killed next, after its end was requested.
    kill_at: Option<Instant>,
}

/// The progress of a command.
#[derive(Clone, Copy)]
enum RunPhase {
    Runs,
    /// It has exited, and its last output is awaited until the given time.
    Ended(CommandExit, Instant),
    /// The exit was reported.
    Reported,
}

/// Why a wait ended.
enum WakeReason {
    Look,
    Read(usize),
    Kill,
    Enough,
}

impl RunningCommand {
    /// Starts a command in this directory.
    pub async fn start(launch: &CommandSpec, directory: &OwnedFd) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let pipe = Some(Receiver::from_owned_fd(reader.into())?);
        let group = Some(start(launch, directory, &writer).await?);
        Ok(Self { group, pipe, buffer: vec![0; READ_BYTES], phase: RunPhase::Runs, kill_at: None })
    }

    /// The process group id.
    #[cfg(test)]
    pub(crate) fn number(&self) -> u32 {
        self.group.as_ref().expect(GROUP_PRESENT).number()
    }

    /// Requests the end of everything in the group. What does not end is killed while `next` is polled.
    pub fn end(&mut self) {
        if self.kill_at.is_none() {
            self.group().ask_to_end();
            self.kill_at = Some(Instant::now() + TERM_WAIT);
        }
    }

    /// Waits for the next event. After the exit this waits as long as a remaining process may write.
    ///
    /// Cancellation-safe.
    pub async fn next(&mut self) -> CommandEvent<'_> {
        loop {
            if let (RunPhase::Runs, Some(exit)) = (self.phase, self.group().exited()) {
                self.phase = RunPhase::Ended(exit, Instant::now() + LAST_OUTPUT_WAIT);
            }
            match self.wait().await {
                WakeReason::Look => {}
                WakeReason::Read(read) => return CommandEvent::Output(&self.buffer[..read]),
                WakeReason::Kill => self.kill(),
                WakeReason::Enough => {
                    if let RunPhase::Ended(exit, _) = self.phase {
                        self.phase = RunPhase::Reported;
                        return CommandEvent::Exited(exit);
                    }
                }
            }
        }
    }

    /// Ends the remaining processes, and returns whether there were any.
    pub async fn clear(mut self) -> Leftover {
        match self.group.take() {
            Some(group) => group.clear().await,
            None => Leftover::None,
        }
    }

    async fn wait(&mut self) -> WakeReason {
        let (runs, silent) = (matches!(self.phase, RunPhase::Runs), self.pipe.is_none());
        let enough = match self.phase {
            RunPhase::Ended(..) if silent => return WakeReason::Enough,
            RunPhase::Ended(_, until) => Some(until),
            RunPhase::Runs | RunPhase::Reported => None,
        };
        let kill_at = self.kill_at.filter(|_| runs);
        let group = self.group.as_mut().expect(GROUP_PRESENT);
        tokio::select! {
            () = group.changed(), if runs => WakeReason::Look,
            read = read(&mut self.pipe, &mut self.buffer) => match read {
                0 => WakeReason::Look,
                read => WakeReason::Read(read),
            },
            () = at(kill_at) => WakeReason::Kill,
            () = at(enough) => WakeReason::Enough,
        }
    }

    fn kill(&mut self) {
        self.group().kill();
        self.kill_at = Some(Instant::now() + POLL_INTERVAL);
    }

    fn group(&mut self) -> &mut Group {
        self.group.as_mut().expect(GROUP_PRESENT)
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let Some(mut group) = self.group.take() else { return };
        group.ask_to_end();
        // Without a runtime its guardian or its watcher kills it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(group.clear());
        }
    }
}

/// Reads some bytes; returns 0 at the end, and after that waits forever.
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

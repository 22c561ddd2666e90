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

/// Something about a command.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    /// It has written this, or something that it left running has.
    Output(&'a [u8]),
    /// It has ended. Told once.
    Exited(Exit),
}

/// A command and whatever it has started in its group. Dropping it ends them.
pub(crate) struct Running {
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
    /// Starts a command in this directory.
    pub(crate) async fn start(launch: &Launch, directory: &OwnedFd) -> io::Result<Self> {
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

    /// Asks for the end of everything in the group. What does not end is killed, as long as it is listened to.
    pub(crate) fn end(&mut self) {
        if self.kill_at.is_none() {
            self.group().ask_to_end();
            self.kill_at = Some(Instant::now() + TERM_WAIT);
        }
    }

    /// The next thing about it. After its end this waits as long as something that it left running may write.
    ///
    /// A call that is given up loses nothing.
    pub(crate) async fn next(&mut self) -> Heard<'_> {
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

    /// Ends what is left of the group, and says whether there was anything.
    pub(crate) async fn clear(mut self) -> Leftover {
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

//! A command and the processes it has started: start, signals, exit, end. With a guardian this is the whole process
//! tree (`guarded`), without one the process group (`unguarded`). Does not read output.

use std::io;
use std::process::Command;
use std::time::Duration;

use super::GuardianCommand;
use super::exit::CommandExit;
use super::guarded::{Guarded, NotGuarded, StartingGuardian};
use super::unguarded::Unguarded;

/// How long a command may take to end after SIGTERM.
pub(super) const TERM_WAIT: Duration = Duration::from_millis(400);
/// The interval at which a command that is being ended is checked.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A command and the processes it has started. All of them end when this process ends in any way, or when this is
/// dropped early.
pub struct Group(Tracking);

/// How the processes of a command are tracked.
enum Tracking {
    /// A guardian keeps track of the tree, even of processes that change their group or session.
    Guarded(Guarded),
    /// Only the process group is known.
    Unguarded(Unguarded),
}

/// Whether a command left processes running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// None that could be found.
    None,
    /// It did, and they were ended.
    Processes,
}

/// A program and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct ProgramArgs<'a> {
    /// The program, looked up in the search path if it has no slash.
    pub program: &'a str,
    /// The arguments after the name of the program.
    pub args: &'a [String],
}

impl Group {
    /// Starts a program. `configure` sets its environment, directory and streams.
    pub async fn start(
        guardian: Option<&GuardianCommand>,
        words: ProgramArgs<'_>,
        configure: impl Fn(&mut Command) -> io::Result<()>,
    ) -> io::Result<Self> {
        let guarded = match guardian.map(|guardian| StartingGuardian::begin(guardian, words, &configure)) {
            Some(Ok(starting)) => Some(starting.started().await),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        match guarded {
            Some(Ok(guarded)) => Ok(Self(Tracking::Guarded(guarded))),
            Some(Err(NotGuarded::NotStarted(error))) => Err(error),
            // If the guardian cannot run (its file may have been replaced), the command runs without one.
            Some(Err(NotGuarded::NoGuardian)) | None => {
                Unguarded::start(words, configure).map(|unguarded| Self(Tracking::Unguarded(unguarded)))
            }
        }
    }

    /// The process group id.
    #[cfg(test)]
    pub(super) fn number(&self) -> u32 {
        match &self.0 {
            Tracking::Guarded(guarded) => guarded.number(),
            Tracking::Unguarded(unguarded) => unguarded.number(),
        }
    }

    /// Sends SIGTERM to all processes.
    pub fn ask_to_end(&mut self) {
        match &mut self.0 {
            Tracking::Guarded(guarded) => guarded.ask_to_end(),
            Tracking::Unguarded(unguarded) => unguarded.signal(libc::SIGTERM),
        }
    }

    /// Sends SIGKILL to all processes.
    pub fn kill(&mut self) {
        match &mut self.0 {
            Tracking::Guarded(guarded) => guarded.kill(),
            Tracking::Unguarded(unguarded) => unguarded.signal(libc::SIGKILL),
        }
    }

    /// Returns the exit of the command itself, if it has exited.
    pub fn exited(&mut self) -> Option<CommandExit> {
        match &mut self.0 {
            Tracking::Guarded(guarded) => guarded.exited(),
            Tracking::Unguarded(unguarded) => unguarded.exited(),
        }
    }

    /// Waits until the command may have exited. Cancellation-safe.
    pub(super) async fn changed(&mut self) {
        match &mut self.0 {
            Tracking::Guarded(guarded) => guarded.changed().await,
            Tracking::Unguarded(unguarded) => unguarded.changed().await,
        }
    }

    /// Ends the remaining processes, first with SIGTERM, then with SIGKILL. Returns when they are gone.
    pub async fn clear(self) -> Leftover {
        match self.0 {
            Tracking::Guarded(guarded) => guarded.clear().await,
            Tracking::Unguarded(unguarded) => unguarded.clear().await,
        }
    }
}

//! The processes of one command: starts the command, signals it, reports its exit and ends what it started. With a
//! guardian this is the whole process tree (`guarded`), without one the process group (`bare`). Reads no output.

use std::io;
use std::process::Command;
use std::time::Duration;

use super::GuardianCommand;
use super::bare::Bare;
use super::exit::Exit;
use super::guarded::{Guarded, NotGuarded, Starting};

/// How long a command may take after SIGTERM.
pub(super) const TERM_WAIT: Duration = Duration::from_millis(400);
/// The pause between two looks at a command that is being ended.
pub(super) const ROUND: Duration = Duration::from_millis(10);

/// A command and the processes that it started. All of them end when this process ends, in whatever way, and when this
/// value is dropped.
pub struct Group(Kind);

/// How the processes of a command are held together.
enum Kind {
    /// By a guardian, which finds every descendant.
    Guarded(Guarded),
    /// By the process group alone.
    Bare(Bare),
}

/// Whether a command left processes running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// None were found.
    Nobody,
    /// There were some, and they were ended.
    Somebody,
}

/// A program and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The program, looked up in the search path if it has no slash.
    pub program: &'a str,
    /// The arguments after the name of the program.
    pub args: &'a [String],
}

impl Group {
    /// Starts a program, below the guardian if one is given and works, else as the leader of a process group. `dress` sets
    /// the environment, the directory and the standard streams; it may be called more than once.
    ///
    /// # Errors
    /// If the program does not exist or cannot be started.
    pub async fn start(
        guardian: Option<&GuardianCommand>,
        words: Words<'_>,
        dress: impl Fn(&mut Command) -> io::Result<()>,
    ) -> io::Result<Self> {
        let guarded = match guardian.map(|guardian| Starting::begin(guardian, words, &dress)) {
            Some(Ok(starting)) => Some(starting.started().await),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        match guarded {
            Some(Ok(guarded)) => Ok(Self(Kind::Guarded(guarded))),
            Some(Err(NotGuarded::NotStarted(error))) => Err(error),
            // One that cannot work, for its file was replaced perhaps, is no reason to run nothing.
            Some(Err(NotGuarded::NoGuardian)) | None => {
                Bare::start(words, dress).map(|bare| Self(Kind::Bare(bare)))
            }
        }
    }

    /// The number of its process group.
    #[cfg(test)]
    pub(super) fn number(&self) -> u32 {
        match &self.0 {
            Kind::Guarded(guarded) => guarded.number(),
            Kind::Bare(bare) => bare.number(),
        }
    }

    /// Sends SIGTERM to all processes.
    pub fn ask_to_end(&mut self) {
        match &mut self.0 {
            Kind::Guarded(guarded) => guarded.ask_to_end(),
            Kind::Bare(bare) => bare.signal(libc::SIGTERM),
        }
    }

    /// Sends SIGKILL to all processes.
    pub fn kill(&mut self) {
        match &mut self.0 {
            Kind::Guarded(guarded) => guarded.kill(),
            Kind::Bare(bare) => bare.signal(libc::SIGKILL),
        }
    }

    /// The exit of the command itself, once it has ended.
    pub fn exited(&mut self) -> Option<Exit> {
        match &mut self.0 {
            Kind::Guarded(guarded) => guarded.exited(),
            Kind::Bare(bare) => bare.exited(),
        }
    }

    /// Waits until it may have ended: look again. A call that is given up loses nothing.
    pub(super) async fn stirred(&mut self) {
        match &mut self.0 {
            Kind::Guarded(guarded) => guarded.stirred().await,
            Kind::Bare(bare) => bare.stirred().await,
        }
    }

    /// Ends all remaining processes, first with SIGTERM, then with SIGKILL. Returns when they are gone.
    pub async fn clear(self) -> Leftover {
        match self.0 {
            Kind::Guarded(guarded) => guarded.clear().await,
            Kind::Bare(bare) => bare.clear().await,
        }
    }
}

//! A command and whatever it has started: its start, its signals, its exit, its end. With a guardian that is the
//! whole tree of its processes (`guarded`), without one it is its process group (`bare`). Reads no output.

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
pub(crate) const ROUND: Duration = Duration::from_millis(10);

/// A command and whatever it has started. All of it ends when we are gone, however we went, and also when this is
/// dropped before its time.
pub(crate) enum Group {
    /// A guardian keeps the tree together, whatever its processes do about groups and sessions.
    Guarded(Guarded),
    /// The process group is all there is to hold on to.
    Bare(Bare),
}

/// Says whether a command left something running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftover {
    /// It did not, as far as can be seen.
    Nobody,
    /// It did, and that was ended.
    Somebody,
}

/// A program and its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) program: &'a str,
    pub(crate) args: &'a [String],
}

impl Group {
    /// Starts a program. `dress` gives it all but its arguments: environment, directory, streams.
    pub(crate) async fn start(
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
            Some(Ok(guarded)) => Ok(Self::Guarded(guarded)),
            Some(Err(NotGuarded::NotStarted(error))) => Err(error),
            // One that cannot work, for its file was replaced perhaps, is no reason to run nothing.
            Some(Err(NotGuarded::NoGuardian)) | None => Bare::start(words, dress).map(Self::Bare),
        }
    }

    /// The number of its process group.
    #[cfg(test)]
    pub(super) fn number(&self) -> u32 {
        match self {
            Self::Guarded(guarded) => guarded.number(),
            Self::Bare(bare) => bare.number(),
        }
    }

    /// Asks everybody in it to end.
    pub(crate) fn ask_to_end(&mut self) {
        match self {
            Self::Guarded(guarded) => guarded.ask_to_end(),
            Self::Bare(bare) => bare.signal(libc::SIGTERM),
        }
    }

    /// Kills everybody in it.
    pub(crate) fn kill(&mut self) {
        match self {
            Self::Guarded(guarded) => guarded.kill(),
            Self::Bare(bare) => bare.signal(libc::SIGKILL),
        }
    }

    /// How the command itself ended, if it did.
    pub(crate) fn exited(&mut self) -> Option<Exit> {
        match self {
            Self::Guarded(guarded) => guarded.exited(),
            Self::Bare(bare) => bare.exited(),
        }
    }

    /// Waits until it may have ended: look again. A call that is given up loses nothing.
    pub(super) async fn stirred(&mut self) {
        match self {
            Self::Guarded(guarded) => guarded.stirred().await,
            Self::Bare(bare) => bare.stirred().await,
        }
    }

    /// Ends whatever is left: first asked, then killed. Returns when it is gone.
    pub(crate) async fn clear(self) -> Leftover {
        match self {
            Self::Guarded(guarded) => guarded.clear().await,
            Self::Bare(bare) => bare.clear().await,
        }
    }
}

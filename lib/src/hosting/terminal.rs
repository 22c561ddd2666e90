//! One terminal: a command, its output, its end. Kept by a task of its own, which reads what the command writes, and
//! ends it and all that it has started when it is asked to or when nobody holds the terminal any more. Knows
//! nothing of sessions and requests.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rethread_core::{Json, Update};
use tokio::sync::watch;

use super::launch::Asked;
use super::output::{self, Output};
use crate::command::{self, Exit, Heard, Running};
use crate::ids;
use crate::lock::locked;

/// How far a terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It runs and has written this much.
    Runs(u64),
    /// Its command has ended.
    Exited,
}

/// A terminal. Dropping it ends whatever runs in it.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// Its id, new in its session.
    pub(crate) id: String,
    command: String,
    cwd: String,
    #[cfg(test)]
    group: u32,
    output: Arc<Mutex<Output>>,
    moments: watch::Receiver<Moment>,
    wanted: watch::Sender<Wanted>,
}

/// Whether a command shall go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    No,
}

impl Terminal {
    /// Starts a command in this directory.
    pub(super) async fn start(asked: &Asked, directory: &OwnedFd) -> io::Result<Self> {
        let launch = &asked.launch;
        let running = Running::start(launch, directory).await?;
        #[cfg(test)]
        let group = running.number();
        let output = Arc::new(Mutex::new(Output::new(asked.limit)));
        let (moments, seen) = watch::channel(Moment::Runs(0));
        let (wanted, wants) = watch::channel(Wanted::Yes);
        let keeper = Keeper { running, output: output.clone(), moments, wanted: wants };
        tokio::spawn(keeper.run());
        Ok(Self {
            id: ids::terminal_id(),
            command: command::line(&launch.command, &launch.args),
            cwd: launch.cwd.clone(),
            #[cfg(test)]
            group,
            output,
            moments: seen,
            wanted,
        })
    }

    /// Asks for the end of the command and all that it started.
    pub(super) fn end(&self) {
        self.wanted.send_replace(Wanted::No);
    }

    /// How far it is, from now on. The channel closes when nothing of it is left.
    pub(crate) fn moments(&self) -> watch::Receiver<Moment> {
        self.moments.clone()
    }

    /// The first word about it.
    pub(crate) fn announcement(&self) -> Update {
        output::announcement(&self.id, &self.command, &self.cwd)
    }

    /// How its command ended, if it did.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.output().exit()
    }

    /// Says whether users have been told of the exit.
    pub(super) fn exit_told(&self) -> bool {
        self.output().exit_told()
    }

    /// The answer to `terminal/output`.
    pub(super) fn answer(&self) -> Json {
        self.output().answer()
    }

    /// What users have not been told yet.
    pub(super) fn news(&self) -> Vec<Update> {
        self.output().news(&self.id)
    }

    /// The same when nothing more will be told.
    pub(super) fn last_news(&self) -> Vec<Update> {
        self.output().last_news(&self.id)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        locked(&self.output)
    }
}

/// The task of one terminal. What its command left running goes on as long as somebody wants it.
struct Keeper {
    running: Running,
    output: Arc<Mutex<Output>>,
    moments: watch::Sender<Moment>,
    wanted: watch::Receiver<Wanted>,
}

impl Keeper {
    async fn run(mut self) {
        let (mut exited, mut unwanted_at_all) = (false, false);
        while !(exited && unwanted_at_all) {
            tokio::select! {
                heard = self.running.next() => match heard {
                    Heard::Output(bytes) => take(&self.output, &self.moments, bytes),
                    Heard::Exited(exit) => {
                        exited = true;
                        locked(&self.output).exited(exit);
                        self.moments.send_replace(Moment::Exited);
                    }
                },
                () = unwanted(&mut self.wanted), if !unwanted_at_all => {
                    unwanted_at_all = true;
                    self.running.end();
                }
            }
        }
        self.running.clear().await;
    }
}

fn take(output: &Mutex<Output>, moments: &watch::Sender<Moment>, bytes: &[u8]) {
    locked(output).append(bytes);
    moments.send_modify(|moment| {
        if let Moment::Runs(written) = moment {
            *written += bytes.len() as u64;
        }
    });
}

/// Waits until a terminal is not wanted any more, or is forgotten.
async fn unwanted(wanted: &mut watch::Receiver<Wanted>) {
    let _ = wanted.wait_for(|wanted| *wanted == Wanted::No).await;
}

#[cfg(test)]
mod tests;

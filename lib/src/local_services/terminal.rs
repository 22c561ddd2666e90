//! One terminal: a command, its output and its exit, owned by a task. The task ends the command and everything it
//! started on request, or when the terminal is dropped.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rethread_core::{Json, Update};
use tokio::sync::watch;

use super::output::{self, TerminalOutput};
use super::terminal_request::TerminalRequest;
use crate::command::{self, CommandEvent, CommandExit, RunningCommand};
use crate::ids;
use crate::lock::locked;

/// The state of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalState {
    /// It runs and has written this many bytes.
    Running(u64),
    /// Its command has exited.
    Exited,
}

/// A terminal. Dropping it ends everything that runs in it.
#[derive(Debug)]
pub(crate) struct LocalTerminal {
    /// Its id, unique in its session.
    pub(crate) id: String,
    command: String,
    cwd: String,
    #[cfg(test)]
    group: u32,
    output: Arc<Mutex<TerminalOutput>>,
    states: watch::Receiver<TerminalState>,
    wanted: watch::Sender<Wanted>,
}

/// Whether the command should go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    No,
}

impl LocalTerminal {
    /// Starts a command in this directory.
    pub(super) async fn start(request: &TerminalRequest, directory: &OwnedFd) -> io::Result<Self> {
        let launch = &request.launch;
        let running = RunningCommand::start(launch, directory).await?;
        #[cfg(test)]
        let group = running.number();
        let output = Arc::new(Mutex::new(TerminalOutput::new(request.limit)));
        let (states, seen) = watch::channel(TerminalState::Running(0));
        let (wanted, wants) = watch::channel(Wanted::Yes);
        let keeper = TerminalTask { running, output: output.clone(), states, wanted: wants };
        tokio::spawn(keeper.run());
        Ok(Self {
            id: ids::terminal_id(),
            command: command::line(&launch.command, &launch.args),
            cwd: launch.cwd.clone(),
            #[cfg(test)]
            group,
            output,
            states: seen,
            wanted,
        })
    }

    /// Requests the end of the command and everything it started.
    pub(super) fn end(&self) {
        self.wanted.send_replace(Wanted::No);
    }

    /// Watches the state. The channel closes when all processes have ended.
    pub(crate) fn states(&self) -> watch::Receiver<TerminalState> {
        self.states.clone()
    }

    /// The first update of the terminal.
    pub(crate) fn announcement(&self) -> Update {
        output::announcement(&self.id, &self.command, &self.cwd)
    }

    /// The exit of its command, if it has exited.
    pub(super) fn exit(&self) -> Option<CommandExit> {
        self.output().exit()
    }

    /// Returns whether the exit was reported to users.
    pub(super) fn exit_reported(&self) -> bool {
        self.output().exit_reported()
    }

    /// The answer to `terminal/output`.
    pub(super) fn answer(&self) -> Json {
        self.output().answer()
    }

    /// Returns unreported changes.
    pub(super) fn news(&self) -> Vec<Update> {
        self.output().news(&self.id)
    }

    /// Returns unreported changes when nothing more will follow.
    pub(super) fn last_news(&self) -> Vec<Update> {
        self.output().last_news(&self.id)
    }

    fn output(&self) -> MutexGuard<'_, TerminalOutput> {
        locked(&self.output)
    }
}

/// The task of one terminal. Processes that its command left running go on until the terminal is released.
struct TerminalTask {
    running: RunningCommand,
    output: Arc<Mutex<TerminalOutput>>,
    states: watch::Sender<TerminalState>,
    wanted: watch::Receiver<Wanted>,
}

impl TerminalTask {
    async fn run(mut self) {
        let (mut exited, mut unwanted_at_all) = (false, false);
        while !(exited && unwanted_at_all) {
            tokio::select! {
                heard = self.running.next() => match heard {
                    CommandEvent::Output(bytes) => take(&self.output, &self.states, bytes),
                    CommandEvent::Exited(exit) => {
                        exited = true;
                        locked(&self.output).exited(exit);
                        self.states.send_replace(TerminalState::Exited);
                    }
                },
                () = stop_requested(&mut self.wanted), if !unwanted_at_all => {
                    unwanted_at_all = true;
                    self.running.end();
                }
            }
        }
        self.running.clear().await;
    }
}

fn take(output: &Mutex<TerminalOutput>, states: &watch::Sender<TerminalState>, bytes: &[u8]) {
    locked(output).append(bytes);
    states.send_modify(|moment| {
        if let TerminalState::Running(written) = moment {
            *written += bytes.len() as u64;
        }
    });
}

/// Waits until the end is requested or the terminal is dropped.
async fn stop_requested(wanted: &mut watch::Receiver<Wanted>) {
    let _ = wanted.wait_for(|wanted| *wanted == Wanted::No).await;
}

#[cfg(test)]
mod tests;

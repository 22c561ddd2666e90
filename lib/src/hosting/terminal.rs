//! One terminal: a command in a process group of its own, its output, its end. Kept by a task of its own,
//! which reads what the command writes and ends the group when it is asked to or when nobody holds the terminal
//! any more. Knows nothing of sessions and requests.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rethread_core::{Json, Update};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use super::group::{Group, ROUND, TERM_WAIT};
use super::launch::{self, Launch};
use super::output::{self, Exit, Output};
use crate::lock::locked;
use crate::mint;

/// How long the last output is waited for after the command's end: something it left running may hold the pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(100);
/// How much is read at once.
const READ: usize = 64 * 1024;
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
    pub(super) fn start(launch: &Launch, directory: OwnedFd) -> io::Result<Self> {
        // Before the command: its end must not be missed.
        let children = signal(SignalKind::child())?;
        let (reader, writer) = io::pipe()?;
        let pipe = Receiver::from_owned_fd(reader.into())?;
        let child = launch::spawn(launch, &directory, writer)?;
        #[cfg(test)]
        let number = child.id();
        let group = Group::of(child)?;
        let output = Arc::new(Mutex::new(Output::new(launch.limit)));
        let (moments, seen) = watch::channel(Moment::Runs(0));
        let (wanted, wants) = watch::channel(Wanted::Yes);
        let keeper =
            Keeper { group, pipe: Some(pipe), children, output: output.clone(), moments, wanted: wants };
        tokio::spawn(keeper.run());
        Ok(Self {
            id: mint::terminal_id(),
            command: launch::line(&launch.command, &launch.args),
            cwd: launch.cwd.clone(),
            #[cfg(test)]
            group: number,
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

/// The task of one terminal.
struct Keeper {
    group: Group,
    /// `None` when nobody can write any more.
    pipe: Option<Receiver>,
    children: Signal,
    output: Arc<Mutex<Output>>,
    moments: watch::Sender<Moment>,
    wanted: watch::Receiver<Wanted>,
}

impl Keeper {
    async fn run(mut self) {
        let mut buffer = vec![0; READ];
        let exit = self.until_exit(&mut buffer).await;
        self.read_last(&mut buffer).await;
        locked(&self.output).exited(exit);
        self.moments.send_replace(Moment::Exited);
        self.until_unwanted(&mut buffer).await;
        self.group.clear().await;
    }

    async fn until_exit(&mut self, buffer: &mut [u8]) -> Exit {
        let mut deadline = None;
        loop {
            if let Some(exit) = self.group.exited() {
                return exit;
            }
            tokio::select! {
                _ = self.children.recv() => {}
                read = read(&mut self.pipe, buffer) => self.take(&buffer[..read]),
                () = unwanted(&mut self.wanted), if deadline.is_none() => {
                    self.group.signal(libc::SIGTERM);
                    deadline = Some(Instant::now() + TERM_WAIT);
                }
                () = at(deadline) => {
                    self.group.signal(libc::SIGKILL);
                    deadline = Some(Instant::now() + ROUND);
                }
            }
        }
    }

    async fn read_last(&mut self, buffer: &mut [u8]) {
        let deadline = Instant::now() + LAST_OUTPUT;
        while self.pipe.is_some() {
            match tokio::time::timeout_at(deadline, read(&mut self.pipe, buffer)).await {
                Ok(read) => self.take(&buffer[..read]),
                Err(_) => return,
            }
        }
    }

    /// What the command left running goes on, and what it writes is read, as long as somebody wants it.
    async fn until_unwanted(&mut self, buffer: &mut [u8]) {
        loop {
            tokio::select! {
                () = unwanted(&mut self.wanted) => return,
                read = read(&mut self.pipe, buffer) => self.take(&buffer[..read]),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        locked(&self.output).append(bytes);
        self.moments.send_modify(|moment| {
            if let Moment::Runs(written) = moment {
                *written += bytes.len() as u64;
            }
        });
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

/// Waits until a terminal is not wanted any more, or is forgotten.
async fn unwanted(wanted: &mut watch::Receiver<Wanted>) {
    let _ = wanted.wait_for(|wanted| *wanted == Wanted::No).await;
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;

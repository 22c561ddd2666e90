//! One terminal: a command in a process group of its own, its output, its end. Kept by a task of its own,
//! which reads what the command writes and ends the group when it is asked to or when nobody holds the terminal
//! any more. Knows nothing of sessions and requests.

use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rethread_core::{Json, Update};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use super::output::{self, Exit, Output};
use crate::mint;

/// How long a group may take after SIGTERM.
const TERM_WAIT: Duration = Duration::from_millis(400);
/// How long SIGKILL is repeated for what is forked meanwhile.
const KILL_WAIT: Duration = Duration::from_millis(400);
/// The pause between two looks at a group that is being ended.
const ROUND: Duration = Duration::from_millis(10);
/// How long the last output is waited for after the command's end: something it left running may hold the pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(100);
/// How much is read at once.
const READ: usize = 64 * 1024;
/// Waits for a line, and at the end of its input without one kills the group that it was started with.
const WATCHER: &str = r#"trap '' HUP INT TERM; read -r line || kill -s KILL -- "-$0""#;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// The program, or a line for the shell if there is no such program.
    pub(super) command: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// Its environment, beside ours.
    pub(super) env: Vec<(String, String)>,
    /// The name of its working directory.
    pub(super) cwd: String,
    /// How much output the agent wants kept.
    pub(super) limit: Option<u64>,
}

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
        let child = spawn(launch, &directory, writer)?;
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
            command: line(&launch.command, &launch.args),
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

/// A command and whatever it has started in its group. A small watcher kills the group when we are gone,
/// however we went, and also when this is dropped before its time.
struct Group {
    /// Not collected before the group is ended: as long as it is there, nobody else can get its number.
    leader: Child,
    watcher: tokio::process::ChildStdin,
}

impl Group {
    fn of(mut leader: Child) -> io::Result<Self> {
        let group = leader.id().to_string();
        let watcher = tokio::process::Command::new("/bin/sh")
            .args(["-c", WATCHER, &group])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        // The handle itself is not needed: the runtime collects it when it has ended.
        match watcher.and_then(|mut watcher| watcher.stdin.take().ok_or(io::ErrorKind::BrokenPipe.into())) {
            Ok(watcher) => Ok(Self { leader, watcher }),
            Err(error) => {
                send(leader.id(), libc::SIGKILL);
                let _ = leader.wait();
                Err(error)
            }
        }
    }

    fn signal(&self, signal: libc::c_int) {
        send(self.leader.id(), signal);
    }

    /// How the leader ended, if it did. It stays there to be collected.
    fn exited(&self) -> Option<Exit> {
        // SAFETY: all zeroes is a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is valid for the call, and the process is a child of ours that nobody else collects.
        let asked = unsafe { libc::waitid(libc::P_PID, self.leader.id(), &mut info, flags) };
        // SAFETY: the call has filled in what these read, or left zeroes.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if asked < 0 || pid == 0 {
            return None;
        }
        let raw = match info.si_code {
            libc::CLD_EXITED => (status & 0xff) << 8,
            _ => status & 0x7f,
        };
        Some(Exit::of(ExitStatus::from_raw(raw)))
    }

    /// Ends what is left of the group after its leader: first asked, then killed.
    async fn clear(mut self) {
        self.signal(libc::SIGTERM);
        // A leader that is not collected would count as one that is left.
        let group = self.leader.id();
        let _ = self.leader.try_wait();
        let begun = Instant::now();
        while is_alive(group) && begun.elapsed() < TERM_WAIT + KILL_WAIT {
            if begun.elapsed() >= TERM_WAIT {
                send(group, libc::SIGKILL);
            }
            tokio::time::sleep(ROUND).await;
        }
        if !is_alive(group) {
            let _ = self.watcher.write_all(b"done\n").await;
        }
    }
}

/// Sends a signal to a group; says whether there was anybody.
fn send(group: u32, signal: libc::c_int) -> bool {
    let Ok(group) = libc::pid_t::try_from(group) else { return false };
    // SAFETY: a plain call, for a group that we made.
    unsafe { libc::kill(-group, signal) == 0 }
}

/// Says whether a group has a member that runs.
fn is_alive(group: u32) -> bool {
    send(group, 0) && !all_ended(group)
}

/// Orphans that nobody collects, as in a container without an init, are members and do not run.
#[cfg(target_os = "linux")]
fn all_ended(group: u32) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let runs = |stat: &str| {
        // The name before it may hold anything, `)` too.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let (state, of) = (fields.next()?, fields.nth(1)?);
        Some(of.parse() == Ok(group) && !matches!(state, "Z" | "X"))
    };
    !processes.flatten().any(|process| {
        let stat = std::fs::read(process.path().join("stat")).unwrap_or_default();
        runs(&String::from_utf8_lossy(&stat)).unwrap_or(false)
    })
}

#[cfg(not(target_os = "linux"))]
fn all_ended(_group: u32) -> bool {
    false
}

/// Starts the command; a line that names no program is one for the shell.
fn spawn(launch: &Launch, directory: &OwnedFd, output: PipeWriter) -> io::Result<Child> {
    let direct = prepared(&launch.command, launch, directory, &output)?.args(&launch.args).spawn();
    let is_line = launch.args.is_empty() && launch.command.contains(char::is_whitespace);
    match direct {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_line => {
            prepared("/bin/sh", launch, directory, &output)?.args(["-c", &launch.command]).spawn()
        }
        direct => direct,
    }
}

fn prepared(program: &str, launch: &Launch, directory: &OwnedFd, output: &PipeWriter) -> io::Result<Command> {
    let mut command = Command::new(program);
    command
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        // One pipe for both: what was written first is read first.
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0);
    let directory = directory.as_raw_fd();
    // SAFETY: the closure makes one async-signal-safe call on a descriptor that is open while we start it.
    unsafe {
        command.pre_exec(move || match libc::fchdir(directory) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    Ok(command)
}

/// The command as a person would write it.
fn line(command: &str, args: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./:=,+@%^".contains(c))
    };
    let mut line = command.to_owned();
    for arg in args {
        line.push(' ');
        match plain(arg) {
            true => line.push_str(arg),
            false => line.push_str(&format!("'{}'", arg.replace('\'', r"'\''"))),
        }
    }
    line
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

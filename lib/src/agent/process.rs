//! One agent as a process of ours: starting it below a guardian, hearing of its end, ending it. Owns the pipes
//! and the tie; what the agent and we say to each other goes through [`Spawned`]'s streams unread.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::{Child, Command};

use super::guardian::END;
use super::status::{AgentEnd, StatusLine};
use super::stderr::{AgentStderr, Log};
use crate::secret::Secrets;
use crate::transport::Wire;

/// The pipe that an agent writes into without waiting for us, as far as the system allows it.
#[cfg(target_os = "linux")]
const STDOUT_PIPE: libc::c_int = 1024 * 1024;
/// How long a guardian may take to end a tree, with some reserve over its own limits.
pub(crate) const END_LIMIT: Duration = Duration::from_millis(1900);
/// How long the last of stderr is waited for after the agent's end.
const STDERR_LIMIT: Duration = Duration::from_millis(200);

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct AgentCommand {
    /// The program, looked up in the search path if it has no slash.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What runs [`guardian::run`](super::guardian::run).
    pub guardian: GuardianCommand,
    /// The file that its stderr is appended to.
    pub stderr_log: Option<PathBuf>,
}

/// A command that runs a guardian if `[--stay] --tie FD --status FD -- program args...` follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardianCommand {
    /// The program, as a rule our own.
    pub program: PathBuf,
    /// The arguments before those above.
    pub args: Vec<OsString>,
}

impl GuardianCommand {
    /// The guardian with its ends of the two pipes, which have to be open when it is started. The program that it is
    /// for and that program's arguments are to follow.
    pub(crate) fn holding(
        &self,
        flags: &[&str],
        tie: &PipeReader,
        status: &PipeWriter,
    ) -> std::process::Command {
        let (tie, status) = (tie.as_raw_fd(), status.as_raw_fd());
        let mut guardian = std::process::Command::new(&self.program);
        guardian.args(&self.args).args(flags).args([
            "--tie",
            &tie.to_string(),
            "--status",
            &status.to_string(),
            "--",
        ]);
        // SAFETY: the closure makes only async-signal-safe calls and allocates nothing.
        unsafe {
            guardian.pre_exec(move || {
                // A session of its own: who kills our group or our terminal must not kill the guardian.
                if libc::setsid() < 0 {
                    return Err(io::Error::last_os_error());
                }
                // Here and not before the fork: no other child that we start meanwhile may inherit them.
                keep_over_exec(tie)?;
                keep_over_exec(status)
            });
        }
        guardian
    }
}

/// A started agent.
#[derive(Debug)]
pub struct Spawned {
    /// Its input. Dropping it is the end of input.
    pub stdin: Sender,
    /// Its output.
    pub stdout: Receiver,
    /// The process itself.
    pub process: AgentProcess,
}

impl Spawned {
    /// Parts the bytes from the process.
    pub fn split(self) -> (Wire, AgentProcess) {
        (Wire::new(self.stdout, self.stdin), self.process)
    }
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("agent program {} was not found", .0.display())]
    NotFound(OsString),
    /// There is one, but it does not start.
    #[error("agent program {} could not be started", program.display())]
    NotStarted {
        /// The program.
        program: OsString,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Our own guardian does not start.
    #[error("guardian {} could not be started", program.display())]
    NoGuardian {
        /// The guardian's program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Our own guardian gave up before the agent was started.
    #[error("guardian {} exited before it started the agent: {said}", program.display())]
    GuardianLost {
        /// The guardian's program.
        program: PathBuf,
        /// Its last words.
        said: String,
    },
    /// The log cannot be written.
    #[error("agent log {} could not be opened", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No pipes or no thread to be had.
    #[error("the pipes to the agent could not be created")]
    Pipes(#[from] io::Error),
}

impl SpawnError {
    /// What one could do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SpawnError::NotFound(_) => {
                Some("install it, or give its full path; a script also needs its interpreter")
            }
            SpawnError::NotStarted { .. } => Some("check that it is a program and that you may run it"),
            SpawnError::NoGuardian { .. }
            | SpawnError::GuardianLost { .. }
            | SpawnError::Log { .. }
            | SpawnError::Pipes(_) => None,
        }
    }
}

/// How an agent ended, and what it said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// How it ended; its text is the status in words.
    pub end: AgentEnd,
    /// The last lines of its stderr, maybe none.
    pub stderr: String,
}

/// Starts an agent in our own working directory and environment, below a guardian that leads its own session.
/// Returns when the agent's program runs.
pub async fn spawn(command: &AgentCommand) -> Result<Spawned, SpawnError> {
    let log = command
        .stderr_log
        .as_ref()
        .map(|path| Log::open(path).map_err(|source| SpawnError::Log { path: path.clone(), source }));
    let log = log.transpose()?;
    let (stdin, our_stdin) = io::pipe()?;
    let (our_stdout, stdout) = io::pipe()?;
    let (our_stderr, stderr) = io::pipe()?;
    let (tie, our_tie) = io::pipe()?;
    let (our_status, status) = io::pipe()?;
    enlarge(&our_stdout);

    let theirs = Theirs { stdin, stdout, stderr, tie, status };
    let child = start_guardian(command, theirs)
        .map_err(|source| SpawnError::NoGuardian { program: command.guardian.program.clone(), source })?;
    let mut process = AgentProcess {
        child,
        tie: File::from(OwnedFd::from(our_tie)),
        status: StatusPipe { pipe: receiver(our_status)?, unread: Vec::new() },
        stderr: AgentStderr::read(our_stderr, log)?,
        pid: 0,
        report: None,
    };
    process.pid = process.started(command).await?;
    Ok(Spawned { stdin: sender(our_stdin)?, stdout: receiver(our_stdout)?, process })
}

/// A running agent and all that it has started. Dropping it lets the guardian end the tree, as our own death
/// would.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    /// The only write end of the tie: held, never cloned, and closed with this.
    tie: File,
    status: StatusPipe,
    stderr: AgentStderr,
    pid: i32,
    report: Option<ExitReport>,
}

impl AgentProcess {
    /// The agent's process id.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// From now on these values are struck out of what the agent says on stderr.
    pub(crate) fn strike_out(&self, secrets: &Secrets) {
        self.stderr.strike_out(secrets);
    }

    /// Waits for the agent's end. May be cancelled and asked again, also after the end.
    pub async fn exited(&mut self) -> ExitReport {
        if let Some(report) = &self.report {
            return report.clone();
        }
        let end = self.status.end().await;
        if end == AgentEnd::Unseen {
            sweep_group(self.pid);
        }
        let stderr = self.stderr.settled_tail(STDERR_LIMIT).await;
        self.report.insert(ExitReport { end, stderr }).clone()
    }

    /// Ends the agent, politely first, and returns when its whole tree is gone, within about two seconds.
    ///
    /// An agent goes soonest if its stdin has been dropped before: the end of its input is the first request,
    /// SIGTERM the second, SIGKILL the last.
    pub async fn end(mut self) -> ExitReport {
        // A guardian that does not hear this any more is at its end already.
        let _ = self.tie.write_all(&[END]);
        if tokio::time::timeout(END_LIMIT, self.child.wait()).await.is_err() {
            // It hangs, or something in the tree cannot be killed. The agent dies with its guardian.
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
        self.exited().await
    }

    /// Waits for the first word of the guardian: the agent's process id.
    async fn started(&mut self, command: &AgentCommand) -> Result<i32, SpawnError> {
        match self.status.next().await {
            Some(StatusLine::Started(pid)) => Ok(pid),
            Some(StatusLine::Failed(libc::ENOENT)) => Err(SpawnError::NotFound(command.program.clone())),
            Some(StatusLine::Failed(errno)) => {
                let source = io::Error::from_raw_os_error(errno);
                Err(SpawnError::NotStarted { program: command.program.clone(), source })
            }
            Some(StatusLine::Exited(_) | StatusLine::Killed(_) | StatusLine::Left(_)) | None => {
                let said = self.stderr.settled_tail(STDERR_LIMIT).await;
                Err(SpawnError::GuardianLost { program: command.guardian.program.clone(), said })
            }
        }
    }
}

/// With the guardian lost, the group of its program is all of the tree that can still be named.
pub(crate) fn sweep_group(leader: i32) {
    if leader > 1 {
        // SAFETY: a plain call. The group was the program's a moment ago, when its guardian died.
        unsafe { libc::kill(-leader, libc::SIGKILL) };
    }
}

/// The read end of the status pipe.
#[derive(Debug)]
struct StatusPipe {
    pipe: Receiver,
    unread: Vec<u8>,
}

impl StatusPipe {
    async fn end(&mut self) -> AgentEnd {
        loop {
            match self.next().await {
                Some(StatusLine::Exited(code)) => return AgentEnd::Exited(code),
                Some(StatusLine::Killed(signal)) => return AgentEnd::Killed(signal),
                Some(StatusLine::Started(_) | StatusLine::Failed(_) | StatusLine::Left(_)) => {}
                None => return AgentEnd::Unseen,
            }
        }
    }

    /// The next line; `None` at the end. Loses nothing when cancelled.
    async fn next(&mut self) -> Option<StatusLine> {
        loop {
            if let Some(length) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=length).collect();
                return StatusLine::parse(std::str::from_utf8(&line[..length]).ok()?);
            }
            match self.pipe.read_buf(&mut self.unread).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

/// The ends of the pipes that go to the guardian, the first three of them for the agent.
struct Theirs {
    stdin: PipeReader,
    stdout: PipeWriter,
    stderr: PipeWriter,
    tie: PipeReader,
    status: PipeWriter,
}

fn start_guardian(command: &AgentCommand, theirs: Theirs) -> io::Result<Child> {
    let mut guardian = Command::from(command.guardian.holding(&[], &theirs.tie, &theirs.status));
    guardian
        .arg(&command.program)
        .args(&command.args)
        .stdin(Stdio::from(theirs.stdin))
        .stdout(Stdio::from(theirs.stdout))
        .stderr(Stdio::from(theirs.stderr));
    guardian.spawn()
}

fn keep_over_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: a plain call on a descriptor that is open in this process.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Best effort: the system may set a lower bound, and a smaller pipe only costs speed.
#[cfg(target_os = "linux")]
fn enlarge(pipe: &PipeReader) {
    // SAFETY: a plain call on a descriptor that we own.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, STDOUT_PIPE) };
}

#[cfg(not(target_os = "linux"))]
fn enlarge(_pipe: &PipeReader) {}

/// Our end only becomes non-blocking: the two ends of a pipe have their own flags.
fn sender(pipe: PipeWriter) -> io::Result<Sender> {
    Sender::from_owned_fd(pipe.into())
}

fn receiver(pipe: PipeReader) -> io::Result<Receiver> {
    Receiver::from_owned_fd(pipe.into())
}

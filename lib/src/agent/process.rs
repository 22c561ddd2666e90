//! Starts one agent process under a guardian, waits for its exit, and ends it. Owns the pipes to both; the agent's
//! stdin and stdout are passed on unread.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::{Child, Command};

use super::environment::Environment;
use super::guardian::END;
use super::heartbeat;
use super::status::{AgentEnd, StatusLine};
use super::stderr::{AgentStderr, StderrLog};
use crate::host_deadline::HostDeadline;
use crate::secret::{Secret, Secrets};
use crate::transport::Wire;
use crate::transport::pipe_size::enlarge;

/// The pipe size for the agent's output, so that it rarely waits for us.
const STDOUT_PIPE_BYTES: libc::c_int = 1024 * 1024;
/// How long a guardian may take to end a tree, with some reserve over its own limits.
pub(crate) const END_LIMIT: Duration = Duration::from_millis(1900);
/// How long to wait for the rest of stderr after the agent's exit.
const STDERR_LIMIT: Duration = Duration::from_millis(200);

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct AgentCommand {
    /// The program, looked up in the search path if it contains no slash.
    pub program: OsString,
    /// The arguments.
    pub args: Vec<OsString>,
    /// The environment that it is started in.
    pub environment: Environment,
    /// Environment variables of this agent alone, added to the environment.
    pub env: Vec<(String, Secret)>,
    /// The directory that it is started in; that of this process if there is none.
    pub directory: Option<PathBuf>,
    /// The command that runs [`guardian::run`](super::guardian::run).
    pub guardian: GuardianCommand,
    /// The file that its stderr is appended to.
    pub stderr_log: Option<PathBuf>,
}

/// A command that runs a guardian when `[--stay] --control FD --status FD -- program args...` is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardianCommand {
    /// The program, usually our own.
    pub program: PathBuf,
    /// The arguments before the appended ones.
    pub args: Vec<OsString>,
    /// Until when agents may run, if the leases of the store expire.
    pub deadline: Option<HostDeadline>,
}

impl GuardianCommand {
    /// Makes the guardian's command line with its ends of the two pipes, which must be open when it is started. The
    /// guarded program and its arguments follow.
    pub(crate) fn with_pipes(
        &self,
        flags: &[&str],
        control: &PipeReader,
        status: &PipeWriter,
    ) -> std::process::Command {
        let (control, status) = (control.as_raw_fd(), status.as_raw_fd());
        let mut guardian = std::process::Command::new(&self.program);
        guardian.args(&self.args).args(flags).args([
            "--control",
            &control.to_string(),
            "--status",
            &status.to_string(),
            "--",
        ]);
        // SAFETY: the closure makes only async-signal-safe calls and allocates nothing.
        unsafe {
            guardian.pre_exec(move || {
                // A new session, so that signals to our group or terminal do not kill the guardian.
                if libc::setsid() < 0 {
                    return Err(io::Error::last_os_error());
                }
                // Here and not before the fork, so that no other child inherits them.
                inherit(control)?;
                inherit(status)
            });
        }
        guardian
    }
}

/// A started agent.
#[derive(Debug)]
pub struct SpawnedAgent {
    /// Its input; dropping it closes it.
    pub stdin: Sender,
    /// Its output.
    pub stdout: Receiver,
    /// The process itself.
    pub process: AgentProcess,
}

impl SpawnedAgent {
    /// Separates the streams from the process.
    pub fn split(self) -> (Wire, AgentProcess) {
        (Wire::new(self.stdout, self.stdin), self.process)
    }
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program does not exist.
    #[error("agent program {} was not found", .0.display())]
    NotFound(OsString),
    /// The program exists but could not be started.
    #[error("agent program {} could not be started", program.display())]
    NotStarted {
        /// The program.
        program: OsString,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The guardian could not be started.
    #[error("guardian {} could not be started", program.display())]
    NoGuardian {
        /// The guardian's program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The guardian exited before the agent was started.
    #[error("guardian {} exited before it started the agent: {said}", program.display())]
    GuardianLost {
        /// The guardian's program.
        program: PathBuf,
        /// What it printed.
        said: String,
    },
    /// Pipes or threads could not be created.
    #[error("the pipes to the agent could not be created")]
    Pipes(#[from] io::Error),
}

impl SpawnError {
    /// Advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SpawnError::NotFound(_) => {
                Some("install it, or give its full path; a script also needs its interpreter")
            }
            SpawnError::NotStarted { .. } => Some("check that it is a program and that you may run it"),
            SpawnError::NoGuardian { .. } | SpawnError::GuardianLost { .. } | SpawnError::Pipes(_) => None,
        }
    }
}

/// How an agent exited, and the end of its stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// How it ended; its `Display` describes the status.
    pub end: AgentEnd,
    /// The last lines of its stderr, possibly empty.
    pub stderr: String,
}

/// Starts an agent under a guardian in its own session. Returns when the agent's program runs.
pub async fn spawn(command: &AgentCommand) -> Result<SpawnedAgent, SpawnError> {
    let log = command.stderr_log.as_ref().and_then(|path| {
        // The agent works without its log, for example on a full disk.
        let warn = |error: &io::Error| tracing::warn!("agent log {} is not written: {error}", path.display());
        StderrLog::open(path).inspect_err(warn).ok()
    });
    let own_secrets = Secrets::default();
    own_secrets.add_variables(&command.env);
    let (stdin, our_stdin) = io::pipe()?;
    let (our_stdout, stdout) = io::pipe()?;
    let (our_stderr, stderr) = io::pipe()?;
    let (control, our_tie) = io::pipe()?;
    let (our_status, status) = io::pipe()?;
    enlarge(&our_stdout, STDOUT_PIPE_BYTES);

    let our_tie = Arc::new(File::from(OwnedFd::from(our_tie)));
    if let Some(deadline) = &command.guardian.deadline {
        heartbeat::send(&our_tie, deadline)?;
    }

    let pipes = GuardianPipes { stdin, stdout, stderr, control, status };
    let child = start_guardian(command, pipes)
        .map_err(|source| SpawnError::NoGuardian { program: command.guardian.program.clone(), source })?;
    let mut process = AgentProcess {
        child,
        control: our_tie,
        status: StatusPipe { pipe: receiver(our_status)?, unread: Vec::new() },
        stderr: AgentStderr::read(our_stderr, log, own_secrets)?,
        pid: 0,
        report: None,
    };
    process.pid = process.started(command).await?;
    Ok(SpawnedAgent { stdin: sender(our_stdin)?, stdout: receiver(our_stdout)?, process })
}

/// A running agent and everything it has started. Dropping it makes the guardian end the tree.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    /// The only write end of the control pipe, closed on drop: signs of life are sent with a weak reference.
    control: Arc<File>,
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

    /// Removes these secrets from the agent's stderr from now on.
    pub(crate) fn redact_with(&self, secrets: &Secrets) {
        self.stderr.redact_with(secrets);
    }

    /// Waits for the agent's exit. Cancellation-safe, and may be called again after the exit.
    pub async fn exited(&mut self) -> ExitReport {
        if let Some(report) = &self.report {
            return report.clone();
        }
        let end = self.status.end().await;
        if end == AgentEnd::Unknown {
            kill_group(self.pid);
        }
        let stderr = self.stderr.settled_tail(STDERR_LIMIT).await;
        self.report.insert(ExitReport { end, stderr }).clone()
    }

    /// Ends the agent and returns when its whole tree has ended, within about two seconds.
    ///
    /// Drop its stdin first for the fastest end: closing its input is the first request, SIGTERM the second, SIGKILL
    /// the last.
    pub async fn end(mut self) -> ExitReport {
        // If this fails, the guardian is ending already.
        let _ = (&*self.control).write_all(&[END]);
        if tokio::time::timeout(END_LIMIT, self.child.wait()).await.is_err() {
            // It hangs, or something in the tree cannot be killed. The agent dies with its guardian.
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
        self.exited().await
    }

    /// Waits for the guardian's first line, which contains the agent's process id.
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

/// Kills the process group of a program whose guardian has died: the rest of the tree is unknown.
pub(crate) fn kill_group(leader: i32) {
    if leader > 1 {
        // SAFETY: a plain call. The group belonged to the program a moment ago, when its guardian died.
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
                None => return AgentEnd::Unknown,
            }
        }
    }

    /// Reads the next line; `None` at the end. Cancellation-safe.
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

/// The guardian's ends of the pipes; the first three are for the agent.
struct GuardianPipes {
    stdin: PipeReader,
    stdout: PipeWriter,
    stderr: PipeWriter,
    control: PipeReader,
    status: PipeWriter,
}

fn start_guardian(command: &AgentCommand, pipes: GuardianPipes) -> io::Result<Child> {
    let mut guardian = command.guardian.with_pipes(&[], &pipes.control, &pipes.status);
    command.environment.apply(&mut guardian);
    if let Some(directory) = &command.directory {
        guardian.current_dir(directory);
    }
    let mut guardian = Command::from(guardian);
    guardian
        .arg(&command.program)
        .args(&command.args)
        .envs(command.env.iter().map(|(name, value)| (name, value.reveal())))
        .stdin(Stdio::from(pipes.stdin))
        .stdout(Stdio::from(pipes.stdout))
        .stderr(Stdio::from(pipes.stderr));
    guardian.spawn()
}

fn inherit(fd: RawFd) -> io::Result<()> {
    // SAFETY: a plain call on a descriptor that is open in this process.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Only our end becomes non-blocking: each end of a pipe has its own flags.
fn sender(pipe: PipeWriter) -> io::Result<Sender> {
    Sender::from_owned_fd(pipe.into())
}

fn receiver(pipe: PipeReader) -> io::Result<Receiver> {
    Receiver::from_owned_fd(pipe.into())
}

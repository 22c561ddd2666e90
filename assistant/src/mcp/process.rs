//! The process of a stdio server: starts it, keeps the end of its stderr, and ends it with all its descendants. Messages
//! are in `stdio`.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rethread::agent::stderr::AgentStderr;
use rethread::command::{Environment, Group, GuardianCommand, ProgramArgs};
use rethread::secret::{Secret, Secrets};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::Instant;

/// How long a server may take to exit after its stdin is closed.
const GRACE: Duration = Duration::from_millis(700);
/// How long to wait for the exit after stdout is closed.
const EXIT_WAIT: Duration = Duration::from_millis(500);
/// The pause between two checks whether a server has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait for the rest of stderr.
const STDERR_WAIT: Duration = Duration::from_millis(200);

/// The command and environment of a server.
pub(super) struct Launch<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    /// The environment that it is started in.
    pub(super) environment: &'a Environment,
    pub(super) env: &'a [(String, Secret)],
    /// Environment variables that it does not inherit.
    pub(super) hidden: &'a [String],
    pub(super) cwd: &'a Path,
    /// The guardian that tracks its descendants.
    pub(super) guardian: Option<&'a GuardianCommand>,
}

/// A running server and the pipes to it.
pub(super) struct StartedProcess {
    pub(super) process: Process,
    pub(super) stdin: Sender,
    pub(super) stdout: Receiver,
}

/// A server's process and its descendants.
pub(super) struct Process {
    /// `None` once it has been ended.
    group: Option<Group>,
    stderr: AgentStderr,
}

impl Process {
    /// Starts a server.
    pub(super) async fn start(launch: &Launch<'_>) -> io::Result<StartedProcess> {
        let (stdin, our_stdin) = io::pipe()?;
        let (our_stdout, stdout) = io::pipe()?;
        let (our_stderr, stderr) = io::pipe()?;
        let words = ProgramArgs { program: launch.command, args: launch.args };
        let group = Group::start(launch.guardian, words, |command: &mut Command| {
            launch.environment.apply(command);
            for name in launch.hidden {
                command.env_remove(name);
            }
            command
                .envs(launch.env.iter().map(|(name, value)| (name, value.reveal())))
                .current_dir(launch.cwd)
                .stdin(stdin.try_clone()?)
                .stdout(stdout.try_clone()?)
                .stderr(stderr.try_clone()?);
            Ok(())
        })
        .await?;
        // Closes this process's copies of the child's ends, so that the end of its output is noticed.
        drop((stdin, stdout, stderr));
        let process =
            Self { group: Some(group), stderr: AgentStderr::read(our_stderr, None, Secrets::default())? };
        Ok(StartedProcess {
            process,
            stdin: Sender::from_owned_fd(our_stdin.into())?,
            stdout: Receiver::from_owned_fd(our_stdout.into())?,
        })
    }

    /// The exit status and the last output, as far as they are available soon.
    pub(super) async fn output_suffix(&mut self) -> String {
        let end = self.exit_within(EXIT_WAIT).await;
        match (end, self.said().await) {
            (Some(end), said) if said.is_empty() => end,
            (Some(end), said) => format!("{end}; {said}"),
            (None, said) => said,
        }
    }

    /// The end of its stderr; may be empty.
    pub(super) async fn said(&mut self) -> String {
        match self.stderr.settled_tail(STDERR_WAIT).await.as_str() {
            "" => String::new(),
            said => format!("its last output:\n{said}"),
        }
    }

    /// Ends it, and returns when all its descendants have exited. Its stdin must be closed before: that is the first
    /// request to exit, then SIGTERM and SIGKILL follow.
    pub(super) async fn end(&mut self) {
        self.exit_within(GRACE).await;
        if let Some(group) = self.group.take() {
            group.clear().await;
        }
    }

    async fn exit_within(&mut self, limit: Duration) -> Option<String> {
        let group = self.group.as_mut()?;
        let deadline = Instant::now() + limit;
        loop {
            match group.exited() {
                Some(exit) => return Some(exit.describe()),
                None if Instant::now() >= deadline => return None,
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }
}

impl Drop for Process {
    /// Ends a process that was not ended before. Without a runtime its guardian or its watcher kills it.
    fn drop(&mut self) {
        if let (Some(group), Ok(runtime)) = (self.group.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(group.clear());
        }
    }
}

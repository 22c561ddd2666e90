//! Errors of commands: an exit code, a message and a hint.

use std::ffi::OsStr;
use std::{fmt, io};

use rethread::store::{StoreError, WriteObstacle};
use rethread::wire::with_causes;

use crate::output::escape::visible_lines;
use crate::output::target::{OutputTarget, Paint};
use crate::paths::NoHome;

/// The exit codes of all commands. `docs/cli.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// The command did what it was asked to.
    Success,
    /// Any other error.
    Error,
    /// The command line is wrong. `clap` uses the same code.
    Usage,
    /// No such session or message.
    NotFound,
    /// The session is in use, or the request was refused.
    Refused,
    /// The store cannot be opened, read or written.
    Store,
    /// The user interrupted the command.
    Interrupted,
}

impl ExitCode {
    /// The number for the operating system.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Store => 5,
            Self::Interrupted => 130,
        }
    }
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    code: ExitCode,
    /// Empty if there is nothing to report.
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// Makes a failure without a hint.
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// Makes a failure with the code for other errors, without a hint.
    pub(crate) fn plain(message: &str) -> Self {
        Self::new(ExitCode::Error, message)
    }

    /// Nobody reads the output any more, as in `rethread list | head`. Not an error of the command.
    pub(crate) fn output_closed() -> Self {
        Self::new(ExitCode::Success, "")
    }

    /// The user pressed Ctrl-C at a question.
    pub(crate) fn interrupted() -> Self {
        Self::new(ExitCode::Interrupted, "")
    }

    /// The agent's command could not be started.
    pub(crate) fn agent_not_started(program: &OsStr, error: &io::Error) -> Self {
        let program = program.display();
        let message = if error.kind() == io::ErrorKind::NotFound {
            format!("agent program {program} was not found")
        } else {
            format!("agent program {program} could not be started: {error}")
        };
        Self::plain(&message).hint("check the command after --")
    }

    /// Adds advice.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        self.code
    }

    /// The message, without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The hint.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Prints the message and the hint to stderr, if there is a message.
    pub(crate) fn report(&self) {
        if !self.message.is_empty() {
            eprintln!("{}", self.painted(OutputTarget::stderr()));
        }
    }

    /// The message and the hint, with their first words in colour.
    fn painted(&self, target: OutputTarget) -> String {
        let text = self.to_string();
        let text = match text.strip_prefix("error: ") {
            Some(rest) => format!("{} {rest}", target.paint(Paint::Red, "error:")),
            None => text,
        };
        text.replacen("\nhint: ", &format!("\n{} ", target.paint(Paint::Cyan, "hint:")), 1)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Messages contain ids, titles and texts of agents.
        write!(f, "error: {}", visible_lines(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {}", visible_lines(hint)),
            None => Ok(()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::plain(&with_causes(&error))
    }
}

impl From<NoHome> for Failure {
    fn from(_: NoHome) -> Self {
        Self::plain("neither RETHREAD_HOME nor HOME is set")
            .hint("set RETHREAD_HOME to the folder where sessions are to be kept")
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (code, hint) = match &error {
            StoreError::Unknown(_) => (ExitCode::NotFound, "`rethread list --all` shows the sessions"),
            StoreError::LiveElsewhere { .. } => {
                (ExitCode::Refused, "close the session there, or use `rethread release`")
            }
            StoreError::Exists(_) | StoreError::StaleEpoch { .. } | StoreError::MovedOn { .. } => {
                (ExitCode::Refused, "another process has just changed the session; try again")
            }
            StoreError::Newer { .. } => {
                (ExitCode::Store, "use the newer rethread that wrote the database, or another RETHREAD_HOME")
            }
            StoreError::InUse { .. } => (ExitCode::Store, "end that process, then start again"),
            StoreError::Unwritable { obstacle: WriteObstacle::Full, .. } => {
                (ExitCode::Store, "free space on that disk, then try again; reading works without")
            }
            StoreError::Unwritable { obstacle: WriteObstacle::ReadOnly, .. } => (
                ExitCode::Store,
                "mount it writable, or set RETHREAD_HOME to a folder on another disk; reading works as it is",
            ),
            StoreError::Database { problem, .. } => (ExitCode::Store, problem.hint()),
            StoreError::BadCursor | StoreError::Io { .. } | StoreError::Damaged { .. } => {
                (ExitCode::Store, "check the file and its folder, or set RETHREAD_HOME to another folder")
            }
        };
        Self::new(code, with_causes(&error)).hint(hint)
    }
}

//! Errors of commands: a message and a hint.

use std::ffi::OsStr;
use std::{fmt, io};

use rethread::store::StoreError;
use rethread::wire::with_causes;

use crate::paths::NoHome;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// Makes a failure without a hint.
    pub(crate) fn plain(message: &str) -> Self {
        Self { message: message.to_owned(), hint: None }
    }

    /// The agent's command could not be started.
    pub(crate) fn agent_not_started(program: &OsStr, error: &io::Error) -> Self {
        let program = program.display();
        let message = if error.kind() == io::ErrorKind::NotFound {
            format!("agent program {program} was not found")
        } else {
            format!("agent program {program} could not be started: {error}")
        };
        Self { message, hint: Some("check the command after --".to_owned()) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { message: with_causes(&error), hint: None }
    }
}

impl From<NoHome> for Failure {
    fn from(_: NoHome) -> Self {
        Self {
            message: "neither RETHREAD_HOME nor HOME is set".to_owned(),
            hint: Some("set RETHREAD_HOME to the folder where sessions are to be kept".to_owned()),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Newer { .. } => {
                "use the newer rethread that wrote the database, or another RETHREAD_HOME"
            }
            StoreError::InUse { .. } => "end that process, then start again",
            StoreError::Unknown(_)
            | StoreError::Exists(_)
            | StoreError::LiveElsewhere { .. }
            | StoreError::StaleEpoch { .. }
            | StoreError::MovedOn { .. }
            | StoreError::BadCursor
            | StoreError::Io { .. }
            | StoreError::Damaged { .. } => {
                "check the file and its folder, or set RETHREAD_HOME to another folder"
            }
        };
        Self { message: with_causes(&error), hint: Some(hint.to_owned()) }
    }
}

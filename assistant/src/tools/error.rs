//! The errors of tool calls, with hints that help a model to try again.

use std::io;
use std::time::Duration;

use rethread::sandbox::{FileError, PathError};

/// Why a tool call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// No tool has this name.
    #[error("there is no tool {name:?}")]
    Unknown {
        /// The name.
        name: String,
        /// The names of the tools.
        known: String,
    },
    /// The settings of the session do not allow the tool.
    #[error("the mode or the tool settings of this session do not allow {name}")]
    NotAllowed {
        /// The name of the tool.
        name: String,
    },
    /// An argument is invalid.
    #[error("argument `{argument}` of {tool} is {got}, expected {expected}")]
    Argument {
        /// The tool.
        tool: &'static str,
        /// The argument.
        argument: String,
        /// What was sent, shortened.
        got: String,
        /// What was expected.
        expected: String,
        /// A hint.
        hint: Option<String>,
    },
    /// The tool has no such argument.
    #[error("{tool} has no argument `{argument}`")]
    UnknownArgument {
        /// The tool.
        tool: &'static str,
        /// The argument, shortened.
        argument: String,
        /// The arguments of the tool.
        known: String,
    },
    /// A file cannot be used.
    #[error("{path}: {why}")]
    File {
        /// The path as it was sent.
        path: String,
        /// The reason.
        why: String,
        /// A hint.
        hint: String,
        /// The error of the system.
        #[source]
        source: Option<io::Error>,
    },
    /// A file has changed since its change was prepared.
    #[error("{path} was not changed: {why}")]
    Changed {
        /// The file.
        path: String,
        /// What has changed.
        why: String,
    },
    /// A command did not start.
    #[error("the command did not start")]
    NotStarted(#[source] io::Error),
    /// The file system did not respond in time.
    #[error("the file system did not respond within {} s", .0.as_secs())]
    Unresponsive(Duration),
    /// The call was aborted because the program ends.
    #[error("the tool call was aborted")]
    GivenUp,
}

impl ToolError {
    /// A hint for the model.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { known, .. } => Some(format!("the tools are {known}")),
            Self::NotAllowed { .. } => Some(
                "continue without it, or ask the user to change the mode or the tool settings".to_owned(),
            ),
            Self::Argument { hint, .. } => hint.clone(),
            Self::UnknownArgument { tool, known, .. } => Some(format!("the arguments of {tool} are {known}")),
            Self::File { hint, .. } => Some(hint.clone()),
            Self::Changed { .. } => Some("read the file, then make the change again".to_owned()),
            Self::NotStarted(error) => Some(error.to_string()),
            Self::Unresponsive(_) => {
                Some("try another path, or ask the user to check the file system".to_owned())
            }
            Self::GivenUp => None,
        }
    }

    /// The error and its hint as one text for the model.
    #[must_use]
    pub fn text_for_model(&self) -> String {
        match self.hint() {
            Some(hint) => format!("error: {self}\nhint: {hint}"),
            None => format!("error: {self}"),
        }
    }

    /// Converts a file error; `path` is the path as it was sent.
    pub(super) fn of_file(path: &str, error: FileError, roots: &str) -> Self {
        let (why, hint, source) = match error {
            FileError::Path(PathError::Outside | PathError::Linked) => (
                "the path is outside the directories of this session".to_owned(),
                format!("the directories are {roots}; symbolic links to other places are refused too"),
                None,
            ),
            FileError::NotAFile => (
                "it is not a regular file".to_owned(),
                "directories, pipes and devices are not read".to_owned(),
                None,
            ),
            FileError::Changed => {
                ("it changed while it was in use".to_owned(), "read it again".to_owned(), None)
            }
            FileError::Path(PathError::Io(error)) => {
                let (why, hint) = of_system(&error);
                (why, hint.to_owned(), Some(error))
            }
        };
        Self::File { path: path.to_owned(), why, hint, source }
    }
}

fn of_system(error: &io::Error) -> (String, &'static str) {
    match error.raw_os_error() {
        Some(libc::ENOENT) => ("it does not exist".to_owned(), "look for it with find or list"),
        Some(libc::EISDIR) => ("it is a directory".to_owned(), "use list to see what is in it"),
        Some(libc::ENOTDIR) => {
            ("part of the path is not a directory".to_owned(), "look for it with find or list")
        }
        Some(libc::EACCES | libc::EPERM) => {
            ("permission denied".to_owned(), "ask the user to change its permissions")
        }
        Some(libc::ELOOP) => ("its symbolic links form a loop".to_owned(), "use another path"),
        Some(libc::ENAMETOOLONG) => ("the name is too long".to_owned(), "use another path"),
        Some(libc::EINVAL) => ("the name is not valid".to_owned(), "use another path"),
        _ => (error.to_string(), "ask the user to look into it"),
    }
}

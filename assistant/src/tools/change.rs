//! A planned change of one text file: the old text, the new text, and writing it. The change is made only if the file
//! still has the old text.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rethread::sandbox::{
    self, Expected, FileError, LinkPolicy, MissingDirs, PathError, PathTarget, ResolvedPath, SandboxPath,
    open_regular,
};
use similar::TextDiff;

use super::error::ToolError;
use super::excerpt::name;
use super::file_type;
use super::prepared::ToolOutcome;
use super::read_files::ReadState;
use super::visible::visible;
use super::workspace::{Workspace, private};

/// The maximum size of a file before and after a change, in bytes.
pub(super) const LARGEST: usize = 8 * 1024 * 1024;

/// The number of unchanged lines around a change in a unified diff.
const CONTEXT: usize = 3;
/// The time limit of the search for the smallest diff.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The absolute path.
    pub path: PathBuf,
    /// The text before; `None` for a new file.
    pub old: Option<String>,
    /// The text after the change.
    pub new: String,
}

/// A change and the resolved path of its file.
#[derive(Debug)]
pub(super) struct PlannedChange {
    /// The change.
    pub(super) change: Change,
    /// The path without symbolic links.
    pub(super) real: PathBuf,
    /// The result for the model.
    pub(super) summary: String,
}

impl Change {
    /// The change as a unified diff. Invisible characters are written as escapes.
    #[must_use]
    pub fn unified(&self) -> String {
        let (old, new) = (visible(self.old.as_deref().unwrap_or_default()), visible(&self.new));
        let path = name(&self.path);
        let before = if self.old.is_some() { path.as_str() } else { "/dev/null" };
        let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old.as_ref(), new.as_ref());
        diff.unified_diff().context_radius(CONTEXT).header(before, &path).to_string()
    }
}

impl PlannedChange {
    /// Whether the file is in a `.git` directory, or is the file `.git` of a worktree or a submodule.
    pub(super) fn is_in_git_directory(&self) -> bool {
        let is_git = |path: &Path| {
            path.components().any(|part| part.as_os_str().to_string_lossy().eq_ignore_ascii_case(".git"))
        };
        is_git(&self.real) || is_git(&self.change.path)
    }
}

/// The text and the resolved path of a file; `None` if it does not exist.
pub(super) fn current(
    workspace: &Workspace,
    sent: &str,
) -> Result<(ResolvedPath, Option<String>), ToolError> {
    let spot = workspace.roots.target(&workspace.absolute(sent), MissingDirs::Report, LinkPolicy::Follow);
    match spot.map_err(|error| workspace.error(sent, error))? {
        PathTarget::Missing(at) => Ok((at, None)),
        PathTarget::Directory(..) => Err(directory(sent)),
        PathTarget::Entry(place) => match text(workspace, sent, &place) {
            Ok(text) => Ok((place.at, text)),
            // The system reports the same error for a pipe.
            Err(_) if workspace.roots.directory(&place.at.real).is_ok() => Err(directory(sent)),
            Err(error) => Err(error),
        },
    }
}

/// Makes the change.
pub(super) async fn apply(
    planned: PlannedChange,
    workspace: Arc<Workspace>,
    cancelled: impl Future<Output = ()>,
) -> Result<ToolOutcome, ToolError> {
    tokio::select! {
        biased;
        () = cancelled => return Ok(ToolOutcome::cancelled()),
        () = std::future::ready(()) => {}
    }
    // Not cancelled once it has begun, so that the result says what was written.
    let work = tokio::task::spawn_blocking(move || write(planned, &workspace));
    work.await.unwrap_or(Err(ToolError::GivenUp))
}

fn write(planned: PlannedChange, workspace: &Workspace) -> Result<ToolOutcome, ToolError> {
    let PlannedChange { change, real, summary } = planned;
    let before = change.old.as_ref().map_or(Expected::Nothing, |old| Expected::Bytes(old.as_bytes()));
    let place =
        workspace.roots.resolve_with(&real, MissingDirs::Create, LinkPolicy::Refuse).map_err(FileError::from);
    let written = place.and_then(|place| sandbox::write(&place, change.new.as_bytes(), before));
    match written {
        Ok(()) => {
            if is_known(workspace, &real, change.old.as_deref()) {
                workspace.read_files.note(&real, change.new.as_bytes());
            }
            Ok(ToolOutcome { changes: vec![change], ..ToolOutcome::of_text(summary) })
        }
        Err(error) => {
            let path = workspace.shown(&change.path);
            let why = match error {
                FileError::Changed if change.old.is_some() => "it has changed since the change was prepared",
                FileError::Changed => "it has been created since the change was prepared",
                // The path was inside the roots when the change was prepared.
                FileError::Path(PathError::Outside | PathError::Linked) => {
                    "part of its path has been replaced by a symbolic link"
                }
                FileError::NotAFile => "it has been replaced by something that is not a regular file",
                FileError::Path(PathError::Io(_)) => return Err(workspace.error(&path, error)),
            };
            Err(ToolError::Changed { path, why: why.to_owned() })
        }
    }
}

/// Whether the model has read the current text, or the file is new.
fn is_known(workspace: &Workspace, real: &Path, old: Option<&str>) -> bool {
    old.is_none_or(|old| {
        old.is_empty() || workspace.read_files.state(real, old.as_bytes()) == ReadState::Current
    })
}

/// Fails if the model has not read the current text.
pub(super) fn check_seen(
    workspace: &Workspace,
    at: &ResolvedPath,
    old: Option<&str>,
) -> Result<(), ToolError> {
    if is_known(workspace, &at.real, old) {
        return Ok(());
    }
    let why = match workspace.read_files.state(&at.real, old.unwrap_or_default().as_bytes()) {
        ReadState::Unread => "it exists and was not read since this session was opened",
        ReadState::Outdated | ReadState::Current => "it has changed since it was last read",
    };
    Err(ToolError::Changed { path: workspace.shown(&at.shown), why: why.to_owned() })
}

fn text(workspace: &Workspace, sent: &str, place: &SandboxPath) -> Result<Option<String>, ToolError> {
    let (mut file, meta) = match open_regular(place, libc::O_RDONLY) {
        Ok((_, meta)) if workspace.is_private(&meta) => return Err(workspace.error(sent, private())),
        Ok(opened) => opened,
        Err(FileError::Path(PathError::Io(error))) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(workspace.error(sent, error)),
    };
    let mut bytes = Vec::new();
    // One byte more than allowed, since the length may change while the file is read.
    let read = (&mut file).take(LARGEST as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| workspace.error(sent, error))?;
    if bytes.len() > LARGEST {
        return Err(too_large(sent, meta.len()));
    }
    let kind = file_type::binary(&bytes);
    match (kind, String::from_utf8(bytes)) {
        (None, Ok(text)) => Ok(Some(text)),
        (Some(kind), _) => Err(no_text(sent, kind, meta.len())),
        (None, Err(_)) => Err(no_text(sent, "not UTF-8 text", meta.len())),
    }
}

/// The error about a file that is too large.
pub(super) fn too_large(sent: &str, size: u64) -> ToolError {
    ToolError::File {
        path: sent.to_owned(),
        why: format!("it has {size} bytes, and files of more than {LARGEST} bytes cannot be changed"),
        hint: "change it with a command".to_owned(),
        source: None,
    }
}

fn no_text(sent: &str, kind: &str, size: u64) -> ToolError {
    ToolError::File {
        path: sent.to_owned(),
        why: format!("it is {kind} of {size} bytes, and only UTF-8 text can be changed"),
        hint: "change it with a command, or write another file".to_owned(),
        source: None,
    }
}

fn directory(sent: &str) -> ToolError {
    ToolError::File {
        path: sent.to_owned(),
        why: "it is a directory".to_owned(),
        hint: "name a file in it; missing directories are created".to_owned(),
        source: None,
    }
}

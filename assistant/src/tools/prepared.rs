//! A prepared tool call: its title, locations and effects for the user, and running it with a time limit and cancellation.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::change::{self, Change, PlannedChange};
use super::error::ToolError;
use super::run::{self, RunCall};
use super::spec::Kind;
use super::stop::Stop;
use super::visible;
use super::workspace::Workspace;

/// The maximum number of characters of a title.
const LONGEST_TITLE: usize = 100;
/// The time limit for a call that reads.
const LOOK_TIME: Duration = Duration::from_secs(30);
/// How long a stopped call is waited for; it may hang in the file system.
const STOP_TIME: Duration = Duration::from_secs(1);

/// Receives the output of a command. A full channel slows the command down; a closed one is ignored.
pub type Sink = mpsc::Sender<Vec<u8>>;

/// A tool call that was checked and can be run.
#[derive(Debug)]
pub struct PreparedCall {
    kind: Kind,
    title: String,
    locations: Vec<Location>,
    plan: Action,
    workspace: Arc<Workspace>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The absolute path of a file or directory.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: Option<u64>,
}

/// A command line and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The text for the shell.
    pub line: String,
    /// The absolute working directory.
    pub cwd: PathBuf,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutcome {
    /// The text for the model.
    pub text: String,
    /// The image for the model.
    pub image: Option<ImageFile>,
    /// The changes of files.
    pub changes: Vec<Change>,
    /// How the command ended, if the call ran one.
    pub exit: Option<Exit>,
    /// How the call ended.
    pub end: CallEnd,
}

/// An image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// The media type, such as `image/png`.
    pub mime: &'static str,
    /// The content of the file.
    pub bytes: Vec<u8>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, if it was not ended by a signal.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It was completed.
    Done,
    /// It reached its time limit; the text has the partial result.
    TimedOut,
    /// It was cancelled; the text has the partial result.
    Cancelled,
}

/// What a call does.
#[derive(Debug)]
pub(super) enum Action {
    /// Reads files.
    Read(Box<dyn ReadAction>),
    /// Changes a file.
    Change(PlannedChange),
    /// Runs a command.
    Run(RunCall),
}

/// A call that only reads. It runs on a thread that may block.
pub(super) trait ReadAction: Debug + Send {
    /// Reads until it is done or has to stop, and returns the result.
    fn look(&self, workspace: &Workspace, stop: &Stop) -> Result<Findings, ToolError>;
}

/// The result of a call that only reads.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) text: String,
    pub(super) image: Option<ImageFile>,
}

impl From<String> for Findings {
    fn from(text: String) -> Self {
        Self { text, image: None }
    }
}

impl PreparedCall {
    pub(super) fn new(workspace: &Arc<Workspace>, kind: Kind, title: String, plan: Action) -> Self {
        let title = visible::label(&title, LONGEST_TITLE);
        Self { kind, title, locations: Vec::new(), plan, workspace: workspace.clone() }
    }

    pub(super) fn at(mut self, path: PathBuf, line: Option<u64>) -> Self {
        self.locations.push(Location { path, line });
        self
    }

    /// The kind of tool, for users.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A short title that says what the call does.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The files that the call uses.
    #[must_use]
    pub fn locations(&self) -> &[Location] {
        &self.locations
    }

    /// The change of a file, if there is one.
    #[must_use]
    pub fn change(&self) -> Option<&Change> {
        match &self.plan {
            Action::Change(planned) => Some(&planned.change),
            Action::Read(_) | Action::Run(_) => None,
        }
    }

    /// Whether it changes a file in a `.git` directory, such as settings or hooks.
    #[must_use]
    pub fn is_in_git_directory(&self) -> bool {
        match &self.plan {
            Action::Change(planned) => planned.is_in_git_directory(),
            Action::Read(_) | Action::Run(_) => false,
        }
    }

    /// The command, if the call runs one.
    #[must_use]
    pub fn command(&self) -> Option<&CommandLine> {
        match &self.plan {
            Action::Run(line) => Some(&line.command),
            Action::Read(_) | Action::Change(_) => None,
        }
    }

    /// Runs the call. It ends soon after `cancelled` does, but a change that has begun is finished and reported.
    ///
    /// Dropping the future ends the call and its commands.
    pub async fn run(
        self,
        sink: Sink,
        cancelled: impl Future<Output = ()> + Send,
    ) -> Result<ToolOutcome, ToolError> {
        match self.plan {
            Action::Read(plan) => look(plan, self.workspace, cancelled).await,
            Action::Change(planned) => change::apply(planned, self.workspace, cancelled).await,
            Action::Run(line) => run::run(line, self.workspace, sink, cancelled).await,
        }
    }
}

impl ToolOutcome {
    pub(super) fn of_text(text: String) -> Self {
        Self { text, image: None, changes: Vec::new(), exit: None, end: CallEnd::Done }
    }

    /// The result of a call that was cancelled before it began.
    pub(super) fn cancelled() -> Self {
        Self { end: CallEnd::Cancelled, ..Self::of_text("(cancelled)".to_owned()) }
    }
}

/// Stops the call when the future that waits for it is dropped.
struct StopOnDrop(Arc<Stop>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

async fn look(
    plan: Box<dyn ReadAction>,
    workspace: Arc<Workspace>,
    cancelled: impl Future<Output = ()>,
) -> Result<ToolOutcome, ToolError> {
    let stop = Arc::new(Stop::after(LOOK_TIME));
    let on_drop = StopOnDrop(stop.clone());
    let looking = stop.clone();
    let mut work = tokio::task::spawn_blocking(move || plan.look(&workspace, &looking));
    let done = tokio::select! {
        done = &mut work => done,
        () = cancelled => {
            stop.cancel();
            match tokio::time::timeout(STOP_TIME, work).await {
                Ok(done) => done,
                Err(_) => return Ok(ToolOutcome::cancelled()),
            }
        }
        // A file system that does not respond blocks the thread, so the call cannot stop by itself.
        () = tokio::time::sleep(LOOK_TIME + STOP_TIME) => return Err(ToolError::Unresponsive(LOOK_TIME)),
    };
    let end = stop.end();
    drop(on_drop);
    let Findings { text, image } = done.unwrap_or(Err(ToolError::GivenUp))?;
    let text = match end {
        CallEnd::Done => text,
        CallEnd::TimedOut => format!("{text}\n(stopped after {} s; there may be more)", LOOK_TIME.as_secs()),
        CallEnd::Cancelled => format!("{text}\n(cancelled; there may be more)"),
    };
    Ok(ToolOutcome { image, end, ..ToolOutcome::of_text(text) })
}

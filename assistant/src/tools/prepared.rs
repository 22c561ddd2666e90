//! A call that was checked: what it will do, in words for a user, and the doing of it.

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

/// How many characters of what it does a title has.
const LONGEST_TITLE: usize = 100;
/// How long looking may take.
const LOOK_TIME: Duration = Duration::from_secs(30);
/// How long work is waited for that was told to stop: it may hang in the file system.
const STOP_TIME: Duration = Duration::from_secs(1);

/// Takes what a command writes, as it comes. A full channel slows the command down, a closed one does not matter.
pub type Sink = mpsc::Sender<Vec<u8>>;

/// A call that was checked and can be run.
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
    /// The file or directory, absolute.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: Option<u64>,
}

/// A command that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The line for the shell.
    pub line: String,
    /// Where it runs, absolute.
    pub cwd: PathBuf,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutcome {
    /// What the model is told.
    pub text: String,
    /// The image that it is given with the text.
    pub image: Option<ImageFile>,
    /// The files that were changed.
    pub changes: Vec<Change>,
    /// How the command ended, if there was one.
    pub exit: Option<Exit>,
    /// Whether the call came to its own end.
    pub end: CallEnd,
}

/// An image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Its media type, such as `image/png`.
    pub mime: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// By itself.
    Done,
    /// Its time was up; the text has what there was.
    TimedOut,
    /// It was cancelled; the text has what there was.
    Cancelled,
}

/// What a call does.
#[derive(Debug)]
pub(super) enum Action {
    /// It looks at files.
    Read(Box<dyn ReadAction>),
    /// It changes a file.
    Change(PlannedChange),
    /// It runs a command.
    Run(RunCall),
}

/// A call that only looks. It runs on a thread that may wait.
pub(super) trait ReadAction: Debug + Send {
    /// Looks, until it is done or has to stop, and gives what it saw.
    fn look(&self, workspace: &Workspace, stop: &Stop) -> Result<Findings, ToolError>;
}

/// What a look at files gives.
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

    /// What kind of tool it is to users.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it will do, in a few words.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Where it will do it.
    #[must_use]
    pub fn locations(&self) -> &[Location] {
        &self.locations
    }

    /// The change that it will make, if it changes a file.
    #[must_use]
    pub fn change(&self) -> Option<&Change> {
        match &self.plan {
            Action::Change(planned) => Some(&planned.change),
            Action::Read(_) | Action::Run(_) => None,
        }
    }

    /// Whether it changes a file of a git repository's own: its settings, hooks or objects.
    #[must_use]
    pub fn is_in_git_directory(&self) -> bool {
        match &self.plan {
            Action::Change(planned) => planned.is_in_git_directory(),
            Action::Read(_) | Action::Run(_) => false,
        }
    }

    /// The command that it will run, if it runs one.
    #[must_use]
    pub fn command(&self) -> Option<&CommandLine> {
        match &self.plan {
            Action::Run(line) => Some(&line.command),
            Action::Read(_) | Action::Change(_) => None,
        }
    }

    /// Does it. Ends soon after `cancelled` does; a change that has begun is finished, and told.
    ///
    /// Dropping this ends what it does, commands and all.
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

    /// Nothing was done, for it was cancelled.
    pub(super) fn cancelled() -> Self {
        Self { end: CallEnd::Cancelled, ..Self::of_text("(cancelled)".to_owned()) }
    }
}

/// Tells the work to stop when nobody waits for it any more.
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
        // It hangs where it cannot see that its time is up: in a file system that does not answer.
        () = tokio::time::sleep(LOOK_TIME + STOP_TIME) => return Err(ToolError::Hangs(LOOK_TIME)),
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

//! The assistant's built-in tools: read, list, find, search, write, edit, run. The tools for files stay inside the roots
//! of the session and follow no symbolic link out of them. A call is prepared first, so that the user can be asked about
//! it, and then run. Knows no protocol and no session.

mod access;
mod arguments;
mod change;
mod closest_match;
mod edit;
mod error;
mod excerpt;
mod file_type;
mod find;
mod glob;
mod ignored;
mod list;
mod prepared;
mod read;
mod read_files;
mod run;
mod search;
mod shell;
mod spec;
mod stop;
pub(crate) mod visible;
mod walk;
mod workspace;
mod write;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

pub use self::access::{Access, FileAccess, TerminalAccess};
use self::arguments::Arguments;
pub use self::change::Change;
pub use self::error::ToolError;
pub use self::prepared::{CallEnd, CommandLine, Exit, ImageFile, Location, PreparedCall, Sink, ToolOutcome};
pub use self::shell::{Shell, shell};
pub use self::spec::{Effect, Kind, ToolSpec};
use self::workspace::Workspace;
use rethread::command::{Environment, GuardianCommand};

/// The tools of one session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Toolbox(Arc<Workspace>);

/// A tool: its specification and the function that prepares a call.
struct BuiltinTool {
    name: &'static str,
    spec: fn() -> ToolSpec,
    prepare: fn(&Arc<Workspace>, &Arguments<'_>) -> Result<PreparedCall, ToolError>,
}

const TOOLS: [BuiltinTool; 7] = [
    BuiltinTool { name: read::NAME, spec: read::spec, prepare: read::prepare },
    BuiltinTool { name: list::NAME, spec: list::spec, prepare: list::prepare },
    BuiltinTool { name: find::NAME, spec: find::spec, prepare: find::prepare },
    BuiltinTool { name: search::NAME, spec: search::spec, prepare: search::prepare },
    BuiltinTool { name: write::NAME, spec: write::spec, prepare: write::prepare },
    BuiltinTool { name: edit::NAME, spec: edit::spec, prepare: edit::prepare },
    BuiltinTool { name: run::NAME, spec: run::spec, prepare: run::prepare },
];

impl Toolbox {
    /// Tools for these absolute roots, the working directory first. The roots are resolved now; one that does not exist is
    /// ignored.
    pub fn new(roots: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self(Arc::new(Workspace::new(roots.into_iter().map(Into::into).collect())))
    }

    /// The same tools; commands do not get these environment variables.
    #[must_use]
    pub fn without_variables(&self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut workspace = Workspace::clone(&self.0);
        workspace.hidden.extend(names.into_iter().map(Into::into));
        Self(Arc::new(workspace))
    }

    /// The same tools; none of them reads or writes these files. Commands are limited only by permissions.
    #[must_use]
    pub fn without_files(&self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut workspace = Workspace::clone(&self.0);
        workspace.private.extend(files);
        Self(Arc::new(workspace))
    }

    /// The same tools; commands run under a guardian, which ends all their processes.
    #[must_use]
    pub fn guarded(&self, guardian: Option<GuardianCommand>) -> Self {
        Self(Arc::new(Workspace { guardian, ..Workspace::clone(&self.0) }))
    }

    /// The same tools; commands are started in this environment.
    #[must_use]
    pub fn in_environment(&self, environment: Environment) -> Self {
        Self(Arc::new(Workspace { environment, ..Workspace::clone(&self.0) }))
    }

    /// The roots as they were configured, the working directory first.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.0.named
    }

    /// The beginning of a file as text, at most this many bytes.
    pub async fn start_of(&self, path: &Path, most: u64) -> Result<String, ToolError> {
        let (workspace, path) = (self.0.clone(), path.display().to_string());
        let work = move || {
            let mut bytes = Vec::new();
            let read = workspace.file(&path)?.file.take(most).read_to_end(&mut bytes);
            read.map_err(|error| workspace.error(&path, error))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        tokio::task::spawn_blocking(work).await.unwrap_or(Err(ToolError::GivenUp))
    }

    /// The tools that this access allows.
    #[must_use]
    pub fn describe(&self, access: Access) -> Vec<ToolSpec> {
        TOOLS.iter().map(|tool| (tool.spec)()).filter(|spec| access.allows(spec.effect)).collect()
    }

    /// Checks a call and finds out what it will do. Changes nothing and starts nothing.
    pub async fn prepare(
        &self,
        name: &str,
        arguments: &Value,
        access: Access,
    ) -> Result<PreparedCall, ToolError> {
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
            let known: Vec<_> = self.describe(access).iter().map(|spec| spec.name).collect();
            return Err(ToolError::Unknown { name: name.to_owned(), known: known.join(", ") });
        };
        let spec = (tool.spec)();
        if !access.allows(spec.effect) {
            return Err(ToolError::NotAllowed { name: tool.name.to_owned() });
        }
        let (workspace, arguments, prepare) = (self.0.clone(), arguments.clone(), tool.prepare);
        let work = move || prepare(&workspace, &Arguments::read(&spec, &arguments)?);
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(ToolError::GivenUp))
    }
}

//! Imports the sessions of other tools: finds them, says what it will do, stores them and reports what became of each.

mod report;
mod watch;

use std::path::{Path, PathBuf};

use rethread::importer::{
    Found, Places, SessionReader, SessionSource, SourceImportError, SourceOutcome, ToolImport, readers,
};
use rethread::session_file::ImportMode;
use rethread::store::{IndexProgress, ProgressCallback, Store};
use rethread::wire::with_causes;

use crate::failure::{ExitCode, Failure};
use crate::output::progress::progress_bar;
use crate::output::size::size;
use crate::paths::Paths;
use crate::picker::confirm;
use report::{ToolReport, plural};
pub(crate) use report::{failure, json, text};
pub(crate) use watch::{keep_watching, watch};

/// What is imported, and how.
pub(crate) struct ImportRequest {
    /// The tools.
    pub(crate) tools: Vec<&'static dyn SessionReader>,
    /// A folder or file to import from instead of where the tool keeps its sessions.
    pub(crate) path: Option<PathBuf>,
    /// Under which ids sessions are stored.
    pub(crate) mode: ImportMode,
    /// Whether the user is asked first.
    pub(crate) question: Question,
}

/// Whether the user is asked before something is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Says what will be done, and asks.
    Asked,
    /// Goes ahead.
    Skipped,
}

/// The reader of a tool, if there is a tool of that name.
pub(crate) fn tool_named(name: &Path) -> Option<&'static dyn SessionReader> {
    readers().iter().copied().find(|reader| Path::new(reader.tool().name) == name)
}

/// Where things are on this machine.
pub(crate) fn places() -> Result<Places, Failure> {
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let scratch = Paths::from_environment()?.scratch();
    Ok(Places { home, variables: variables.collect(), scratch })
}

/// Imports what was asked for.
pub(crate) async fn import(store: &dyn Store, request: &ImportRequest) -> Result<Vec<ToolReport>, Failure> {
    let places = places()?;
    let mut found = Vec::new();
    for reader in &request.tools {
        let sources = find(*reader, request.path.as_deref(), &places)?;
        let import = ToolImport::begin(store, *reader, request.mode).await?;
        found.push((import, ToolReport::new(reader.tool(), &sources), sources));
    }
    if request.question == Question::Asked {
        ask(&found)?;
    }
    let due = |(import, _, found): &(ToolImport<'_>, ToolReport, Found)| {
        found.sources.iter().filter(|source| import.is_due(source)).count()
    };
    let mut progress = Progress::new(found.iter().map(due).sum());
    let mut reports = Vec::new();
    for (mut import, mut report, found) in found {
        for source in found.sources {
            let is_due = import.is_due(&source);
            report.add(import_one(&mut import, source).await?);
            if is_due {
                progress.step();
            }
        }
        reports.push(report);
    }
    Ok(reports)
}

/// What became of one source.
pub(crate) struct SourceLine {
    pub(crate) path: PathBuf,
    pub(crate) key: String,
    pub(crate) outcome: Result<rethread::importer::SourceReport, String>,
}

/// Imports one source. One that cannot be read is a line of the report; a store that fails ends the import.
pub(crate) async fn import_one(
    import: &mut ToolImport<'_>,
    source: SessionSource,
) -> Result<SourceLine, Failure> {
    let (path, key) = (source.path.clone(), source.key.clone());
    let outcome = match import.source(source).await {
        Ok(report) => Ok(report),
        Err(SourceImportError::Read(error)) => Err(with_causes(&error)),
        Err(SourceImportError::Store(error)) => return Err(error.into()),
    };
    Ok(SourceLine { path, key, outcome })
}

/// Finds the sessions of a tool.
fn find(reader: &dyn SessionReader, path: Option<&Path>, places: &Places) -> Result<Found, Failure> {
    let mut found = Found::default();
    let Some(path) = path else {
        for root in reader.roots(places) {
            reader.find(&root, places, &mut found);
        }
        return Ok(found);
    };
    if !path.exists() {
        return Err(Failure::new(ExitCode::NotFound, format!("{} does not exist", path.display())));
    }
    // The ledger has absolute paths, so that a source is known from wherever it is named.
    let path = std::path::absolute(path)?;
    reader.find(&path, places, &mut found);
    Ok(found)
}

/// Says what will be imported, and asks.
fn ask(found: &[(ToolImport<'_>, ToolReport, Found)]) -> Result<(), Failure> {
    let mut due = 0;
    for (import, report, found) in found.iter().filter(|(_, _, found)| !found.sources.is_empty()) {
        let new: Vec<_> = found.sources.iter().filter(|source| import.is_due(source)).collect();
        let bytes = new.iter().map(|source| source.size).sum();
        let of = format!("{}: {}", report.title(), plural(found.sources.len() as u64, "session"));
        match new.len() {
            0 => eprintln!("{of}, none new or changed"),
            count => eprintln!("{of}, {count} new or changed ({})", size(bytes)),
        }
        due += new.len();
    }
    if due == 0 {
        return Ok(());
    }
    confirm(&format!("Import {}? Their files are only read.", plural(due as u64, "session")))
}

/// The progress of an import on a terminal.
struct Progress {
    show: ProgressCallback,
    state: IndexProgress,
}

impl Progress {
    fn new(total: usize) -> Self {
        let mut progress = Self { show: progress_bar("Importing"), state: IndexProgress { done: 0, total } };
        (progress.show)(progress.state);
        progress
    }

    fn step(&mut self) {
        self.state.done += 1;
        (self.show)(self.state);
    }
}

/// The word for an outcome, in JSON.
pub(crate) fn outcome_word(outcome: &SourceOutcome) -> &'static str {
    match outcome {
        SourceOutcome::Imported(_) => "imported",
        SourceOutcome::Grown(_) => "grown",
        SourceOutcome::Unchanged => "unchanged",
        SourceOutcome::AlreadyHere => "alreadyHere",
        SourceOutcome::Diverged => "diverged",
        SourceOutcome::Rewritten => "rewritten",
        SourceOutcome::DeletedHere => "deletedHere",
        SourceOutcome::InProgress => "inProgress",
        SourceOutcome::Empty => "empty",
    }
}

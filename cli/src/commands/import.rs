//! `rethread import`: stores the sessions of other tools, or those of a file that `rethread export` wrote. Importing from
//! other tools is in `importing`.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use rethread::importer::{SessionReader, readers};
use rethread::session_file::{
    BrokenLine, FileContent, FileSection, ImportError, ImportMode, ImportOutcome, ImportedSession,
    SessionFileError, import_section, read_sections,
};
use rethread::store::Store;
use rethread::wire::with_causes;
use serde_json::{Value, json};

use crate::changes::{JsonOption, ReportForm};
use crate::failure::{ExitCode, Failure};
use crate::importing::{self, ImportRequest, Question, tool_named};
use crate::output::escape::visible;
use crate::output::json::json_document;
use crate::output::stream::print;
use crate::stored_sessions::with_new_store;

/// Options of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A tool whose sessions are imported: claude, codex, gemini, opencode, qwen, goose, zed. Or a file that `rethread
    /// export` wrote; `-` for stdin.
    #[arg(value_name = "TOOL|FILE", required_unless_present_any = ["all", "watch"])]
    source: Option<PathBuf>,
    /// Where the tool's sessions are, if not where it keeps them: a folder, a file or a database.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Import the sessions of all tools.
    #[arg(long, conflicts_with_all = ["source", "path"])]
    all: bool,
    /// Follow the tools and import what they write, until Ctrl-C. Without a tool, all are followed.
    #[arg(long, conflicts_with_all = ["as_new", "all"])]
    watch: bool,
    /// Store copies under new ids. Agents continue a copy from its transcript.
    #[arg(long)]
    as_new: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// What became of the sessions of a file.
#[derive(Default)]
struct ImportReport {
    sessions: Vec<(FileSection, ImportedSession)>,
}

/// Imports from tools, or from a file.
pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let tool = args.source.as_deref().and_then(tool_named);
    match (tool, &args.source) {
        (Some(reader), _) => from_tools(args, vec![reader]),
        (None, None) => from_tools(args, readers().to_vec()),
        (None, Some(source)) if args.path.is_some() || args.watch => Err(no_such_tool(source)),
        (None, Some(file)) => from_file(args, file),
    }
}

fn no_such_tool(name: &Path) -> Failure {
    let names: Vec<_> = readers().iter().map(|reader| reader.tool().name).collect();
    let message = format!("there is no tool {} to import from", name.display());
    Failure::new(ExitCode::Usage, message).hint(format!("the tools are {}", names.join(", ")))
}

fn from_tools(args: &ImportArgs, tools: Vec<&'static dyn SessionReader>) -> Result<(), Failure> {
    let question = if args.all && !args.yes { Question::Asked } else { Question::Skipped };
    let request = ImportRequest { tools, path: args.path.clone(), mode: args.mode(), question };
    let form = args.json.form();
    if args.watch {
        return with_new_store(async |store| importing::watch(store.as_ref(), &request, form).await);
    }
    let reports = with_new_store(async |store| importing::import(store.as_ref(), &request).await)?;
    match form {
        ReportForm::Json => print(&json_document(&importing::json(&reports)))?,
        ReportForm::Text => print(&importing::text(&reports))?,
    }
    importing::failure(&reports)
}

impl ImportArgs {
    fn mode(&self) -> ImportMode {
        if self.as_new { ImportMode::Copy } else { ImportMode::Same }
    }
}

/// Imports a file of sessions.
fn from_file(args: &ImportArgs, path: &Path) -> Result<(), Failure> {
    let mut file = open(path)?;
    let content = read_sections(BufReader::new(&mut file)).map_err(|error| unreadable(path, error))?;
    warn(&content);
    if content.sections.iter().all(|section| section.entries == 0) {
        let names: Vec<_> = readers().iter().map(|reader| reader.tool().name).collect();
        let message = format!("{} has no session that can be read", path.display());
        let hint = format!(
            "`rethread export` writes such files; the files of other tools are imported with `rethread import {} FILE`",
            names.join("|")
        );
        return Err(Failure::plain(&message).hint(hint));
    }
    let report =
        with_new_store(async |store| import(store.as_ref(), &mut file, &content, args.mode(), path).await)?;
    match args.json.form() {
        ReportForm::Json => print(&json_document(&report.json(&content)))?,
        ReportForm::Text => print(&report.text())?,
    }
    report.failure()
}

/// Opens a file that can be read twice.
fn open(path: &Path) -> Result<File, Failure> {
    let failed = |error: &io::Error| {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let code = if is_missing { ExitCode::NotFound } else { ExitCode::Error };
        Failure::new(code, format!("{} cannot be read: {error}", path.display()))
    };
    let opened = if path.as_os_str() == "-" { spooled(&mut io::stdin().lock()) } else { reopened(path) };
    opened.map_err(|error| failed(&error))
}

fn reopened(path: &Path) -> io::Result<File> {
    let mut file = File::open(path)?;
    match file.metadata()? {
        found if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        found if found.is_file() => Ok(file),
        _ => spooled(&mut file),
    }
}

/// Copies a stream to a file without a name.
fn spooled(input: &mut impl io::Read) -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("rethread-import-{}.jsonl", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    io::copy(input, &mut file)?;
    file.rewind()?;
    Ok(file)
}

async fn import(
    store: &dyn Store,
    file: &mut File,
    content: &FileContent,
    mode: ImportMode,
    path: &Path,
) -> Result<ImportReport, Failure> {
    let mut report = ImportReport::default();
    for section in content.sections.iter().filter(|section| section.entries > 0) {
        file.seek(SeekFrom::Start(section.offset()))?;
        let imported = import_section(store, section, mode, BufReader::new(&mut *file)).await;
        let imported = imported.map_err(|error| match error {
            ImportError::File(error) => unreadable(path, error),
            ImportError::Store(error) => error.into(),
        })?;
        report.sessions.push((section.clone(), imported));
    }
    Ok(report)
}

/// Says on stderr which lines were skipped.
fn warn(content: &FileContent) {
    for BrokenLine { line, reason } in &content.broken {
        eprintln!("warning: line {line} was skipped: {}", visible(reason));
    }
    let listed = content.broken.len() as u64;
    if content.skipped > listed {
        eprintln!("warning: {} more lines were skipped", content.skipped - listed);
    }
    for section in content.sections.iter().filter(|section| !section.complete && section.entries > 0) {
        eprintln!("warning: session {} is not complete", visible(section.header.id.as_str()));
    }
}

impl ImportReport {
    fn text(&self) -> String {
        let mut text = String::new();
        for (section, session) in &self.sessions {
            let title = section.header.title.as_deref().filter(|title| !title.is_empty());
            let name = visible(title.unwrap_or(section.header.id.as_str()));
            let id = visible(session.id.as_str());
            match &session.outcome {
                ImportOutcome::Stored => text += &format!("Imported {name} as {id}.\n"),
                ImportOutcome::Unchanged => text += &format!("Unchanged: {name} is here already as {id}.\n"),
                ImportOutcome::Refused(_) => {}
            }
        }
        text
    }

    fn json(&self, content: &FileContent) -> Value {
        let session = |(section, session): &(FileSection, ImportedSession)| {
            let (outcome, reason) = match &session.outcome {
                ImportOutcome::Stored => ("stored", None),
                ImportOutcome::Unchanged => ("unchanged", None),
                ImportOutcome::Refused(reason) => ("refused", Some(reason)),
            };
            json!({"id": session.id, "originalId": section.header.id, "outcome": outcome, "reason": reason,
                "complete": section.complete})
        };
        let broken =
            content.broken.iter().map(|broken| json!({"line": broken.line, "reason": broken.reason}));
        json!({"sessions": self.sessions.iter().map(session).collect::<Vec<_>>(),
            "skippedLines": content.skipped, "broken": broken.collect::<Vec<_>>()})
    }

    /// The failure of the sessions that were refused.
    fn failure(&self) -> Result<(), Failure> {
        let refused = self.sessions.iter().filter_map(|(_, session)| match &session.outcome {
            ImportOutcome::Refused(reason) => {
                Some(format!("session {} was not imported: {reason}", session.id))
            }
            ImportOutcome::Stored | ImportOutcome::Unchanged => None,
        });
        let refused: Vec<_> = refused.collect();
        if refused.is_empty() {
            return Ok(());
        }
        Err(Failure::new(ExitCode::Refused, refused.join("\n")).hint("--as-new stores a copy under a new id"))
    }
}

fn unreadable(path: &Path, error: SessionFileError) -> Failure {
    let failure = Failure::plain(&format!("importing {} failed: {}", path.display(), with_causes(&error)));
    match error {
        SessionFileError::Newer { .. } => {
            failure.hint("import it with the rethread that wrote it, or a newer one")
        }
        SessionFileError::Io(_) => failure,
    }
}

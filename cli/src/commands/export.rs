//! `rethread export`: writes sessions as JSON lines that can be imported again, as Markdown or as a web page.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rethread::secret::SecretFinder;
use rethread::session_file::{ExportRedaction, export_session};
use rethread::store::{SessionRow, Store};
use rethread::transcript::{JournalDamage, SessionOutline, TextFormat, each_turn};
use serde_json::json;

use super::show::unreadable;
use crate::changes::{ReportForm, report};
use crate::export_file::{ExportFile, Overwrite, file_name};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::resolve::{choose, resolve};
use crate::stored_sessions::with_store;

/// Options of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The sessions: their ids, unique beginnings or ends of them, or `@last`. If there is none, a terminal shows a list to
    /// choose from.
    #[arg(value_name = "ID")]
    sessions: Vec<String>,
    /// The format; by default that of the file's extension, or jsonl.
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// The file to write; a folder gets a file for each session. By default stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite files.
    #[arg(long, requires = "output")]
    force: bool,
    /// Replace what looks like a key, a token or a password; the default for html.
    #[arg(long, overrides_with = "no_redact")]
    redact: bool,
    /// Replace nothing.
    #[arg(long, overrides_with = "redact")]
    no_redact: bool,
    /// Print JSON about the files that were written; needs a file, since otherwise stdout has the export itself. To print a
    /// session as JSON, use `--format jsonl`, or `rethread show --json`.
    #[arg(long)]
    json: bool,
}

impl ExportArgs {
    /// The file or folder to write to; nothing for stdout.
    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| path.as_os_str() != "-")
    }
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// JSON lines with all entries, for `rethread import`.
    Jsonl,
    /// A text to read.
    Markdown,
    /// A web page that needs nothing else.
    Html,
}

impl ExportFormat {
    /// The extension of files.
    fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Markdown => "md",
            Self::Html => "html",
        }
    }

    /// The format that a file's extension names.
    fn of_file(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }
}

/// What to do with each session.
struct ExportPlan {
    format: ExportFormat,
    overwrite: Overwrite,
    finder: Option<SecretFinder>,
    damage: Option<JournalDamage>,
}

/// Exports sessions.
pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let format = args.format.or_else(|| ExportFormat::of_file(args.file()?));
    let format = format.unwrap_or(ExportFormat::Jsonl);
    check_json(args, format)?;
    let redacts = args.redact || (format == ExportFormat::Html && !args.no_redact);
    let mut plan = ExportPlan {
        format,
        overwrite: if args.force { Overwrite::Allowed } else { Overwrite::Refused },
        finder: redacts.then(SecretFinder::default),
        damage: None,
    };
    let written = with_store(async |store| {
        let rows = rows(args, store.as_ref()).await?;
        match target(args, format, rows.len())? {
            ExportTarget::Stream(file) => plan.export_together(store.as_ref(), &rows, file).await,
            ExportTarget::Folder(folder) => plan.export_apart(store.as_ref(), &rows, &folder).await,
        }
    })?;
    plan.report_redactions();
    if args.file().is_some() {
        report_files(args, &plan, &written)?;
    }
    plan.damage.map_or(Ok(()), |damage| Err(unreadable(&damage)))
}

/// Refuses JSON about files where there are none, unless what goes to stdout is JSON anyway.
fn check_json(args: &ExportArgs, format: ExportFormat) -> Result<(), Failure> {
    match (args.json && args.file().is_none(), format) {
        (false, _) | (true, ExportFormat::Jsonl) => Ok(()),
        (true, ExportFormat::Markdown | ExportFormat::Html) => {
            Err(Failure::new(ExitCode::Usage, "--json is about files, but the export goes to stdout")
                .hint("name a file with -o; for the session as JSON use `rethread show --json`"))
        }
    }
}

/// Exports one session to a new file, in the format of its extension or else as Markdown.
pub(crate) async fn export_to_file(store: &dyn Store, row: &SessionRow, path: &Path) -> Result<(), Failure> {
    let format = ExportFormat::of_file(path).unwrap_or(ExportFormat::Markdown);
    let mut plan = ExportPlan {
        format,
        overwrite: Overwrite::Refused,
        finder: (format == ExportFormat::Html).then(SecretFinder::default),
        damage: None,
    };
    plan.export_together(store, std::slice::from_ref(row), Some(path.to_owned())).await?;
    plan.damage.map_or(Ok(()), |damage| Err(unreadable(&damage)))
}

/// A session and the file that it was written to.
type WrittenSession = (SessionRow, PathBuf);

/// Where sessions are written to.
enum ExportTarget {
    /// All to one file, or to stdout.
    Stream(Option<PathBuf>),
    /// Each to a file of its own.
    Folder(PathBuf),
}

async fn rows(args: &ExportArgs, store: &dyn Store) -> Result<Vec<SessionRow>, Failure> {
    if args.sessions.is_empty() {
        return Ok(vec![choose(store).await?]);
    }
    let mut rows: Vec<SessionRow> = Vec::new();
    for named in &args.sessions {
        let row = resolve(store, named).await?;
        if rows.iter().all(|known| known.id != row.id) {
            rows.push(row);
        }
    }
    Ok(rows)
}

fn target(args: &ExportArgs, format: ExportFormat, sessions: usize) -> Result<ExportTarget, Failure> {
    let Some(path) = args.file().map(Path::to_owned) else {
        return match format {
            ExportFormat::Html if sessions > 1 => {
                Err(Failure::new(ExitCode::Usage, "several web pages cannot be written to stdout")
                    .hint("name a folder with -o"))
            }
            ExportFormat::Html | ExportFormat::Jsonl | ExportFormat::Markdown => {
                Ok(ExportTarget::Stream(None))
            }
        };
    };
    let is_folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    match format {
        _ if is_folder => Ok(ExportTarget::Folder(path)),
        ExportFormat::Markdown | ExportFormat::Html if sessions > 1 && path.extension().is_none() => {
            Ok(ExportTarget::Folder(path))
        }
        ExportFormat::Html if sessions > 1 => {
            let message = format!("several sessions do not fit in one web page, {}", path.display());
            Err(Failure::new(ExitCode::Usage, message).hint("name a folder with -o"))
        }
        ExportFormat::Jsonl | ExportFormat::Markdown | ExportFormat::Html => {
            Ok(ExportTarget::Stream(Some(path)))
        }
    }
}

impl ExportPlan {
    async fn export_together(
        &mut self,
        store: &dyn Store,
        rows: &[SessionRow],
        path: Option<PathBuf>,
    ) -> Result<Vec<WrittenSession>, Failure> {
        let mut file = match &path {
            Some(path) => ExportFile::create(path, self.overwrite)?,
            None => ExportFile::stdout(),
        };
        for row in rows {
            self.export(store, row, &mut file).await?;
        }
        file.finish()?;
        let path = path.unwrap_or_default();
        Ok(rows.iter().map(|row| (row.clone(), path.clone())).collect())
    }

    async fn export_apart(
        &mut self,
        store: &dyn Store,
        rows: &[SessionRow],
        folder: &Path,
    ) -> Result<Vec<WrittenSession>, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::plain(&format!("the folder {} cannot be created: {error}", folder.display()))
        })?;
        let mut written = Vec::new();
        for row in rows {
            let path = folder.join(file_name(row, self.format.extension()));
            let mut file = ExportFile::create(&path, self.overwrite)?;
            self.export(store, row, &mut file).await?;
            file.finish()?;
            written.push((row.clone(), path));
        }
        Ok(written)
    }

    async fn export(
        &mut self,
        store: &dyn Store,
        row: &SessionRow,
        file: &mut ExportFile,
    ) -> Result<(), Failure> {
        let damage = match self.format {
            ExportFormat::Jsonl => {
                let redaction = self.finder.as_mut().map_or(ExportRedaction::Off, ExportRedaction::On);
                export_session(store, row, redaction, |line| file.write(line)).await?
            }
            ExportFormat::Markdown => self.write_turns(store, row, file, TextFormat::Markdown).await?,
            ExportFormat::Html => self.write_turns(store, row, file, TextFormat::Html).await?,
        };
        self.damage = damage.or(self.damage.take());
        Ok(())
    }

    async fn write_turns(
        &mut self,
        store: &dyn Store,
        row: &SessionRow,
        file: &mut ExportFile,
        format: TextFormat,
    ) -> Result<Option<JournalDamage>, Failure> {
        let mut outline = SessionOutline::read(store, row).await?;
        // What the outline repeats of the prompts is counted with them.
        self.finder.clone().iter_mut().for_each(|finder| outline.redact(finder));
        file.write(&format.head(&outline))?;
        drop(outline);
        let damage = each_turn(store, &row.id, |mut turn| {
            self.finder.iter_mut().for_each(|finder| turn.redact(finder));
            file.write(&format.turn(&turn))
        })
        .await?;
        file.write(&format.foot(damage.as_ref()))?;
        Ok(damage)
    }

    /// Says on stderr what was replaced.
    fn report_redactions(&self) {
        let Some(finder) = &self.finder else { return };
        let counts: Vec<_> = finder.counts().map(|(kind, count)| format!("{count} × {kind}")).collect();
        if !counts.is_empty() {
            eprintln!("Replaced what looks secret: {}.", counts.join(", "));
        }
    }
}

fn report_files(args: &ExportArgs, plan: &ExportPlan, written: &[WrittenSession]) -> Result<(), Failure> {
    let mut files: Vec<_> = written.iter().map(|(_, path)| path.display().to_string()).collect();
    files.dedup();
    let count =
        if written.len() == 1 { "1 session".to_owned() } else { format!("{} sessions", written.len()) };
    let place = match files.as_slice() {
        [one] => one.clone(),
        several => format!("{} files", several.len()),
    };
    let sentence = format!("Exported {count} to {}.", visible(&place));
    let sessions: Vec<_> =
        written.iter().map(|(row, path)| json!({"id": row.id, "file": path.display().to_string()})).collect();
    let redacted: BTreeMap<_, _> = plan.finder.iter().flat_map(SecretFinder::counts).collect();
    let form = if args.json { ReportForm::Json } else { ReportForm::Text };
    report(form, &sentence, &json!({"exported": sessions, "redacted": redacted}))
}

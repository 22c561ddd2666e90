//! `rethread import --watch` and `[import] watch` of a server: follows the files of tools that run without Rethread. Looks
//! at sizes and times every few seconds instead of asking the system for events: this works on all file systems and for databases, needs no limits of
//! watches to be raised, misses nothing after a sleep, and costs a few milliseconds for thousands of files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rethread::clock;
use rethread::importer::{Found, Places, SessionReader, SessionSource, SourceOutcome, ToolImport};
use rethread::session_file::ImportMode;
use rethread::store::Store;
use rethread_core::Millis;
use serde_json::json;

use super::{ImportRequest, Question, SourceLine, import_one, outcome_word, places, tool_named};
use crate::changes::ReportForm;
use crate::failure::Failure;
use crate::output::escape::visible;
use crate::output::stream::print;

/// How often the folders are looked at.
const INTERVAL: Duration = Duration::from_secs(3);

/// A file that was changed within this time is left alone: more will come.
const SETTLES: Millis = 1500;

/// A turn that is not finished is taken for an interrupted one after this time; see `docs/import.md`.
const ABANDONED: Millis = 10 * 60 * 1000;

/// How long a server waits after its store has failed.
const RETRY: Duration = Duration::from_secs(60);

/// Who is told what was imported.
#[derive(Clone, Copy)]
enum Audience {
    /// Whoever runs the command.
    User(ReportForm),
    /// The log of a server.
    Log,
}

/// Follows the tools until the process is ended.
pub(crate) async fn watch(
    store: &dyn Store,
    request: &ImportRequest,
    form: ReportForm,
) -> Result<(), Failure> {
    if form == ReportForm::Text {
        eprintln!("Following {}; Ctrl-C ends it.", titles(&request.tools));
    }
    follow(store, request, Audience::User(form)).await
}

/// Follows tools, by name, for a server. A failure is logged, and it goes on.
pub(crate) async fn keep_watching(store: Arc<dyn Store>, names: Vec<String>) {
    let tools: Vec<_> = names.iter().filter_map(|name| tool_named(Path::new(name))).collect();
    tracing::info!("importing what {} write", titles(&tools));
    let request = ImportRequest { tools, path: None, mode: ImportMode::Same, question: Question::Skipped };
    loop {
        if let Err(failure) = follow(store.as_ref(), &request, Audience::Log).await {
            tracing::error!("the sessions of other tools are not imported: {failure}");
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn titles(tools: &[&'static dyn SessionReader]) -> String {
    tools.iter().map(|reader| reader.tool().title).collect::<Vec<_>>().join(", ")
}

async fn follow(store: &dyn Store, request: &ImportRequest, audience: Audience) -> Result<(), Failure> {
    let places = places()?;
    let mut watched = Vec::new();
    for reader in &request.tools {
        watched.push(WatchedTool::begin(store, *reader, request, &places, audience).await?);
    }
    loop {
        for tool in &mut watched {
            tool.look(store, &places).await?;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

struct WatchedTool<'a> {
    reader: &'static dyn SessionReader,
    audience: Audience,
    import: ToolImport<'a>,
    roots: Vec<PathBuf>,
    /// The sizes and times of roots that are files, which are costly to look into.
    stamps: HashMap<PathBuf, Stamp>,
    /// The sources that were read and are to be read again only when they change: their sizes and times.
    tried: HashMap<(PathBuf, String), (u64, Millis)>,
    /// What cannot be read is said once.
    said: Vec<String>,
}

/// The size and time of a file and of the log beside it.
type Stamp = [Option<(u64, SystemTime)>; 2];

impl<'a> WatchedTool<'a> {
    async fn begin(
        store: &'a dyn Store,
        reader: &'static dyn SessionReader,
        request: &ImportRequest,
        places: &Places,
        audience: Audience,
    ) -> Result<Self, Failure> {
        let import = ToolImport::begin(store, reader, request.mode).await?;
        let roots = match &request.path {
            Some(path) => vec![std::path::absolute(path)?],
            None => reader.roots(places),
        };
        let (stamps, tried, said) = (HashMap::new(), HashMap::new(), Vec::new());
        Ok(Self { reader, audience, import, roots, stamps, tried, said })
    }

    /// Imports what has changed since the last look.
    async fn look(&mut self, store: &dyn Store, places: &Places) -> Result<(), Failure> {
        let mut found = Found::default();
        for root in self.roots.clone() {
            if self.may_have_changed(&root) {
                self.reader.find(&root, places, &mut found);
            }
        }
        for refused in &found.unreadable {
            let path = refused.path.to_string_lossy();
            self.say_once(format!("{} cannot be read: {}", visible(&path), visible(&refused.reason)));
        }
        for source in found.sources {
            if self.is_due(&source) {
                let line = import_one(&mut self.import, source).await?;
                self.show(store, line).await?;
            }
        }
        Ok(())
    }

    /// Folders always may; a file if it or the log beside it has another size or time.
    fn may_have_changed(&mut self, root: &Path) -> bool {
        let Ok(metadata) = root.metadata() else { return false };
        if !metadata.is_file() {
            return true;
        }
        let mut log = root.as_os_str().to_owned();
        log.push("-wal");
        let stamp =
            |path: &Path| path.metadata().ok().and_then(|found| Some((found.len(), found.modified().ok()?)));
        let now = [stamp(root), stamp(Path::new(&log))];
        self.stamps.insert(root.to_owned(), now) != Some(now)
    }

    fn is_due(&mut self, source: &SessionSource) -> bool {
        let age = clock::now().saturating_sub(source.modified);
        // A database has been copied: what it has does not change any more.
        let is_settled = source.snapshot.is_some() || age > SETTLES;
        if !is_settled || !self.import.is_due(source) {
            return false;
        }
        let (key, stamp) = ((source.path.clone(), source.key.clone()), (source.size, source.modified));
        let was_tried = self.tried.insert(key.clone(), stamp) == Some(stamp);
        if was_tried
            && age > ABANDONED
            && age < ABANDONED + 2 * u64::try_from(INTERVAL.as_millis()).unwrap_or(0)
        {
            return true;
        }
        !was_tried
    }

    async fn show(&mut self, store: &dyn Store, line: SourceLine) -> Result<(), Failure> {
        let report = match line.outcome {
            Ok(report) => report,
            Err(reason) => {
                self.say_once(visible(&reason).into_owned());
                return Ok(());
            }
        };
        let turns = match report.outcome {
            SourceOutcome::Imported(turns) | SourceOutcome::Grown(turns) => turns,
            SourceOutcome::Unchanged
            | SourceOutcome::AlreadyHere
            | SourceOutcome::Diverged
            | SourceOutcome::Rewritten
            | SourceOutcome::DeletedHere
            | SourceOutcome::InProgress
            | SourceOutcome::Empty => return Ok(()),
        };
        let Some(id) = report.session else { return Ok(()) };
        let tool = self.reader.tool();
        let new = if turns == 1 { "1 new turn".to_owned() } else { format!("{turns} new turns") };
        match self.audience {
            Audience::User(ReportForm::Json) => {
                let word = outcome_word(&report.outcome);
                print(&format!("{}\n", json!({"tool": tool.name, "id": id, "outcome": word, "turns": turns})))
            }
            Audience::User(ReportForm::Text) => {
                let row = store.find(&id).await?;
                let name = row.map(|row| crate::changes::name_of(&row)).unwrap_or_default();
                print(&format!("{}: {name}: {new} ({})\n", tool.title, visible(id.as_str())))
            }
            // What sessions are about is not for a log.
            Audience::Log => {
                tracing::info!("{}: {new} ({})", tool.title, visible(id.as_str()));
                Ok(())
            }
        }
    }

    fn say_once(&mut self, words: String) {
        if !self.said.contains(&words) {
            match self.audience {
                Audience::User(_) => eprintln!("warning: {words}"),
                Audience::Log => tracing::warn!("{words}"),
            }
            self.said.push(words);
        }
    }
}

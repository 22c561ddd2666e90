//! Reads the threads of Zed's own agent: one row for each in a database (`rows`), with the conversation as compressed JSON
//! (`blob`). `telling` says what the messages mean, `older` brings those of the old format into the shape of the new one.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rethread_core::{TitleSource, clean_title};

use super::reader::{Found, Places, ReadError, SessionReader, SessionSource, ToolInfo};
use super::sink::{SessionFacts, Sink};
use super::{files, tables};

mod blob;
mod content;
mod older;
mod rows;
mod telling;
mod tools;

use blob::{ZedBlob, ZedHead};
use rows::{ZedDatabase, ZedRow};
use telling::ZedTelling;

static ZED: ToolInfo = ToolInfo { name: "zed", title: "Zed", agents: &["Zed Agent"] };

/// The titles that threads have before they are given one.
const PLACEHOLDERS: [&str; 3] = ["New Thread", "New Agent Thread", "New Chat"];

/// Where its data is on macOS, and in the Flatpaks of its release channels, below the home folder.
const ELSEWHERE: [&str; 4] = [
    "Library/Application Support/Zed",
    ".var/app/dev.zed.Zed/data/zed",
    ".var/app/dev.zed.Zed-Preview/data/zed",
    ".var/app/dev.zed.Zed-Nightly/data/zed",
];

/// How deep sub-agents may be in each other.
const MAX_DEPTH: usize = 8;

/// Reads the threads of Zed.
pub(super) struct ZedReader;

impl SessionReader for ZedReader {
    fn tool(&self) -> &'static ToolInfo {
        &ZED
    }

    fn roots(&self, places: &Places) -> Vec<PathBuf> {
        let data = places.variable_or_home("XDG_DATA_HOME", ".local/share").join("zed");
        let elsewhere = ELSEWHERE.iter().map(|below| places.home.join(below));
        std::iter::once(data).chain(elsewhere).map(|data| data.join("threads")).collect()
    }

    fn find(&self, root: &Path, places: &Places, found: &mut Found) {
        let inside = root.join("threads");
        // The data folder may be named instead of the one inside of it.
        let root = if inside.is_dir() { inside.as_path() } else { root };
        for database in tables::databases_at(root, found, |path| files::has_ending(path, "threads.db")) {
            let Some((snapshot, connection)) = tables::open_copy(&database, places, found) else { continue };
            match ZedDatabase::new(connection, &database).and_then(|opened| opened.sources()) {
                Ok(threads) => found.sources.extend(
                    threads
                        .into_iter()
                        .map(|(key, size, modified)| tables::source(&snapshot, key, size, modified)),
                ),
                Err(error) => tables::refuse(&database, error, found),
            }
        }
    }

    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError> {
        let database = ZedDatabase::new(tables::connect(source)?, &source.path)?;
        let Some(row) = database.thread(&source.key)? else {
            let reason = format!("has no thread {}", source.key);
            return Err(ReadError::Format { path: source.path.clone(), reason });
        };
        let blob = database.blob(&row)?;
        let head = blob.head()?;
        sink.begin(facts(&row, &head))?;
        database.count_unknown(&head.version, sink);
        let told = HashSet::from([row.id.clone()]);
        let mut reading = ZedReading { database: &database, sink, told, depth: 0 };
        reading.thread(&row, &blob, head, "")
    }
}

/// Reads a thread and its sub-agents.
struct ZedReading<'a> {
    database: &'a ZedDatabase,
    sink: &'a mut Sink,
    /// The threads that are told, or being told.
    told: HashSet<String>,
    depth: usize,
}

impl ZedReading<'_> {
    /// Tells a thread; one of a sub-agent is named.
    fn thread(&mut self, row: &ZedRow, blob: &ZedBlob, head: ZedHead, child: &str) -> Result<(), ReadError> {
        head.unknown
            .iter()
            .for_each(|field| self.sink.drift(&head.version, &format!("field thread.{field}")));
        let children = self.database.children(&row.id)?;
        let mut waiting: HashMap<&str, &ZedRow> = children.iter().map(|row| (row.id.as_str(), row)).collect();
        let mut telling = ZedTelling::new(&head, child);
        telling.begin(self.sink)?;
        blob.messages(&head, &mut |message| {
            for named in telling.message(self.sink, &message)? {
                if let Some(row) = waiting.remove(named.as_str()) {
                    self.subagent(row, child)?;
                }
            }
            telling.results(self.sink, &message)
        })?;
        // Those that no call names are told at the end.
        for row in children.iter().filter(|row| waiting.contains_key(row.id.as_str())) {
            self.subagent(row, child)?;
        }
        Ok(telling.finish(self.sink, row.updated)?)
    }

    fn subagent(&mut self, row: &ZedRow, parent: &str) -> Result<(), ReadError> {
        if self.depth >= MAX_DEPTH || !self.told.insert(row.id.clone()) {
            return Ok(());
        }
        let read = self.database.blob(row).and_then(|blob| blob.head().map(|head| (blob, head)));
        let (blob, head) = match read {
            Ok(read) => read,
            Err(ReadError::Format { reason, .. }) => {
                self.sink.damaged(&self.database.path, row.row, reason);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        telling::announce(self.sink, parent, row, "running")?;
        self.depth += 1;
        self.thread(row, &blob, head, &row.id)?;
        self.depth -= 1;
        Ok(telling::announce(self.sink, parent, row, "idle")?)
    }
}

fn facts(row: &ZedRow, head: &ZedHead) -> SessionFacts {
    let titles = [row.summary.as_str(), head.title.as_str()];
    let title = titles.into_iter().map(clean_title);
    let title = title.filter(|title| !PLACEHOLDERS.contains(&title.as_str())).find(|title| !title.is_empty());
    SessionFacts {
        native: row.id.clone(),
        cwd: row.folder.clone().or_else(|| head.folder.clone()).unwrap_or_default(),
        // Nothing says who gave the title; nearly all are made by Zed.
        title: title.map(|title| (title, TitleSource::Agent)),
        created: row.created.or(row.updated),
        updated: row.updated,
        archived: None,
    }
}

//! Reads the session files of Qwen Code: one file of JSON lines for each session in a folder `chats` of each project. A
//! file is read twice: `index` finds the conversation, `telling` says what its records mean. The first versions wrote
//! what Gemini CLI writes, and that is read as such.

use std::path::{Path, PathBuf};

use rethread_core::clean_title;

use super::lines::SourceLines;
use super::reader::{Found, Places, ReadError, SessionReader, SessionSource, ToolInfo};
use super::sink::{SessionFacts, Sink};
use super::{files, gemini};

mod index;
mod known;
mod subagents;
mod telling;

use index::QwenIndex;
use telling::QwenTelling;

/// The folder with the sessions that the user has archived.
const ARCHIVE: &str = "archive";

static QWEN: ToolInfo =
    ToolInfo { name: "qwen", title: "Qwen Code", agents: &["qwen-code", "qwen", "@qwen-code/qwen-code"] };

/// Reads the files of Qwen Code.
pub(super) struct QwenReader;

impl SessionReader for QwenReader {
    fn tool(&self) -> &'static ToolInfo {
        &QWEN
    }

    fn roots(&self, places: &Places) -> Vec<PathBuf> {
        let home = places.variable_or_home("QWEN_HOME", ".qwen");
        let runtime = places.variable("QWEN_RUNTIME_DIR").unwrap_or_else(|| home.clone());
        vec![runtime.join("projects"), runtime.join("tmp")]
    }

    fn find(&self, root: &Path, _places: &Places, found: &mut Found) {
        match root.metadata() {
            Ok(metadata) if metadata.is_file() => add(SessionSource::file(root, &metadata), found),
            Ok(_) => {
                for (path, metadata) in files::files_below(root, found, is_session) {
                    add(SessionSource::file(&path, &metadata), found);
                }
            }
            Err(error) => found.unreadable(root, &error),
        }
    }

    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError> {
        if is_legacy(&source.path) {
            let mut conversation = gemini::GeminiConversation::read(&source.path, sink)?;
            sink.begin(gemini::facts(&source.path, &conversation))?;
            return gemini::GeminiTelling::new(sink, &source.path, Vec::new()).all(&mut conversation);
        }
        let failed = || ReadError::io(&source.path);
        let (file, _) = files::open(&source.path).map_err(failed())?;
        let mut lines = SourceLines::new(file);
        let index = index::index(&source.path, &mut lines, sink).map_err(failed())?;
        sink.begin(facts(&source.path, &index))?;
        let (places, broken) = index.conversation();
        if let Some(place) = broken {
            sink.damaged(&source.path, place.line, "the record before it is missing");
        }
        QwenTelling::new(sink, subagents::by_call(&source.parts)).all(&source.path, &mut lines, &places)
    }
}

fn add(mut source: SessionSource, found: &mut Found) {
    let parts = subagents::files_of(&source.path, found);
    parts.into_iter().for_each(|part| source.add_part(part));
    found.sources.push(source);
}

/// Says whether a file has a session.
fn is_session(path: &Path) -> bool {
    let chats = path.parent().filter(|folder| folder.ends_with("chats"));
    let archive = path.parent().filter(|folder| folder.ends_with(Path::new("chats").join(ARCHIVE)));
    let is_lines = files::has_ending(path, ".jsonl") && (chats.is_some() || archive.is_some());
    // Beside a session there may be small files about it.
    let is_plain = !files::stem(path).contains('.');
    is_plain && (is_lines || chats.is_some() && is_legacy(path))
}

fn is_legacy(path: &Path) -> bool {
    files::has_ending(path, ".json") && files::stem(path).starts_with("session-")
}

fn facts(path: &Path, index: &QwenIndex) -> SessionFacts {
    let title = index.title.as_ref().map(|(title, by)| (clean_title(title), *by));
    let is_archived = path.parent().is_some_and(|folder| folder.ends_with(ARCHIVE));
    SessionFacts {
        native: files::stem(path).to_owned(),
        cwd: index.cwd.clone().unwrap_or_default(),
        title: title.filter(|(title, _)| !title.is_empty()),
        created: index.first_at,
        updated: index.last_at,
        archived: index.last_at.filter(|_| is_archived),
    }
}

//! Reads the session files of Gemini CLI: one file for each session in a folder `chats` of each project, of records that
//! are folded to a list of messages (`fold`), which `telling` then tells. A file is read twice, so that no content is in
//! memory. Qwen Code's first versions wrote the same.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rethread_core::{TitleSource, clean_title};

use super::files;
use super::reader::{Found, Places, ReadError, SessionReader, SessionSource, ToolInfo};
use super::sink::{SessionFacts, Sink};

mod conversation;
mod fold;
mod known;
mod project;
mod telling;

pub(super) use conversation::GeminiConversation;
pub(super) use telling::GeminiTelling;

static GEMINI: ToolInfo =
    ToolInfo { name: "gemini", title: "Gemini CLI", agents: &["gemini-cli", "gemini", "@google/gemini-cli"] };

/// Reads the files of Gemini CLI.
pub(super) struct GeminiReader;

impl SessionReader for GeminiReader {
    fn tool(&self) -> &'static ToolInfo {
        &GEMINI
    }

    fn roots(&self, places: &Places) -> Vec<PathBuf> {
        let home = places.variable("GEMINI_CLI_HOME").unwrap_or_else(|| places.home.clone());
        vec![home.join(".gemini").join("tmp")]
    }

    fn find(&self, root: &Path, _places: &Places, found: &mut Found) {
        match root.metadata() {
            Ok(metadata) if metadata.is_file() => {
                let source = SessionSource::file(root, &metadata);
                let beside = root
                    .parent()
                    .map(|chats| files::files_below(chats, found, is_session))
                    .unwrap_or_default();
                add(source, &subagents(&beside), found);
            }
            Ok(_) => {
                let listed = files::files_below(root, found, is_session);
                let subagents = subagents(&listed);
                for (path, metadata) in listed.iter().filter(|(path, _)| is_in_chats(path)) {
                    add(SessionSource::file(path, metadata), &subagents, found);
                }
            }
            Err(error) => found.unreadable(root, &error),
        }
    }

    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError> {
        let mut conversation = GeminiConversation::read(&source.path, sink)?;
        sink.begin(facts(&source.path, &conversation))?;
        GeminiTelling::new(sink, &source.path, source.parts.clone()).all(&mut conversation)
    }
}

/// What a file says of its session.
pub(super) fn facts(path: &Path, conversation: &GeminiConversation) -> SessionFacts {
    let fold = &conversation.fold;
    let title = fold.summary.as_deref().map(clean_title).filter(|title| !title.is_empty());
    SessionFacts {
        native: fold.session.clone().unwrap_or_else(|| files::stem(path).to_owned()),
        cwd: project::directory(path, fold.project.as_deref())
            .or_else(|| fold.directory.clone())
            .unwrap_or_default(),
        title: title.map(|title| (title, TitleSource::Agent)),
        created: fold.started,
        updated: fold.updated,
        archived: None,
    }
}

/// Adds a session with the files of its sub-agents, unless it is one of those.
fn add(mut source: SessionSource, subagents: &HashMap<String, Vec<PathBuf>>, found: &mut Found) {
    // The name ends with the beginning of the id; the folder of its sub-agents has all of it.
    let name = files::stem(&source.path).to_owned();
    let start = name.rsplit('-').next().unwrap_or_default();
    let mut parts: Vec<&PathBuf> = subagents
        .iter()
        .filter(|(session, _)| !start.is_empty() && (session.starts_with(start) || **session == name))
        .flat_map(|(_, files)| files)
        .collect();
    parts.sort();
    parts.into_iter().for_each(|part| source.add_part(part.clone()));
    found.sources.push(source);
}

/// The files of sub-agents by the sessions whose folder they are in.
fn subagents(listed: &[(PathBuf, std::fs::Metadata)]) -> HashMap<String, Vec<PathBuf>> {
    let mut subagents: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for (path, _) in listed.iter().filter(|(path, _)| !is_in_chats(path)) {
        if let Some(session) = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()) {
            subagents.entry(session.to_owned()).or_default().push(path.clone());
        }
    }
    subagents
}

/// Says whether a file may have a conversation: that of a session, or of a sub-agent.
fn is_session(path: &Path) -> bool {
    let is_known = files::has_ending(path, ".jsonl") || files::has_ending(path, ".json");
    let is_named = files::stem(path).starts_with("session-");
    let is_inside = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("chats"));
    is_known && (is_in_chats(path) && is_named || path.parent().is_some_and(is_inside))
}

fn is_in_chats(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.ends_with("chats"))
}

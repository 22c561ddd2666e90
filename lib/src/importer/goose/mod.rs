//! Reads the sessions of goose: those in its database (`rows`), in all of its layouts, and the files of JSON lines that came
//! before it (`legacy`). `telling` says what messages mean.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rethread_core::{TitleSource, clean_title};

use super::reader::{Found, Places, ReadError, SessionReader, SessionSource, ToolInfo};
use super::sink::Sink;
use super::{files, tables};

mod content;
mod legacy;
mod rows;
mod telling;
mod tools;

use rows::GooseDatabase;
use telling::GooseTelling;

static GOOSE: ToolInfo = ToolInfo { name: "goose", title: "goose", agents: &["goose"] };

/// The name of the database.
const DATABASE: &str = "sessions.db";

/// The names that sessions have before they are given one.
const PLACEHOLDERS: [&str; 5] = ["New Chat", "CLI Session", "ACP Session", "New session", "Untitled"];

/// Reads the sessions of goose.
pub(super) struct GooseReader;

impl SessionReader for GooseReader {
    fn tool(&self) -> &'static ToolInfo {
        &GOOSE
    }

    fn roots(&self, places: &Places) -> Vec<PathBuf> {
        let moved = places.variable("GOOSE_PATH_ROOT").map(|root| root.join("data/sessions"));
        let usual =
            || places.variable_or_home("XDG_DATA_HOME", ".local/share").join("goose").join("sessions");
        vec![moved.unwrap_or_else(usual)]
    }

    fn find(&self, root: &Path, places: &Places, found: &mut Found) {
        let inside = root.join("sessions");
        // The data folder may be named instead of the one inside of it.
        let root = if inside.is_dir() { inside.as_path() } else { root };
        let mut known = HashSet::new();
        for path in tables::databases_at(root, found, |path| files::has_ending(path, DATABASE)) {
            match files::has_ending(&path, ".jsonl") {
                true => find_file(&path, found),
                false => find_in_database(&path, places, found, &mut known),
            }
        }
        if !root.is_dir() {
            return;
        }
        for path in tables::databases_at(root, found, |path| files::has_ending(path, ".jsonl")) {
            // goose copies these files into its database and leaves them where they are.
            if !known.contains(files::stem(&path)) {
                find_file(&path, found);
            }
        }
    }

    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError> {
        if source.snapshot.is_none() {
            return legacy::read(&source.path, sink);
        }
        let database = GooseDatabase::new(tables::connect(source)?, &source.path)?;
        let Some(session) = database.session(&source.key)? else {
            let reason = format!("has no session {}", source.key);
            return Err(ReadError::Format { path: source.path.clone(), reason });
        };
        sink.begin(session.facts.clone())?;
        database.count_unknown(sink);
        let nodes = database.messages(&session)?;
        let version = database.version();
        let mut telling = GooseTelling::new(sink, &source.path, &version);
        if let Some(model) = session.model.as_deref().filter(|_| !nodes.iter().any(|node| node.has_model())) {
            telling.model(model)?;
        }
        for (place, node) in nodes.iter().enumerate() {
            let content = database.content(&session, node)?;
            telling.stored(node, nodes.get(place + 1), content.as_deref())?;
        }
        telling.finish()
    }
}

fn find_file(path: &Path, found: &mut Found) {
    match files::open(path) {
        Ok((_, metadata)) => found.sources.push(SessionSource::file(path, &metadata)),
        Err(error) => found.unreadable(path, &error),
    }
}

fn find_in_database(path: &Path, places: &Places, found: &mut Found, known: &mut HashSet<String>) {
    let Some((snapshot, connection)) = tables::open_copy(path, places, found) else { return };
    match GooseDatabase::new(connection, path).and_then(|database| database.sources()) {
        Ok(listed) => {
            known.extend(listed.ids);
            let sources = listed.sessions.into_iter();
            let sources = sources.map(|(key, size, at)| tables::source(&snapshot, key, size, at));
            found.sources.extend(sources);
        }
        Err(error) => tables::refuse(path, error, found),
    }
}

/// The title that a name is, unless it stands for none.
fn title(name: &str, by: TitleSource) -> Option<(String, TitleSource)> {
    let title = clean_title(name);
    (!title.is_empty() && !PLACEHOLDERS.contains(&title.as_str())).then_some((title, by))
}

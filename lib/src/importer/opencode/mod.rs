//! Reads the database of opencode: sessions with messages, and messages with parts. `rows` reads the tables, `conversation`
//! finds what of a session and its sub-agents is told in which order, `telling` says what messages mean, `projection` does
//! so for the newer table of messages, where a session has no others.

use std::path::{Path, PathBuf};

use rethread_core::{TitleSource, clean_title};

use super::reader::{Found, Places, ReadError, SessionReader, SessionSource, ToolInfo};
use super::sink::{SessionFacts, Sink};
use super::{files, tables};

mod content;
mod conversation;
mod known;
mod projection;
mod prompt;
mod rows;
mod telling;
mod tools;
mod turn;

use conversation::OpencodeConversation;
use rows::{OpencodeDatabase, OpencodeSession};
use telling::OpencodeTelling;

static OPENCODE: ToolInfo =
    ToolInfo { name: "opencode", title: "opencode", agents: &["OpenCode", "opencode"] };

/// The beginnings of the titles that sessions have before they are given one.
const PLACEHOLDERS: [&str; 2] = ["New session - ", "Child session - "];

/// Reads the database of opencode.
pub(super) struct OpencodeReader;

impl SessionReader for OpencodeReader {
    fn tool(&self) -> &'static ToolInfo {
        &OPENCODE
    }

    fn roots(&self, places: &Places) -> Vec<PathBuf> {
        let data = places.variable_or_home("XDG_DATA_HOME", ".local/share").join("opencode");
        // A relative name is one in the data folder; a database of the usual name there is found anyway.
        let named = places.variable("OPENCODE_DB").map(|named| data.join(named));
        let elsewhere = named.filter(|named| !is_database(named) || named.parent() != Some(data.as_path()));
        [Some(data), elsewhere].into_iter().flatten().collect()
    }

    fn find(&self, root: &Path, places: &Places, found: &mut Found) {
        for database in tables::databases_at(root, found, is_database) {
            let Some((snapshot, connection)) = tables::open_copy(&database, places, found) else { continue };
            let listed = OpencodeDatabase::new(connection, &database).and_then(|opened| opened.sources());
            match listed {
                Ok(sessions) => found.sources.extend(
                    sessions
                        .into_iter()
                        .map(|(key, size, modified)| tables::source(&snapshot, key, size, modified)),
                ),
                Err(error) => tables::refuse(&database, error, found),
            }
        }
    }

    fn read(&self, source: &SessionSource, sink: &mut Sink) -> Result<(), ReadError> {
        let database = OpencodeDatabase::new(tables::connect(source)?, &source.path)?;
        let Some(session) = database.session(&source.key)? else {
            let reason = format!("has no session {}", source.key);
            return Err(ReadError::Format { path: source.path.clone(), reason });
        };
        sink.begin(facts(&session))?;
        database.count_unknown(&session.version, sink);
        let mut conversation = OpencodeConversation::load(&database, &session)?;
        let mut telling = OpencodeTelling::new(&database, sink, &session.version);
        match conversation.is_empty() {
            true => projection::tell(&mut telling, &session)?,
            false => telling.tell(&mut conversation)?,
        }
        telling.finish()
    }
}

/// A database of opencode by its name: other channels than the released one have their own.
fn is_database(path: &Path) -> bool {
    files::stem(path).starts_with("opencode") && files::has_ending(path, ".db")
}

fn facts(session: &OpencodeSession) -> SessionFacts {
    let is_placeholder = PLACEHOLDERS.iter().any(|beginning| session.title.starts_with(beginning));
    let title = clean_title(&session.title);
    SessionFacts {
        native: session.id.clone(),
        cwd: session.directory.clone(),
        // Nothing says who gave the title; nearly all are made by opencode.
        title: (!is_placeholder && !title.is_empty()).then_some((title, TitleSource::Agent)),
        created: session.created,
        updated: session.updated,
        archived: session.archived,
    }
}

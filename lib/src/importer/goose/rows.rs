//! The tables of goose's database. Layouts 10 to 12 also had threads: there a thread has what people saw, and the sessions
//! of the thread what models saw.

use std::path::{Path, PathBuf};

use rethread_core::{Millis, TitleSource};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Deserialize;

use super::title;
use crate::importer::reader::ReadError;
use crate::importer::sink::{SessionFacts, Sink};
use crate::importer::tables::{SourceTable, number, text, written_time};

/// The newest layout that is known.
const NEWEST_LAYOUT: u64 = 13;

/// What the key of a thread that has no session begins with.
const THREAD: &str = "thread ";

/// The columns of the table of sessions.
const SESSION_COLUMNS: [&str; 25] = [
    "accumulated_cost",
    "accumulated_input_tokens",
    "accumulated_output_tokens",
    "accumulated_total_tokens",
    "archived_at",
    "created_at",
    "description",
    "extension_data",
    "goose_mode",
    "id",
    "input_tokens",
    "model_config_json",
    "name",
    "output_tokens",
    "project_id",
    "provider_name",
    "recipe_json",
    "schedule_id",
    "session_type",
    "thread_id",
    "total_tokens",
    "updated_at",
    "user_recipe_values_json",
    "user_set_name",
    "working_dir",
];

/// The columns of the table of messages.
const MESSAGE_COLUMNS: [&str; 9] = [
    "content_json",
    "created_timestamp",
    "id",
    "message_id",
    "metadata_json",
    "role",
    "session_id",
    "timestamp",
    "tokens",
];

/// An open copy of a database.
pub(super) struct GooseDatabase {
    path: PathBuf,
    connection: Connection,
    layout: u64,
    sessions: SourceTable,
    messages: SourceTable,
    threads: SourceTable,
    thread_messages: SourceTable,
}

/// What a database has.
pub(super) struct GooseListing {
    /// The sessions to read: key, size and the time of the last change.
    pub(super) sessions: Vec<(String, u64, Millis)>,
    /// The ids of all sessions.
    pub(super) ids: Vec<String>,
}

/// A session, and where its messages are.
pub(super) struct GooseSession {
    pub(super) facts: SessionFacts,
    pub(super) model: Option<String>,
    messages: MessagesOf,
}

enum MessagesOf {
    Session(String),
    Thread(String),
}

/// The facts of a session or thread, the thread that a session belongs to, and the model.
type NamedFacts = (SessionFacts, Option<String>, Option<String>);

/// A message without its content.
#[derive(Clone, Debug)]
pub(super) struct GooseNode {
    pub(super) row: u64,
    pub(super) id: Option<String>,
    pub(super) role: String,
    pub(super) at: Option<Millis>,
    pub(super) metadata: GooseMetadata,
}

/// Who sees a message, and which model wrote it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GooseMetadata {
    pub(super) user_visible: Option<bool>,
    pub(super) agent_visible: Option<bool>,
    pub(super) inference: Option<GooseInference>,
}

/// The model that wrote a message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GooseInference {
    pub(super) requested_model: String,
    pub(super) resolved_model: Option<String>,
}

impl GooseNode {
    /// Says whether people see it.
    pub(super) fn is_shown(&self) -> bool {
        self.metadata.user_visible != Some(false)
    }

    /// Says whether only the model sees it.
    pub(super) fn is_for_model(&self) -> bool {
        !self.is_shown() && self.metadata.agent_visible != Some(false)
    }

    /// Says whether the model that wrote it is recorded.
    pub(super) fn has_model(&self) -> bool {
        self.metadata.inference.is_some()
    }
}

impl GooseDatabase {
    /// Looks at the tables of a database. Fails if those that are needed are not there.
    pub(super) fn new(connection: Connection, path: &Path) -> Result<Self, ReadError> {
        let failed = || ReadError::database(path);
        let table = |name| SourceTable::of(&connection, name).map_err(failed());
        let (sessions, messages) = (table("sessions")?, table("messages")?);
        sessions.require(path, &["id"])?;
        messages.require(path, &["session_id", "role", "content_json"])?;
        let (threads, thread_messages) = (table("threads")?, table("thread_messages")?);
        let layout = match table("schema_version")?.has("version") {
            true => connection.query_row("SELECT max(version) FROM schema_version", [], |row| number(row, 0)),
            false => Ok(None),
        };
        let layout = layout.map_err(failed())?.unwrap_or(0);
        Ok(Self { path: path.to_owned(), connection, layout, sessions, messages, threads, thread_messages })
    }

    /// The layout, for reports: nothing says which version of goose wrote a session.
    pub(super) fn version(&self) -> String {
        format!("layout {}", self.layout)
    }

    /// Counts what is not known of the layout.
    pub(super) fn count_unknown(&self, sink: &mut Sink) {
        let version = self.version();
        if self.layout > NEWEST_LAYOUT {
            sink.drift(&version, "layout");
        }
        self.sessions.count_unknown(&SESSION_COLUMNS, &version, sink);
        self.messages.count_unknown(&MESSAGE_COLUMNS, &version, sink);
    }

    /// The sessions that people see, and threads that have no session. Of the sessions of one thread the newest stands for
    /// it.
    pub(super) fn sources(&self) -> Result<GooseListing, ReadError> {
        let mut sessions = Vec::new();
        let thread = self.sessions.column("thread_id");
        let (kind, updated) = (self.sessions.column("session_type"), self.sessions.column("updated_at"));
        let told = match self.has_threads() {
            true => {
                format!("(SELECT count(*) FROM thread_messages WHERE thread_messages.thread_id = {thread})")
            }
            false => "0".to_owned(),
        };
        let replaced = match self.sessions.has("thread_id") {
            true => format!(
                "({told} > 0 AND EXISTS (SELECT 1 FROM sessions AS newer WHERE newer.thread_id = {thread}
                 AND (newer.updated_at, newer.id) > (sessions.updated_at, sessions.id)))"
            ),
            false => "0".to_owned(),
        };
        let sql = format!(
            "SELECT sessions.id, (SELECT count(*) FROM messages WHERE messages.session_id = sessions.id) + {told},
             {updated}, {replaced} OR {kind} IN ('sub_agent', 'hidden') FROM sessions ORDER BY sessions.id"
        );
        let mut ids = Vec::new();
        for (id, size, at, left_out) in self.list(&sql, listed)? {
            if left_out == 0 {
                sessions.push((id.clone(), size, at));
            }
            ids.push(id);
        }
        sessions.extend(self.lone_threads()?);
        Ok(GooseListing { sessions, ids })
    }

    fn lone_threads(&self) -> Result<Vec<(String, u64, Millis)>, ReadError> {
        if !self.has_threads() {
            return Ok(Vec::new());
        }
        let of_session = match self.sessions.has("thread_id") {
            true => "EXISTS (SELECT 1 FROM sessions WHERE sessions.thread_id = threads.id)",
            false => "0",
        };
        let sql = format!(
            "SELECT threads.id, (SELECT count(*) FROM thread_messages WHERE thread_messages.thread_id = threads.id),
             {}, {of_session} FROM threads ORDER BY threads.id",
            self.threads.column("updated_at")
        );
        let found = self.list(&sql, listed)?.into_iter();
        let lone = found.filter(|(_, size, _, of_session)| *size > 0 && *of_session == 0);
        Ok(lone.map(|(id, size, at, _)| (format!("{THREAD}{id}"), size, at)).collect())
    }

    fn has_threads(&self) -> bool {
        self.threads.has("id") && self.thread_messages.has("thread_id")
    }

    /// A session by its key.
    pub(super) fn session(&self, key: &str) -> Result<Option<GooseSession>, ReadError> {
        if let Some(thread) = key.strip_prefix(THREAD) {
            let facts = self.facts(&self.threads, "threads", thread)?;
            let messages = MessagesOf::Thread(thread.to_owned());
            return Ok(facts.map(|(facts, _, model)| GooseSession { facts, model, messages }));
        }
        let Some((mut facts, thread, model)) = self.facts(&self.sessions, "sessions", key)? else {
            return Ok(None);
        };
        let messages = match thread.filter(|thread| self.has_threads() && self.is_told(thread)) {
            Some(thread) => {
                let named = self.facts(&self.threads, "threads", &thread)?;
                facts.title = named.and_then(|(thread, ..)| thread.title).or(facts.title);
                MessagesOf::Thread(thread)
            }
            None => MessagesOf::Session(key.to_owned()),
        };
        Ok(Some(GooseSession { facts, model, messages }))
    }

    fn is_told(&self, thread: &str) -> bool {
        let sql = "SELECT 1 FROM thread_messages WHERE thread_id = ?1 LIMIT 1";
        self.connection.query_row(sql, [thread], |_| Ok(())).is_ok()
    }

    /// Reads the facts of a session or thread.
    fn facts(&self, table: &SourceTable, name: &str, id: &str) -> Result<Option<NamedFacts>, ReadError> {
        let columns = table.columns(&[
            "name",
            "description",
            "user_set_name",
            "working_dir",
            "created_at",
            "updated_at",
            "archived_at",
            "thread_id",
            "model_config_json",
        ]);
        let sql = format!("SELECT {columns} FROM {name} WHERE {name}.id = ?1");
        let read = |row: &Row<'_>| {
            let by = if number(row, 2)? == Some(1) { TitleSource::User } else { TitleSource::Agent };
            let name = text(row, 0)?.and_then(|name| title(&name, by));
            let described = text(row, 1)?.and_then(|description| title(&description, TitleSource::Agent));
            let facts = SessionFacts {
                native: id.to_owned(),
                cwd: text(row, 3)?.unwrap_or_default(),
                title: name.or(described),
                created: written_time(row, 4)?,
                updated: written_time(row, 5)?,
                archived: written_time(row, 6)?,
            };
            Ok((facts, text(row, 7)?, text(row, 8)?.and_then(|config| model_of(&config))))
        };
        let found = self.connection.query_row(&sql, [id], read).optional();
        found.map_err(ReadError::database(&self.path))
    }

    /// The messages of a session in their order, without their content.
    pub(super) fn messages(&self, session: &GooseSession) -> Result<Vec<GooseNode>, ReadError> {
        let (table, name, column, id) = self.place(session);
        let columns = table.columns(&["message_id", "role", "created_timestamp"]);
        // Rows are written in the order of the conversation. The times are not: a call that had to wait for the user can be
        // later than its response.
        let sql = format!(
            "SELECT {name}.rowid, {columns}, {} FROM {name} WHERE {name}.{column} = ?1 ORDER BY {name}.rowid",
            table.bounded("metadata_json"),
        );
        let read = self.connection.prepare(&sql).and_then(|mut statement| {
            let rows = statement.query_map([id], node)?;
            rows.collect::<Result<Vec<_>, _>>()
        });
        read.map_err(ReadError::database(&self.path))
    }

    /// The content of a message; nothing if it is too long.
    pub(super) fn content(
        &self,
        session: &GooseSession,
        node: &GooseNode,
    ) -> Result<Option<String>, ReadError> {
        let (table, name, ..) = self.place(session);
        let sql = format!("SELECT {} FROM {name} WHERE {name}.rowid = ?1", table.bounded("content_json"));
        let row = i64::try_from(node.row).unwrap_or(i64::MAX);
        let read = self
            .connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.query_row([row], |row| text(row, 0)).optional());
        Ok(read.map_err(ReadError::database(&self.path))?.flatten())
    }

    fn place<'a>(
        &'a self,
        session: &'a GooseSession,
    ) -> (&'a SourceTable, &'static str, &'static str, &'a str) {
        match &session.messages {
            MessagesOf::Session(id) => (&self.messages, "messages", "session_id", id),
            MessagesOf::Thread(id) => (&self.thread_messages, "thread_messages", "thread_id", id),
        }
    }

    fn list<T>(
        &self,
        sql: &str,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<Option<T>>,
    ) -> Result<Vec<T>, ReadError> {
        let listed = self.connection.prepare(sql).and_then(|mut statement| {
            let rows = statement.query_map([], |row| read(row))?;
            rows.filter_map(Result::transpose).collect()
        });
        listed.map_err(ReadError::database(&self.path))
    }
}

/// An id, a size, a time and a number that is not 0 for what is left out.
type ListedRow = (String, u64, Millis, u64);

fn listed(row: &Row<'_>) -> rusqlite::Result<Option<ListedRow>> {
    let (size, at) = (number(row, 1)?.unwrap_or(0), written_time(row, 2)?.unwrap_or(0));
    let left_out = number(row, 3)?.unwrap_or(0);
    Ok(text(row, 0)?.map(|id| (id, size, at, left_out)))
}

fn node(row: &Row<'_>) -> rusqlite::Result<GooseNode> {
    let metadata = text(row, 4)?.and_then(|metadata| serde_json::from_str(&metadata).ok());
    Ok(GooseNode {
        row: number(row, 0)?.unwrap_or(0),
        id: text(row, 1)?.filter(|id| !id.is_empty()),
        role: text(row, 2)?.unwrap_or_default(),
        at: number(row, 3)?.and_then(time),
        metadata: metadata.unwrap_or_default(),
    })
}

/// A time in milliseconds of one that goose wrote in seconds.
pub(super) fn time(seconds: u64) -> Option<Millis> {
    /// No time in seconds is that large for the next thousand years.
    const MILLIS: u64 = 100_000_000_000;
    match seconds {
        0 => None,
        MILLIS.. => Some(seconds),
        _ => Some(seconds * 1000),
    }
}

fn model_of(config: &str) -> Option<String> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    config["model_name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

//! The tables of opencode's database, read row by row.

use std::path::{Path, PathBuf};

use rethread_core::Millis;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Deserialize;

use super::known;
use crate::importer::reader::ReadError;
use crate::importer::sink::Sink;
use crate::importer::tables::{SourceTable, millis, number, text};

/// An open copy of a database.
pub(super) struct OpencodeDatabase {
    pub(super) path: PathBuf,
    connection: Connection,
    session: SourceTable,
    message: SourceTable,
    part: SourceTable,
    projected: SourceTable,
}

/// A session.
#[derive(Debug)]
pub(super) struct OpencodeSession {
    pub(super) id: String,
    pub(super) directory: String,
    pub(super) title: String,
    /// The version of opencode that made it.
    pub(super) version: String,
    pub(super) created: Option<Millis>,
    pub(super) updated: Option<Millis>,
    pub(super) archived: Option<Millis>,
    /// Where what is undone begins.
    pub(super) revert: Option<OpencodeRevert>,
}

/// Where what is undone begins: a message, or a part of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct OpencodeRevert {
    #[serde(rename = "messageID")]
    pub(super) message: String,
    #[serde(rename = "partID", default)]
    pub(super) part: Option<String>,
}

/// A message or a part without its content.
#[derive(Clone, Debug)]
pub(super) struct OpencodeNode {
    pub(super) id: String,
    /// The number of its row, by which damage is reported.
    pub(super) row: u64,
    pub(super) at: Option<Millis>,
}

/// A row of the newer table of messages.
pub(super) struct ProjectedMessage {
    pub(super) node: OpencodeNode,
    pub(super) kind: String,
    pub(super) data: Option<String>,
}

impl OpencodeDatabase {
    /// Looks at the tables of a database. Fails if those that are needed are not there.
    pub(super) fn new(connection: Connection, path: &Path) -> Result<Self, ReadError> {
        let table = |name| SourceTable::of(&connection, name).map_err(ReadError::database(path));
        let (session, message, part) = (table("session")?, table("message")?, table("part")?);
        let projected = table("session_message")?;
        session.require(path, &["id"])?;
        if message.exists() || !projected.exists() {
            message.require(path, &["id", "session_id", "data"])?;
            part.require(path, &["id", "message_id", "data"])?;
        }
        Ok(Self { path: path.to_owned(), connection, session, message, part, projected })
    }

    /// The sessions that are no sub-agents of another, each with its size and the time of its last change.
    pub(super) fn sources(&self) -> Result<Vec<(String, u64, Millis)>, ReadError> {
        let counted = |table: &SourceTable, name: &str| match table.has("session_id") {
            true => format!("(SELECT count(*) FROM {name} AS counted WHERE counted.session_id = session.id)"),
            false => "0".to_owned(),
        };
        let changed = match self.part.has("session_id") && self.part.has("time_updated") {
            true => "(SELECT max(part.time_updated) FROM part WHERE part.session_id = session.id)",
            false => "NULL",
        };
        let parent = self.session.column("parent_id");
        let sql = format!(
            "SELECT session.id, {} + {} + {}, {}, {changed} FROM session WHERE {parent} IS NULL OR {parent} = session.id
             OR NOT EXISTS (SELECT 1 FROM session AS parent WHERE parent.id = {parent})
             ORDER BY {}, session.id",
            counted(&self.message, "message"),
            counted(&self.part, "part"),
            counted(&self.projected, "session_message"),
            self.session.column("time_updated"),
            self.session.column("time_created"),
        );
        self.list(&sql, "", |row| {
            let modified = millis(row, 2)?.max(millis(row, 3)?).unwrap_or(0);
            let size = number(row, 1)?.unwrap_or(0);
            Ok(text(row, 0)?.map(|id| (id, size, modified)))
        })
    }

    /// A session by its id.
    pub(super) fn session(&self, id: &str) -> Result<Option<OpencodeSession>, ReadError> {
        let found =
            self.list(&format!("{} WHERE session.id = ?1", self.select_sessions()), id, session_of)?;
        Ok(found.into_iter().next())
    }

    /// The sessions of the sub-agents of a session, in the order in which they were made.
    pub(super) fn children(&self, id: &str) -> Result<Vec<OpencodeSession>, ReadError> {
        let (parent, created) = (self.session.column("parent_id"), self.session.column("time_created"));
        let select = self.select_sessions();
        self.list(&format!("{select} WHERE {parent} = ?1 ORDER BY {created}, session.id"), id, session_of)
    }

    fn select_sessions(&self) -> String {
        let columns = self.session.columns(&[
            "id",
            "directory",
            "title",
            "version",
            "time_created",
            "time_updated",
            "time_archived",
            "revert",
        ]);
        format!("SELECT {columns} FROM session")
    }

    /// The messages of a session in their order.
    pub(super) fn messages(&self, session: &str) -> Result<Vec<OpencodeNode>, ReadError> {
        if !self.message.exists() {
            return Ok(Vec::new());
        }
        let created = self.message.column("time_created");
        let sql = format!(
            "SELECT message.id, message.rowid, {created} FROM message WHERE message.session_id = ?1
             ORDER BY {created}, message.id"
        );
        self.list(&sql, session, node_of)
    }

    /// The content of a message; nothing if it is too long.
    pub(super) fn message(&self, id: &str) -> Result<Option<String>, ReadError> {
        let sql = format!("SELECT {} FROM message WHERE message.id = ?1", self.message.bounded("data"));
        let found = self.connection.prepare_cached(&sql);
        let found = found.and_then(|mut found| found.query_row([id], |row| text(row, 0)).optional());
        Ok(found.map_err(ReadError::database(&self.path))?.flatten())
    }

    /// Gives the parts of a message one after the other, each with its content unless that is too long.
    pub(super) fn parts(
        &self,
        message: &str,
        mut each: impl FnMut(&OpencodeNode, Option<&str>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let failed = || ReadError::database(&self.path);
        let sql = format!(
            "SELECT part.id, part.rowid, {}, {} FROM part WHERE part.message_id = ?1 ORDER BY part.id",
            self.part.column("time_created"),
            self.part.bounded("data"),
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(failed())?;
        let mut rows = statement.query([message]).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            let Some(node) = node_of(row).map_err(failed())? else { continue };
            let data = text(row, 3).map_err(failed())?;
            each(&node, data.as_deref())?;
        }
        Ok(())
    }

    /// Gives the messages that a session has in the newer table.
    pub(super) fn projected(
        &self,
        session: &str,
        mut each: impl FnMut(ProjectedMessage) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        if !self.projected.exists() {
            return Ok(());
        }
        self.projected.require(&self.path, &["id", "session_id", "type", "seq", "data"])?;
        let failed = || ReadError::database(&self.path);
        let sql = format!(
            "SELECT session_message.id, session_message.rowid, {}, session_message.type, {} FROM session_message
             WHERE session_message.session_id = ?1 ORDER BY session_message.seq",
            self.projected.column("time_created"),
            self.projected.bounded("data"),
        );
        let mut statement = self.connection.prepare(&sql).map_err(failed())?;
        let mut rows = statement.query([session]).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            let Some(node) = node_of(row).map_err(failed())? else { continue };
            let kind = text(row, 3).map_err(failed())?.unwrap_or_default();
            each(ProjectedMessage { node, kind, data: text(row, 4).map_err(failed())? })?;
        }
        Ok(())
    }

    /// Counts the columns that are not known.
    pub(super) fn count_unknown(&self, version: &str, sink: &mut Sink) {
        self.session.count_unknown(&known::SESSION_COLUMNS, version, sink);
        self.message.count_unknown(&known::MESSAGE_COLUMNS, version, sink);
        self.part.count_unknown(&known::PART_COLUMNS, version, sink);
    }

    /// Reads small rows; those without an id are left out.
    fn list<T>(
        &self,
        sql: &str,
        id: &str,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<Option<T>>,
    ) -> Result<Vec<T>, ReadError> {
        let listed = self.connection.prepare(sql).and_then(|mut statement| {
            let ids: &[&str] = if statement.parameter_count() == 0 { &[] } else { &[id] };
            let rows = statement.query_map(rusqlite::params_from_iter(ids), |row| read(row))?;
            rows.filter_map(Result::transpose).collect()
        });
        listed.map_err(ReadError::database(&self.path))
    }
}

fn node_of(row: &Row<'_>) -> rusqlite::Result<Option<OpencodeNode>> {
    let (row_number, at) = (number(row, 1)?.unwrap_or(0), millis(row, 2)?);
    Ok(text(row, 0)?.map(|id| OpencodeNode { id, row: row_number, at }))
}

fn session_of(row: &Row<'_>) -> rusqlite::Result<Option<OpencodeSession>> {
    let Some(id) = text(row, 0)? else { return Ok(None) };
    let revert = text(row, 7)?.and_then(|revert| serde_json::from_str(&revert).ok());
    Ok(Some(OpencodeSession {
        id,
        directory: text(row, 1)?.unwrap_or_default(),
        title: text(row, 2)?.unwrap_or_default(),
        version: text(row, 3)?.unwrap_or_default(),
        created: millis(row, 4)?,
        updated: millis(row, 5)?,
        archived: millis(row, 6)?,
        revert,
    }))
}

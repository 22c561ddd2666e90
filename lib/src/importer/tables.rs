//! What the readers of SQLite databases share: taking a copy of a database that was found, the columns that its tables have
//! in the version at hand, and values that may be of another type than expected or too long to read.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::Millis;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::reader::{Found, Places, ReadError, SessionSource};
use super::sink::Sink;
use super::snapshot::SqliteSnapshot;

/// The longest value that is read, in bytes.
pub const MAX_VALUE_BYTES: u64 = 64 * 1024 * 1024;

/// The databases at a place that the user may have named: one file, or those in a folder that are wanted.
pub fn databases_at(root: &Path, found: &mut Found, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    // What is found is not followed if it is a link; what the user named is.
    let root = match fs::canonicalize(root) {
        Ok(target) if root.is_symlink() => target,
        Ok(_) => root.to_owned(),
        Err(error) => {
            found.unreadable(root, &error);
            return Vec::new();
        }
    };
    if !root.is_dir() {
        return vec![root];
    }
    let listed = match fs::read_dir(&root) {
        Ok(listed) => listed,
        Err(error) => {
            found.unreadable(&root, &error);
            return Vec::new();
        }
    };
    let mut databases: Vec<_> = listed.filter_map(|item| Some(item.ok()?.path())).collect();
    databases.retain(|path| wanted(path) && path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()));
    databases.sort();
    databases
}

/// Opens the copy of the database that a session was found in.
pub fn connect(source: &SessionSource) -> Result<Connection, ReadError> {
    match &source.snapshot {
        Some(snapshot) => snapshot.open(),
        None => {
            let reason = "was not copied before it was read".to_owned();
            Err(ReadError::Format { path: source.path.clone(), reason })
        }
    }
}

/// Copies a database and opens the copy. One that is not there is no failure; what else goes wrong is reported.
pub fn open_copy(
    database: &Path,
    places: &Places,
    found: &mut Found,
) -> Option<(Arc<SqliteSnapshot>, Connection)> {
    let opened = SqliteSnapshot::take(database, &places.scratch)
        .and_then(|snapshot| snapshot.open().map(|connection| (Arc::new(snapshot), connection)));
    opened.map_err(|error| refuse(database, error, found)).ok()
}

/// A session that was found in a database, by its id there. The size is whatever grows with it.
#[must_use]
pub fn source(snapshot: &Arc<SqliteSnapshot>, key: String, size: u64, modified: Millis) -> SessionSource {
    let (path, snapshot) = (snapshot.original().to_owned(), Some(snapshot.clone()));
    SessionSource { path, key, size, modified, snapshot, parts: Vec::new() }
}

/// Reports a database that cannot be read.
pub fn refuse(database: &Path, error: ReadError, found: &mut Found) {
    match error {
        ReadError::Io { source, .. } => found.unreadable(database, &source),
        ReadError::Format { reason, .. } => found.refused(database, reason),
        ReadError::Database { source, .. } => found.refused(database, format!("it cannot be read: {source}")),
        ReadError::Stopped(stopped) => found.refused(database, stopped.to_string()),
    }
}

/// A table, with the columns that it has in this database. Without any there is no such table.
#[derive(Clone, Debug)]
pub struct SourceTable {
    name: &'static str,
    columns: Vec<String>,
}

impl SourceTable {
    /// Looks a table up.
    pub fn of(connection: &Connection, name: &'static str) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns = statement.query_map([name], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(Self { name, columns })
    }

    /// Says whether the database has it.
    #[must_use]
    pub fn exists(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Says whether it has a column.
    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|known| known == column)
    }

    /// The SQL for a column; for one that this version does not have, null.
    #[must_use]
    pub fn column(&self, column: &str) -> String {
        if self.has(column) { format!("{}.\"{column}\"", self.name) } else { "NULL".to_owned() }
    }

    /// The SQL for several columns.
    #[must_use]
    pub fn columns(&self, columns: &[&str]) -> String {
        columns.iter().map(|column| self.column(column)).collect::<Vec<_>>().join(", ")
    }

    /// The SQL for a column whose value is null if it is too long. SQLite does not read such a value then.
    #[must_use]
    pub fn bounded(&self, column: &str) -> String {
        let value = self.column(column);
        format!("CASE WHEN octet_length({value}) <= {MAX_VALUE_BYTES} THEN {value} END")
    }

    /// Fails if it lacks one of these columns, and says which.
    pub fn require(&self, database: &Path, columns: &[&str]) -> Result<(), ReadError> {
        let missing = columns.iter().find(|column| !self.has(column));
        let reason = match missing {
            None => return Ok(()),
            Some(_) if !self.exists() => format!("has no table {}", self.name),
            Some(column) => format!("has no column {column} in table {}", self.name),
        };
        let reason = format!("{reason}: its layout is not one that is known");
        Err(ReadError::Format { path: database.to_owned(), reason })
    }

    /// Counts the columns that are not known.
    pub fn count_unknown(&self, known: &[&str], version: &str, sink: &mut Sink) {
        for column in self.columns.iter().filter(|column| !known.contains(&column.as_str())) {
            sink.drift(version, &format!("column {}.{column}", self.name));
        }
    }
}

/// The text of a column; nothing if it is null or of another type.
pub fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => None,
    })
}

/// The number in a column; nothing if it is null, negative or of another type.
pub fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => u64::try_from(number).ok(),
        ValueRef::Real(number) => (number >= 0.0).then_some(number as u64),
        ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => None,
    })
}

/// The time in a column in milliseconds since 1970; nothing if it is null or none.
pub fn millis(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Millis>> {
    Ok(number(row, column)?.filter(|at| *at > 0))
}

/// The time that SQLite writes for the current one, or that of RFC 3339, in a column of text.
pub fn written_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Millis>> {
    Ok(text(row, column)?.and_then(|written| {
        let written = written.trim().replacen(' ', "T", 1);
        crate::clock::from_rfc3339(&written).or_else(|| crate::clock::from_rfc3339(&format!("{written}Z")))
    }))
}

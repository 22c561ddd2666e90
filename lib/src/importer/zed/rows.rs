//! The table of threads in Zed's database.

use std::path::{Path, PathBuf};

use rethread_core::Millis;
use rusqlite::{Connection, Row};

use super::blob::ZedBlob;
use crate::importer::reader::ReadError;
use crate::importer::sink::Sink;
use crate::importer::tables::{MAX_VALUE_BYTES, SourceTable, number, text, written_time};

/// The columns of the table.
const COLUMNS: [&str; 9] = [
    "created_at",
    "data",
    "data_type",
    "folder_paths",
    "folder_paths_order",
    "id",
    "parent_id",
    "summary",
    "updated_at",
];

/// An open copy of a database.
pub(super) struct ZedDatabase {
    pub(super) path: PathBuf,
    connection: Connection,
    threads: SourceTable,
}

/// A thread without its conversation.
#[derive(Clone, Debug)]
pub(super) struct ZedRow {
    pub(super) row: u64,
    pub(super) id: String,
    pub(super) summary: String,
    pub(super) created: Option<Millis>,
    pub(super) updated: Option<Millis>,
    /// The first of the folders that were open.
    pub(super) folder: Option<String>,
}

impl ZedDatabase {
    /// Looks at the table. Fails if it is not there.
    pub(super) fn new(connection: Connection, path: &Path) -> Result<Self, ReadError> {
        let threads = SourceTable::of(&connection, "threads").map_err(ReadError::database(path))?;
        threads.require(path, &["id", "data_type", "data"])?;
        Ok(Self { path: path.to_owned(), connection, threads })
    }

    /// Counts the columns that are not known.
    pub(super) fn count_unknown(&self, version: &str, sink: &mut Sink) {
        self.threads.count_unknown(&COLUMNS, version, sink);
    }

    /// The threads that are no sub-agents of another, each with its size and the time of its last change.
    pub(super) fn sources(&self) -> Result<Vec<(String, u64, Millis)>, ReadError> {
        let parent = self.threads.column("parent_id");
        let sql = format!(
            "SELECT threads.id, octet_length(threads.data), {} FROM threads WHERE {parent} IS NULL
             OR {parent} = threads.id OR NOT EXISTS (SELECT 1 FROM threads AS parent WHERE parent.id = {parent})
             ORDER BY threads.rowid",
            self.threads.column("updated_at")
        );
        let listed = self.connection.prepare(&sql).and_then(|mut statement| {
            let rows = statement.query_map([], |row| {
                let (size, at) = (number(row, 1)?.unwrap_or(0), written_time(row, 2)?.unwrap_or(0));
                Ok(text(row, 0)?.map(|id| (id, size, at)))
            })?;
            rows.filter_map(Result::transpose).collect()
        });
        listed.map_err(ReadError::database(&self.path))
    }

    /// A thread by its id.
    pub(super) fn thread(&self, id: &str) -> Result<Option<ZedRow>, ReadError> {
        Ok(self.rows("threads.id", id)?.into_iter().next())
    }

    /// The threads of the sub-agents of a thread.
    pub(super) fn children(&self, id: &str) -> Result<Vec<ZedRow>, ReadError> {
        self.rows(&self.threads.column("parent_id"), id)
    }

    fn rows(&self, by: &str, id: &str) -> Result<Vec<ZedRow>, ReadError> {
        let columns = self.threads.columns(&[
            "id",
            "summary",
            "created_at",
            "updated_at",
            "folder_paths",
            "folder_paths_order",
        ]);
        let sql =
            format!("SELECT threads.rowid, {columns} FROM threads WHERE {by} = ?1 ORDER BY threads.rowid");
        let listed = self.connection.prepare(&sql).and_then(|mut statement| {
            let rows = statement.query_map([id], thread_of)?;
            rows.filter_map(Result::transpose).collect()
        });
        listed.map_err(ReadError::database(&self.path))
    }

    /// The conversation of a thread.
    pub(super) fn blob(&self, thread: &ZedRow) -> Result<ZedBlob, ReadError> {
        let sql = format!(
            "SELECT threads.data_type, CASE WHEN octet_length(threads.data) <= {MAX_VALUE_BYTES}
             THEN CAST(threads.data AS BLOB) END FROM threads WHERE threads.id = ?1"
        );
        let read = self.connection.query_row(&sql, [&thread.id], |row| {
            Ok((text(row, 0)?.unwrap_or_default(), row.get::<_, Option<Vec<u8>>>(1)?))
        });
        let (kind, data) = read.map_err(ReadError::database(&self.path))?;
        let reason = match data {
            Some(data) if kind == "json" || kind == "zstd" => {
                return Ok(ZedBlob::new(&self.path, &thread.id, &kind, data));
            }
            Some(_) => format!("has thread {} in a format that is not known: {kind}", thread.id),
            None => format!("has thread {}, which is too long", thread.id),
        };
        Err(ReadError::Format { path: self.path.clone(), reason })
    }
}

fn thread_of(row: &Row<'_>) -> rusqlite::Result<Option<ZedRow>> {
    let Some(id) = text(row, 1)? else { return Ok(None) };
    let (paths, order) = (text(row, 5)?.unwrap_or_default(), text(row, 6)?.unwrap_or_default());
    Ok(Some(ZedRow {
        row: number(row, 0)?.unwrap_or(0),
        id,
        summary: text(row, 2)?.unwrap_or_default(),
        created: written_time(row, 3)?,
        updated: written_time(row, 4)?,
        folder: first_folder(&paths, &order),
    }))
}

/// The folder that comes first for people. The paths are sorted; the order says which place each of them has.
fn first_folder(paths: &str, order: &str) -> Option<String> {
    let paths: Vec<_> = paths.split('\n').filter(|path| !path.is_empty()).collect();
    let first = order.split(',').position(|place| place == "0").unwrap_or(0);
    paths.get(first).or(paths.first()).map(|path| (*path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::first_folder;

    #[test]
    fn the_folder_that_people_see_first_is_the_working_directory() {
        assert_eq!(first_folder("/a/c\n/a/d", "1,0").as_deref(), Some("/a/d"));
        assert_eq!(first_folder("/a/c\n/a/d", "").as_deref(), Some("/a/c"));
        assert_eq!(first_folder("/a/c", "7").as_deref(), Some("/a/c"));
        assert_eq!(first_folder("", "0"), None);
    }
}

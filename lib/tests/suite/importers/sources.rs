//! Sources of other tools: databases that are in use, files that are none, lines that are too long.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use rethread::importer::lines::{LineEnd, SourceLine, SourceLines};
use rethread::importer::snapshot::SqliteSnapshot;
use rethread::importer::{Found, files};
use rusqlite::Connection;

fn bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let listed = fs::read_dir(folder).expect("a folder").map(|item| item.expect("an item").path());
    let read = |path: std::path::PathBuf| (path.display().to_string(), fs::read(&path).expect("a file"));
    let mut files: Vec<_> = listed.map(read).collect();
    files.sort();
    files
}

fn words(connection: &Connection) -> Vec<String> {
    let mut statement = connection.prepare("SELECT word FROM t ORDER BY word").expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|word| word.expect("a word")).collect()
}

#[test]
fn a_database_in_use_is_copied_with_its_log_and_not_touched() {
    let (folder, scratch) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("tool.db");
    let tool = Connection::open(&path).expect("a database");
    tool.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (word TEXT);",
    )
    .expect("a table");
    tool.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t VALUES ('in the log');")
        .expect("a row");
    // A change that is under way, and a lock on everything.
    tool.execute_batch("BEGIN EXCLUSIVE; INSERT INTO t VALUES ('not committed');").expect("a change");
    let before = bytes(folder.path());
    let snapshot = SqliteSnapshot::take(&path, &scratch.path().join("s")).expect("it can be copied");
    assert_eq!(words(&snapshot.open().expect("it can be opened")), ["in the log"]);
    assert_eq!(bytes(folder.path()), before, "the tool's files are as they were");
    assert_eq!(snapshot.original(), path);
    drop(snapshot);
    assert_eq!(fs::read_dir(scratch.path().join("s")).expect("a folder").count(), 0, "the copy is removed");
}

#[test]
fn an_unfinished_change_of_an_older_database_is_rolled_back_in_the_copy() {
    let (folder, scratch) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("tool.db");
    let tool = Connection::open(&path).expect("a database");
    tool.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA cache_spill = 1; PRAGMA cache_size = 1; CREATE TABLE t (word TEXT);")
        .expect("a table");
    tool.execute("INSERT INTO t VALUES ('old')", []).expect("a row");
    tool.execute_batch("BEGIN; UPDATE t SET word = 'new';").expect("a change");
    let insert = "INSERT INTO t SELECT hex(randomblob(500)) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i FROM n)";
    tool.execute(insert, []).expect("rows");
    let snapshot = SqliteSnapshot::take(&path, scratch.path()).expect("it can be copied");
    assert_eq!(words(&snapshot.open().expect("it can be opened")), ["old"]);
}

#[test]
fn what_is_no_database_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tool.db");
    fs::write(&path, "this is not a database, but it is long enough to look like one at first")
        .expect("a file");
    let snapshot = SqliteSnapshot::take(&path, folder.path()).expect("it can be copied");
    let error = snapshot.open().expect_err("it is no database");
    assert!(error.to_string().contains("tool.db"), "{error}");
    assert!(SqliteSnapshot::take(&folder.path().join("none"), folder.path()).is_err());
}

#[test]
fn links_pipes_and_devices_are_not_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "x").expect("a file");
    symlink(&file, folder.path().join("link")).expect("a link");
    symlink(folder.path(), folder.path().join("loop")).expect("a link");
    assert!(files::open(&file).is_ok());
    for refused in ["link", "loop", "none", "."] {
        assert!(files::open(&folder.path().join(refused)).is_err(), "{refused}");
    }
    assert!(files::open(Path::new("/dev/null")).is_err());
    let mut found = Found::default();
    let listed = files::files_below(folder.path(), &mut found, |_| true);
    assert_eq!(listed.into_iter().map(|(path, _)| path).collect::<Vec<_>>(), [file]);
    assert!(found.unreadable.is_empty());
}

#[test]
fn lines_are_read_one_by_one_and_again() {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"one\n\n  two  \n\xff\nlast").expect("it can be written");
    std::io::Seek::rewind(&mut file).expect("it can be rewound");
    let mut lines = SourceLines::new(file);
    let mut places = Vec::new();
    let mut seen = Vec::new();
    while let Some((place, line)) = lines.next_line().expect("it can be read") {
        places.push(place);
        seen.push(match line {
            SourceLine::Text(text, LineEnd::Complete) => text.to_owned(),
            SourceLine::Text(text, LineEnd::Missing) => format!("{text}…"),
            SourceLine::Damaged(reason) => reason.to_owned(),
        });
    }
    assert_eq!(seen, ["one", "two", "it is not UTF-8", "last…"]);
    assert_eq!(places.iter().map(|place| place.line).collect::<Vec<_>>(), [1, 3, 4, 5]);
    lines.go_to(places[1]).expect("it can go back");
    let (place, line) = lines.next_line().expect("it can be read").expect("a line");
    assert_eq!((place, line), (places[1], SourceLine::Text("two", LineEnd::Complete)));
}

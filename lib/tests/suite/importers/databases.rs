//! SQLite databases of other tools as they are found on real machines: in use, locked, replaced, damaged, and files that only
//! look like one. What is read is never written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rethread::importer::{Found, Places, SourceOutcome, SourceReport, ToolImport};
use rethread::session_file::ImportMode;
use rethread::store::Store;
use rethread::store::memory::MemoryStore;
use rusqlite::Connection;

use super::{entries, entry_text, reader};

/// A folder of a tool with a database made by the script of a fixture.
struct DataFolder {
    tool: &'static str,
    folder: tempfile::TempDir,
    scratch: tempfile::TempDir,
    database: PathBuf,
}

impl DataFolder {
    fn new(tool: &'static str, case: &str, name: &str) -> Self {
        let temporary = || tempfile::tempdir().expect("a folder can be made");
        let (folder, scratch) = (temporary(), temporary());
        let database = folder.path().join(name);
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/import")
            .join(case)
            .join(format!("files/{name}.sql"));
        let script = fs::read_to_string(script).expect("the fixture is there");
        let made = Self { tool, folder, scratch, database };
        made.open().execute_batch(&script).expect("the script is right");
        made
    }

    fn opencode() -> Self {
        Self::new("opencode", "opencode-1.18/revert", "opencode.db")
    }

    fn open(&self) -> Connection {
        Connection::open(&self.database).expect("it can be opened")
    }

    fn find(&self, root: &Path) -> Found {
        let places = Places { scratch: self.scratch.path().to_owned(), ..Places::default() };
        let mut found = Found::default();
        reader(self.tool).find(root, &places, &mut found);
        found
    }

    async fn import(&self, store: &dyn Store, found: Found) -> Vec<Result<SourceReport, String>> {
        let mode = ImportMode::Same;
        let mut import = ToolImport::begin(store, reader(self.tool), mode).await.expect("the store works");
        let mut reports = Vec::new();
        for source in found.sources {
            reports.push(import.source(source).await.map_err(|error| error.to_string()));
        }
        reports
    }

    /// All of it in an empty store, as text, without what could not be read.
    async fn text(&self) -> String {
        let store = MemoryStore::new();
        let mut text = String::new();
        for report in self.import(&store, self.find(self.folder.path())).await {
            let session = report.ok().and_then(|report| report.session);
            if let Some(session) = session {
                text += &format!("# {session:?}\n");
                text.extend(entries(&store, &session).await.iter().map(entry_text));
            }
        }
        text
    }

    /// The bytes of all files of the folder.
    fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let listed = fs::read_dir(self.folder.path()).expect("it can be listed");
        let paths = listed.map(|item| item.expect("it can be listed").path());
        paths.map(|path| (path.clone(), fs::read(&path).expect("it can be read"))).collect()
    }
}

#[tokio::test]
async fn a_database_that_is_in_use_and_locked_is_read_and_left_as_it_is() {
    let data = DataFolder::opencode();
    let tool = data.open();
    tool.pragma_update(None, "journal_mode", "wal").expect("it has a log");
    tool.pragma_update(None, "wal_autocheckpoint", 0).expect("it keeps its log");
    tool.execute("UPDATE session SET title = 'In the log' WHERE id = 'ses_3'", [])
        .expect("it can be changed");
    tool.execute_batch("BEGIN EXCLUSIVE; UPDATE session SET title = 'Not committed';")
        .expect("it can be locked");
    let before = data.bytes();
    assert!(before.keys().any(|path| path.ends_with("opencode.db-wal")), "what is new is in the log");
    let store = MemoryStore::new();
    let reports = data.import(&store, data.find(data.folder.path())).await;
    assert_eq!(reports.len(), 3);
    let row = store.find(&"ses_3".into()).await.expect("the store works").expect("it is stored");
    assert_eq!(row.title.map(|(title, _)| title).as_deref(), Some("In the log"));
    assert!(data.bytes() == before, "the files of the tool are as they were");
    tool.execute_batch("COMMIT").expect("the tool was not disturbed");
    let left = fs::read_dir(data.scratch.path()).expect("it can be listed").count();
    assert_eq!(left, 0, "the copy is removed");
}

#[tokio::test]
async fn a_database_that_is_replaced_while_it_is_read_gives_what_it_had() {
    let data = DataFolder::opencode();
    let found = data.find(data.folder.path());
    let other = DataFolder::new("opencode", "opencode-1.18/failures", "opencode.db");
    fs::rename(&other.database, &data.database).expect("it can be replaced");
    let store = MemoryStore::new();
    let reports = data.import(&store, found).await;
    assert!(reports.len() == 3 && reports.iter().all(Result::is_ok), "{reports:?}");
    assert_eq!(data.find(data.folder.path()).sources.len(), 1, "the next import reads the other one");
}

#[tokio::test]
async fn a_damaged_database_is_reported_and_its_other_sessions_are_read() {
    let data = DataFolder::opencode();
    let tool = data.open();
    let words = "x".repeat(60_000);
    let part = format!(r#"{{"type":"text","text":"{words}"}}"#);
    let insert = "INSERT INTO part VALUES ('prt_002_9', 'msg_002', 'ses_1', 0, 0, ?1)";
    tool.execute(insert, [&part]).expect("it can be added");
    let page: u32 = tool.query_row("PRAGMA page_size", [], |row| row.get(0)).expect("it has pages");
    let page = page as usize;
    drop(tool);
    // The chain of pages that the long value is in leads nowhere.
    let mut bytes = fs::read(&data.database).expect("it can be read");
    let pages = bytes.len() / page;
    let is_full = |at: &usize| bytes[at * page + 4..][..page - 4].iter().all(|byte| *byte == b'x');
    let first = (0..pages).find(is_full).expect("the value is longer than a page");
    bytes[first * page..][..4].copy_from_slice(&u32::MAX.to_be_bytes());
    fs::write(&data.database, bytes).expect("it can be written");
    let store = MemoryStore::new();
    let reports = data.import(&store, data.find(data.folder.path())).await;
    let outcomes: Vec<_> =
        reports.iter().map(|report| report.as_ref().map(|report| &report.outcome)).collect();
    let failure = outcomes[0].expect_err("the first session is in the damaged part");
    assert!(failure.ends_with("opencode.db cannot be read"), "{failure}");
    assert_eq!(outcomes[1..], [Ok(&SourceOutcome::Imported(1)), Ok(&SourceOutcome::Imported(1))]);
}

#[test]
fn a_database_that_is_cut_off_is_reported() {
    let data = DataFolder::opencode();
    let bytes = fs::read(&data.database).expect("it can be read");
    fs::write(&data.database, &bytes[..bytes.len() / 3]).expect("it can be written");
    let found = data.find(data.folder.path());
    assert!(found.sources.is_empty(), "{found:?}");
    assert_eq!(found.unreadable[0].path, data.database);
    assert_eq!(found.unreadable[0].reason, "it cannot be read: database disk image is malformed");
}

#[test]
fn what_is_no_file_or_cannot_be_reached_is_reported() {
    let data = DataFolder::opencode();
    let beside = |name: &str| data.folder.path().join(name);
    // In the folder these are passed over; where the user names them they are reported.
    std::os::unix::fs::symlink(beside("opencode-loop.db"), beside("opencode-loop.db"))
        .expect("a loop can be made");
    fs::create_dir(beside("opencode-folder.db")).expect("a folder can be made");
    make_pipe(&beside("opencode-pipe.db"));
    let found = data.find(data.folder.path());
    assert_eq!((found.sources.len(), found.unreadable.len()), (3, 0), "{found:?}");
    let reason =
        |name: &str| data.find(&beside(name)).unreadable.first().map(|refused| refused.reason.clone());
    assert!(reason("opencode-loop.db").is_some_and(|reason| reason.contains("symbolic links")));
    assert_eq!(reason("opencode-pipe.db").as_deref(), Some("it is not a regular file"));
    assert_eq!(reason("opencode.db/inside").as_deref(), Some("Not a directory (os error 20)"));
    assert_eq!(reason("nothing.db"), None, "what is not there is no failure");
    std::os::unix::fs::symlink(&data.database, beside("named.db")).expect("a link can be made");
    assert_eq!(data.find(&beside("named.db")).sources.len(), 3, "a link that the user names is followed");
}

#[test]
fn a_folder_that_may_not_be_read_is_reported() {
    use std::os::unix::fs::PermissionsExt;

    let data = DataFolder::opencode();
    let closed = fs::Permissions::from_mode(0o000);
    fs::set_permissions(data.folder.path(), closed).expect("it can be closed");
    let found = data.find(data.folder.path());
    let open = fs::Permissions::from_mode(0o700);
    fs::set_permissions(data.folder.path(), open).expect("it can be opened");
    // Nothing is closed for root.
    match found.unreadable.first() {
        Some(refused) => assert_eq!(refused.reason, "Permission denied (os error 13)"),
        None => assert_eq!(found.sources.len(), 3),
    }
}

#[tokio::test]
async fn new_turns_of_a_session_in_a_database_are_appended() {
    for (tool, case, name, more) in [
        (
            "opencode",
            "opencode-1.18/failures",
            "opencode.db",
            r#"INSERT INTO message VALUES ('msg_900', 'ses_1', 1772600900000, 1772600900000, '{"role":"user"}');
            INSERT INTO part VALUES ('prt_900', 'msg_900', 'ses_1', 0, 1772600900000, '{"type":"text","text":"more"}');
            INSERT INTO message VALUES ('msg_901', 'ses_1', 1772600901000, 1772600901000,
                '{"role":"assistant","finish":"stop","time":{"completed":1772600902000}}');
            INSERT INTO part VALUES ('prt_901', 'msg_901', 'ses_1', 0, 1772600901000, '{"type":"text","text":"More."}');"#,
        ),
        (
            "goose",
            "goose-layout13/conversation",
            "sessions.db",
            r#"INSERT INTO messages (session_id, role, content_json, created_timestamp)
                VALUES ('20260304_1', 'user', '[{"type":"text","text":"more"}]', 1772600900),
                ('20260304_1', 'assistant', '[{"type":"text","text":"More."}]', 1772600901);"#,
        ),
        (
            "zed",
            "zed-0.3.0/conversation",
            "threads.db",
            r#"UPDATE threads SET updated_at = '2026-03-04T06:00:00Z', data = json_insert(data,
                '$.messages[#]', json('{"User":{"id":"u9","content":[{"Text":"more"}]}}'),
                '$.messages[#]', json('{"Agent":{"content":[{"Text":"More."}],"tool_results":{}}}'));"#,
        ),
    ] {
        let (data, store) = (DataFolder::new(tool, case, name), MemoryStore::new());
        let first = data.import(&store, data.find(data.folder.path())).await;
        let again = data.import(&store, data.find(data.folder.path())).await;
        data.open().execute_batch(more).expect("the script is right");
        let grown = data.import(&store, data.find(data.folder.path())).await;
        let outcome = |reports: &[Result<SourceReport, String>]| {
            reports[0].as_ref().map(|report| report.outcome.clone()).map_err(Clone::clone)
        };
        assert!(matches!(outcome(&first), Ok(SourceOutcome::Imported(_))), "{tool}: {first:?}");
        assert_eq!(outcome(&again), Ok(SourceOutcome::Unchanged), "{tool}");
        assert_eq!(outcome(&grown), Ok(SourceOutcome::Grown(1)), "{tool}");
    }
}

#[tokio::test]
async fn compressed_threads_are_read_as_others_are() {
    let data = DataFolder::new("zed", "zed-0.3.0/subagents", "threads.db");
    let plain = data.text().await;
    assert!(plain.contains("Deep thing."), "{plain}");
    let tool = data.open();
    let mut statement = tool.prepare("SELECT id, CAST(data AS BLOB) FROM threads").expect("it has threads");
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)));
    let rows: Vec<_> = rows.expect("they can be read").map(|row| row.expect("they can be read")).collect();
    for (id, json) in rows {
        let data = zstd::encode_all(&json[..], 3).expect("it can be compressed");
        let update = "UPDATE threads SET data_type = 'zstd', data = ?2 WHERE id = ?1";
        tool.execute(update, rusqlite::params![id, data]).expect("it can be changed");
    }
    assert_eq!(data.text().await, plain);
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

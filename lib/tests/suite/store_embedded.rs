//! What only the embedded store must do: files, versions, damage, several processes, a full disk.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::{ListQuery, NewSession, OwnedHere, Store as _, StoreError};
use rethread_core::{Seq, SessionId};
use rusqlite::Connection;
use tempfile::tempdir;

mod journal_files;
mod processes;
mod search_index;

use crate::store::{append, entry, new_session, open, paths, read_all, show};

fn id(text: &str) -> SessionId {
    SessionId::from(text)
}

fn database(dir: &Path) -> Connection {
    Connection::open(paths(dir).database).unwrap()
}

fn refusal(paths: &EmbeddedPaths) -> StoreError {
    match EmbeddedStore::open(paths) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

/// Says whether the error names the file and what its cause says.
fn assert_io(error: &StoreError, file: &Path, cause: &str) {
    let StoreError::Io { context, source } = error else { panic!("not an I/O error: {error}") };
    assert!(context.contains(&file.display().to_string()), "{context}");
    assert!(source.to_string().contains(cause), "{source}");
}

#[test]
fn what_was_written_is_there_after_opening_again() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    append(&store, &mut lease, vec![entry("a"), entry("b")]).unwrap();
    store.fold(&lease, Seq(1)).unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 b"]);
    assert_eq!(store.claim(&id("s")).unwrap().epoch, 2);
}

#[test]
fn calls_wait_for_a_store_that_is_opened_in_the_background() {
    let dir = tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (store, opened) = EmbeddedStore::open_in_background(&paths(dir.path())).unwrap();
    runtime.block_on(async {
        assert_eq!(store.create(new_session("s")).await.unwrap().head, Seq(0));
        opened.wait().await.unwrap();
    });
    drop((store, runtime));
    assert!(open(dir.path()).find(&id("s")).unwrap().is_some());
}

#[test]
fn a_store_that_cannot_be_opened_in_the_background_tells_why_and_refuses_calls() {
    let dir = tempdir().unwrap();
    drop(open(dir.path()));
    database(dir.path()).pragma_update(None, "user_version", 1_000).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (store, opened) = EmbeddedStore::open_in_background(&paths(dir.path())).unwrap();
    runtime.block_on(async {
        assert!(matches!(opened.wait().await, Err(StoreError::Newer { found: 1_000, .. })));
        assert!(matches!(store.find(&id("s")).await, Err(StoreError::Io { .. })));
        assert!(matches!(store.create(new_session("s")).await, Err(StoreError::Io { .. })));
    });
}

#[test]
fn files_are_for_their_owner_alone() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    store.create(new_session("s")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let journals = paths(dir.path()).journals();
    let EmbeddedPaths { database, locks } = paths(dir.path());
    assert_eq!((mode(database.parent().unwrap()), mode(&journals)), (0o700, 0o700));
    assert_eq!((mode(&locks), mode(locks.parent().unwrap())), (0o700, 0o700));
    let files = [database.parent().unwrap(), &locks, &journals].map(|dir| fs::read_dir(dir).unwrap());
    let files = files.into_iter().flatten().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|path| *path != journals).collect();
    assert_eq!(files.len(), 5, "database, log, index of the log, lock, journal: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn rights_of_others_are_taken_from_an_old_file() {
    let dir = tempdir().unwrap();
    drop(open(dir.path()));
    let file = paths(dir.path()).database;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    drop(open(dir.path()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_newer_database_is_refused() {
    let dir = tempdir().unwrap();
    drop(open(dir.path()));
    database(dir.path()).pragma_update(None, "user_version", 99).unwrap();
    let refused = refusal(&paths(dir.path()));
    assert!(matches!(refused, StoreError::Newer { found: 99, .. }), "{refused}");
}

#[test]
fn an_older_database_is_copied_and_migrated() {
    let dir = tempdir().unwrap();
    let file = paths(dir.path()).database;
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let old = database(dir.path());
    old.execute_batch(include_str!("../../src/store/embedded/migrations/0001_sessions.sql")).unwrap();
    old.execute_batch(
        "PRAGMA application_id = 0x52746864; PRAGMA user_version = 1;
         INSERT INTO session (uid, cwd, agent, updated_at, head_seq, epoch) VALUES ('old', '/w', 'agent', 1, 0, 1);",
    )
    .unwrap();
    drop(old);

    let store = open(dir.path());
    assert!(store.find(&id("old")).unwrap().is_some());
    store.remember_profile("k", &[1], 1).unwrap();

    let copy = file.with_file_name("rethread.db.v1.backup");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let copy = Connection::open(copy).unwrap();
    let version: i64 = copy.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let uid: String = copy.query_row("SELECT uid FROM session", [], |row| row.get(0)).unwrap();
    assert_eq!((version, uid.as_str()), (1, "old"));
}

#[test]
fn a_title_that_an_earlier_program_kept_as_it_came_is_read_clean() {
    let dir = tempdir().unwrap();
    drop(open(dir.path()));
    database(dir.path())
        .execute(
            "INSERT INTO session (uid, cwd, agent, title, title_by, updated_at, head_seq, epoch, listed)
             VALUES ('old', '/w', 'agent', ?1, 1, 1, 0, 1, 1)",
            [format!("\u{1b}[31mred\u{202e}\n{}", "long ".repeat(1000))],
        )
        .unwrap();
    let store = open(dir.path());
    let found = store.find(&id("old")).unwrap().unwrap();
    let page = store.list(&ListQuery { limit: 1, ..ListQuery::default() }).unwrap();
    for row in [&found, &page.rows[0]] {
        let title = &row.title.as_ref().unwrap().0;
        assert!(title.starts_with("red long") && title.chars().count() == 500, "{title}");
    }
}

#[test]
fn a_new_database_needs_no_copy() {
    let dir = tempdir().unwrap();
    drop(open(dir.path()));
    drop(open(dir.path()));
    let names: Vec<_> =
        fs::read_dir(dir.path().join("data")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["live", "rethread.db"]);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let dir = tempdir().unwrap();
    let paths = paths(dir.path());
    fs::create_dir_all(paths.database.parent().unwrap()).unwrap();
    let text = "certainly not a database\n".repeat(100);
    fs::write(&paths.database, &text).unwrap();
    assert_io(&refusal(&paths), &paths.database, "not a database");
    assert_eq!(fs::read_to_string(&paths.database).unwrap(), text);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let dir = tempdir().unwrap();
    let paths = paths(dir.path());
    fs::create_dir_all(paths.database.parent().unwrap()).unwrap();
    database(dir.path()).execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert_io(&refusal(&paths), &paths.database, "another program");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("data"), "in the way").unwrap();
    assert_io(&refusal(&paths(dir.path())), &dir.path().join("data"), "");
}

/// Runs as somebody whom file rights bind, which they do not for root.
#[cfg(target_os = "linux")]
fn as_a_plain_user(dir: &Path, test: impl FnOnce() + Send) {
    const NOBODY: u32 = 65534;
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the raw call changes the file identity of this thread only, and the thread ends with the test.
            let root = unsafe { libc::geteuid() } == 0;
            if root {
                hand_over(dir, NOBODY);
                unsafe { libc::syscall(libc::SYS_setfsuid, NOBODY) };
            }
            test();
        });
    });
}

#[cfg(target_os = "linux")]
fn hand_over(path: &Path, to: u32) {
    std::os::unix::fs::chown(path, Some(to), None).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            hand_over(&entry.unwrap().path(), to);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_directory_is_named() {
    let dir = tempdir().unwrap();
    let paths = paths(dir.path());
    let data = paths.database.parent().unwrap();
    fs::create_dir_all(data).unwrap();
    as_a_plain_user(dir.path(), || {
        fs::set_permissions(data, fs::Permissions::from_mode(0o500)).unwrap();
        assert_io(&refusal(&paths), &paths.database, "ermission denied");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_database_is_named() {
    let dir = tempdir().unwrap();
    let paths = paths(dir.path());
    drop(open(dir.path()));
    as_a_plain_user(dir.path(), || {
        fs::set_permissions(&paths.database, fs::Permissions::from_mode(0o400)).unwrap();
        assert_io(&refusal(&paths), &paths.database, "read-only");
    });
}

#[test]
fn damage_in_a_segment_is_found() {
    let changes = [
        ("UPDATE segment SET items = zeroblob(length(items))", "checksum"),
        ("UPDATE segment SET items = substr(items, 1, length(items) - 1)", "checksum"),
        ("UPDATE segment SET length = length + 1", "length"),
    ];
    for (change, cause) in changes {
        let dir = tempdir().unwrap();
        let store = open(dir.path());
        let mut lease = store.create(new_session("s")).unwrap();
        append(&store, &mut lease, vec![entry(&long("a")), entry("b"), entry("c")]).unwrap();
        store.fold(&lease, Seq(1)).unwrap();
        store.fold(&lease, Seq(2)).unwrap();
        database(dir.path()).execute_batch(&format!("{change} WHERE first_seq = 2")).unwrap();
        let StoreError::Damaged { session, at, source } = store.read(&id("s"), Seq(0), 1 << 20).unwrap_err()
        else {
            panic!("not found: {change}")
        };
        assert_eq!((session, at), (id("s"), Seq(2)));
        assert!(source.to_string().contains(cause), "{source}");
        // What lies beyond the damage can still be read.
        assert_eq!(show(&store.read(&id("s"), Seq(3), 1000).unwrap().items), ["3 c"]);
    }
}

#[test]
fn a_stretch_that_folds_to_nothing_leaves_no_hole() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    append(&store, &mut lease, ["a", "b", "c", "d"].map(|text| entry(&long(text))).to_vec()).unwrap();
    for upto in 1..=4 {
        store.fold(&lease, Seq(upto)).unwrap();
    }
    let first = format!("1 {}", long("a"));
    // Copies an empty segment over the others, as if their entries had come to nothing.
    let (bytes, checksum) = empty_segment();
    let sql = "UPDATE segment SET items = ?1, checksum = ?2, length = 1 WHERE first_seq > 1";
    database(dir.path()).execute(sql, rusqlite::params![bytes, checksum]).unwrap();
    assert_eq!(show(&read_all(&store, "s", 1)), [first.as_str()]);
    append(&store, &mut lease, vec![entry("e")]).unwrap();
    assert_eq!(show(&read_all(&store, "s", 1)), [first.as_str(), "5 e"]);
    let page = store.read(&id("s"), Seq(2), 1).unwrap();
    assert_eq!((show(&page.items), page.next, page.end), (vec!["5 e".to_owned()], Seq(6), true));
}

/// So long that its segment is not joined with others.
fn long(text: &str) -> String {
    text.repeat(100 * 1024)
}

#[test]
fn small_segments_are_joined_and_nobody_can_tell() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    let count = |sql: &str| database(dir.path()).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    for number in 1..=100 {
        append(&store, &mut lease, vec![entry(&format!("{number} {}", "z".repeat(4000)))]).unwrap();
        let before = read_all(&store, "s", 1 << 20);
        store.fold(&lease, Seq(number)).unwrap();
        assert_eq!(read_all(&store, "s", 1 << 20), before);
        if number == 37 {
            let parent = Some((id("s"), Seq(37)));
            store.create(NewSession { parent, ..new_session("fork") }).unwrap();
        }
    }
    let segments = count("SELECT count(*) FROM segment");
    assert!((4..=12).contains(&segments), "{segments} segments of 400 KB");
    assert_eq!(count("SELECT max(length) <= 131072 FROM segment"), 1);
    for budget in [1, 10_000, 50_000, 1 << 20] {
        assert_eq!(read_all(&store, "s", budget).len(), 100);
        assert_eq!(read_all(&store, "fork", budget), read_all(&store, "s", 1 << 20)[..37]);
    }
}

#[test]
fn a_segment_of_the_first_version_stays_as_it_is() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    append(&store, &mut lease, vec![entry("a"), entry("b")]).unwrap();
    store.fold(&lease, Seq(2)).unwrap();
    let items = read_all(&store, "s", 1000);
    let mut plain = vec![rethread_core::stored::VERSION];
    serde_json::to_writer(&mut plain, &items).unwrap();
    let (bytes, checksum) = packed(&plain);
    let sql = "UPDATE segment SET items = ?1, checksum = ?2, length = ?3";
    database(dir.path()).execute(sql, rusqlite::params![bytes, checksum, plain.len() as i64]).unwrap();
    append(&store, &mut lease, vec![entry("c"), entry("d")]).unwrap();
    store.fold(&lease, Seq(3)).unwrap();
    store.fold(&lease, Seq(4)).unwrap();
    assert_eq!(show(&read_all(&store, "s", 1)), ["1 a", "2 b", "3 c", "4 d"]);
    let count =
        database(dir.path()).query_row("SELECT count(*) FROM segment", [], |row| row.get::<_, i64>(0));
    assert_eq!(count.unwrap(), 2);
}

fn empty_segment() -> (Vec<u8>, i64) {
    packed(&rethread_core::stored::encode_segment(&[]))
}

fn packed(plain: &[u8]) -> (Vec<u8>, i64) {
    let bytes = zstd::bulk::compress(plain, 1).unwrap();
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let checksum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix).cast_signed();
    (bytes, checksum)
}

#[test]
fn a_long_journal_becomes_several_segments() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    let long = "y".repeat(300 * 1024);
    let entries: Vec<_> = (0..20).map(|n| entry(&format!("{n} {long}"))).collect();
    append(&store, &mut lease, entries).unwrap();
    let before = read_all(&store, "s", 1_000_000);
    store.fold(&lease, Seq(19)).unwrap();
    let count = |sql: &str| database(dir.path()).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM segment"), 4);
    assert_eq!(count("SELECT max(length) < 2200000 FROM segment"), 1);
    assert_eq!(read_all(&store, "s", 1_000_000), before);
}

#[test]
fn a_log_that_has_grown_is_moved_into_the_database() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    for number in 0..60 {
        store.remember_profile(&format!("agent {number}"), &vec![b'z'; 100 * 1024], 1).unwrap();
    }
    let size = || fs::metadata(paths(dir.path()).database).unwrap().len();
    let patience = Instant::now() + Duration::from_secs(20);
    while size() < 3 * 1024 * 1024 {
        assert!(Instant::now() < patience, "the database stays at {} bytes", size());
        thread::sleep(Duration::from_millis(5));
    }
    assert!(store.profile("agent 59").unwrap().is_some());
}

#[test]
fn a_living_owner_keeps_its_sessions() {
    let dir = tempdir().unwrap();
    let (first, second) = (open(dir.path()), open(dir.path()));
    let lease = first.create(new_session("s")).unwrap();
    let StoreError::LiveElsewhere { session, owner } = second.claim(&id("s")).unwrap_err() else {
        panic!("it was taken")
    };
    assert_eq!((session, owner.pid, owner.ours), (id("s"), std::process::id(), OwnedHere::No));
    assert!(owner.since > 1_600_000_000_000 && !owner.host.is_empty());
    assert_eq!(second.find(&id("s")).unwrap().unwrap().owner.unwrap().ours, OwnedHere::No);
    assert_eq!(first.find(&id("s")).unwrap().unwrap().owner.unwrap().ours, OwnedHere::Yes);
    first.release(&lease).unwrap();
    assert_eq!(second.claim(&id("s")).unwrap().epoch, 2);
}

#[test]
fn an_owner_that_left_is_followed_at_once() {
    let dir = tempdir().unwrap();
    let (first, second) = (open(dir.path()), open(dir.path()));
    first.create(new_session("s")).unwrap();
    drop(first);
    assert_eq!(second.find(&id("s")).unwrap().unwrap().owner, None);
    assert_eq!(second.claim(&id("s")).unwrap().epoch, 2);
    let locks = fs::read_dir(paths(dir.path()).locks).unwrap().count();
    assert_eq!(locks, 1, "the lock of the one that left is gone");
}

#[test]
fn an_owner_on_another_machine_is_taken_to_live() {
    let dir = tempdir().unwrap();
    let (first, second) = (open(dir.path()), open(dir.path()));
    first.create(new_session("s")).unwrap();
    database(dir.path()).execute_batch("UPDATE owner SET host = 'elsewhere', boot = 'another'").unwrap();
    let refused = second.claim(&id("s")).unwrap_err();
    assert!(matches!(refused, StoreError::LiveElsewhere { .. }), "{refused}");
}

#[test]
fn several_stores_write_one_file_at_once() {
    let dir = tempdir().unwrap();
    let (writers, rounds) = (4, 40);
    let start = Barrier::new(writers);
    thread::scope(|scope| {
        for writer in 0..writers {
            let (dir, start) = (dir.path(), &start);
            scope.spawn(move || {
                start.wait();
                let store = open(dir);
                let session = format!("s{writer}");
                let mut lease = store.create(new_session(&session)).unwrap();
                for round in 0..rounds {
                    append(&store, &mut lease, vec![entry(&format!("{writer}.{round}"))]).unwrap();
                    store.fold(&lease, Seq(round / 2)).unwrap();
                    store.read(&id(&session), Seq(0), 500).unwrap();
                }
            });
        }
    });
    let store = open(dir.path());
    for writer in 0..writers {
        let expected: Vec<_> = (0..rounds).map(|round| format!("{} {writer}.{round}", round + 1)).collect();
        assert_eq!(show(&read_all(&store, &format!("s{writer}"), 1000)), expected);
    }
    let owners: i64 =
        database(dir.path()).query_row("SELECT count(*) FROM owner", [], |row| row.get(0)).unwrap();
    assert_eq!(owners, 1);
}

#[test]
fn only_one_of_several_gets_a_session() {
    let dir = tempdir().unwrap();
    let first = open(dir.path());
    let lease = first.create(new_session("s")).unwrap();
    first.release(&lease).unwrap();
    let stores: Vec<_> = (0..4).map(|_| open(dir.path())).collect();
    let start = Barrier::new(stores.len());
    let won = thread::scope(|scope| {
        let claims: Vec<_> = stores
            .iter()
            .map(|store| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    store.claim(&id("s")).is_ok()
                })
            })
            .collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).filter(|won| *won).count()
    });
    assert_eq!(won, 1);
}

//! A database of version 3, which has its unfolded entries in a table, is opened with every session whole. The fixture was
//! written by the last program with that version; `make_the_fixture` shows how.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rethread::edge::Version;
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::{Archived, Deleted, OwnedHere, Store as _, StoreError};
use rethread_core::SessionId;
use rethread_testkit::client::CWD;
use rethread_testkit::program::{Home, Program};
use rusqlite::Connection;
use serde_json::{Value, json};

/// The version of the fixture.
const OLD_VERSION: i64 = 3;
/// The current version.
const NEW_VERSION: i64 = 7;
/// Names the program that makes the fixture.
const OLD_PROGRAM: &str = "RETHREAD_OLD_PROGRAM";
const BOTH: [Version; 2] = [Version::V1, Version::V2];
/// What was shown of each session by the program that wrote it.
const EXPECTED: &str = include_str!("migration/expected.txt");
/// The sessions that can be loaded.
const READABLE: [&str; 9] = [
    "empty",
    "one turn",
    "many folded turns",
    "killed in a turn",
    "with an open question",
    "archived",
    "fork of a folded session",
    "fork of an unfolded session",
    "unfolded",
];

#[tokio::test]
async fn every_session_of_an_old_store_is_whole() {
    let sessions = sessions(EXPECTED);
    for version in BOTH {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        copy_fixture(&home);
        let program = home.ready(version, Version::V2).await;
        let mut found = String::new();
        for label in READABLE {
            let session = &sessions[label];
            found += &section(&program, label, session).await;
            let turn = program.client.prompt(session, "say and on it goes").await;
            assert_eq!(turn.stop, "end_turn", "{label}");
            // Every process of the scripted agent counts its ids from one.
            program.client.close(session).await.expect("it closes");
        }
        assert_eq!(found, part_of(EXPECTED, version), "{version:?}");
        program.client.load_refused(&sessions["deleted"]).await;
        let listed = program.client.listed().await;
        assert!(listed.contains(&sessions["stub"]), "{listed:?}");
        assert!(!listed.contains(&sessions["deleted"]), "{listed:?}");
    }
}

#[tokio::test]
async fn rows_of_an_old_store_are_kept_and_the_database_is_backed_up() {
    let sessions = sessions(EXPECTED);
    let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
    copy_fixture(&home);
    let store = EmbeddedStore::open(&paths(&home)).expect("it is migrated");
    let mut rows = BTreeMap::new();
    for (label, id) in &sessions {
        let row = store.find(&SessionId(id.clone())).await.expect("it can be read").expect("it has a row");
        rows.insert(label.as_str(), row);
    }
    assert_eq!(rows["archived"].archived, Archived::Yes);
    assert_eq!(rows["deleted"].deleted, Deleted::Yes);
    let parent = |label: &str| rows[label].parent.as_ref().map(|(parent, _)| parent.0.clone());
    assert_eq!(parent("fork of a folded session"), Some(sessions["many folded turns"].clone()));
    assert_eq!(parent("fork of an unfolded session"), Some(sessions["unfolded"].clone()));
    assert!(rows.values().all(|row| row.owner.is_none()));

    let database = paths(&home).database;
    let backup = database.with_file_name(format!("rethread.db.v{OLD_VERSION}.backup"));
    assert_eq!(user_version(&backup), OLD_VERSION);
    let entries: i64 = count(&backup, "tail");
    assert!(entries > 0, "the backup has the unfolded entries");
    // An earlier program refuses a version that is greater than its own.
    assert_eq!(user_version(&database), NEW_VERSION);
}

#[tokio::test]
async fn an_old_store_is_not_migrated_while_a_living_process_has_it_open() {
    let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
    copy_fixture(&home);
    let paths = paths(&home);
    fs::create_dir_all(&paths.locks).expect("a folder can be made");
    let lock = fs::File::create(paths.locks.join("old.lock")).expect("a lock file");
    lock.lock().expect("it can be locked");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let insert = "INSERT INTO owner (id, pid, host, boot, started_at) VALUES ('old', ?1, 'a host', ?2, 7)";
    let inserted = database(&paths.database).execute(insert, (std::process::id(), boot.trim()));
    assert_eq!(inserted.expect("a row"), 1);

    let Err(StoreError::InUse { owner }) = EmbeddedStore::open(&paths) else { panic!("it was migrated") };
    assert_eq!((owner.pid, owner.host.as_str(), owner.since), (std::process::id(), "a host", 7));
    assert_eq!(owner.ours, OwnedHere::No);
    assert_eq!(user_version(&paths.database), OLD_VERSION);
    // The program says which process it is.
    let output = home.command(&["acp", "--", "true"]).output().await.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(&std::process::id().to_string()), "{said}");

    drop(lock);
    EmbeddedStore::open(&paths).expect("the lock is free, so the process has ended");
    assert_eq!(user_version(&paths.database), NEW_VERSION);
}

/// Makes the fixture with the program that `RETHREAD_OLD_PROGRAM` names: the release build of a commit with version 3.
#[tokio::test]
#[ignore = "needs an earlier program"]
async fn make_the_fixture() {
    let old = std::env::var(OLD_PROGRAM).expect("the path of an earlier program");
    let home = Home::new(&old);
    let mut sessions = folded_sessions(&home).await;
    killed_sessions(&home, &mut sessions).await;
    // The next program removes the rows of those that were killed.
    finish(home.ready(Version::V2, Version::V2).await).await;
    let file = paths(&home).database;
    clean(&file, &mut sessions);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/migration");
    fs::copy(&file, folder.join("v3.db")).expect("it can be copied");
    let mut expected = String::new();
    for (label, id) in &sessions {
        let _ = writeln!(expected, "{label} = {id}");
    }
    for version in BOTH {
        let copy = Home::new(&old);
        copy_database(&file, &copy);
        let program = copy.ready(version, Version::V2).await;
        let _ = writeln!(expected, "\n# {version:?}");
        for label in READABLE {
            expected += &section(&program, label, &sessions[label]).await;
        }
    }
    fs::write(folder.join("expected.txt"), expected).expect("it can be written");
}

/// Sessions that were closed, and so folded.
async fn folded_sessions(home: &Home) -> BTreeMap<String, String> {
    let mut sessions = BTreeMap::new();
    let program = home.ready(Version::V2, Version::V2).await;
    let client = &program.client;
    for (label, turns) in
        [("empty", 0), ("one turn", 1), ("many folded turns", 40), ("archived", 2), ("deleted", 2)]
    {
        let session = client.new_session().await;
        for turn in 0..turns {
            let script = format!("say turn {turn}; tool call_{turn}");
            client.prompt(&session, &script).await;
        }
        client.close(&session).await.expect("it closes");
        sessions.insert(label.to_owned(), session);
    }
    client.ask("session/archive", json!({"sessionId": sessions["archived"]})).await;
    client.ask("session/delete", json!({"sessionId": sessions["deleted"]})).await;
    let fork = forked(&program, &sessions["many folded turns"]).await;
    client.prompt(&fork, "say only in the fork").await;
    sessions.insert("fork of a folded session".to_owned(), fork);
    finish(program).await;
    sessions
}

/// Sessions whose program was killed.
async fn killed_sessions(home: &Home, sessions: &mut BTreeMap<String, String>) {
    let mut program = home.ready(Version::V2, Version::V2).await;
    let client = &program.client;
    for (label, script) in
        [("killed in a turn", "say first; slow 30; hang"), ("with an open question", "say may I; permit")]
    {
        let session = client.new_session().await;
        client.prompt(&session, "say a finished turn").await;
        client.begin_prompt(&session, script).await;
        let begun = |update: &Value| {
            let text = update["content"]["text"].as_str().unwrap_or_default();
            text.contains("c30") || update["state"] == "requires_action"
        };
        client.wait_update(0, &session, "the middle of the turn", begun).await;
        sessions.insert(label.to_owned(), session);
    }
    let session = client.new_session().await;
    client.prompt(&session, "say not folded; tool call_1; plan a,b; usage 5/10").await;
    let fork = forked(&program, &session).await;
    program.client.prompt(&fork, "say only in this fork").await;
    sessions.insert("unfolded".to_owned(), session);
    sessions.insert("fork of an unfolded session".to_owned(), fork);
    program.kill().await;
}

async fn forked(program: &Program, session: &str) -> String {
    let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": []});
    let made = program.client.ask("session/fork", params).await;
    made["sessionId"].as_str().expect("a fork has an id").to_owned()
}

async fn finish(mut program: Program) {
    program.client.disconnect().await;
    program.exited().await;
}

/// Adds a session that an agent lists, and removes what belongs to the machine.
fn clean(file: &Path, sessions: &mut BTreeMap<String, String>) {
    let database = database(file);
    database
        .execute_batch(
            "INSERT INTO session (uid, cwd, agent, title, title_by, updated_at, head_seq, epoch, listed)
             VALUES ('stub-1', '/work', 'scripted', 'only listed', 1, 1000, 0, 0, 1);
             DELETE FROM profile; DELETE FROM owner;
             PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .expect("it can be cleaned");
    sessions.insert("stub".to_owned(), "stub-1".to_owned());
}

/// What a client is shown of a session.
async fn section(program: &Program, label: &str, session: &str) -> String {
    let mark = program.client.mark();
    program.client.load(session).await;
    format!("## {label}\n{}", program.client.view_since(mark, session))
}

/// The ids of the sessions by their labels.
fn sessions(expected: &str) -> BTreeMap<String, String> {
    let ids = expected.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(" = "));
    ids.map(|(label, id)| (label.to_owned(), id.to_owned())).collect()
}

/// What a client of this version is shown.
fn part_of(expected: &str, version: Version) -> &str {
    let after = expected.split_once(&format!("\n# {version:?}\n")).expect("both versions are there").1;
    after.split_once("\n# ").map_or(after, |(part, _)| part)
}

fn copy_fixture(home: &Home) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/migration/v3.db");
    copy_database(&fixture, home);
}

fn copy_database(file: &Path, home: &Home) {
    let to = paths(home).database;
    fs::create_dir_all(to.parent().expect("it is in a folder")).expect("a folder can be made");
    fs::copy(file, to).expect("it can be copied");
}

fn paths(home: &Home) -> EmbeddedPaths {
    EmbeddedPaths { database: home.path().join("rethread.db"), locks: home.path().join("state/locks") }
}

fn database(file: &Path) -> Connection {
    Connection::open(file).expect("it can be opened")
}

fn user_version(file: &Path) -> i64 {
    let version = database(file).query_row("PRAGMA user_version", [], |row| row.get(0));
    version.expect("it can be read")
}

fn count(file: &Path, table: &str) -> i64 {
    let count = database(file).query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
    count.expect("it can be read")
}

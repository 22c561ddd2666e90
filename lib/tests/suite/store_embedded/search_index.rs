//! The search index of the embedded store: other processes, deleted text, damage, a full disk, short transactions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rethread::store::facts::facts;
use rethread::store::{Lease, Listed, NewSession, RowFacts, SearchQuery};
use rethread_core::search::TextQuery;
use rethread_core::{JournalBuilder, Json, Millis, Origin, Update};
use rusqlite::Connection;
use serde_json::json;
use tempfile::tempdir;

use super::journal_files::{files_with, wait_gone};
use super::{database, id};
use crate::store::{Blocking, append, fork_of, new_session, open, paths};
use crate::store_contract::searching::{chunk_of, tool_call, turn};

fn add(store: &Blocking, name: &str, turns: &[&str]) -> Lease {
    let facts = RowFacts { listed: Some(Listed), ..RowFacts::default() };
    let mut lease = store.create(NewSession { facts, ..new_session(name) }).unwrap();
    for (number, text) in (1..).zip(turns) {
        append(store, &mut lease, turn(number, number * 10_000, text, &[])).unwrap();
    }
    lease
}

fn hits(store: &Blocking, text: &str) -> Vec<String> {
    let query = SearchQuery::new(TextQuery::parse(text).unwrap(), 100);
    store.search(&query).unwrap().hits.into_iter().map(|hit| hit.session.0).collect()
}

fn index_files(dir: &Path) -> Vec<PathBuf> {
    let folder = paths(dir).database.parent().unwrap().to_owned();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("search.") && name.ends_with(".db")
        })
        .collect();
    found.sort();
    found
}

fn index(dir: &Path) -> Connection {
    let files = index_files(dir);
    assert_eq!(files.len(), 1, "{files:?}");
    Connection::open(&files[0]).unwrap()
}

fn count(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_turn_that_has_just_ended_in_another_process_is_found() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut child =
        super::processes::start("store_embedded::search_index::child_that_ends_turns", dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for number in 1..=5 {
        let ended = format!("ended {number}");
        assert!(lines.any(|line| line.unwrap().ends_with(&ended)), "the turn never ended");
        assert_eq!(hits(&store, &format!("word{number}")), ["s"], "turn {number}");
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
    }
    child.wait().unwrap();
}

#[test]
fn child_that_ends_turns() {
    let Some(dir) = super::processes::told_dir() else { return };
    let store = open(&dir);
    let mut lease = store.create(new_session("s")).unwrap();
    for number in 1..=5 {
        append(&store, &mut lease, turn(number, number, &format!("a word{number}"), &[])).unwrap();
        println!("ended {number}");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
}

#[test]
fn a_turn_is_indexed_soon_after_it_has_ended_without_a_search() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = add(&store, "s", &["first"]);
    append(&store, &mut lease, turn(2, 5, "second", &[chunk_of("a", "answer")])).unwrap();
    let began = Instant::now();
    let is_indexed = || {
        let files = index_files(dir.path());
        let found = files.first().and_then(|file| Connection::open(file).ok());
        found.is_some_and(|index| {
            index.query_row("SELECT count(*) = 3 FROM message", [], |row| row.get(0)).unwrap_or(false)
        })
    };
    while !is_indexed() {
        assert!(began.elapsed() < Duration::from_secs(20), "it was not indexed");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn old_turns_are_indexed_on_first_use_with_progress() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    for number in 0..30 {
        let lease = add(&store, &format!("s{number}"), &["old word"]);
        store.fold(&lease, lease.head).unwrap();
        store.release(&lease).unwrap();
    }
    drop(store);
    let store = open(dir.path());
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let progress = move |progress: rethread::store::IndexProgress| {
        assert_eq!(progress.total, 30);
        assert_eq!(progress.done, seen.fetch_add(1, Ordering::Relaxed) + 1);
    };
    store.update_index(Box::new(progress)).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 30);
    store.update_index(Box::new(|_| panic!("there is nothing to do"))).unwrap();
    assert_eq!(hits(&store, "old").len(), 30);
}

#[test]
fn many_processes_can_index_at_once() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    for number in 0..40 {
        let lease = add(&store, &format!("s{number}"), &["one word", "two words"]);
        store.release(&lease).unwrap();
    }
    let found: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope
                    .spawn(|| hits(&open(dir.path()), "word OR").len() + hits(&open(dir.path()), "one").len())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(found, [40; 4]);
    assert_eq!(count(&index(dir.path()), "SELECT count(*) FROM message"), 80, "every row once");
}

/// The words that are left of a marker in all files.
#[test]
fn erased_words_are_in_no_file_and_others_are_still_found() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    // Neighbouring words with a long beginning in common: their pages begin with them in the tables of the index.
    let words = |from: usize| (0..4000).map(|n| format!("markerword{:06}", n * 2 + from)).collect::<Vec<_>>();
    let texts: Vec<_> = words(0).chunks(100).map(|chunk| chunk.join(" ")).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let gone = add(&store, "gone", &texts);
    let kept = add(&store, "kept", &["keptword marker", "zzz last", "mmm middle"]);
    assert_eq!(hits(&store, "markerword000000"), ["gone"]);
    assert!(!files_with(dir.path(), b"markerword").is_empty(), "it is indexed");
    // One page has words of both sessions.
    let optimize = "PRAGMA secure_delete = ON; INSERT INTO word (word) VALUES ('optimize')";
    index(dir.path()).execute_batch(optimize).unwrap();
    store.release(&gone).unwrap();
    store.delete(&id("gone"), 5).unwrap();
    wait_gone(dir.path(), b"markerword");
    wait_gone(dir.path(), b"markerwor");
    assert_eq!(hits(&store, "marker*"), ["kept"]);
    assert_eq!([hits(&store, "zzz"), hits(&store, "mmm"), hits(&store, "keptword")], [["kept"]; 3]);
    let index = index(dir.path());
    index.execute("INSERT INTO word (word) VALUES ('integrity-check')", []).unwrap();
    drop(index);
    store.release(&kept).unwrap();
}

#[test]
fn deleted_text_is_gone_also_if_the_session_was_live_or_forked() {
    let dir = tempdir().unwrap();
    let (owner, other) = (open(dir.path()), open(dir.path()));
    let mut parent = add(&owner, "p", &["SHAREDMARK text"]);
    append(&owner, &mut parent, turn(2, 5, "OWNMARK", &[tool_call("t", "TOOLMARK", "RESULTMARK")])).unwrap();
    let fork = owner.create(fork_of("f", "p", 2)).unwrap();
    owner.release(&fork).unwrap();
    assert_eq!(
        [hits(&other, "sharedmark"), hits(&other, "toolmark"), hits(&other, "resultmark")],
        [["p"]; 3]
    );
    other.delete(&id("p"), 5).unwrap();
    owner.release(&parent).unwrap();
    for word in ["ownmark", "OWNMARK", "toolmark", "resultmark"] {
        wait_gone(dir.path(), word.as_bytes());
    }
    assert_eq!(hits(&other, "sharedmark"), ["f"], "the fork has it");
    other.delete(&id("f"), 6).unwrap();
    for word in ["sharedmark", "SHAREDMARK"] {
        wait_gone(dir.path(), word.as_bytes());
    }
    assert_eq!(hits(&other, "sharedmark"), Vec::<String>::new());
}

#[test]
fn a_delete_that_was_interrupted_is_completed() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let lease = add(&store, "s", &["a MARK here"]);
    store.release(&lease).unwrap();
    assert_eq!(hits(&store, "mark"), ["s"]);
    // As if the process had ended between the two databases.
    database(dir.path())
        .execute_batch(
            "UPDATE session SET deleted_at = 1, title = NULL, title_by = NULL;
             INSERT INTO search_pending SELECT key FROM session; DELETE FROM segment; DELETE FROM journal_file;",
        )
        .unwrap();
    assert_eq!(hits(&store, "mark"), Vec::<String>::new());
    assert_eq!(count(&index(dir.path()), "SELECT count(*) FROM message"), 0);
    assert_eq!(count(&database(dir.path()), "SELECT count(*) FROM search_pending"), 0);
}

#[test]
fn a_session_in_another_directory_is_found_there() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let lease = add(&store, "s", &["word"]);
    store.release(&lease).unwrap();
    let in_directory = |cwd: &str| {
        let query = SearchQuery::new(TextQuery::parse("word").unwrap(), 5);
        store.search(&SearchQuery { cwd: Some(cwd.to_owned()), ..query }).unwrap().hits.len()
    };
    assert_eq!([in_directory("/w"), in_directory("/moved")], [1, 0]);
    database(dir.path()).execute_batch("UPDATE session SET cwd = '/moved'").unwrap();
    assert_eq!([in_directory("/w"), in_directory("/moved")], [0, 1]);
}

#[test]
fn a_damaged_index_is_made_anew_and_harms_no_session() {
    for damage in [damage_pages, overwrite, truncate, other_format] {
        let dir = tempdir().unwrap();
        let store = open(dir.path());
        let mut lease = add(&store, "s", &["word one", "word two"]);
        assert_eq!(hits(&store, "word").len(), 2);
        drop(store);
        let before = index_files(dir.path());
        damage(&before[0]);
        let store = open(dir.path());
        lease = store.claim(&lease.session).unwrap();
        append(&store, &mut lease, turn(3, 5, "word three", &[])).unwrap();
        assert_eq!(hits(&store, "word").len(), 3);
        assert_eq!(index_files(dir.path()).len(), 1, "the damaged one is gone");
    }
}

/// Overwrites all pages but the first.
fn damage_pages(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(file, bytes).unwrap();
}

fn overwrite(file: &Path) {
    fs::write(file, b"no database".repeat(1000)).unwrap();
}

fn truncate(file: &Path) {
    fs::write(file, b"").unwrap();
}

fn other_format(file: &Path) {
    Connection::open(file).unwrap().execute_batch("PRAGMA user_version = 77").unwrap();
}

#[test]
fn an_index_that_cannot_be_made_harms_no_session() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    // In the place of the file.
    let place = paths(dir.path()).database.with_file_name("search.1.db");
    fs::create_dir(&place).unwrap();
    let mut lease = add(&store, "s", &["word one"]);
    let query = SearchQuery::new(TextQuery::parse("word").unwrap(), 5);
    store.search(&query).unwrap_err();
    append(&store, &mut lease, turn(2, 5, "word two", &[])).unwrap();
    fs::remove_dir(&place).unwrap();
    assert_eq!(hits(&store, "word").len(), 2);
}

#[test]
fn no_transaction_of_the_index_is_long() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let text = (0..300).map(|n| format!("w{n} ")).collect::<String>();
    let texts: Vec<_> = (0..100).map(|_| text.as_str()).collect();
    let lease = add(&store, "s", &texts);
    store.release(&lease).unwrap();
    let done = AtomicUsize::new(0);
    let longest = thread::scope(|scope| {
        let watch = scope.spawn(|| longest_wait(dir.path(), &done));
        assert_eq!(hits(&store, "w299").len(), 100);
        store.delete(&id("s"), 5).unwrap();
        done.store(1, Ordering::Relaxed);
        watch.join().unwrap()
    });
    // The bound is 50 ms; an unoptimized build on a busy machine takes several times as long as another.
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}

/// The longest time that another writer of the index waits.
fn longest_wait(dir: &Path, done: &AtomicUsize) -> Duration {
    let mut longest = Duration::ZERO;
    while done.load(Ordering::Relaxed) == 0 {
        let files = index_files(dir);
        let Some(connection) = files.first().and_then(|file| Connection::open(file).ok()) else { continue };
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        let began = Instant::now();
        if connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
            longest = longest.max(began.elapsed());
        }
        thread::sleep(Duration::from_millis(2));
    }
    longest
}

/// A session of messages that each are a second older than the next.
fn many_messages(texts: impl Iterator<Item = String>) -> NewSession {
    let origin =
        Origin { cwd: "/work".to_owned(), roots: Vec::new(), agent: "agent".to_owned(), title: None, at: 0 };
    let mut journal = JournalBuilder::new(origin);
    for (number, text) in texts.enumerate() {
        let body = json!({"sessionUpdate": "user_message", "messageId": format!("m{number}"),
            "content": [{"type": "text", "text": text}]});
        journal.add(Update::read(Json::from(body)), Some(number as Millis * 1000));
    }
    let (_, entries) = journal.finish();
    NewSession {
        facts: facts(entries.iter()),
        entries: entries.into_iter().map(Arc::new).collect(),
        ..new_session("many")
    }
}

#[test]
fn beginnings_of_words_are_found_among_the_newest_messages_and_far_behind_them() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let filler = "some words that are not looked for ".repeat(8);
    let text = |number: usize| match number {
        0 | 1 | 2_990 | 2_998 => format!("{filler} needle{number}"),
        _ => filler.clone(),
    };
    store.create(many_messages((0..3_000).map(text))).unwrap();
    // The oldest ones are too far behind to be looked at one by one.
    for word in ["needle*", "ne*", "ne* looked"] {
        let mut query = SearchQuery::new(TextQuery::parse(word).unwrap(), 3);
        let first = store.search(&query).unwrap();
        query.after = first.next;
        let second = store.search(&query).unwrap();
        let found: Vec<u64> = first.hits.iter().chain(&second.hits).map(|hit| hit.at / 1000).collect();
        assert_eq!((found, second.next), (vec![2_998, 2_990, 1, 0], None), "{word}");
        assert_eq!(first.hits.len(), 3, "{word}");
    }
}

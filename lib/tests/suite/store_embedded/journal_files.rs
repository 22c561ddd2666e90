//! Journal files: torn, damaged, missing, of another session, on a disk that fails; deleting; the number of open files.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rethread::store::{Append, Archived, Durability, Lease, ListQuery, StoreError};
use rethread_core::{Entry, Seq, Stop, TurnNo};
use tempfile::{TempDir, tempdir};

use super::{database, id};
use crate::store::{
    Blocking, append, append_of, chunk, entry, fork_of, new_session, open, paths, read_all, show,
};

fn turn_end() -> Arc<Entry> {
    let state = serde_json::json!({"sessionUpdate": "state_update", "state": "idle"}).into();
    Arc::new(Entry::TurnEnded { turn: TurnNo(1), stop: Stop::plain("end_turn"), at: 1, state })
}

/// Appends entries that survive a power failure.
fn append_synced(store: &Blocking, lease: &mut Lease, entries: Vec<Arc<Entry>>) {
    let count = entries.len() as u64;
    let synced = Append { durability: Durability::Power, ..append_of(lease, entries) };
    store.append(synced).unwrap();
    lease.head = Seq(lease.head.0 + count);
}

fn journal_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(paths(dir).journals())
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| fs::metadata(path).unwrap().len() > 0)
        .collect();
    files.sort();
    files
}

/// A session `s` with the entries a, b, c, whose owner has ended. With a turn end they were synced.
fn left(ended: Option<Arc<Entry>>) -> (TempDir, PathBuf) {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    let entries = ["a", "b", "c"].map(entry).into_iter().chain(ended).collect();
    append_synced(&store, &mut lease, entries);
    drop(store);
    let file = journal_files(dir.path()).remove(0);
    (dir, file)
}

/// The place of an entry in a file.
fn place_of(file: &Path, text: &str) -> u64 {
    let bytes = fs::read(file).unwrap();
    let at = bytes.windows(text.len()).position(|part| part == text.as_bytes());
    at.expect("the entry is in the file") as u64
}

fn flip_bit(file: &Path, at: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// The message id of the entry b, which no other bytes of the file look like.
const B: &str = "\u{1}b";

/// How many journal files there are, empty ones included.
fn all_files(dir: &Path) -> usize {
    fs::read_dir(paths(dir).journals()).unwrap().count()
}

fn registered_files(dir: &Path) -> i64 {
    database(dir).query_row("SELECT count(*) FROM journal_file", [], |row| row.get(0)).unwrap()
}

#[test]
fn the_file_of_a_claimed_session_is_made_soon_or_with_the_first_append() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    for name in ["s", "t"] {
        let lease = store.create(new_session(name)).unwrap();
        store.release(&lease).unwrap();
    }
    assert_eq!((all_files(dir.path()), registered_files(dir.path())), (0, 0), "empty files are removed");
    let mut lease = store.claim(&id("s")).unwrap();
    append(&store, &mut lease, vec![entry("a")]).unwrap();
    assert_eq!((all_files(dir.path()), registered_files(dir.path())), (1, 1), "the append made it");
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a"]);
    let lease = store.claim(&id("t")).unwrap();
    let began = Instant::now();
    while (all_files(dir.path()), registered_files(dir.path())) != (2, 2) {
        assert!(began.elapsed() < Duration::from_secs(10), "no file was made");
        thread::sleep(Duration::from_millis(5));
    }
    store.release(&lease).unwrap();
    assert_eq!((all_files(dir.path()), registered_files(dir.path())), (1, 1));
}

#[test]
fn a_session_that_is_claimed_and_released_again_and_again_leaves_no_files() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let lease = store.create(new_session("s")).unwrap();
    store.release(&lease).unwrap();
    for wait in [0, 10, 40, 50, 50, 60, 0] {
        let lease = store.claim(&id("s")).unwrap();
        thread::sleep(Duration::from_millis(wait));
        store.release(&lease).unwrap();
        assert_eq!((all_files(dir.path()), registered_files(dir.path())), (0, 0), "after {wait} ms");
    }
    thread::sleep(Duration::from_millis(100));
    assert_eq!((all_files(dir.path()), registered_files(dir.path())), (0, 0));
}

fn turn_start() -> Arc<Entry> {
    let state = serde_json::json!({"sessionUpdate": "state_update", "state": "running"}).into();
    Arc::new(Entry::TurnStarted { turn: TurnNo(1), at: 1, state })
}

#[test]
fn a_file_with_several_turns_has_room_that_nobody_takes_for_entries() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    let mut lengths = Vec::new();
    let mut expected = Vec::new();
    for turn in 0..100 {
        let text = format!("<{turn}>");
        append(&store, &mut lease, vec![turn_start()]).unwrap();
        append_synced(&store, &mut lease, vec![entry(&text), turn_end()]);
        lengths.push(fs::metadata(&journal_files(dir.path())[0]).unwrap().len());
        expected.push(text);
    }
    lengths.dedup();
    assert!(lengths.len() < 10, "the length changes with few turns: {lengths:?}");
    let texts = |store: &Blocking| -> Vec<String> {
        let mut items = read_all(store, "s", 1000);
        items.retain(|item| !matches!(item.entry, Entry::TurnStarted { .. } | Entry::TurnEnded { .. }));
        show(&items).iter().map(|item| item[item.find('<').unwrap()..].to_owned()).collect()
    };
    assert_eq!(texts(&store), expected);
    let other = open(dir.path());
    assert_eq!(texts(&other), expected, "another process reads the same");
    assert_eq!(other.find(&id("s")).unwrap().unwrap().head, lease.head);
    let size = store.size(&id("s")).unwrap();
    assert!(size < *lengths.last().unwrap(), "room is not counted: {size} of {lengths:?}");
    // As after a crash: nobody has cut off the zeros.
    let file = journal_files(dir.path()).remove(0);
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.ends_with(&[0; 64]));
    drop((store, other));
    assert_eq!(fs::read(&file).unwrap(), bytes);
    let store = open(dir.path());
    let claimed = store.claim(&id("s")).unwrap();
    assert_eq!((claimed.head, texts(&store)), (lease.head, expected));
    // Zeros with something behind them are no end.
    let hole = fs::OpenOptions::new().write(true).open(&file).unwrap();
    hole.write_all_at(&[0; 16], place_of(&file, "<50>") - 64).unwrap();
    drop(store);
    let store = open(dir.path());
    assert!(matches!(store.claim(&id("s")), Err(StoreError::Damaged { .. })));
}

#[test]
fn the_room_of_a_session_that_is_released_is_cut_off() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    for _ in 0..2 {
        append(&store, &mut lease, vec![turn_start()]).unwrap();
        append_synced(&store, &mut lease, vec![entry("a"), turn_end()]);
    }
    let file = journal_files(dir.path()).remove(0);
    assert!(fs::read(&file).unwrap().ends_with(&[0; 64]));
    store.release(&lease).unwrap();
    assert!(!fs::read(&file).unwrap().ends_with(&[0; 64]));
    assert_eq!(store.claim(&id("s")).unwrap().head, lease.head);
}

#[test]
fn an_end_that_was_never_synced_is_skipped() {
    let (dir, file) = left(None);
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 1).unwrap();
    let store = open(dir.path());
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 b"]);
    let mut lease = store.claim(&id("s")).unwrap();
    assert_eq!(lease.head, Seq(2));
    append(&store, &mut lease, vec![entry("d")]).unwrap();
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 b", "3 d"]);
    assert_eq!(fs::metadata(&file).unwrap().len(), length - 1, "nobody writes to the file of another owner");
    store.fold(&lease, Seq(3)).unwrap();
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 b", "3 d"]);
    assert!(!file.exists());
}

#[test]
fn readers_change_no_journal_file_whatever_is_wrong_with_it() {
    let torn = |file: &fs::File, length: u64| file.set_len(length - 1).unwrap();
    let flipped = |file: &fs::File, length: u64| file.write_all_at(b"\xff", length / 2).unwrap();
    let longer = |file: &fs::File, length: u64| file.write_all_at(b"no record", length).unwrap();
    let harms: [fn(&fs::File, u64); 3] = [torn, flipped, longer];
    for harm in harms {
        let (dir, file) = left(None);
        let opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
        harm(&opened, fs::metadata(&file).unwrap().len());
        let (bytes, changed) = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().modified().unwrap());
        let store = open(dir.path());
        // What can be read of it is tested elsewhere.
        let _ = store.read(&id("s"), Seq(1), 1000);
        store.find(&id("s")).unwrap();
        store.list(&ListQuery { limit: 10, ..ListQuery::default() }).unwrap();
        drop(store);
        assert_eq!(fs::read(&file).unwrap(), bytes);
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), changed);
    }
}

#[test]
fn a_file_that_a_claim_left_when_it_was_killed_is_in_nobodys_way() {
    let (dir, file) = left(None);
    let next = file.to_str().unwrap().replace(".1.1.log", ".2.1.log");
    fs::File::create_new(&next).unwrap();
    let store = open(dir.path());
    let mut lease = store.claim(&id("s")).unwrap();
    assert_eq!(lease.epoch, 2);
    append(&store, &mut lease, vec![entry("d")]).unwrap();
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 b", "3 c", "4 d"]);
    assert_eq!(fs::metadata(next).unwrap().len(), 0);
}

#[test]
fn a_file_with_a_torn_header_between_others_is_skipped() {
    let (dir, _) = left(None);
    let store = open(dir.path());
    let mut lease = store.claim(&id("s")).unwrap();
    append(&store, &mut lease, vec![entry("lost")]).unwrap();
    drop(store);
    let torn = journal_files(dir.path()).remove(1);
    fs::OpenOptions::new().write(true).open(&torn).unwrap().set_len(10).unwrap();
    let store = open(dir.path());
    let mut lease = store.claim(&id("s")).unwrap();
    append_synced(&store, &mut lease, vec![entry("d")]);
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 b", "3 c", "4 d"]);
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.claim(&id("s")).unwrap().head, Seq(4));
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 b", "3 c", "4 d"]);
}

#[test]
fn damage_before_the_end_of_a_turn_is_found_and_named() {
    let (dir, file) = left(Some(turn_end()));
    let before = fs::read(&file).unwrap();
    flip_bit(&file, place_of(&file, B));
    let store = open(dir.path());
    let other = store.create(new_session("other")).unwrap();
    let refused = store.claim(&id("s")).unwrap_err();
    let StoreError::Damaged { at: Seq(2), source, .. } = &refused else { panic!("not found: {refused:?}") };
    let cause = source.to_string();
    assert!(cause.contains(&file.display().to_string()) && cause.contains("byte"), "{cause}");
    assert_eq!(show(&store.read(&id("s"), Seq(0), 1000).unwrap().items), ["1 a"]);
    assert!(matches!(store.read(&id("s"), Seq(2), 1000), Err(StoreError::Damaged { at: Seq(2), .. })));
    assert_eq!(store.find(&id("s")).unwrap().unwrap().owner, None, "a session that cannot be read is free");
    assert_eq!(fs::read(&file).unwrap().len(), before.len(), "the file stays as it is");
    append(&store, &mut other.clone(), vec![entry("x")]).unwrap();
}

#[test]
fn a_missing_file_is_found() {
    let (dir, file) = left(Some(turn_end()));
    fs::remove_file(&file).unwrap();
    let store = open(dir.path());
    let found = store.claim(&id("s")).unwrap_err();
    let StoreError::Damaged { source, .. } = &found else { panic!("not found: {found}") };
    assert!(source.to_string().contains(&file.display().to_string()), "{source}");
}

#[test]
fn a_file_of_another_session_or_store_is_refused() {
    let (dir, file) = left(Some(turn_end()));
    let (_other_dir, other_file) = left(Some(turn_end()));
    fs::copy(&other_file, &file).unwrap();
    let store = open(dir.path());
    let found = store.claim(&id("s")).unwrap_err();
    let StoreError::Damaged { source, .. } = &found else { panic!("not found: {found}") };
    assert!(source.to_string().contains("another session or store"), "{source}");
}

#[test]
fn a_public_id_is_never_a_file_name() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let names = ["../../escape", "a/b", "..", "S", "s", &"x".repeat(10_000), "nul\0byte"];
    for name in names {
        let mut lease = store.create(new_session(name)).unwrap();
        append(&store, &mut lease, vec![entry(name)]).unwrap();
    }
    for name in names {
        assert_eq!(show(&read_all(&store, name, 1 << 20)), [format!("1 {name}")]);
    }
    let files = journal_files(dir.path());
    assert_eq!(files.len(), names.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let (id, rest) = name.split_once('.').unwrap();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        assert_eq!(rest, "1.1.log");
    }
}

#[test]
fn a_fold_removes_its_files_and_leaves_one_to_write_to() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    for turn in 1..=5 {
        append_synced(&store, &mut lease, vec![chunk("m", &format!("turn {turn}")), turn_end()]);
        store.fold(&lease, lease.head).unwrap();
        assert!(journal_files(dir.path()).is_empty(), "turn {turn}");
        assert_eq!(fs::read_dir(paths(dir.path()).journals()).unwrap().count(), 1);
    }
    assert_eq!(read_all(&store, "s", 1000).len(), 10);
    store.release(&lease).unwrap();
    assert_eq!(fs::read_dir(paths(dir.path()).journals()).unwrap().count(), 0);
}

#[test]
fn entries_behind_a_fold_stay_in_their_file() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("s")).unwrap();
    append_synced(&store, &mut lease, vec![entry("a"), turn_end()]);
    append(&store, &mut lease, vec![entry("b")]).unwrap();
    store.fold(&lease, Seq(2)).unwrap();
    append(&store, &mut lease, vec![entry("c")]).unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.find(&id("s")).unwrap().unwrap().head, Seq(4));
    let last = store.read(&id("s"), Seq(3), 1000).unwrap();
    assert_eq!(show(&last.items), ["3 b", "4 c"]);
}

/// The files of a store that contain these bytes. One may vanish meanwhile.
pub(super) fn files_with(dir: &Path, word: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::read(&path).unwrap_or_default().windows(word.len()).any(|part| part == word) {
                found.push(path);
            }
        }
    }
    found
}

/// Waits until no file has the word: the log is truncated by the upkeep thread.
pub(super) fn wait_gone(dir: &Path, word: &[u8]) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while let Some(file) = files_with(dir, word).first() {
        assert!(std::time::Instant::now() < patience, "{word:?} is still in {}", file.display());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn deleted_text_is_in_no_file() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let title = Some(("TITLEMARK".to_owned(), rethread_core::TitleSource::User));
    for fold in [true, false] {
        let name = format!("folded {fold}");
        let mut lease = store.create(new_session(&name)).unwrap();
        let mut named = append_of(&lease, vec![chunk("m", "TEXTMARK"), turn_end()]);
        named.facts.title.clone_from(&title);
        store.append(named).unwrap();
        lease.head = Seq(2);
        let text = if fold {
            store.fold(&lease, Seq(2)).unwrap();
            // Compressed, the words themselves are in no file.
            let items = database(dir.path()).query_row("SELECT items FROM segment", [], |row| row.get(0));
            items.unwrap()
        } else {
            b"TEXTMARK".to_vec()
        };
        assert!(!files_with(dir.path(), &text).is_empty());
        store.release(&lease).unwrap();
        // The index has the words in lower case.
        store.update_index(Box::new(|_| {})).unwrap();
        assert!(!files_with(dir.path(), b"textmark").is_empty());
        store.delete(&id(&name), 5).unwrap();
        wait_gone(dir.path(), &text);
        wait_gone(dir.path(), b"TEXTMARK");
        wait_gone(dir.path(), b"textmark");
        wait_gone(dir.path(), b"TITLEMARK");
        assert!(matches!(store.read(&id(&name), Seq(0), 1000), Err(StoreError::Unknown(_))));
    }
}

#[test]
fn a_fork_keeps_what_it_needs_of_a_deleted_session_and_nothing_else() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut lease = store.create(new_session("p")).unwrap();
    append_synced(&store, &mut lease, vec![entry("KEPTMARK"), turn_end()]);
    append_synced(&store, &mut lease, vec![entry("GONEMARK"), turn_end()]);
    let fork = store.create(fork_of("f", "p", 2)).unwrap();
    store.release(&lease).unwrap();
    store.delete(&id("p"), 5).unwrap();
    wait_gone(dir.path(), b"GONEMARK");
    assert_eq!(show(&read_all(&store, "f", 1)[..1]), ["1 KEPTMARK"]);
    store.release(&fork).unwrap();
    store.delete(&id("f"), 6).unwrap();
    wait_gone(dir.path(), b"KEPTMARK");
}

#[test]
fn a_session_deleted_by_another_process_is_freed_by_its_owner() {
    let dir = tempdir().unwrap();
    let (owner, other) = (open(dir.path()), open(dir.path()));
    let mut lease = owner.create(new_session("s")).unwrap();
    append(&owner, &mut lease, vec![entry("MARK")]).unwrap();
    let since = owner.changes(None).unwrap().revision;
    other.delete(&id("s"), 5).unwrap();
    let changes = owner.changes(Some(since)).unwrap();
    assert_eq!(changes.sessions.iter().map(|changed| &changed.id).collect::<Vec<_>>(), [&id("s")]);
    assert!(matches!(append(&owner, &mut lease, vec![entry("b")]), Err(StoreError::StaleEpoch { .. })));
    assert!(!files_with(dir.path(), b"MARK").is_empty());
    owner.release(&lease).unwrap();
    wait_gone(dir.path(), b"MARK");
}

#[test]
fn an_archived_session_stays_with_its_owner_until_it_is_released() {
    let dir = tempdir().unwrap();
    let (owner, other) = (open(dir.path()), open(dir.path()));
    let lease = owner.create(new_session("s")).unwrap();
    other.set_archived(&id("s"), Archived::Yes, 5).unwrap();
    assert!(matches!(other.claim(&id("s")), Err(StoreError::LiveElsewhere { .. })));
    owner.release(&lease).unwrap();
    other.claim(&id("s")).unwrap();
}

#[test]
fn more_sessions_than_files_may_be_open() {
    // In a process of its own, since the limit is one of the process.
    let dir = tempdir().unwrap();
    let test = "store_embedded::journal_files::child_with_few_open_files";
    let output = super::processes::start(test, dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("survived"), "{text}");
}

#[test]
fn child_with_few_open_files() {
    let Some(dir) = super::processes::told_dir() else { return };
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: the structure outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let store = open(&dir);
    let mut leases: Vec<_> =
        (0..150).map(|number| store.create(new_session(&format!("s{number}"))).unwrap()).collect();
    for text in ["a", "b", "c"] {
        for lease in &mut leases {
            append(&store, lease, vec![entry(text)]).unwrap();
        }
    }
    for lease in &leases {
        assert_eq!(show(&read_all(&store, lease.session.as_str(), 1000)), ["1 a", "2 b", "3 c"]);
    }
    println!("survived");
}

#[test]
fn row_changes_that_a_crash_left_out_are_found_in_the_journal() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let lease = store.create(new_session("s")).unwrap();
    let set = Entry::TitleSet { title: "found".to_owned(), by: rethread_core::TitleSource::Agent };
    // The facts of the append are left out, as if the row had not been written.
    store.append(append_of(&lease, vec![Arc::new(set)])).unwrap();
    drop(store);
    database(dir.path()).execute_batch("DELETE FROM owner").unwrap();
    let store = open(dir.path());
    store.claim(&id("s")).unwrap();
    assert_eq!(store.find(&id("s")).unwrap().unwrap().title.unwrap().0, "found");
}

//! Processes that die and disks that fill up. Each such process is this test binary, started again for one test
//! that does nothing unless it is told a directory.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rethread::store::StoreError;
use rethread_core::Seq;

use super::{database, id};
use crate::store::{append, chunk, entry, new_session, open, paths, read_all, show};

const DIR: &str = "RETHREAD_TEST_STORE_DIR";

pub(super) fn told_dir() -> Option<PathBuf> {
    env::var_os(DIR).map(PathBuf::from)
}

pub(super) fn start(test: &str, dir: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(DIR, dir);
    command
}

/// The numbers that a process tells, one per line.
fn printed_numbers(child: &mut Child) -> impl Iterator<Item = u64> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.filter_map(|line| line.unwrap().rsplit_once("told ")?.1.parse().ok())
}

#[test]
fn child_that_owns_a_session_until_it_is_killed() {
    let Some(dir) = told_dir() else { return };
    let store = open(&dir);
    let mut lease = store.create(new_session("s")).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let next = entry(&lease.head.next().to_string());
        append(&store, &mut lease, vec![next]).unwrap();
        println!("told {}", lease.head);
    }
}

#[test]
fn what_a_killed_process_told_is_kept_and_its_sessions_are_free() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut child =
        start("store_embedded::processes::child_that_owns_a_session_until_it_is_killed", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    let mut numbers = printed_numbers(&mut child);
    assert!(numbers.any(|number| number == 100), "it never got that far");
    let StoreError::LiveElsewhere { owner, .. } = store.claim(&id("s")).unwrap_err() else {
        panic!("a living process lost its session")
    };
    assert_eq!(owner.pid, child.id());

    child.kill().unwrap();
    child.wait().unwrap();
    let last = numbers.last().unwrap_or(100);
    assert_eq!(store.find(&id("s")).unwrap().unwrap().owner, None);
    let mut lease = store.claim(&id("s")).unwrap();
    assert_eq!(lease.epoch, 2);
    assert!(lease.head >= Seq(last), "{last} was told, {} is kept", lease.head);
    let next = entry(&lease.head.next().to_string());
    append(&store, &mut lease, vec![next]).unwrap();
    let expected: Vec<_> = (1..=lease.head.0).map(|n| format!("{n} {n}")).collect();
    assert_eq!(show(&read_all(&store, "s", 1000)), expected);

    // The next to come clears up after the dead.
    let _third = open(dir.path());
    let count = |sql: &str| database(dir.path()).query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM owner"), 2);
    assert_eq!(fs::read_dir(paths(dir.path()).locks).unwrap().count(), 2);
}

#[test]
fn child_whose_disk_fills_up() {
    let Some(dir) = told_dir() else { return };
    // SAFETY: ignoring a signal has no handler that could misbehave.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let store = open(&dir);
    let mut lease = store.create(new_session("s")).unwrap();
    append(&store, &mut lease, vec![entry("a")]).unwrap();
    limit_files(256 * 1024);
    let big = "b".repeat(1024 * 1024);
    for _ in 0..3 {
        let before = lease.clone();
        let failed = append(&store, &mut lease, vec![entry("half"), chunk("m", &big)]).unwrap_err();
        let StoreError::Io { context, .. } = &failed else { panic!("not an I/O error: {failed}") };
        assert!(context.contains("/live/"), "{context}");
        assert_eq!(lease, before);
        assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a"]);
    }

    limit_files(libc::RLIM_INFINITY);
    append(&store, &mut lease, vec![entry("c")]).unwrap();
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 c"]);
    println!("survived");
}

#[test]
fn a_full_disk_fails_the_append_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let output = start("store_embedded::processes::child_whose_disk_fills_up", dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("survived"), "{text}");
    let store = open(dir.path());
    assert_eq!(show(&read_all(&store, "s", 1000)), ["1 a", "2 c"]);
    let fine: String =
        database(dir.path()).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(fine, "ok");
}

/// Lets no file of this process grow beyond this.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
}

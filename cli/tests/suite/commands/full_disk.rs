//! A store on a disk that is full or read-only: what reads works as ever, what has to write says what is in the way, and
//! `acp` goes on when that is gone. Skipped, with a message, where a test may not mount a file system.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use rethread::edge::Version;
use rethread_testkit::program::Program;
use rethread_testkit::small_disk::{Access, SmallDisk};
use serde_json::{Value, json};

use super::stored::{Made, Stored, turns};
use super::{Said, Shell};

const SESSION: &str = "019a-aaaa1111";

/// Enough for a few sessions.
const DISK_BYTES: u64 = 4 * 1024 * 1024;

/// What is in the way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Full,
    ReadOnly,
}

/// How the last process left the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastProcess {
    /// It has ended as it should.
    Ended,
    /// It was killed, and has left a log.
    Killed,
    /// The same, and the file is missing that processes share.
    KilledWithoutShared,
}

/// A shell whose store is on a small disk.
struct SmallShell {
    shell: Shell,
    disk: SmallDisk,
}

impl SmallShell {
    /// Nothing if a test may not mount a disk.
    fn new() -> Option<Self> {
        let shell = Shell::new();
        fs::create_dir(shell.home.path()).expect("a folder");
        let disk = SmallDisk::mount(&shell.home.path(), DISK_BYTES)?;
        let small = Self { shell, disk };
        small.add_session(SESSION);
        Some(small)
    }

    /// Adds a session to a store beside the disk, and copies that. SQLite would not find it by the path of the disk.
    fn add_session(&self, id: &str) {
        let cwd = self.shell.here().display().to_string();
        let made = Made { id, cwd: &cwd, agent: "codex", ago: 60_000, updates: turns("find the wombat", 3) };
        let beside = self.shell.home.beside().join("store");
        // The store of a test has a runtime of its own.
        thread::scope(|scope| scope.spawn(|| Stored::open(&beside).add(&made)).join()).expect("it is stored");
        copy_files(&beside, &self.disk.path());
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.shell.command(args).into_std();
        self.disk.enter(&mut command, &self.shell.here());
        command
    }

    fn run(&self, args: &[&str]) -> Said {
        self.said(self.command(args).output().expect("it runs"))
    }

    fn said(&self, output: std::process::Output) -> Said {
        let text = |bytes| self.shell.normalized(&String::from_utf8(bytes).expect("its output is UTF-8"));
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Starts `acp` with the scripted agent.
    async fn acp(&self, version: Version) -> Program {
        let mut command = self.shell.home.acp(&self.shell.home.scripted(Version::V1));
        self.disk.enter(command.as_std_mut(), &self.shell.here());
        let program = Program::start(command, version);
        program.client.initialize().await;
        program
    }

    /// Has a process leave the store in this way.
    async fn leave(&self, last: LastProcess) {
        if last == LastProcess::Ended {
            return;
        }
        let mut program = self.acp(Version::V1).await;
        let session = program.client.new_session_in(&self.shell.here().display().to_string()).await;
        assert_eq!(program.client.prompt(&session, "say wombat").await.stop, "end_turn");
        program.kill().await;
        let log = self.disk.path().join("rethread.db-wal");
        assert!(fs::metadata(log).expect("a log").len() > 0, "a killed process leaves its log");
        if last == LastProcess::KilledWithoutShared {
            fs::remove_file(self.disk.path().join("rethread.db-shm")).expect("a killed process leaves it");
        }
    }

    fn hinder(&self, obstacle: Obstacle) {
        match obstacle {
            Obstacle::Full => self.disk.fill(),
            Obstacle::ReadOnly => self.disk.set_access(Access::ReadOnly),
        }
    }

    fn unhinder(&self, obstacle: Obstacle) {
        match obstacle {
            Obstacle::Full => self.disk.make_room(),
            Obstacle::ReadOnly => self.disk.set_access(Access::Writable),
        }
    }

    fn check_failure(&self, args: &[&str], expected: &Expect) {
        let said = self.run(args);
        assert_eq!((said.code, said.stdout.as_str()), (Some(5), ""), "{args:?}: {}", said.stderr);
        expected.assert_eq(&said.stderr);
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copy = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_files(&path, &copy);
        } else {
            fs::copy(&path, &copy).expect("a file can be copied");
        }
    }
}

/// The commands that read.
const READING: [&[&str]; 7] = [
    &["list", "--all"],
    &["list", "--all", "--json"],
    &["show", SESSION],
    &["search", "wombat"],
    &["export", SESSION],
    &["stats", "--all"],
    &["show", "@last"],
];

#[tokio::test]
async fn what_reads_works_on_a_disk_that_cannot_be_written() {
    let cases = [
        (Obstacle::Full, LastProcess::Ended),
        (Obstacle::Full, LastProcess::Killed),
        (Obstacle::Full, LastProcess::KilledWithoutShared),
        (Obstacle::ReadOnly, LastProcess::Ended),
        (Obstacle::ReadOnly, LastProcess::Killed),
    ];
    for (obstacle, last) in cases {
        let Some(small) = SmallShell::new() else { return };
        small.leave(last).await;
        small.hinder(obstacle);
        let without: Vec<_> = READING.iter().map(|args| (args, small.run(args))).collect();
        let examined = small.run(&["doctor"]);
        small.unhinder(obstacle);
        for (args, said) in without {
            let case = format!("{args:?}, {obstacle:?}, {last:?}");
            assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{case}");
            assert!(said.stdout.contains("wombat") || args[0] == "stats", "{case}: {}", said.stdout);
            assert_eq!(said.stdout, small.run(args).stdout, "{case}: it is the same with room");
        }
        assert_eq!(examined.code, Some(0), "{}", examined.stderr);
        let warning = match obstacle {
            Obstacle::Full => "  warning  only ",
            Obstacle::ReadOnly => "  warning  the disk of the store is read-only",
        };
        assert!(examined.stdout.contains(warning), "{}", examined.stdout);
        assert!(!examined.stdout.contains("error"), "{}", examined.stdout);
    }
}

#[test]
fn a_search_finds_on_a_full_disk_what_is_not_indexed() {
    let Some(small) = SmallShell::new() else { return };
    assert!(small.run(&["search", "wombat"]).stdout.contains("find the wombat"));
    small.add_session("019a-bbbb2222");
    small.disk.fill();
    let found = small.run(&["search", "wombat"]).stdout;
    assert!(found.contains("rethread show 019a-bbbb2222"), "{found}");
    assert!(found.contains(&format!("rethread show {SESSION}")), "{found}");
}

#[test]
fn many_processes_read_a_full_disk_at_once() {
    let Some(small) = SmallShell::new() else { return };
    small.disk.fill();
    let start = |_| small.command(&["list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let began = Instant::now();
    let started: Vec<_> = (0..12).map(start).collect();
    for child in started {
        let said = small.said(child.expect("it starts").wait_with_output().expect("it runs"));
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
        assert!(said.stdout.contains("find the wombat"), "{}", said.stdout);
    }
    assert!(began.elapsed() < Duration::from_secs(9), "nobody waited until it gave up");
}

#[tokio::test]
async fn others_read_beside_a_process_that_has_a_session_open_on_a_full_disk() {
    let Some(small) = SmallShell::new() else { return };
    let program = small.acp(Version::V1).await;
    program.client.load_in(&small.shell.here().display().to_string(), SESSION).await;
    assert_eq!(program.client.prompt(SESSION, "say quokka").await.stop, "end_turn");
    small.disk.fill();
    for args in [&["show", SESSION][..], &["search", "quokka"]] {
        let said = small.run(args);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(said.stdout.contains("quokka"), "{}", said.stdout);
    }
}

#[test]
fn what_has_to_write_names_the_disk_and_the_remedy() {
    let Some(small) = SmallShell::new() else { return };
    assert_eq!(small.run(&["export", SESSION, "-o", "sessions.jsonl"]).code, Some(0));
    small.disk.fill();
    let full = expect![[r#"
        error: writing to /tmp/home/rethread.db failed: the disk at /tmp/home is full
        hint: free space on that disk, then try again; reading works without
    "#]];
    for args in [&["rename", SESSION, "other"][..], &["archive", SESSION], &["delete", "--yes", SESSION]] {
        small.check_failure(args, &full);
    }
    for args in [&["fork", SESSION][..], &["import", "--as-new", "sessions.jsonl"]] {
        small.check_failure(args, &full);
    }
    let said = small.run(&["doctor", "--repair"]).stdout;
    assert!(
        said.contains("warning  nothing was repaired: writing to /tmp/home/rethread.db failed"),
        "{said}"
    );
    small.disk.make_room();
    small.disk.set_access(Access::ReadOnly);
    small.check_failure(
        &["rename", SESSION, "other"],
        &expect![[r#"
            error: locking in /tmp/home/state/locks failed: the disk at /tmp/home is read-only
            hint: mount it writable, or set RETHREAD_HOME to a folder on another disk; reading works as it is
        "#]],
    );
    small.disk.set_access(Access::Writable);
    assert_eq!(small.run(&["rename", SESSION, "other"]).code, Some(0));
}

#[test]
fn a_store_is_not_made_on_a_full_disk() {
    let Some(small) = SmallShell::new() else { return };
    assert_eq!(small.run(&["export", SESSION, "-o", "sessions.jsonl"]).code, Some(0));
    fs::remove_file(small.disk.path().join("rethread.db")).expect("there is a store");
    small.disk.fill();
    let said = small.run(&["import", "sessions.jsonl"]);
    assert_eq!(said.code, Some(5), "{}", said.stderr);
    assert!(said.stderr.contains("the disk at /tmp/home is full\nhint: free space"), "{}", said.stderr);
}

#[tokio::test]
async fn acp_shows_sessions_without_room_and_continues_them_with_room() {
    let cases = [
        (Version::V1, Obstacle::Full, LastProcess::Ended),
        (Version::V2, Obstacle::Full, LastProcess::Killed),
        (Version::V1, Obstacle::ReadOnly, LastProcess::Killed),
        (Version::V2, Obstacle::ReadOnly, LastProcess::Ended),
    ];
    for (version, obstacle, last) in cases {
        let Some(small) = SmallShell::new() else { return };
        small.leave(last).await;
        small.hinder(obstacle);
        let program = small.acp(version).await;
        let client = &program.client;
        let cwd = small.shell.here().display().to_string();
        let listed = client.ask("session/list", json!({"cwd": cwd})).await;
        assert!(listed.to_string().contains(SESSION), "{listed}");
        client.load_in(&cwd, SESSION).await;
        assert_eq!(client.view(SESSION).agent().len(), 3, "{obstacle:?} {last:?}");

        if obstacle == Obstacle::Full {
            // A log that was moved into the database has made some room.
            small.disk.fill();
        }
        let refused = refused_prompt(&program, "say quokka").await;
        let cause = match obstacle {
            Obstacle::Full => "is full",
            Obstacle::ReadOnly => "is read-only",
        };
        assert!(refused.contains(cause), "{obstacle:?} {last:?}: {refused}");
        let (method, params) = ("session/new", json!({"cwd": cwd, "mcpServers": []}));
        let refused = client.refused(method, params).await;
        assert!(refused["message"].as_str().is_some_and(|message| message.contains(cause)), "{refused}");

        small.unhinder(obstacle);
        assert_eq!(until_taken(&program, SESSION, "say quokka").await, "end_turn", "{obstacle:?} {last:?}");
        drop(program);
        let shown = small.run(&["show", SESSION]).stdout;
        assert_eq!(shown.matches("say quokka").count(), 1, "{shown}");
    }
}

#[tokio::test]
async fn of_two_that_opened_a_session_on_a_full_disk_the_first_that_writes_has_it() {
    let Some(small) = SmallShell::new() else { return };
    small.disk.fill();
    let cwd = small.shell.here().display().to_string();
    let (one, two) = (small.acp(Version::V1).await, small.acp(Version::V1).await);
    one.client.load_in(&cwd, SESSION).await;
    two.client.load_in(&cwd, SESSION).await;
    small.disk.make_room();
    // A session that fails to store something tries again by itself, so that either can be the first.
    let (owner, other) = match until_taken(&one, SESSION, "say first").await.as_str() {
        "end_turn" => (&one, &two),
        _ => {
            assert_eq!(until_taken(&two, SESSION, "say first").await, "end_turn");
            (&two, &one)
        }
    };
    let (method, params) = other.client.load_params(SESSION);
    let refused: Value = other.client.refused(method, params).await;
    // It depends on whether it has noticed by itself that it lost the session.
    let message = refused["message"].as_str().unwrap_or_default();
    let told = ["is open in process", "was taken over by another process"];
    assert!(told.iter().any(|told| message.contains(told)), "{refused}");
    assert_eq!(owner.client.prompt(SESSION, "say second").await.stop, "end_turn");
    let shown = small.run(&["show", SESSION]).stdout;
    assert!(shown.contains("say second"), "{shown}");
    assert_eq!(shown.matches("say first").count(), 1, "{shown}");
}

/// The error that a prompt gets.
async fn refused_prompt(program: &Program, text: &str) -> String {
    let request = program.client.begin_prompt(SESSION, text).await;
    program.client.answer(&request).await.expect_err("it cannot be stored").to_string()
}

/// Prompts until it is taken: a store that failed is tried again after a second.
async fn until_taken(program: &Program, session: &str, text: &str) -> String {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let stop = program.client.prompt(session, text).await.stop;
        if !stop.starts_with("error -32603") || Instant::now() > end {
            return stop;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

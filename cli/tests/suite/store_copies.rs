//! `rethread store copy` with many sessions, both ways, killed again and again: what is in the end in both stores is equal. Skipped, and
//! says so, unless `RETHREAD_TEST_POSTGRES` is set. `RETHREAD_COPY_SESSIONS` sets how many sessions there are.

use std::fs;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::session_file::copy::is_equal;
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::postgres::PostgresStore;
use rethread::store::{Listed, NewSession, RowFacts, Store as _};
use rethread_core::{Entry, Stop, TitleSource, TurnNo};
use rethread_testkit::postgres_server::PostgresServer;
use rethread_testkit::program::Home;
use serde_json::json;

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_rethread"))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Sets how many sessions the test of copying has.
const COPIED: &str = "RETHREAD_COPY_SESSIONS";

/// A store of this many sessions, some of them long.
async fn filled(home: &Home, count: usize) -> EmbeddedStore {
    let store = embedded(home);
    for number in 0..count {
        let turns = if number % 50 == 7 { 200 } else { 1 + number % 5 };
        let new = NewSession {
            id: format!("s{number:05}").as_str().into(),
            cwd: format!("/work/{}", number % 20),
            agent: "agent".to_owned(),
            parent: None,
            entries: (1..=turns).flat_map(|turn| entries_of(number, turn as u64)).collect(),
            facts: RowFacts {
                listed: Some(Listed),
                title: Some((format!("title {number}"), TitleSource::User)),
                ..RowFacts::default()
            },
            snapshot: None,
            at: 1000 + number as u64,
        };
        let lease = store.create(new).await.expect("a session can be created");
        store.release(&lease).await.expect("it is ours");
    }
    store
}

fn entries_of(number: usize, turn: u64) -> [Arc<Entry>; 3] {
    let at = 1000 * turn;
    let state = |state: &str| json!({"sessionUpdate": "state_update", "state": state}).into();
    let content = json!([{"type": "text", "text": format!("prompt {turn} of session {number}")}]);
    [
        Entry::TurnStarted { turn: TurnNo(turn), at, state: state("running") },
        Entry::PromptInserted {
            message: format!("p{turn}").as_str().into(),
            turn: TurnNo(turn),
            content: content.into(),
            at,
        },
        Entry::TurnEnded {
            turn: TurnNo(turn),
            stop: Stop::plain("end_turn"),
            at: at + 1,
            state: state("idle"),
        },
    ]
    .map(Arc::new)
}

fn embedded(home: &Home) -> EmbeddedStore {
    let paths =
        EmbeddedPaths { database: home.path().join("rethread.db"), locks: home.path().join("state/locks") };
    EmbeddedStore::create_files(&paths).expect("the folder is writable");
    EmbeddedStore::open(&paths).expect("the store opens")
}

/// Runs a copy, and kills it after a time. Returns its output if it has ended by itself, and the most memory that it used, in MiB.
async fn copy(home: &Home, from: &str, to: &str, killed_after: Option<Duration>) -> (Option<String>, u64) {
    let mut command = home.command(&["store", "copy", from, to]);
    command.env_remove("RETHREAD_STORE").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let status = format!("/proc/{}/status", child.id().expect("it runs"));
    let (began, mut most) = (Instant::now(), 0);
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(peak.unwrap_or(0) / 1024);
        if killed_after.is_some_and(|limit| began.elapsed() > limit) {
            child.start_kill().expect("it runs");
            child.wait().await.expect("it ends");
            return (None, most);
        }
        if child.try_wait().expect("it can be asked").is_some() {
            let output = child.wait_with_output().await.expect("it has ended");
            assert!(output.status.success(), "{}", said(&output));
            return (Some(said(&output)), most);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_are_copied_both_ways_though_the_copy_is_killed() {
    let Some(server) = PostgresServer::shared() else { return };
    let count = std::env::var(COPIED).ok().and_then(|count| count.parse().ok()).unwrap_or(60);
    let (here, there, url) = (home(), home(), server.database_url());
    let original = filled(&here, count).await;
    for (home, from, to) in [(&here, "embedded", url.as_str()), (&there, url.as_str(), "embedded")] {
        let began = Instant::now();
        let mut kills = 0;
        // Kills come later and later, so that some meet each part of the work.
        while kills < 4 && copy(home, from, to, Some(Duration::from_millis(300 << kills))).await.0.is_none() {
            kills += 1;
        }
        let (ended, most) = copy(home, from, to, None).await;
        println!(
            "{count} sessions from {} in {:.1} s, {kills} kills, {most} MiB: {}",
            if from == "embedded" { "the embedded store" } else { "PostgreSQL" },
            began.elapsed().as_secs_f64(),
            ended.unwrap_or_default().lines().next().unwrap_or_default()
        );
    }
    let (copied, back) = (server_store(&url).await, embedded(&there));
    for number in 0..count {
        let id = format!("s{number:05}").as_str().into();
        assert!(is_equal(&original, &copied, &id).await.expect("both can be read"), "session {number}");
        assert!(is_equal(&original, &back, &id).await.expect("both can be read"), "session {number}");
    }
    let again = copy(&here, "embedded", &url, None).await.0.unwrap_or_default();
    assert!(again.contains(&format!("{count}")), "{again}");
}

async fn server_store(url: &str) -> PostgresStore {
    let address = url.parse().expect("the address is valid");
    let opening = tokio::task::spawn_blocking(move || PostgresStore::open(&address));
    opening.await.expect("it does not panic").expect("the store opens")
}

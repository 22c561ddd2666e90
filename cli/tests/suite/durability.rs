//! The promises of docs/durability.md that need the whole program, one test for each sentence. Promise 1 is in
//! `kill_nine.rs`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread::edge::Version;
use rethread::server::Config;
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::memory::MemoryStore;
use rethread::store::{Append, Durability, Store, StoreFuture};
use rethread_core::{Entry, SessionId};
use rethread_testkit::agent::ScriptedAgent;
use rethread_testkit::client::Client;
use rethread_testkit::fault::FaultStore;
use rethread_testkit::program::{Home, Program};
use rethread_testkit::watched::{Watched, Watchman};
use rethread_testkit::{DEADLINE, Pairing, World, pairings};
use serde_json::{Value, json};

pairings!(
    a_turn_is_answered_after_its_end_is_safe_from_a_power_cut,
    an_error_of_the_disk_fails_the_turn_and_nothing_unwritten_is_told,
    what_a_failed_append_stored_all_the_same_is_shown,
    a_disk_that_stays_full_refuses_and_works_again_with_room,
    a_new_id_can_be_loaded,
);

/// Promise 2: the append that ends a turn asks for the power, and only then is the turn answered.
async fn a_turn_is_answered_after_its_end_is_safe_from_a_power_cut(pairing: Pairing) {
    let store = Arc::new(HeldStore::new(Arc::new(MemoryStore::new())));
    let world = over(pairing, store.clone());
    let client = world.ready().await;
    let session = client.new_session().await;
    let request = client.begin_prompt(&session, "say one; tool call_1; say two; wait gate").await;
    let said = |update: &Value| update["content"]["text"] == "two";
    client.wait_update(0, &session, "two", said).await;
    store.hold.store(true, Ordering::SeqCst);
    world.agent.open_gate("gate");
    within(async {
        while store.held() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // The end of the turn is at the disk, and not on it: the client waits.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!is_over(&client, &session, &request), "{:?}", client.server_messages());
    store.let_go();
    assert_eq!(client.finish(&session, &request).await.stop, "end_turn");

    let seen = store.seen.lock().expect("nobody panics with it");
    let ends: Vec<_> = seen.iter().filter(|(ends, _)| *ends).map(|(_, durability)| *durability).collect();
    assert_eq!(ends, [Durability::Power]);
    let inside = seen.iter().filter(|(ends, _)| !ends);
    assert!(
        inside.clone().count() > 0 && inside.clone().all(|(_, of)| *of == Durability::Process),
        "{seen:?}"
    );
}

/// Promise 3, an error in the middle of a turn.
async fn an_error_of_the_disk_fails_the_turn_and_nothing_unwritten_is_told(pairing: Pairing) {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let world = over(pairing, store.clone());
    let client = world.ready().await;
    let session = client.new_session().await;
    let request = client.begin_prompt(&session, "say one; wait gate; say two").await;
    client.wait_update(0, &session, "one", |update| update["content"]["text"] == "one").await;
    store.fail_appends(1);
    world.agent.open_gate("gate");
    let error = failed_turn(&client, &session, &request).await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("no space left")), "{error}");
    assert_eq!(client.view(&session).agent(), ["one"]);
    assert_works_again(&world, &client, &session, &["one"]).await;
}

/// Promise 3, an append that is stored although it fails: who is attached sees it as whoever loads the session later does.
async fn what_a_failed_append_stored_all_the_same_is_shown(pairing: Pairing) {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let world = over(pairing, store.clone());
    let client = world.ready().await;
    let session = client.new_session().await;
    let request = client.begin_prompt(&session, "say one; wait gate; say two; wait end").await;
    client.wait_update(0, &session, "one", |update| update["content"]["text"] == "one").await;
    store.lose_answers(1);
    world.agent.open_gate("gate");
    failed_turn(&client, &session, &request).await;
    client.wait_update(0, &session, "two", |update| update["content"]["text"] == "two").await;
    world.agent.open_gate("end");
    let shown = client.view(&session).agent();
    assert_works_again(&world, &client, &session, &shown.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
}

/// Promise 3, for as long as the disk is full.
async fn a_disk_that_stays_full_refuses_and_works_again_with_room(pairing: Pairing) {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let world = over(pairing, store.clone());
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say one").await;

    store.fail_appends(usize::MAX);
    for _ in 0..3 {
        let prompt = json!([{"type": "text", "text": "say two"}]);
        let error = client.refused("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
        assert_eq!(error["code"], -32603, "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("no space left")), "{error}");
        assert!(error["data"]["hint"].as_str().is_some(), "{error}");
    }
    // The same while a turn runs.
    store.fail_appends(0);
    let request = client.begin_prompt(&session, "say three; wait gate; say four").await;
    client.wait_update(0, &session, "three", |update| update["content"]["text"] == "three").await;
    store.fail_appends(usize::MAX);
    world.agent.open_gate("gate");
    let told = trouble(&client, &session, &request).await;
    assert!(told.contains("no space left"), "{told}");
    assert_eq!(client.view(&session).agent(), ["one", "three"]);
    // Nobody is told a state that may not be written.
    let status = async {
        loop {
            // The trouble that was heard may be an earlier one.
            if let Err(error) = client.request("session/status", json!({"sessionId": session})).await {
                break error;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let status = tokio::time::timeout(Duration::from_secs(10), status).await.expect("it is refused");
    assert!(status["message"].as_str().is_some_and(|text| text.contains("no space left")), "{status}");
    // What is kept can be read all the while.
    let other = world.ready().await;
    let list = other.ask("session/list", json!({})).await;
    assert_eq!(list["sessions"][0]["sessionId"], session.as_str(), "{list}");
    other.load(&session).await;
    assert_eq!(other.view(&session).agent(), ["one", "three"]);
    other.disconnect().await;

    store.fail_appends(0);
    assert_works_again(&world, &client, &session, &["one", "three"]).await;
}

/// Promise 3, with an agent that does not stop when its work cannot be written down: it is ended.
#[tokio::test]
async fn an_agent_that_works_on_unwritten_is_ended() {
    for client in [Version::V1, Version::V2] {
        let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
        let patience = Duration::from_millis(100);
        let config = Config { cancel_patience: patience, ..Config::default() };
        let world = World::over(client, ScriptedAgent::able(Version::V1), store.clone(), config);
        let client = world.ready().await;
        let session = client.new_session().await;
        let request = client.begin_prompt(&session, "say one; wait gate; say two; deaf").await;
        client.wait_update(0, &session, "one", |update| update["content"]["text"] == "one").await;
        store.fail_appends(1);
        world.agent.open_gate("gate");
        failed_turn(&client, &session, &request).await;
        assert_works_again(&world, &client, &session, &["one"]).await;
        assert!(world.agent.starts() > 1, "the agent was ended");
    }
}

/// Promise 4, in one process; `owners.rs` has it with a kill in between.
async fn a_new_id_can_be_loaded(pairing: Pairing) {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let open = || {
        let (database, locks) = (dir.path().join("data/rethread.db"), dir.path().join("locks"));
        Arc::new(EmbeddedStore::open(&EmbeddedPaths { database, locks }).expect("a store"))
    };
    let world = over(pairing, open());
    let client = world.ready().await;
    let session = client.new_session().await;
    // Another store on the same files, while the first has the session open, and after.
    let row = open().find(&SessionId(session.clone())).await.expect("it can be asked");
    assert!(row.is_some(), "the row is written before its id is told");
    client.disconnect().await;
    let next = over(pairing, open());
    let client = next.ready().await;
    client.load(&session).await;
    assert_eq!(client.view(&session).items, []);
    assert_eq!(client.ask("session/list", json!({})).await["sessions"], json!([]));
}

/// Promise 3 with a real file system: no file of the program may grow any more, then it may again.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_real_full_disk_fails_the_turn_and_works_again_with_room() {
    for version in [Version::V1, Version::V2] {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let mut command = home.acp(&home.scripted(Version::V1));
        // SAFETY: only an async-signal-safe call is made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // A write beyond the limit is an error, not the end of the process.
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                Ok(())
            });
        }
        let mut program = Program::start(command, version);
        let client = &program.client;
        client.initialize().await;
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, "say one").await.stop, "end_turn");

        limit_files(program.pid(), 16 * 1024);
        let request = client.begin_prompt(&session, "slow 600").await;
        let told = trouble(client, &session, &request).await;
        assert!(told.contains("/live/"), "{told}");

        limit_files(program.pid(), libc::RLIM_INFINITY);
        assert_eq!(retry(client, &session, "say two").await, "end_turn");
        let shown = client.view(&session);
        assert!(shown.agent()[1].starts_with("c1 c2"), "{shown}");
        program.kill().await;
        let next = home.ready(version, Version::V1).await;
        next.client.load(&session).await;
        let loaded = next.client.view(&session);
        assert_eq!(loaded.items, shown.items);
        assert_eq!(loaded.agent().last().map(String::as_str), Some("two"), "{loaded}");
    }
}

#[cfg(target_os = "linux")]
fn limit_files(pid: i32, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call, and the process is one that this test has started.
    let set = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(set, 0, "a limit can be set");
}

fn over(pairing: Pairing, store: Arc<dyn Store>) -> World {
    World::over(pairing.client, ScriptedAgent::of(pairing), store, Config::default())
}

/// The error that a turn ends with: the answer in version 1, in the state in version 2.
async fn failed_turn(client: &Client, session: &str, request: &Value) -> Value {
    match client.version {
        Version::V1 => client.answer(request).await.expect_err("the turn fails"),
        Version::V2 => {
            client.answer(request).await.expect("the prompt was taken");
            let failed = |update: &Value| update["state"] == "idle" && update["stopReason"] == "error";
            client.wait_update(0, session, "the end of the turn", failed).await["error"].clone()
        }
    }
}

/// What the user hears while nothing can be written: the answer in version 1, a notice in version 2.
async fn trouble(client: &Client, session: &str, request: &Value) -> String {
    match client.version {
        Version::V1 => client.answer(request).await.expect_err("the turn fails").to_string(),
        Version::V2 => {
            let notice =
                |update: &Value| update["sessionUpdate"] == "notice" && update["severity"] == "error";
            client.wait_update(0, session, "a notice", notice).await.to_string()
        }
    }
}

async fn assert_works_again(world: &World, client: &Client, session: &str, before: &[&str]) {
    assert_eq!(retry(client, session, "say again").await, "end_turn");
    let said: Vec<_> = before.iter().copied().chain(["again"]).collect();
    assert_eq!(client.view(session).agent(), said);
    client.disconnect().await;
    let next = world.again().ready().await;
    next.load(session).await;
    assert_eq!(next.view(session).agent(), said);
}

/// Prompts until it is taken: a store that was broken is tried again after a second.
async fn retry(client: &Client, session: &str, text: &str) -> String {
    let trying = async {
        loop {
            let stop = client.prompt(session, text).await.stop;
            if !stop.starts_with("error -32603") {
                return stop;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(trying).await
}

fn is_over(client: &Client, session: &str, request: &Value) -> bool {
    let answered = client
        .server_messages()
        .iter()
        .any(|message| message["id"] == *request && message.get("result").is_some());
    match client.version {
        Version::V1 => answered,
        Version::V2 => {
            let updates = client.updates(session);
            let begun = updates.iter().position(|update| update["state"] == "running");
            begun.is_some_and(|begun| updates[begun..].iter().any(|update| update["state"] == "idle"))
        }
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(2 * DEADLINE, future).await.expect("it takes too long")
}

/// A store that can hold up the appends that end turns, and notes how durable each append is to be.
type HeldStore = Watched<Hold>;

#[derive(Default)]
struct Hold {
    hold: AtomicBool,
    waiting: AtomicUsize,
    /// Whether an append ends a turn, and what it asked for.
    seen: Mutex<Vec<(bool, Durability)>>,
}

impl Hold {
    fn held(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn let_go(&self) {
        self.hold.store(false, Ordering::SeqCst);
    }
}

impl Watchman for Hold {
    fn appending(&self, append: &Append) -> StoreFuture<'_, ()> {
        let ends = append.entries.iter().any(|entry| matches!(**entry, Entry::TurnEnded { .. }));
        let durability = append.durability;
        Box::pin(async move {
            if ends {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                // Not for ever: a test that fails must end too.
                let held = async {
                    while self.hold.load(Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                };
                let _ = tokio::time::timeout(DEADLINE, held).await;
            }
            self.seen.lock().expect("nobody panics with it").push((ends, durability));
            Ok(())
        })
    }
}

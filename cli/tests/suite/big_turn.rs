//! A big turn looks the same live, replayed, replayed after it was folded, and after the program was started
//! again, to clients of both versions, whichever of them made it and whatever its agent speaks.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::DEADLINE;
use rethread_testkit::client::Client;
use rethread_testkit::program::Home;
use rethread_testkit::view::View;

const BOTH: [Version; 2] = [Version::V1, Version::V2];
/// How often the turn does everything once.
const ROUNDS: usize = 26;
/// How many chunks a message has.
const CHUNKS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_by_a_v1_client_with_a_v1_agent() {
    check(Version::V1, Version::V1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_by_a_v1_client_with_a_v2_agent() {
    check(Version::V1, Version::V2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_by_a_v2_client_with_a_v1_agent() {
    check(Version::V2, Version::V1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_by_a_v2_client_with_a_v2_agent() {
    check(Version::V2, Version::V2).await;
}

async fn check(client: Version, agent: Version) {
    let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
    let mut program = home.ready(client, agent).await;
    let session = program.client.new_session().await;
    assert_eq!(program.client.prompt(&session, &script()).await.stop, "end_turn");
    let live = program.client.view(&session);
    assert_whole(&live);

    same(&program.client, &session, &live, "on the same connection").await;
    folded(&home).await;
    same(&program.client, &session, &live, "after it was folded").await;
    program.client.disconnect().await;
    assert!(program.exited().await.success());
    for version in BOTH {
        let mut again = home.ready(version, agent).await;
        let words = format!("v{} after a new start", version.number());
        same(&again.client, &session, &live, &words).await;
        same(&again.client, &session, &live, &words).await;
        again.kill().await;
    }
}

async fn same(client: &Client, session: &str, live: &View, when: &str) {
    let mark = client.mark();
    client.load(session).await;
    let loaded = client.view_since(mark, session);
    if loaded != *live {
        let differs = |(one, other): &(&_, &_)| one != other;
        let items = live.items.iter().zip(&loaded.items).find(differs);
        panic!("{when}: {} things became {}, first {items:#?}", live.items.len(), loaded.items.len());
    }
}

/// A script that streams thoughts, messages, tool calls, plans and usage.
fn script() -> String {
    let mut script = String::from("commands plan,test; ");
    for round in 1..=ROUNDS {
        let _ = write!(
            script,
            "think about {round}; chunks {CHUNKS}; tool call_{round}; plan a{round},b; usage {round}/1000; "
        );
    }
    script + "say done"
}

fn assert_whole(view: &View) {
    let text: Vec<_> = (1..=CHUNKS).map(|at| format!("c{at}")).collect();
    let mut said = vec![text.join(" "); ROUNDS];
    said.push("done".to_owned());
    assert_eq!(view.agent(), said);
    assert_eq!(view.texts("thought").len(), ROUNDS);
    // The prompt, and in each round a thought, a message and a call, and the last word.
    assert_eq!(view.items.len(), 1 + 3 * ROUNDS + 1);
    assert_eq!(view.plan.len(), 2);
    assert!(view.plan[0].starts_with(&format!("a{ROUNDS}")), "{:?}", view.plan);
    assert_eq!(view.usage, Some((ROUNDS as u64, 1000)));
    assert_eq!(view.commands, ["plan", "test"]);
}

/// Waits until the turn is one whole and no longer its pieces.
async fn folded(home: &Home) {
    let database = rusqlite::Connection::open(home.path().join("rethread.db")).expect("a database");
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a number");
    let deadline = Instant::now() + 4 * DEADLINE;
    while count("SELECT coalesce(max(head_seq), 0) FROM session") < 100 {
        assert!(Instant::now() < deadline, "the turn is not folded");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

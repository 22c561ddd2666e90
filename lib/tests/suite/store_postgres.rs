//! What only a store in PostgreSQL has: several hosts, leases that expire, connections that are lost, errors of the server.
//! Skipped, and said so, unless `RETHREAD_TEST_POSTGRES` is set.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;
use std::time::Duration;

use rethread::session_file::copy::{CopyReport, copy_store, is_equal};
use rethread::store::embedded::EmbeddedStore;
use rethread::store::postgres::{PostgresAddress, PostgresStore};
use rethread::store::{
    Append, DatabaseProblem, Lease, ListQuery, Listed, NewSession, OwnedHere, ReleaseAnswer, RowFacts, Store,
    StoreError,
};
use rethread_core::{Seq, SessionId, TitleSource};
use rethread_testkit::postgres_server::PostgresServer;

use crate::store::{append_of, entry, listed_session, new_session, paths};
use crate::store_contract::searching::turn;

pub(crate) fn id(text: &str) -> SessionId {
    text.into()
}

pub(crate) fn open(address: &PostgresAddress) -> PostgresStore {
    PostgresStore::open(address).unwrap()
}

/// The messages of all entries.
pub(crate) async fn texts(store: &dyn Store, session: &str) -> Vec<String> {
    let (mut found, mut from) = (Vec::new(), Seq(0));
    loop {
        let page = store.read(&id(session), from, 64 * 1024).await.unwrap();
        for item in page.decode().unwrap() {
            let rethread_core::Entry::PromptInserted { message, .. } = item.entry else {
                panic!("not an entry of these tests")
            };
            found.push(message.0);
        }
        if page.end {
            return found;
        }
        from = page.next;
    }
}

pub(crate) async fn append(store: &dyn Store, lease: &mut Lease, text: &str) -> Result<(), StoreError> {
    store.append(append_of(lease, vec![entry(text)])).await?;
    lease.head = lease.head.next();
    Ok(())
}

#[tokio::test]
async fn hosts_share_sessions_and_one_owns_each() {
    let Some(server) = PostgresServer::shared() else { return };
    let address = server.database();
    let (a, b) = (open(&address), open(&address));
    let mut lease = a.create(listed_session("s", "/w", 1)).await.unwrap();
    append(&a, &mut lease, "one").await.unwrap();
    assert_eq!(texts(&b, "s").await, ["one"], "reading needs no ownership");
    let refused = b.claim(&id("s")).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::LiveElsewhere { owner, .. } if owner.ours == OwnedHere::No),
        "{refused}"
    );
    assert!(matches!(b.ask_release(&id("s"), 5).await.unwrap(), ReleaseAnswer::Asked(_)));
    let since = b.changes(None).await.unwrap().revision;
    a.set_title(&id("s"), "told").await.unwrap();
    let told = b.changes(Some(since)).await.unwrap().sessions;
    assert_eq!(
        told.iter().map(|changed| changed.id.as_str()).collect::<Vec<_>>(),
        ["s"],
        "changes of all hosts"
    );
    a.release(&lease).await.unwrap();
    let lease = b.claim(&id("s")).await.unwrap();
    assert_eq!((lease.epoch, lease.head), (2, Seq(1)));
    // A host that signs off leaves nothing to wait for.
    drop(b);
    assert_eq!(a.claim(&id("s")).await.unwrap().epoch, 3);
}

#[tokio::test]
async fn a_lease_that_is_over_is_taken_over_and_the_old_owner_is_fenced() {
    let Some(server) = PostgresServer::shared() else { return };
    let name = server.new_database();
    let (a, b) = (open(&server.address_of(&name)), open(&server.address_of(&name)));
    let mut old = a.create(listed_session("s", "/w", 1)).await.unwrap();
    append(&a, &mut old, "of the old owner").await.unwrap();
    assert!(matches!(b.claim(&id("s")).await, Err(StoreError::LiveElsewhere { .. })));
    // As if it had not renewed: the clock of the database decides.
    let first = "key = (SELECT min(key) FROM rethread.host)";
    server.sql(&name, &format!("UPDATE rethread.host SET expires_at = clock_timestamp() WHERE {first}"));
    assert_eq!(b.find(&id("s")).await.unwrap().unwrap().owner, None);
    let mut new = b.claim(&id("s")).await.unwrap();
    append(&b, &mut new, "of the new owner").await.unwrap();
    let fenced = append(&a, &mut old, "too late").await.unwrap_err();
    assert!(matches!(fenced, StoreError::StaleEpoch { held: 1, found: 2, .. }), "{fenced}");
    assert_eq!(texts(&b, "s").await, ["of the old owner", "of the new owner"]);
    // Its release must not take the session from the new owner.
    a.release(&old).await.unwrap();
    assert!(b.find(&id("s")).await.unwrap().unwrap().owner.is_some());
}

/// Appends of several sessions at once while something happens to the connections. All that was told is there once, in order.
async fn appends_survive(
    store: Arc<PostgresStore>,
    count: usize,
    disturb: impl Fn(usize) + Send + Sync + 'static,
) {
    let disturb = Arc::new(disturb);
    let mut tasks = Vec::new();
    for number in 0..8 {
        let (store, disturb) = (store.clone(), disturb.clone());
        tasks.push(tokio::spawn(async move {
            let name = format!("s{number}");
            let mut lease = store.create(listed_session(&name, "/w", 1)).await.unwrap();
            for at in 0..count {
                if number == 0 {
                    let disturb = disturb.clone();
                    tokio::task::spawn_blocking(move || disturb(at)).await.unwrap();
                }
                append(&*store, &mut lease, &format!("{number}-{at}")).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for number in 0..8 {
        let expected: Vec<String> = (0..count).map(|at| format!("{number}-{at}")).collect();
        assert_eq!(texts(&*store, &format!("s{number}")).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_in_mid_commit_lose_and_double_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    let name = server.new_database();
    let store = Arc::new(open(&server.address_of(&name)));
    let cut = move |at: usize| {
        if at % 3 == 1 {
            let sql =
                format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
            PostgresServer::shared().unwrap().sql("postgres", &sql);
        }
    };
    appends_survive(store, 40, cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_crashes_and_comes_back_is_waited_for() {
    let Some(server) = PostgresServer::own(&[]) else { return };
    let store = Arc::new(open(&server.database()));
    let restart = move |at: usize| {
        if at % 10 == 5 {
            server.crash();
            server.run();
        }
    };
    appends_survive(store, 30, restart).await;
}

#[tokio::test]
async fn a_database_that_stays_away_is_an_error_within_a_limit() {
    let Some(server) = PostgresServer::own(&[]) else { return };
    let store = open(&server.database());
    let mut lease = store.create(new_session("s")).await.unwrap();
    append(&store, &mut lease, "before").await.unwrap();
    server.crash();
    let began = std::time::Instant::now();
    let error = append(&store, &mut lease, "while it is away").await.unwrap_err();
    assert!(matches!(error, StoreError::Database { problem: DatabaseProblem::Unreachable, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    server.run();
    append(&store, &mut lease, "after").await.unwrap();
    assert_eq!(texts(&store, "s").await, ["before", "after"], "what was not told is not there");
}

fn problem_of(url: &str) -> (DatabaseProblem, String) {
    match PostgresStore::open(&url.parse().unwrap()).err() {
        Some(error @ StoreError::Database { problem, .. }) => (problem, rethread::wire::with_causes(&error)),
        other => panic!("{url}: {:?}", other.map(|error| error.to_string())),
    }
}

#[test]
fn what_is_wrong_is_said_without_the_password() {
    let Some(server) = PostgresServer::shared() else { return };
    let (name, port) = (server.new_database(), server.port());
    let wrong = |url: &str, expected: DatabaseProblem| {
        let (problem, said) = problem_of(url);
        assert_eq!(problem, expected, "{url}: {said}");
        assert!(!said.contains("tests-only") && !said.contains("s3cret"), "{said}");
    };
    wrong(&format!("postgres://rethread_tests:s3cret@127.0.0.1:{port}/{name}"), DatabaseProblem::Password);
    wrong(&format!("postgres://nobody_here:s3cret@127.0.0.1:{port}/{name}"), DatabaseProblem::Password);
    wrong(&server.url_of("no_such_database"), DatabaseProblem::NoDatabase);
    wrong("postgres://rethread_tests:s3cret@127.0.0.1:1/x", DatabaseProblem::Unreachable);
    wrong(&format!("{}?sslmode=verify-full", server.url_of(&name)), DatabaseProblem::NoTls);
    // A role that may log in and nothing else.
    server.sql("postgres", "CREATE ROLE without_rights LOGIN PASSWORD 's3cret'");
    server.sql("postgres", "CREATE DATABASE of_another");
    wrong(&format!("postgres://without_rights:s3cret@127.0.0.1:{port}/of_another"), DatabaseProblem::Right);
    wrong(&format!("postgres://without_rights:s3cret@127.0.0.1:{port}/{name}"), DatabaseProblem::Right);
    // The socket works as the port does.
    drop(open(&server.socket_url_of(&name).parse().unwrap()));
}

#[test]
fn a_newer_schema_is_refused() {
    let Some(server) = PostgresServer::shared() else { return };
    let name = server.new_database();
    server.sql(&name, "UPDATE rethread.store SET version = 1000");
    let refused = PostgresStore::open(&server.address_of(&name)).err().unwrap();
    assert!(matches!(refused, StoreError::Newer { found: 1000, .. }), "{refused}");
}

#[test]
fn hosts_that_open_a_new_database_at_once_migrate_it_once() {
    let Some(server) = PostgresServer::shared() else { return };
    server.sql("postgres", "CREATE DATABASE empty_one OWNER rethread_tests");
    let address = server.address_of("empty_one");
    let openings: Vec<_> =
        (0..6).map(|_| address.clone()).map(|address| std::thread::spawn(move || open(&address))).collect();
    for opening in openings {
        drop(opening.join().unwrap());
    }
    assert_eq!(server.sql("empty_one", "SELECT count(*) FROM rethread.store"), "1");
}

#[tokio::test]
async fn texts_with_zero_bytes_come_back() {
    let Some(server) = PostgresServer::shared() else { return };
    let store = open(&server.database());
    let facts = RowFacts {
        title: Some(("a title".to_owned(), TitleSource::Agent)),
        roots: Some(vec!["/r\0x".to_owned()]),
        native: Some(rethread::store::NativeId { agent: "a\0".to_owned(), id: "n\0\u{10ffff}".to_owned() }),
        listed: Some(Listed),
        ..RowFacts::default()
    };
    let new = NewSession { cwd: "/w\0".to_owned(), facts, ..new_session("s\0x") };
    let lease = store.create(new).await.unwrap();
    let roots = RowFacts { roots: Some(vec!["\0".to_owned(), "b".to_owned()]), ..RowFacts::default() };
    store.append(Append { facts: roots, ..append_of(&lease, Vec::new()) }).await.unwrap();
    let row = store.find(&id("s\0x")).await.unwrap().unwrap();
    assert_eq!(
        (row.cwd.as_str(), row.roots, row.natives),
        ("/w\0", vec!["\0".to_owned(), "b".to_owned()], vec!["n\0\u{10ffff}".to_owned()])
    );
    assert_eq!(store.list(&ListQuery { limit: 5, ..ListQuery::default() }).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn a_store_is_copied_both_ways_and_goes_on_where_it_was() {
    let Some(server) = PostgresServer::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(&paths(dir.path())).unwrap();
    for number in 0..20_u64 {
        let facts = RowFacts {
            listed: Some(Listed),
            title: Some((format!("title {number}"), TitleSource::User)),
            ..RowFacts::default()
        };
        let new = NewSession {
            facts,
            entries: turn(1, 1000 * number, "a word", &[]),
            at: number + 1,
            ..new_session(&format!("s{number}"))
        };
        let lease = embedded.create(new).await.unwrap();
        let later = append_of(&lease, turn(2, 1000 * number + 500, "another", &[]));
        embedded.append(Append { at: None, ..later }).await.unwrap();
        embedded.release(&lease).await.unwrap();
    }
    let postgres = open(&server.database());
    let copy = async |from: &dyn Store, to: &dyn Store| {
        copy_store(from, to, "label", Box::new(|_| {})).await.unwrap()
    };
    let all = CopyReport { copied: 20, ..CopyReport::default() };
    assert_eq!(copy(&embedded, &postgres).await, all);
    assert_eq!(copy(&embedded, &postgres).await, CopyReport { unchanged: 20, ..CopyReport::default() });
    // What is new is added.
    let lease = embedded.claim(&id("s3")).await.unwrap();
    let more = append_of(&lease, turn(3, 9_000_000, "a third", &[]));
    embedded.append(Append { at: None, ..more }).await.unwrap();
    embedded.release(&lease).await.unwrap();
    assert_eq!(
        copy(&embedded, &postgres).await,
        CopyReport { copied: 1, unchanged: 19, ..CopyReport::default() }
    );
    let back_dir = tempfile::tempdir().unwrap();
    let back = EmbeddedStore::open(&paths(back_dir.path())).unwrap();
    assert_eq!(copy(&postgres, &back).await, all);
    for number in 0..20 {
        assert!(is_equal(&embedded, &back, &id(&format!("s{number}"))).await.unwrap());
    }
}

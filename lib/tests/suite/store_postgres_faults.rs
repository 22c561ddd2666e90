//! The store in PostgreSQL when connections break at chosen moments, other transactions are in the way, or nobody answers. Skipped, and
//! said so, unless `RETHREAD_TEST_POSTGRES` is set.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::store::postgres::PostgresStore;
use rethread::store::{DatabaseProblem, Lease, PruneTurn, Store, StoreError, TokenLedger as _, TokenRecord};
use rethread_core::Seq;
use rethread_testkit::postgres_server::PostgresServer;
use rethread_testkit::tcp_proxy::{CutMoment, ProxyMode, TcpProxy};

use crate::store::{append_of, entry, listed_session};
use crate::store_postgres::{append, id, open, texts};

/// A new database, a store that reaches it through a proxy, and one that does not.
struct Broken {
    server: &'static PostgresServer,
    name: String,
    proxy: TcpProxy,
    store: PostgresStore,
    beside: PostgresStore,
}

impl Broken {
    fn start() -> Option<Self> {
        let server = PostgresServer::shared()?;
        let name = server.new_database();
        let proxy = TcpProxy::to(server.port());
        let direct = server.url_of(&name);
        let (before, _) = direct.rsplit_once(':').unwrap();
        let store = open(&format!("{before}:{}/{name}", proxy.port()).parse().unwrap());
        let beside = open(&server.address_of(&name));
        Some(Self { server, name, proxy, store, beside })
    }

    async fn session(&self) -> Lease {
        self.store.create(listed_session("s", "/w", 1)).await.unwrap()
    }

    /// Has the next `failures` appends fail with this code of the database.
    fn fail_appends(&self, failures: usize, code: &str) {
        self.server.sql(
            &self.name,
            &format!(
                "CREATE SEQUENCE public.failures;
                 GRANT ALL ON SEQUENCE public.failures TO PUBLIC;
                 CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     IF nextval('public.failures') <= {failures} THEN
                         RAISE EXCEPTION 'made to fail' USING ERRCODE = '{code}';
                     END IF;
                     RETURN NEW;
                 END $$;
                 CREATE TRIGGER fail BEFORE UPDATE ON rethread.lease FOR EACH ROW EXECUTE FUNCTION public.fail();"
            ),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_whose_connection_is_cut_is_stored_once() {
    let Some(broken) = Broken::start() else { return };
    let mut lease = broken.session().await;
    let mut expected = Vec::new();
    for moment in [CutMoment::Before, CutMoment::Half, CutMoment::BeforeAnswer] {
        for number in 0..6 {
            let text = format!("{moment:?} {number}");
            if number % 2 == 1 {
                broken.proxy.cut_at(text.as_bytes(), moment);
            }
            append(&broken.store, &mut lease, &text).await.unwrap();
            expected.push(text);
        }
    }
    assert_eq!(broken.proxy.caught(), 9, "each cut has met its append");
    assert_eq!(texts(&broken.beside, "s").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_cut_again_and_again_lose_and_double_nothing() {
    let Some(broken) = Broken::start() else { return };
    let mut lease = broken.session().await;
    let proxy = Arc::new(broken.proxy);
    let cutting = {
        let proxy = proxy.clone();
        tokio::spawn(async move {
            // Long enough for a connection to be made and used on a busy machine.
            for pause in (0..).map(|round| 100 + 70 * (round % 5)) {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                proxy.cut();
            }
        })
    };
    for number in 0..150 {
        append(&broken.store, &mut lease, &number.to_string()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cutting.abort();
    let expected: Vec<String> = (0..150).map(|number: u32| number.to_string()).collect();
    assert_eq!(texts(&broken.beside, "s").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_ever_for_a_database_that_says_nothing() {
    let Some(broken) = Broken::start() else { return };
    let mut lease = broken.session().await;
    append(&broken.store, &mut lease, "before").await.unwrap();
    broken.proxy.set(ProxyMode::Silent);
    let began = Instant::now();
    let error = append(&broken.store, &mut lease, "in silence").await.unwrap_err();
    assert!(matches!(error, StoreError::Database { problem: DatabaseProblem::Unreachable, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(texts(&broken.beside, "s").await, ["before"]);
    broken.proxy.set(ProxyMode::Open);
    // What was sent into the silence may still arrive; the head says whether it has, and nothing comes between.
    let mut seen = Vec::new();
    for number in 0..20 {
        let head = broken.store.find(&id("s")).await.unwrap().unwrap().head;
        let sent = append_of(&Lease { head, ..lease.clone() }, vec![entry(&format!("after {number}"))]);
        match broken.store.append(sent).await {
            Ok(()) => seen.push(format!("after {number}")),
            Err(error) => assert!(matches!(error, StoreError::MovedOn { .. }), "{error}"),
        }
    }
    let mut found = texts(&broken.beside, "s").await;
    assert_eq!(found.remove(0), "before");
    found.retain(|text| text != "in silence");
    assert_eq!(found, seen);
    assert!(seen.len() >= 18, "work goes on: {seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_release_could_not_be_stored_is_free_when_the_database_is_back() {
    let Some(broken) = Broken::start() else { return };
    let lease = broken.session().await;
    broken.proxy.set(ProxyMode::Refusing);
    broken.proxy.cut();
    broken.store.release(&lease).await.unwrap_err();
    broken.proxy.set(ProxyMode::Open);
    let give_up = Instant::now() + Duration::from_secs(20);
    // Its host lives, so that its lease does not end.
    while broken.beside.claim(&id("s")).await.is_err() {
        assert!(Instant::now() < give_up, "it is released");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn serialization_failures_and_deadlocks_are_retried_within_a_bound() {
    for code in ["40001", "40P01"] {
        let Some(broken) = Broken::start() else { return };
        let mut lease = broken.session().await;
        broken.fail_appends(5, code);
        append(&broken.store, &mut lease, "at the sixth attempt").await.unwrap();
        assert_eq!(texts(&broken.store, "s").await, ["at the sixth attempt"]);
        broken.server.sql(&broken.name, "DROP FUNCTION public.fail CASCADE; DROP SEQUENCE public.failures");
        broken.fail_appends(1_000_000, code);
        let error = append(&broken.store, &mut lease, "never").await.unwrap_err();
        assert!(
            matches!(error, StoreError::Database { problem: DatabaseProblem::Contention, .. }),
            "{error}"
        );
        let tried = broken.server.sql(&broken.name, "SELECT last_value FROM public.failures");
        assert!(tried.parse::<u32>().unwrap() < 20, "tried {tried} times");
        assert_eq!(broken.store.find(&id("s")).await.unwrap().unwrap().head, Seq(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_hosts_one_does_the_daily_work() {
    let Some(server) = PostgresServer::shared() else { return };
    let address = server.database();
    let hosts: Vec<PostgresStore> = (0..4).map(|_| open(&address)).collect();
    for day in 1..4 {
        let asked = hosts.iter().map(|host| host.begin_pruning(day * 1000, day * 1000 - 500));
        let turns = futures::future::join_all(asked).await;
        let ours = turns.into_iter().filter(|turn| matches!(turn, Ok(PruneTurn::Ours))).count();
        assert_eq!(ours, 1, "day {day}");
    }
}

#[tokio::test]
async fn hosts_have_the_same_tokens() {
    let Some(server) = PostgresServer::shared() else { return };
    let name = server.new_database();
    // A store of before there were tokens in it.
    server.sql(&name, "DROP TABLE rethread.token; UPDATE rethread.store SET version = 1");
    let (a, b) = (open(&server.address_of(&name)), open(&server.address_of(&name)));
    let token = |id: &str, record: &str| TokenRecord { id: id.to_owned(), record: record.to_owned() };
    a.add_token(token("one", "{}")).await.unwrap();
    b.add_token(token("two", "{\"a\":\"\\u0000\"}")).await.unwrap();
    assert_eq!(a.tokens().await.unwrap(), [token("one", "{}"), token("two", "{\"a\":\"\\u0000\"}")]);
    assert_eq!(a.remove_token("two").await.unwrap().unwrap().id, "two");
    assert_eq!(b.remove_token("two").await.unwrap(), None);
    assert_eq!(b.tokens().await.unwrap(), [token("one", "{}")]);
}

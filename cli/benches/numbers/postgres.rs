//! Appends to a store in PostgreSQL: as fast as possible against pgbench with the same rows, and at the pace of models against
//! the embedded store; and what a session costs among few others and among many. Needs `RETHREAD_TEST_POSTGRES`, and is skipped without it.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::postgres::PostgresStore;
use rethread::store::{Append, Durability, Lease, ListQuery, NewSession, RowFacts, Store};
use rethread_core::{Entry, Seq, Update, UpdateKind};
use rethread_testkit::postgres_server::PostgresServer;
use serde_json::json;

use crate::disk;
use crate::figure::{Spread, number};
use crate::table::{Bound, Row};

/// The clients of pgbench, and as many sessions.
const CLIENTS: usize = 16;
/// The entries of an append, and the bytes of each.
const BATCH: usize = 16;
const ENTRY_BYTES: usize = 300;
const SECONDS: u64 = 5;
const ROUNDS: usize = 3;

/// A model writes about this many chunks in a second.
const CHUNKS_PER_SECOND: u64 = 50;
const PACED_SECONDS: u64 = 4;

/// How many sessions a database has when the cost of one is measured, and how often that is.
const FEW: usize = 1_000;
const MANY: usize = 100_000;
const COST_ROUNDS: u64 = 200;

/// Entries per second against pgbench, then entries per second and the latency of an append at model pace.
pub(crate) fn measure() -> Vec<Row> {
    let what = format!("postgres: {CLIENTS} sessions as fast as possible, against pgbench");
    let bound = Bound::AtLeast(0.5, "");
    // Commits are synced, as they have to be.
    let Some(server) = PostgresServer::own(&["fsync = on", "synchronous_commit = on"]) else {
        return vec![Row::skipped(what, "PostgreSQL is not used", bound)];
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let postgres: Arc<dyn Store> =
        Arc::new(PostgresStore::open(&server.database()).expect("the store opens"));
    prepare_pgbench(&server);
    let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let base = pgbench(&server);
        let own = runtime.block_on(at_full_speed(&postgres, round));
        ratios.push(own / base);
        ours.push(own);
        theirs.push(base);
    }
    let (ratio, own, base) = (Spread::of(&ratios), Spread::of(&ours), Spread::of(&theirs));
    let figure = format!(
        "{} of pgbench ({} and {} entries/s)",
        number(ratio.median),
        number(own.median),
        number(base.median)
    );
    let mut rows = vec![Row::new(what, figure, ratio.median, bound)];
    let folder = disk::folder();
    let paths =
        EmbeddedPaths { database: folder.path().join("rethread.db"), locks: folder.path().join("locks") };
    let embedded: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&paths).expect("the store opens"));
    for sessions in [1, 16, 200] {
        let own = runtime.block_on(at_model_pace(&postgres, sessions));
        let base = runtime.block_on(at_model_pace(&embedded, sessions));
        let what = format!("postgres: {sessions} sessions at model pace");
        let figure = format!(
            "{} entries/s, p99 of an append {} ms (embedded: {} entries/s, {} ms)",
            number(own.0),
            number(own.1),
            number(base.0),
            number(base.1),
        );
        rows.push(Row::new(what, figure, own.1, Bound::Information));
    }
    rows.extend(growth(&server, &runtime));
    rows
}

/// What a session costs among few others and among many, in milliseconds.
struct SessionCosts {
    turn_end: f64,
    claim: f64,
    list: f64,
}

fn growth(server: &PostgresServer, runtime: &tokio::runtime::Runtime) -> Vec<Row> {
    let [few, many] = [FEW, MANY].map(|count| {
        let name = server.new_database();
        fill(server, &name, count);
        let store = PostgresStore::open(&server.address_of(&name)).expect("the store opens");
        runtime.block_on(costs(&store))
    });
    let row = |what: &str, few: f64, many: f64| {
        let figure = format!("{} times ({} and {} ms)", number(many / few), number(many), number(few));
        let what = format!("postgres: {what} among {MANY} sessions, against {FEW}");
        Row::new(what, figure, many / few, Bound::AtMost(2.0, ""))
    };
    vec![
        row("an append that ends a turn", few.turn_end, many.turn_end),
        row("claim and release", few.claim, many.claim),
        row("a page of the list", few.list, many.list),
    ]
}

/// Puts sessions into a database that are not in use.
fn fill(server: &PostgresServer, name: &str, count: usize) {
    server.sql(
        name,
        &format!(
            "INSERT INTO rethread.session (id, made_by, cwd, agent, title, title_by, updated_at, listed, changed_in)
             SELECT 'old-' || n, gen_random_uuid(), '/work/' || n % 500, 'agent', 'title ' || n, 2, n, true, 0
             FROM generate_series(1, {count}) AS n;
             INSERT INTO rethread.lease (session, epoch, head, folded) SELECT key, 1, 10, 10 FROM rethread.session;
             INSERT INTO rethread.segment (session, first_seq, last_seq, length, checksum, items)
             SELECT key, 1, 10, 300, 0, repeat('x', 300)::bytea FROM rethread.session;
             INSERT INTO rethread.indexed (session, seq, turn, at) SELECT key, 10, 1, 0 FROM rethread.session"
        ),
    );
    server.sql(name, "VACUUM ANALYZE");
}

async fn costs(store: &dyn Store) -> SessionCosts {
    let mut lease = session(store, "new".to_owned()).await;
    let (mut turn_end, mut claim, mut list) = (Vec::new(), Vec::new(), Vec::new());
    let millis = |since: Instant| since.elapsed().as_secs_f64() * 1000.0;
    for round in 0..COST_ROUNDS {
        let began = Instant::now();
        append_at(store, &mut lease, vec![chunk()], Some(1_000_000 + round)).await;
        turn_end.push(millis(began));
        let began = Instant::now();
        store.release(&lease).await.expect("it is ours");
        lease = store.claim(&lease.session).await.expect("it is free");
        claim.push(millis(began));
        let began = Instant::now();
        let query = ListQuery { limit: 50, ..ListQuery::default() };
        assert_eq!(store.list(&query).await.expect("the list can be read").rows.len(), 50);
        list.push(millis(began));
    }
    let median = |times: &[f64]| Spread::of(times).median;
    SessionCosts { turn_end: median(&turn_end), claim: median(&claim), list: median(&list) }
}

fn prepare_pgbench(server: &PostgresServer) {
    server.sql(
        "postgres",
        "CREATE TABLE lease (sid bigint PRIMARY KEY, epoch bigint NOT NULL, head bigint NOT NULL) WITH (fillfactor = 50);
         CREATE TABLE tail (sid bigint, seq bigint, body bytea NOT NULL, PRIMARY KEY (sid, seq));
         INSERT INTO lease SELECT generate_series(0, 63), 1, 0",
    );
}

/// The entries per second of pgbench with the statement of an append.
fn pgbench(server: &PostgresServer) -> f64 {
    let script = format!(
        "WITH own AS (UPDATE lease SET head = head + {BATCH} WHERE sid = :client_id AND epoch = 1 RETURNING head)
         INSERT INTO tail (sid, seq, body) SELECT :client_id, own.head - {BATCH} + ord, b
         FROM own, unnest(array_fill(repeat('x', {ENTRY_BYTES})::bytea, ARRAY[{BATCH}])) WITH ORDINALITY AS t (b, ord);\n"
    )
    .replace('\n', " ")
        + "\n";
    let folder = disk::folder();
    let file = folder.path().join("append.sql");
    std::fs::write(&file, script).expect("the folder is writable");
    let url = server.superuser_url("postgres");
    let done = Command::new(server.programs().join("pgbench"))
        .args([
            "-n",
            "-M",
            "prepared",
            "-c",
            &CLIENTS.to_string(),
            "-j",
            "2",
            "-T",
            &SECONDS.to_string(),
            "-f",
        ])
        .arg(&file)
        .arg(url)
        .output()
        .expect("pgbench can be started");
    let said = String::from_utf8_lossy(&done.stdout);
    let tps =
        said.lines().find_map(|line| line.strip_prefix("tps = ")).and_then(|rest| rest.split(' ').next());
    let tps: f64 = tps
        .and_then(|tps| tps.parse().ok())
        .unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&done.stderr)));
    tps * BATCH as f64
}

fn chunk() -> Arc<Entry> {
    let body = json!({
        "sessionUpdate": "agent_message_chunk", "messageId": "m",
        "content": {"type": "text", "text": "x".repeat(ENTRY_BYTES - 120)},
    });
    let update = Update { kind: UpdateKind::AgentMessageChunk, id: "m".to_owned(), body: body.into() };
    Arc::new(Entry::Updated { update, known: true })
}

async fn session(store: &dyn Store, id: String) -> Lease {
    let new = NewSession {
        id: id.as_str().into(),
        cwd: "/w".to_owned(),
        agent: "agent".to_owned(),
        parent: None,
        entries: Vec::new(),
        facts: RowFacts::default(),
        snapshot: None,
        at: 1,
    };
    store.create(new).await.expect("a session can be created")
}

async fn append(store: &dyn Store, lease: &mut Lease, entries: Vec<Arc<Entry>>) {
    append_at(store, lease, entries, None).await;
}

async fn append_at(store: &dyn Store, lease: &mut Lease, entries: Vec<Arc<Entry>>, at: Option<u64>) {
    let count = entries.len() as u64;
    let append = Append {
        session: lease.session.clone(),
        epoch: lease.epoch,
        expected: lease.head,
        entries,
        facts: RowFacts::default(),
        durability: Durability::Process,
        at,
    };
    store.append(append).await.expect("an append is stored");
    lease.head = Seq(lease.head.0 + count);
}

/// The entries per second of as many sessions as pgbench has clients.
async fn at_full_speed(store: &Arc<dyn Store>, round: usize) -> f64 {
    let batch = vec![chunk(); BATCH];
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let (store, batch) = (store.clone(), batch.clone());
        let mut lease = session(&*store, format!("fast-{round}-{number}")).await;
        tasks.push(tokio::spawn(async move {
            let (began, mut entries) = (Instant::now(), 0);
            while began.elapsed() < Duration::from_secs(SECONDS) {
                append(&*store, &mut lease, batch.clone()).await;
                entries += BATCH;
            }
            entries
        }));
    }
    let began = Instant::now();
    let mut entries = 0;
    for task in tasks {
        entries += task.await.expect("a session works");
    }
    entries as f64 / began.elapsed().as_secs_f64()
}

/// The entries per second, and the 99th percentile of an append in milliseconds.
async fn at_model_pace(store: &Arc<dyn Store>, sessions: usize) -> (f64, f64) {
    static RUN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let run = RUN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut tasks = Vec::new();
    for number in 0..sessions {
        let store = store.clone();
        let mut lease = session(&*store, format!("paced-{run}-{number}")).await;
        tasks.push(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(1000 / CHUNKS_PER_SECOND));
            let (began, mut times) = (Instant::now(), Vec::new());
            while began.elapsed() < Duration::from_secs(PACED_SECONDS) {
                ticks.tick().await;
                let asked = Instant::now();
                append(&*store, &mut lease, vec![chunk()]).await;
                times.push(asked.elapsed().as_secs_f64() * 1000.0);
            }
            times
        }));
    }
    let began = Instant::now();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a session works"));
    }
    let speed = times.len() as f64 / began.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    (speed, times[times.len() * 99 / 100])
}

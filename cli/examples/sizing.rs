//! Simulates the appends of many hosts to one PostgreSQL primary, as the store makes them: a session has one append under way, what
//! arrives meanwhile goes with the next one, a host has a few connections, and a statement takes all that waits for its connection.
//! `docs/scale.md` has what it prints. Without arguments it uses the costs that were measured there:
//!
//!     cargo run --release -p rethread-cli --example sizing [COMMIT_MS ENTRY_MS]

#![expect(clippy::print_stdout, reason = "it is a program that prints a table")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// As `lib/src/store/postgres/writer.rs` has them.
const CONNECTIONS: usize = 4;
const FLIGHTS: usize = 2;
const MAX_APPENDS: usize = 256;

/// A model writes a chunk about every 20 ms.
const CHUNK_MICROS: u64 = 20_000;
/// From the host to the database and back, with what the host does.
const TRAVEL_MICROS: u64 = 500;
const SECONDS: u64 = 10;

/// What a statement costs the database: at its limit, 16 entries take `commit + 16 * entry`.
#[derive(Clone, Copy)]
struct Costs {
    commit_micros: f64,
    entry_micros: f64,
}

/// What happens next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A chunk of a session arrives.
    Chunk(usize),
    /// A statement is answered, by its number.
    Answered(usize),
}

#[derive(Clone, Default)]
struct Streaming {
    /// The entries that wait, and since when the oldest does.
    waiting: u64,
    since: u64,
    under_way: bool,
}

#[derive(Clone, Default)]
struct Connection {
    queue: VecDeque<usize>,
    flights: usize,
}

struct Statement {
    connection: usize,
    /// Each session with the time since when its oldest entry waited.
    appends: Vec<(usize, u64)>,
}

/// What was found.
struct Outcome {
    /// The share of time in which the database works.
    busy: f64,
    commits: f64,
    entries: f64,
    /// How long an entry takes from its arrival until it is stored, in milliseconds.
    half: f64,
    p99: f64,
}

struct Simulation {
    costs: Costs,
    sessions: Vec<Streaming>,
    connections: Vec<Connection>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    statements: Vec<Statement>,
    database_free: u64,
    worked: f64,
    commits: u64,
    entries: u64,
    latencies: Vec<u64>,
}

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<f64>().ok());
    let costs = Costs {
        commit_micros: words.next().map_or(145.0, |millis| millis * 1000.0),
        entry_micros: words.next().map_or(8.8, |millis| millis * 1000.0),
    };
    println!(
        "| streaming sessions | hosts | busy | commits/s | entries/s | entries per commit | half within | 99 % within |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (streaming, hosts) in
        [(50, 2), (200, 2), (500, 4), (1_000, 5), (2_000, 10), (3_000, 15), (4_000, 20), (5_000, 25)]
    {
        let found = Simulation::new(costs, streaming, hosts).run();
        println!(
            "| {streaming} | {hosts} | {:.0} % | {:.0} | {:.0} | {:.1} | {:.1} ms | {:.1} ms |",
            found.busy * 100.0,
            found.commits,
            found.entries,
            found.entries / found.commits,
            found.half,
            found.p99
        );
    }
}

impl Simulation {
    fn new(costs: Costs, streaming: usize, hosts: usize) -> Self {
        let mut events = BinaryHeap::new();
        for session in 0..streaming {
            // Spread evenly, in an order that has nothing to do with hosts.
            let first = (session as u64 * 7919) % CHUNK_MICROS;
            events.push(Reverse((first, Event::Chunk(session))));
        }
        Self {
            costs,
            sessions: vec![Streaming::default(); streaming],
            connections: vec![Connection::default(); hosts * CONNECTIONS],
            events,
            statements: Vec::new(),
            database_free: 0,
            worked: 0.0,
            commits: 0,
            entries: 0,
            latencies: Vec::new(),
        }
    }

    fn run(mut self) -> Outcome {
        let end = SECONDS * 1_000_000;
        while let Some(Reverse((now, event))) = self.events.pop() {
            if now > end {
                break;
            }
            match event {
                Event::Chunk(session) => self.chunk(session, now),
                Event::Answered(statement) => self.answered(statement, now),
            }
        }
        self.latencies.sort_unstable();
        let at = |share: f64| {
            let place = (self.latencies.len() as f64 * share) as usize;
            self.latencies.get(place).map_or(f64::NAN, |micros| *micros as f64 / 1000.0)
        };
        let seconds = SECONDS as f64;
        Outcome {
            busy: self.worked / 1e6 / seconds,
            commits: self.commits as f64 / seconds,
            entries: self.entries as f64 / seconds,
            half: at(0.5),
            p99: at(0.99),
        }
    }

    fn chunk(&mut self, session: usize, now: u64) {
        self.events.push(Reverse((now + CHUNK_MICROS, Event::Chunk(session))));
        let streaming = &mut self.sessions[session];
        if streaming.waiting == 0 {
            streaming.since = now;
        }
        streaming.waiting += 1;
        if !streaming.under_way {
            self.enqueue(session, now);
        }
    }

    /// Gives what waits of a session to its connection.
    fn enqueue(&mut self, session: usize, now: u64) {
        self.sessions[session].under_way = true;
        let connection = session % self.connections.len();
        self.connections[connection].queue.push_back(session);
        self.send(connection, now);
    }

    fn send(&mut self, connection: usize, now: u64) {
        let place = &mut self.connections[connection];
        if place.flights >= FLIGHTS || place.queue.is_empty() {
            return;
        }
        place.flights += 1;
        let count = place.queue.len().min(MAX_APPENDS);
        let sessions: Vec<usize> = place.queue.drain(..count).collect();
        let mut entries = 0;
        let appends = sessions.into_iter().map(|session| {
            let streaming = &mut self.sessions[session];
            entries += std::mem::take(&mut streaming.waiting);
            (session, streaming.since)
        });
        let statement = Statement { connection, appends: appends.collect() };
        let cost = self.costs.commit_micros + self.costs.entry_micros * entries as f64;
        let begins = self.database_free.max(now + TRAVEL_MICROS / 2);
        self.database_free = begins + cost as u64;
        self.worked += cost;
        self.commits += 1;
        self.entries += entries;
        self.statements.push(statement);
        let answered = Event::Answered(self.statements.len() - 1);
        self.events.push(Reverse((self.database_free + TRAVEL_MICROS / 2, answered)));
    }

    fn answered(&mut self, statement: usize, now: u64) {
        let appends = std::mem::take(&mut self.statements[statement].appends);
        let connection = self.statements[statement].connection;
        self.connections[connection].flights -= 1;
        for (session, since) in appends {
            self.latencies.push(now - since);
            self.sessions[session].under_way = false;
            if self.sessions[session].waiting > 0 {
                self.enqueue(session, now);
            }
        }
        self.send(connection, now);
    }
}

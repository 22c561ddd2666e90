//! The official conductor without proxies in place of rethread: the cost of the same chunks and the same round trip. It
//! is not a dependency: it is measured if it is found, by `RETHREAD_BENCH_CONDUCTOR` or where `.ci/conductor` installs
//! it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Row;
use crate::agent::word;
use crate::client::{Client, prompt};
use crate::meter::{median, processor_time};

const CHUNKS: usize = 20_000;
const ROUNDS: usize = 3;
const PROMPTS: usize = 400;

const COST: &str = "processor time per chunk, official conductor with no proxies against rethread";
const ROUND_TRIP: &str = "prompt round trip p50 against the conductor";

/// Both ratios, or a skipped row.
pub(crate) fn measure() -> Vec<Row> {
    match found() {
        Some(program) => vec![cost(&program), round_trip(&program)],
        None => vec![Row::skipped(COST, ">= 30"), Row::skipped(ROUND_TRIP, "<= 0.7")],
    }
}

fn found() -> Option<PathBuf> {
    let named = std::env::var_os("RETHREAD_BENCH_CONDUCTOR").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let installed = cache.map(|cache| cache.join("rethread-bench/bin/agent-client-protocol-conductor"));
    named.or(installed).filter(|program| program.is_file())
}

fn cost(program: &Path) -> Row {
    let expected: String = (0..CHUNKS).map(word).collect();
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(per_chunk(Client::through_conductor(program), &expected));
        let home = tempfile::tempdir().expect("a folder can be made");
        ours.push(per_chunk(Client::through_rethread(home.path()), &expected));
    }
    let (theirs, ours) = (median(theirs), median(ours));
    let ratio = theirs / ours;
    Row::new(COST, format!("{ratio:.0} ({theirs:.1} us against {ours:.2} us)"), ">= 30", ratio >= 30.0)
}

/// Microseconds of processor time.
fn per_chunk(mut client: Client, expected: &str) -> f64 {
    let session = client.new_session();
    let before = processor_time(client.process.id());
    client.send("session/prompt", &prompt(&session, &CHUNKS.to_string()));
    let (_, text) = client.answer();
    let cost = processor_time(client.process.id()) - before;
    assert!(text == expected, "{} of {} bytes arrived", text.len(), expected.len());
    client.end();
    cost as f64 / CHUNKS as f64 / 1e3
}

fn round_trip(program: &Path) -> Row {
    let home = tempfile::tempdir().expect("a folder can be made");
    let mut clients = [Client::through_conductor(program), Client::through_rethread(home.path())];
    let sessions = clients.each_mut().map(Client::new_session);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..PROMPTS {
        for ((client, session), times) in clients.iter_mut().zip(&sessions).zip(&mut times) {
            let began = Instant::now();
            client.request("session/prompt", &prompt(session, "1"));
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    clients.into_iter().for_each(Client::end);
    let [theirs, ours] = times.map(median);
    let ratio = ours / theirs;
    Row::new(ROUND_TRIP, format!("{ratio:.2} ({ours:.0} us against {theirs:.0} us)"), "<= 0.7", ratio <= 0.7)
}

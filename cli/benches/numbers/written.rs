//! The bytes that are written to disk for each chunk at the pace of a language model, until the program has ended:
//! folds and checkpoints are included.

use std::thread;
use std::time::{Duration, Instant};

use crate::agent::Turn;
use crate::client::Client;
use crate::disk;
use crate::figure::Spread;
use crate::meter::{has_ended, written_bytes};
use crate::table::{Bound, Row};

const WHAT: &str = "one chunk every 2 ms: bytes written to disk per chunk of 8 bytes of text, over 20 s";
const BOUND: Bound = Bound::AtMost(400.0, "bytes");
const PAUSE: Duration = Duration::from_millis(2);
const CHUNKS: usize = 9_600;
/// Processes that are measured at the same time, each with a store of its own: bytes do not depend on the load.
const PROCESSES: usize = 3;
/// How long a process must write nothing to count as idle.
const QUIET: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(20);

/// The bytes per chunk.
pub(crate) fn measure() -> Vec<Row> {
    if !disk::counts_writes(disk::place()) {
        return vec![Row::skipped(WHAT, "no folder whose writes are counted", BOUND)];
    }
    let written = thread::scope(|scope| {
        let runs = [(); PROCESSES].map(|()| scope.spawn(run));
        runs.map(|run| run.join().expect("the run does not fail"))
    });
    vec![Row::spread(WHAT, Spread::of(&written), BOUND)]
}

fn run() -> f64 {
    let home = disk::folder();
    let mut client = Client::through_rethread(home.path());
    let session = client.new_session();
    let pid = client.process.id();
    wait_until_idle(pid);
    let before = written_bytes(pid);
    let text = client.turn(&session, &Turn::Paced { chunks: CHUNKS, pause: PAUSE });
    assert_eq!(text.len(), CHUNKS * 8, "all chunks arrived");
    wait_until_idle(pid);
    client.hang_up();
    let began = Instant::now();
    while !has_ended(pid) {
        assert!(began.elapsed() < LIMIT, "the program ends with its input");
        thread::sleep(Duration::from_millis(10));
    }
    let written = written_bytes(pid) - before;
    client.end();
    written as f64 / CHUNKS as f64
}

fn wait_until_idle(pid: u32) {
    let began = Instant::now();
    let (mut written, mut since) = (written_bytes(pid), Instant::now());
    while since.elapsed() < QUIET {
        assert!(began.elapsed() < LIMIT, "an idle program stops writing");
        thread::sleep(Duration::from_millis(100));
        let now = written_bytes(pid);
        if now != written {
            (written, since) = (now, Instant::now());
        }
    }
}

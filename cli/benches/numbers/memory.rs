//! A client that stops reading for 1,000,000 chunks: the memory of rethread meanwhile. The client gets everything
//! afterwards.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::agent::{Turn, word};
use crate::client::Client;
use crate::disk;
use crate::figure::Spread;
use crate::meter::peak_memory;
use crate::table::{Bound, Row};

const CHUNKS: usize = 1_000_000;
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(120);

/// The peak memory while the client does not read.
pub(crate) fn measure() -> Vec<Row> {
    let expected: String = (0..CHUNKS).map(word).collect();
    let peaks: Vec<_> = (0..ROUNDS).map(|_| round(&expected)).collect();
    let what = format!("resident memory, client that stops reading for {CHUNKS} chunks");
    vec![Row::spread(what, Spread::of(&peaks), Bound::AtMost(20.0, "MiB"))]
}

/// MiB.
fn round(expected: &str) -> f64 {
    let home = disk::folder();
    let file = home.path().join("agent-is-done");
    let mut client = Client::through_rethread(home.path());
    let session = client.new_session();
    client.send_turn(&session, &Turn::FloodThenFile { chunks: CHUNKS, file: file.clone() });
    wait_for(&file);
    let peak = peak_memory(client.process.id());
    let (_, text) = client.answer();
    client.end();
    assert!(text == expected, "{} of {} bytes arrived", text.len(), expected.len());
    peak as f64 / 1024.0
}

fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < LIMIT, "the agent does not wait for a client that does not read");
        std::thread::sleep(Duration::from_millis(20));
    }
}

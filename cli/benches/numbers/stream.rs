//! 200,000 chunks through rethread with SQLite, compared with the same agent alone.

use std::time::Instant;

use crate::Row;
use crate::agent::word;
use crate::client::{Client, prompt};
use crate::meter::{median, processor_time};

const CHUNKS: usize = 200_000;
const ROUNDS: usize = 3;

/// Processor time per chunk and throughput.
pub(crate) fn measure() -> Vec<Row> {
    let expected: String = (0..CHUNKS).map(word).collect();
    let (mut per_chunk, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let alone = round(Client::direct(), &expected).0;
        let home = tempfile::tempdir().expect("a folder can be made");
        let (through, cost) = round(Client::through_rethread(home.path()), &expected);
        per_chunk.push(cost / CHUNKS as f64 / 1000.0);
        ratios.push(alone / through);
    }
    let (cost, ratio) = (median(per_chunk), median(ratios));
    vec![
        Row::new(
            format!("processor time per chunk, {CHUNKS} chunks, all text arrived"),
            format!("{cost:.2} us"),
            "<= 3 us",
            cost <= 3.0,
        ),
        Row::new(
            "throughput against the same agent alone, line by line",
            format!("{ratio:.2}"),
            ">= 0.30",
            ratio >= 0.30,
        ),
    ]
}

/// Seconds and processor nanoseconds for one turn.
fn round(mut client: Client, expected: &str) -> (f64, f64) {
    let session = client.new_session();
    let pid = client.process.id();
    let (began, before) = (Instant::now(), processor_time(pid));
    client.send("session/prompt", &prompt(&session, &CHUNKS.to_string()));
    let (_, text) = client.answer();
    let seconds = began.elapsed().as_secs_f64();
    let cost = processor_time(pid) - before;
    assert!(text == expected, "{} of {} bytes arrived", text.len(), expected.len());
    client.end();
    (seconds, cost as f64)
}

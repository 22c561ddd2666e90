//! 200,000 chunks as fast as they come, compared with the same agent alone.

use std::time::Instant;

use crate::agent::{Turn, word};
use crate::client::Client;
use crate::disk;
use crate::figure::{Pair, Spread};
use crate::meter::{processor_time, processor_time_since};
use crate::table::{Bound, Row};

const CHUNKS: usize = 200_000;
const ROUNDS: usize = 5;

/// Processor time per chunk and throughput.
pub(crate) fn measure() -> Vec<Row> {
    let expected: String = (0..CHUNKS).map(word).collect();
    let (mut costs, mut throughput) = (Vec::new(), Pair::default());
    for _ in 0..ROUNDS {
        let alone = round(Client::direct(), &expected).0;
        let home = disk::folder();
        let (through, cost) = round(Client::through_rethread(home.path()), &expected);
        costs.push(cost / CHUNKS as f64);
        let per_millisecond = |seconds: f64| CHUNKS as f64 / seconds / 1e3;
        throughput.push(per_millisecond(through), Some(per_millisecond(alone)));
    }
    vec![
        Row::spread(
            format!("{CHUNKS} chunks as fast as they come: processor time per chunk"),
            Spread::of(&costs),
            Bound::AtMost(1.0, "us"),
        ),
        Row::ratio(
            format!("{CHUNKS} chunks as fast as they come: throughput against the agent alone"),
            &throughput,
            "chunks/ms",
            Bound::AtLeast(0.5, ""),
        ),
    ]
}

/// Seconds and microseconds of processor time for one turn.
fn round(mut client: Client, expected: &str) -> (f64, f64) {
    let session = client.new_session();
    let pid = client.process.id();
    let (began, before) = (Instant::now(), processor_time(pid));
    let text = client.turn(&session, &Turn::Flood { chunks: CHUNKS });
    let seconds = began.elapsed().as_secs_f64();
    let cost = processor_time_since(pid, before);
    assert!(text == expected, "{} of {} bytes arrived", text.len(), expected.len());
    client.end();
    (seconds, cost)
}

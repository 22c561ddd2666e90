//! Chunks at the pace of a language model, one at a time: the processor time per chunk, and the time that passes between
//! the agent's write and the client's read. The bases are the conductor and the bare hop.

use std::path::Path;
use std::time::Duration;

use crate::agent::{Turn, since_stamps};
use crate::client::Client;
use crate::figure::{Pair, median};
use crate::meter::{processor_time, processor_time_since};
use crate::table::{Bound, Row};
use crate::{conductor, disk};

const ROUNDS: usize = 5;
/// The pauses in milliseconds, with the number of chunks of a round and the bound for the added time.
const PACES: [(u64, usize, Bound); 2] = [(2, 1_000, Bound::AtMost(0.5, "")), (10, 250, Bound::Information)];

/// Processor time and added time at each pace.
pub(crate) fn measure() -> Vec<Row> {
    let conductor = conductor::find();
    PACES
        .into_iter()
        .flat_map(|(pause, chunks, added)| at(pause, chunks, added, conductor.as_deref()))
        .collect()
}

/// The figures of one turn, in microseconds.
struct Sample {
    processor_time: f64,
    /// The median time between write and read.
    delay: f64,
}

/// Our figures and those of one base.
#[derive(Default)]
struct Against {
    processor_time: Pair,
    added: Pair,
}

impl Against {
    fn push(&mut self, ours: &Sample, base: Option<&Sample>, alone: &Sample) {
        self.processor_time.push(ours.processor_time, base.map(|base| base.processor_time));
        self.added.push(ours.delay - alone.delay, base.map(|base| base.delay - alone.delay));
    }
}

fn at(pause: u64, chunks: usize, added: Bound, conductor: Option<&Path>) -> [Row; 4] {
    let turn = Turn::Paced { chunks, pause: Duration::from_millis(pause) };
    let (mut official, mut hop) = (Against::default(), Against::default());
    for _ in 0..ROUNDS {
        let folder = disk::folder();
        let alone = sample(Client::direct(), &turn, chunks);
        let bare = sample(Client::through_hop(&folder.path().join("journal")), &turn, chunks);
        let theirs = conductor.map(|program| sample(Client::through_conductor(program), &turn, chunks));
        let ours = sample(Client::through_rethread(folder.path()), &turn, chunks);
        official.push(&ours, theirs.as_ref(), &alone);
        hop.push(&ours, Some(&bare), &alone);
    }
    let cost = format!("one chunk every {pause} ms: processor time per chunk against the");
    let delay = format!("one chunk every {pause} ms: time added between write and read, p50, against the");
    [
        Row::ratio(format!("{cost} conductor"), &official.processor_time, "us", Bound::AtMost(0.4, "")),
        Row::ratio(format!("{cost} bare hop"), &hop.processor_time, "us", Bound::Information),
        Row::ratio(format!("{delay} conductor"), &official.added, "us", added),
        Row::ratio(format!("{delay} bare hop"), &hop.added, "us", Bound::Information),
    ]
}

fn sample(mut client: Client, turn: &Turn, chunks: usize) -> Sample {
    let session = client.new_session();
    let pid = client.process.id();
    let before = processor_time(pid);
    client.send_turn(&session, turn);
    let mut delays = Vec::with_capacity(chunks);
    client.read_turns(1, |text| delays.extend(since_stamps(text).map(|time| time.as_secs_f64() * 1e6)));
    let processor_time = processor_time_since(pid, before) / chunks as f64;
    client.end();
    assert_eq!(delays.len(), chunks, "all chunks arrived");
    Sample { processor_time, delay: median(&delays) }
}

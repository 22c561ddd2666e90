//! 100 sessions in one process that stream 50 chunks a second each: the share of a processor core, and the time added
//! to each chunk.

use std::time::{Duration, Instant};

use crate::agent::{Turn, since_stamps};
use crate::client::Client;
use crate::disk;
use crate::figure::{Spread, percentile};
use crate::meter::{processor_time, processor_time_since};
use crate::table::{Bound, Row};

const SESSIONS: usize = 100;
const ROUNDS: usize = 3;
const PAUSE: Duration = Duration::from_millis(20);
const CHUNKS: usize = 200;
/// The part of a round in which all sessions stream.
const FROM: Duration = Duration::from_millis(700);
const UPTO: Duration = Duration::from_millis(3_200);

/// The share and the added time.
pub(crate) fn measure() -> Vec<Row> {
    let (mut shares, mut median, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let alone = round(Client::direct());
        let home = disk::folder();
        let ours = round(Client::through_rethread(home.path()));
        shares.push(ours.share);
        median.push(ours.delay(0.5) - alone.delay(0.5));
        late.push(ours.delay(0.95) - alone.delay(0.95));
    }
    let what = format!("{SESSIONS} sessions in one process, 50 chunks a second each:");
    let added = |name, times: &[f64]| {
        let spread = Spread::of(times);
        let what = format!("{what} time added between write and read, {name}");
        Row::new(what, spread.text("us"), spread.median, Bound::Information)
    };
    vec![
        Row::spread(format!("{what} share of a core"), Spread::of(&shares), Bound::AtMost(0.3, "")),
        added("p50", &median),
        added("p95", &late),
    ]
}

struct Round {
    share: f64,
    delays: Vec<f64>,
}

impl Round {
    fn delay(&self, share: f64) -> f64 {
        percentile(&self.delays, share)
    }
}

fn round(mut client: Client) -> Round {
    let sessions: Vec<_> = (0..SESSIONS).map(|_| client.new_session()).collect();
    let pid = client.process.id();
    for session in &sessions {
        client.send_turn(session, &Turn::Paced { chunks: CHUNKS, pause: PAUSE });
    }
    let began = Instant::now();
    let (mut first, mut last) = (None, None);
    let (mut chunks, mut delays) = (0, Vec::new());
    client.read_turns(SESSIONS, |text| {
        let at = began.elapsed();
        chunks += text.len() / 8;
        if at >= FROM && at < UPTO {
            first.get_or_insert_with(|| (at, processor_time(pid)));
            delays.extend(since_stamps(text).map(|time| time.as_secs_f64() * 1e6));
        } else if let (Some((_, before)), None) = (first, last) {
            last = Some((at, processor_time_since(pid, before)));
        }
    });
    client.end();
    assert_eq!(chunks, SESSIONS * CHUNKS, "all chunks arrived");
    let ((from, _), (upto, spent)) = first.zip(last).expect("the sessions stream for longer than that");
    let seconds = (upto - from).as_secs_f64();
    // On a busy machine the agent sends less than it should.
    let sent = delays.len() as f64 * PAUSE.as_secs_f64() / SESSIONS as f64 / seconds;
    Round { share: spent / 1e6 / seconds / sent, delays }
}

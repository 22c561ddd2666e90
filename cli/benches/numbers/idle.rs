//! The memory cost of an idle open session.

use crate::client::Client;
use crate::disk;
use crate::figure::Spread;
use crate::meter::memory;
use crate::table::{Bound, Row};

const SESSIONS: usize = 1_000;
const ROUNDS: usize = 3;

/// The memory per session.
pub(crate) fn measure() -> Vec<Row> {
    let each: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
    let what = format!("{SESSIONS} open idle sessions, memory of each");
    vec![Row::spread(what, Spread::of(&each), Bound::AtMost(30.0, "KiB"))]
}

/// KiB.
fn round() -> f64 {
    let home = disk::folder();
    let mut client = Client::through_rethread(home.path());
    client.new_session();
    let before = memory(client.process.id());
    for _ in 0..SESSIONS {
        client.new_session();
    }
    let grown = memory(client.process.id()).saturating_sub(before);
    client.end();
    grown as f64 / SESSIONS as f64
}

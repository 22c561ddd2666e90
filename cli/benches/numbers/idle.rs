//! The memory cost of an idle open session.

use crate::Row;
use crate::client::Client;
use crate::meter::memory;

const SESSIONS: usize = 1_000;

/// The memory per session.
pub(crate) fn measure() -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder can be made");
    let mut client = Client::through_rethread(home.path());
    client.new_session();
    let before = memory(client.process.id());
    for _ in 0..SESSIONS {
        client.new_session();
    }
    let each = memory(client.process.id()).saturating_sub(before) as f64 / SESSIONS as f64;
    client.end();
    vec![Row::new(
        format!("{SESSIONS} open idle sessions, each"),
        format!("{each:.1} KiB"),
        "<= 50 KiB",
        each <= 50.0,
    )]
}

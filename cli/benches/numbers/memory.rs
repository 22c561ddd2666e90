//! A client that stops reading for 1,000,000 chunks: the memory of rethread meanwhile, and whether the client gets
//! everything afterwards.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Row;
use crate::agent::word;
use crate::client::{Client, prompt};
use crate::meter::peak_memory;

const CHUNKS: usize = 1_000_000;
const LIMIT: Duration = Duration::from_secs(120);

/// The peak memory while the client does not read.
pub(crate) fn measure() -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder can be made");
    let done = home.path().join("agent-is-done");
    let mut client = Client::through_rethread(home.path());
    let session = client.new_session();
    let text = format!("{CHUNKS} {}", done.display());
    client.send("session/prompt", &prompt(&session, &text));
    wait_for(&done);
    let peak = peak_memory(client.process.id());
    let (_, text) = client.answer();
    let expected: String = (0..CHUNKS).map(word).collect();
    let all = text == expected;
    let after = peak_memory(client.process.id());
    client.end();
    let (peak, after) = (peak as f64 / 1024.0, after as f64 / 1024.0);
    vec![
        Row::new(
            format!("resident memory, client stopped reading for {CHUNKS} chunks"),
            format!("{peak:.1} MiB ({after:.1} MiB once it has read on)"),
            "<= 32 MiB",
            peak <= 32.0,
        ),
        Row::new("it gets everything once it reads on", format!("{} bytes", text.len()), "all", all),
    ]
}

fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < LIMIT, "the agent was held up by a client that does not read");
        std::thread::sleep(Duration::from_millis(20));
    }
}

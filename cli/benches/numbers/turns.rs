//! The cost of the length of a session: replaying 1,000 turns compared with `cat` of the same bytes, and forking a long
//! session compared with a short one.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Row;
use crate::client::{Client, prompt};
use crate::meter::median;

const TURNS: usize = 1_000;
const FEW: usize = 4;
const ROUNDS: usize = 15;

/// Both ratios, over the wire.
pub(crate) fn measure() -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder can be made");
    let mut client = Client::through_rethread(home.path());
    let [long, short] = [TURNS, FEW].map(|turns| {
        let session = client.new_session();
        for _ in 0..turns {
            client.request("session/prompt", &prompt(&session, "20"));
        }
        session
    });
    let fork = fork(&mut client, &long, &short);
    client.end();
    vec![replay(home.path(), &long), fork]
}

fn replay(home: &Path, session: &str) -> Row {
    let params = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let copy = home.join("replayed");
    let (mut alone, mut replayed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut client = Client::through_rethread(home);
        let began = Instant::now();
        client.send("session/load", &params);
        let bytes = client.bytes_up_to_the_answer();
        replayed.push(began.elapsed().as_secs_f64() * 1e3);
        client.end();
        std::fs::write(&copy, bytes).expect("the bench has a folder for it");
        let mut cat = Client::of_cat(&copy);
        let began = Instant::now();
        let read = cat.all_bytes();
        alone.push(began.elapsed().as_secs_f64() * 1e3);
        assert!(read > TURNS * 100, "it was a replay");
        cat.end();
    }
    let (alone, replayed) = (median(alone), median(replayed));
    let ratio = alone / replayed;
    Row::new(
        format!("replay of {TURNS} turns against `cat` of the same bytes"),
        format!("{ratio:.2} ({replayed:.1} ms against {alone:.1} ms)"),
        ">= 0.5",
        ratio >= 0.5,
    )
}

fn fork(client: &mut Client, long: &str, short: &str) -> Row {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS * 4 {
        for (session, times) in [long, short].into_iter().zip(&mut times) {
            let began = Instant::now();
            let answer =
                client.request("session/fork", &json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
            times.push(began.elapsed().as_secs_f64() * 1e6);
            let fork = answer["result"]["sessionId"].as_str().map(str::to_owned);
            let fork: Value = json!({"sessionId": fork.expect("a fork has an id")});
            client.request("session/close", &fork);
        }
    }
    let [long, short] = times.map(median);
    let ratio = long / short;
    Row::new(
        format!("fork of a session of {TURNS} turns against one of {FEW}"),
        format!("{ratio:.2} ({long:.0} us against {short:.0} us)"),
        "<= 1.5",
        ratio <= 1.5,
    )
}

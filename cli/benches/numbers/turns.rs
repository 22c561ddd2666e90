//! The cost of the length of a session: replaying 1,000 turns compared with `cat` of the same bytes, and forking a session
//! of 100,000 entries compared with one of 100.

use std::path::Path;
use std::time::Instant;

use serde_json::json;

use crate::agent::Turn;
use crate::client::Client;
use crate::disk;
use crate::figure::{Pair, median};
use crate::table::{Bound, Row};

const TURNS: usize = 1_000;
/// The replays and the forks of a round.
const REPLAYS: usize = 7;
const FORKS: usize = 20;
/// The messages of a turn. Each is an entry of its own, because chunks of different messages are not joined.
const MESSAGES: usize = 100;
/// The turns of the long session that is forked; the short one has one.
const LONG: usize = 1_000;
const ROUNDS: usize = 5;

/// Both ratios.
pub(crate) fn measure() -> Vec<Row> {
    vec![replay(), fork()]
}

fn replay() -> Row {
    let home = disk::folder();
    let session = make(home.path(), TURNS, &Turn::Flood { chunks: 20 });
    let copy = home.path().join("replayed");
    let mut speed = Pair::default();
    for _ in 0..ROUNDS {
        let (mut replayed, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..REPLAYS {
            let (bytes, seconds) = load(home.path(), &session);
            assert!(bytes.len() > TURNS * 100, "it was a replay");
            let megabytes = bytes.len() as f64 / 1e6;
            replayed.push(megabytes / seconds);
            std::fs::write(&copy, bytes).expect("the bench has a folder for it");
            alone.push(megabytes / cat(&copy));
        }
        speed.push(median(&replayed), Some(median(&alone)));
    }
    let what = format!("replay of {TURNS} turns: speed against `cat` of the same bytes");
    Row::ratio(what, &speed, "MB/s", Bound::AtLeast(0.5, ""))
}

/// How many seconds `cat` takes for a file.
fn cat(file: &Path) -> f64 {
    let mut cat = Client::of_cat(file);
    let began = Instant::now();
    assert!(cat.all_bytes() > 0, "the file is not empty");
    let seconds = began.elapsed().as_secs_f64();
    cat.end();
    seconds
}

/// Makes a session of several turns.
pub(crate) fn make(home: &Path, turns: usize, turn: &Turn) -> String {
    let mut client = Client::through_rethread(home);
    let session = client.new_session();
    for _ in 0..turns {
        client.turn(&session, turn);
    }
    client.end();
    session
}

/// What a replay consists of, and how many seconds it takes.
fn load(home: &Path, session: &str) -> (Vec<u8>, f64) {
    let mut client = Client::through_rethread(home);
    let began = Instant::now();
    client.send("session/load", &json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    let bytes = client.bytes_up_to_the_answer();
    let seconds = began.elapsed().as_secs_f64();
    client.end();
    (bytes, seconds)
}

fn fork() -> Row {
    let home = disk::folder();
    let turn = Turn::Messages { count: MESSAGES };
    let long = make(home.path(), LONG, &turn);
    let entries = load(home.path(), &long).0.iter().filter(|byte| **byte == b'\n').count();
    assert!(entries >= LONG * MESSAGES, "each message is an entry: {entries}");
    let short = make(home.path(), 1, &turn);
    let mut client = Client::through_rethread(home.path());
    for session in [&long, &short] {
        client.request("session/resume", &json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    }
    let mut pair = Pair::default();
    for _ in 0..ROUNDS {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..FORKS {
            for (session, times) in [&long, &short].into_iter().zip(&mut times) {
                times.push(time_of_fork(&mut client, session));
            }
        }
        let [long, short] = times.map(|times| median(&times));
        pair.push(long, Some(short));
    }
    client.end();
    let what = format!("fork of a session of {} entries against one of {MESSAGES}", LONG * MESSAGES);
    Row::ratio(what, &pair, "us", Bound::AtMost(1.5, ""))
}

/// Microseconds.
fn time_of_fork(client: &mut Client, session: &str) -> f64 {
    let began = Instant::now();
    let answer = client.request("session/fork", &json!({"sessionId": session, "cwd": "/", "mcpServers": []}));
    let time = began.elapsed().as_secs_f64() * 1e6;
    let fork = answer["result"]["sessionId"].as_str().expect("a fork has an id");
    client.request("session/close", &json!({"sessionId": fork}));
    time
}

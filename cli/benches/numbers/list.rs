//! The cost of a list page of 50 among 100,000 sessions, compared with 1,000. The sessions are those that the agent lists
//! as its own.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::folder_of;
use crate::client::Client;
use crate::disk;
use crate::figure::{Pair, median};
use crate::table::{Bound, Row};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
const PAGE: usize = 50;
const ROUNDS: usize = 5;
const PAGES: usize = 60;
const LIMIT: Duration = Duration::from_secs(60);

/// The ratios.
pub(crate) fn measure() -> Vec<Row> {
    let homes = [FEW, MANY].map(|_| disk::folder());
    let mut clients = [(FEW, &homes[0]), (MANY, &homes[1])]
        .map(|(count, home)| Client::with_listed_sessions(home.path(), count));
    for (client, count) in clients.iter_mut().zip([FEW, MANY]) {
        wait_for_sessions(client, count);
    }
    let queries = [("all folders", json!({})), ("one folder", json!({"cwd": folder_of(7)}))];
    let rows = queries.map(|(what, params)| {
        let what = format!("list page of {PAGE} among {MANY} sessions against among {FEW}, {what}");
        Row::ratio(what, &compare(&mut clients, &params), "us", Bound::AtMost(2.0, ""))
    });
    clients.into_iter().for_each(Client::end);
    rows.into()
}

fn compare(clients: &mut [Client; 2], params: &Value) -> Pair {
    let mut pair = Pair::default();
    for _ in 0..ROUNDS {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..PAGES {
            for (client, times) in clients.iter_mut().zip(&mut times) {
                let began = Instant::now();
                let sessions = list(client, params);
                times.push(began.elapsed().as_secs_f64() * 1e6);
                assert_eq!(sessions.len(), PAGE, "a full page");
            }
        }
        let [few, many] = times.map(|times| median(&times));
        pair.push(many, Some(few));
    }
    pair
}

fn list(client: &mut Client, params: &Value) -> Vec<Value> {
    let mut page = client.request("session/list", params);
    let Value::Array(sessions) = page["result"]["sessions"].take() else {
        panic!("a list has sessions: {page}")
    };
    sessions
}

/// Waits until the newest session of the agent is listed; the agent lists it last.
fn wait_for_sessions(client: &mut Client, count: usize) {
    let newest = format!("session-{:08}", count - 1);
    let began = Instant::now();
    while list(client, &json!({})).first().is_none_or(|first| first["sessionId"] != newest.as_str()) {
        assert!(began.elapsed() < LIMIT, "the agent's sessions are listed");
        thread::sleep(Duration::from_millis(50));
    }
}

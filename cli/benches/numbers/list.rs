//! The cost of a list page of 50 among 100,000 sessions, compared with 1,000.

use std::path::Path;
use std::time::Instant;

use rethread::store::sqlite::{SqlitePaths, SqliteStore};
use rethread::store::{Listed, NewSession, RowFacts, Store};
use rethread_core::TitleSource;
use serde_json::json;

use crate::Row;
use crate::client::Client;
use crate::meter::median;

const FEW: usize = 1_000;
const MANY: usize = 100_000;
const ROUNDS: usize = 200;

/// The ratio, over the wire.
pub(crate) fn measure() -> Vec<Row> {
    let homes = [FEW, MANY].map(|count| {
        let home = tempfile::tempdir().expect("a folder can be made");
        fill(home.path(), count);
        home
    });
    let mut clients = [0, 1].map(|at| Client::through_rethread(homes[at].path()));
    let mut rows = Vec::new();
    for (what, params) in [("all folders", json!({})), ("one folder", json!({"cwd": "/work/7"}))] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (client, times) in clients.iter_mut().zip(&mut times) {
                let began = Instant::now();
                let page = client.request("session/list", &params);
                times.push(began.elapsed().as_secs_f64() * 1e6);
                let listed = page["result"]["sessions"].as_array().map_or(0, Vec::len);
                assert_eq!(listed, 50, "a full page");
            }
        }
        let [few, many] = times.map(median);
        let ratio = many / few;
        rows.push(Row::new(
            format!("list page of 50 among {MANY} against among {FEW}, {what}"),
            format!("{ratio:.2} ({many:.0} us against {few:.0} us)"),
            "<= 2",
            ratio <= 2.0,
        ));
    }
    clients.into_iter().for_each(Client::end);
    rows
}

fn fill(home: &Path, count: usize) {
    let paths = SqlitePaths { database: home.join("rethread.db"), locks: home.join("state").join("locks") };
    let store = SqliteStore::open(&paths).expect("a new store opens");
    for number in 0..count {
        let facts = RowFacts {
            title: Some((format!("session {number}"), TitleSource::Prompt)),
            listed: Some(Listed),
            ..RowFacts::default()
        };
        let new = NewSession {
            id: format!("session-{number:08}").as_str().into(),
            // Few enough folders that one of them fills a page even in the small store.
            cwd: format!("/work/{}", number % 16),
            agent: "bench".to_owned(),
            parent: None,
            entries: Vec::new(),
            facts,
            snapshot: None,
            at: number as u64,
        };
        store.create(new).expect("there is room");
    }
}

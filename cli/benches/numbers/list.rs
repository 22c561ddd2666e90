//! The cost of a list page of 50 among 100,000 sessions, compared with 1,000.

use std::path::Path;
use std::time::Instant;

use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::{Store, Stub};
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
    let paths = EmbeddedPaths { database: home.join("rethread.db"), locks: home.join("state").join("locks") };
    let store = EmbeddedStore::open(&paths).expect("a new store opens");
    let stub = |number: usize| Stub {
        id: format!("session-{number:08}").as_str().into(),
        // Few enough folders that one of them fills a page even in the small store.
        cwd: format!("/work/{}", number % 16),
        title: Some(format!("session {number}")),
        updated_at: number as u64,
    };
    let stubs: Vec<_> = (0..count).map(stub).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    runtime.block_on(store.add_stubs("bench", &stubs)).expect("there is room");
}

//! The time from the start of the program to its answer to `initialize`, with the built-in assistant, compared with
//! starting the program alone.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::client::Client;
use crate::disk;
use crate::figure::{Pair, median};
use crate::table::{Bound, Row};

const ROUNDS: usize = 5;
const STARTS: usize = 15;

/// The ratio.
pub(crate) fn measure() -> Vec<Row> {
    let home = disk::folder();
    // The first start creates the store.
    Client::assistant(home.path()).end();
    let mut pair = Pair::default();
    for _ in 0..ROUNDS {
        let (alone, answered): (Vec<_>, Vec<_>) =
            (0..STARTS).map(|_| (version(), initialize(home.path()))).unzip();
        pair.push(median(&answered), Some(median(&alone)));
    }
    let what = "start to `initialize` answered, built-in assistant, against `rethread --version`";
    vec![Row::ratio(what, &pair, "ms", Bound::AtMost(2.0, ""))]
}

/// Milliseconds.
fn version() -> f64 {
    let began = Instant::now();
    let version = Command::new(crate::program::path()).arg("--version").output();
    assert!(version.expect("the program starts").status.success());
    began.elapsed().as_secs_f64() * 1e3
}

/// Milliseconds.
fn initialize(home: &Path) -> f64 {
    let began = Instant::now();
    let client = Client::assistant(home);
    let time = began.elapsed().as_secs_f64() * 1e3;
    client.end();
    time
}

//! The time from the start of the program to its answer to `initialize`, with the built-in assistant, compared with
//! starting the program alone.

use std::process::Command;
use std::time::Instant;

use crate::Row;
use crate::client::Client;
use crate::meter::median;

const ROUNDS: usize = 40;

/// The ratio.
pub(crate) fn measure() -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder can be made");
    // The first start creates the database.
    Client::assistant(home.path()).end();
    let (mut alone, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let version = Command::new(env!("CARGO_BIN_EXE_rethread")).arg("--version").output();
        assert!(version.expect("the program starts").status.success());
        alone.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        let client = Client::assistant(home.path());
        answered.push(began.elapsed().as_secs_f64() * 1e3);
        client.end();
    }
    let (alone, answered) = (median(alone), median(answered));
    let ratio = answered / alone;
    vec![Row::new(
        "start to `initialize` answered, built-in assistant, against `rethread --version`",
        format!("{ratio:.2} ({answered:.1} ms against {alone:.1} ms)"),
        "<= 3",
        ratio <= 3.0,
    )]
}

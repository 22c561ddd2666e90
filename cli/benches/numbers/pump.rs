//! The time that `rethread serve` adds to a turn of one chunk: `acp` as a pump to a server, against `acp` alone, both with
//! the store on a RAM disk, or on disk where there is none.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::agent::Turn;
use crate::client::Client;
use crate::disk;
use crate::figure::{Pair, median};
use crate::table::{Bound, Row};

const ROUNDS: usize = 5;
const PROMPTS: usize = 200;
const PUMPED: &str = "prompt round trip p50 through `rethread serve`, against `rethread acp` alone";

/// The ratio of the two.
pub(crate) fn measure() -> Vec<Row> {
    let folder = || disk::ram_folder().unwrap_or_else(disk::folder);
    let (served_home, alone_home) = (folder(), folder());
    let server = Server::start(served_home.path());
    let mut served = Client::through_rethread(served_home.path());
    let mut alone = Client::through_rethread(alone_home.path());
    let (served_session, alone_session) = (served.new_session(), alone.new_session());
    let mut figures = Pair::default();
    for _ in 0..ROUNDS {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..PROMPTS {
            with.push(prompt(&mut served, &served_session));
            without.push(prompt(&mut alone, &alone_session));
        }
        figures.push(median(&with), Some(median(&without)));
    }
    served.end();
    alone.end();
    server.end();
    vec![Row::ratio(PUMPED, &figures, "us", Bound::Information)]
}

/// The time of one turn in microseconds.
fn prompt(client: &mut Client, session: &str) -> f64 {
    let began = Instant::now();
    client.turn(session, &Turn::Flood { chunks: 1 });
    began.elapsed().as_secs_f64() * 1e6
}

struct Server(Child);

impl Server {
    /// Starts a server, and waits until it listens.
    fn start(home: &Path) -> Self {
        let mut command = Command::new(crate::program::path());
        let command = command.env("RETHREAD_HOME", home).args(["serve", "--listen", "off"]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        Self(process)
    }

    fn end(mut self) {
        // A bench needs no farewell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

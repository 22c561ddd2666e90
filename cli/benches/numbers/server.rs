//! The load of a server: 1,000 WebSocket clients of both versions on 200 sessions, of which 100 stream 50 chunks a second each
//! to their five clients. The base is the HTTP server of the official SDK with as many connections and as many messages;
//! it has no sessions that clients share, so each of its 500 streaming clients has one of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::agent::{self, Turn, since_stamps};
use crate::disk;
use crate::figure::{Pair, percentile};
use crate::load_clients::{Address, Enough, LoadClient, allow_open_files, read_all};
use crate::meter::{memory, processor_time, processor_time_since};
use crate::sdk_server;
use crate::table::{Bound, Row};

const ROUNDS: usize = 3;
const SESSIONS: usize = 200;
const STREAMING: usize = 100;
const CLIENTS_OF_SESSION: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);
const CHUNKS: usize = 250;
/// The part of a round in which all sessions stream.
const FROM: Duration = Duration::from_millis(1_200);
const UPTO: Duration = Duration::from_millis(4_200);

/// The rows of the server.
pub(crate) fn measure() -> Vec<Row> {
    allow_open_files();
    let (mut shares, mut late, mut sizes) = (Pair::default(), Pair::default(), Pair::default());
    let mut median = Pair::default();
    for _ in 0..ROUNDS {
        let (ours, base) = (our_round(), sdk_round());
        shares.push(ours.share, Some(base.share));
        median.push(ours.delay(0.5), Some(base.delay(0.5)));
        late.push(ours.delay(0.99), Some(base.delay(0.99)));
        sizes.push(ours.idle_client, Some(base.idle_client));
    }
    let clients = SESSIONS * CLIENTS_OF_SESSION;
    let what = format!(
        "{clients} WebSocket clients on {SESSIONS} sessions, 50 chunks a second on {STREAMING} of them:"
    );
    let row = |name: &str, pair: &Pair, limit, unit| {
        Row::new(
            format!("{what} {name}, against the SDK's server"),
            pair.text(unit),
            pair.our_median(),
            Bound::AtMost(limit, unit),
        )
    };
    let median = Row::ratio(
        format!("{what} time between write and read, p50, against the SDK's server"),
        &median,
        "ms",
        Bound::Information,
    );
    vec![
        row("cores", &shares, 1.5, "cores"),
        row("time between write and read, p99", &late, 50.0, "ms"),
        median,
        row("memory of an idle client", &sizes, 40.0, "KiB"),
    ]
}

struct Load {
    share: f64,
    /// In milliseconds.
    delays: Vec<f64>,
    /// In KiB.
    idle_client: f64,
}

impl Load {
    fn delay(&self, share: f64) -> f64 {
        percentile(&self.delays, share)
    }
}

/// `rethread serve` with the agent of the bench.
fn our_round() -> Load {
    let home = disk::folder();
    let (server, address) = start_server(home.path());
    let pid = server.0.id();
    let mut first: Vec<LoadClient> = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut client = LoadClient::connect(&address, 1);
        let made = client.request("session/new", &json!({"cwd": "/", "mcpServers": []}));
        sessions.push(made["sessionId"].as_str().expect("a session has an id").to_owned());
        first.push(client);
    }
    let before = memory(pid);
    let mut others = Vec::new();
    for session in &sessions {
        for number in 1..CLIENTS_OF_SESSION {
            let version = 1 + (number % 2) as u64;
            let mut client = LoadClient::connect(&address, version);
            let mut params = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
            let method = if version == 1 { "session/load" } else { "session/resume" };
            if version == 2 {
                params["replayFrom"] = json!({"type": "start"});
            }
            client.request(method, &params);
            others.push(client);
        }
    }
    let idle_client = memory(pid).saturating_sub(before) as f64 / others.len() as f64;
    for (client, session) in first.iter_mut().zip(&sessions).take(STREAMING) {
        client.send("session/prompt", &prompt(session));
    }
    first.extend(others);
    let load = stream(pid, &mut first, STREAMING * CLIENTS_OF_SESSION, idle_client);
    server.end();
    load
}

/// The SDK's server with its own agent, in a process of its own.
fn sdk_round() -> Load {
    let (server, address) = sdk_server::start();
    let pid = server.0.id();
    let first = LoadClient::connect(&address, 1);
    let before = memory(pid);
    let count = SESSIONS * CLIENTS_OF_SESSION;
    let mut clients: Vec<_> = (1..count).map(|_| LoadClient::connect(&address, 1)).collect();
    clients.push(first);
    let mut sessions = Vec::new();
    for client in &mut clients {
        let made = client.request("session/new", &json!({"cwd": "/", "mcpServers": []}));
        sessions.push(made["sessionId"].as_str().expect("a session has an id").to_owned());
    }
    let idle_client = memory(pid).saturating_sub(before) as f64 / (count - 1) as f64;
    let streaming = STREAMING * CLIENTS_OF_SESSION;
    for (client, session) in clients.iter_mut().zip(&sessions).take(streaming) {
        client.send("session/prompt", &prompt(session));
    }
    let load = stream(pid, &mut clients, streaming, idle_client);
    server.end();
    load
}

fn prompt(session: &str) -> serde_json::Value {
    let turn = Turn::Paced { chunks: CHUNKS, pause: PAUSE };
    json!({"sessionId": session, "prompt": [{"type": "text", "text": turn.to_string()}]})
}

/// Reads until each of the receivers has got all chunks.
fn stream(pid: u32, clients: &mut [LoadClient], receivers: usize, idle_client: f64) -> Load {
    let began = Instant::now();
    let (mut first, mut last) = (None, None);
    let (mut chunks, mut delays) = (0, Vec::new());
    let all = receivers * CHUNKS;
    read_all(clients, |message| {
        let at = began.elapsed();
        if let Some(text) = chunk_text(message) {
            chunks += text.len() / 8;
            if at >= FROM && at < UPTO {
                first.get_or_insert_with(|| (at, processor_time(pid)));
                delays.extend(since_stamps(text).map(|time| time.as_secs_f64() * 1e3));
            } else if let (Some((_, before)), None) = (first, last) {
                last = Some((at, processor_time_since(pid, before)));
            }
        }
        if chunks >= all { Enough::Yes } else { Enough::No }
    });
    assert_eq!(chunks, all, "each chunk arrives once at each client");
    let ((from, _), (upto, spent)) = first.zip(last).expect("the sessions stream for longer than that");
    let seconds = (upto - from).as_secs_f64();
    // On a busy machine the agent sends less than it should.
    let sent = delays.len() as f64 * PAUSE.as_secs_f64() / receivers as f64 / seconds;
    Load { share: spent / 1e6 / seconds / sent, delays, idle_client }
}

fn chunk_text(message: &str) -> Option<&str> {
    if !message.contains("agent_message_chunk") {
        return None;
    }
    let (_, rest) = message.split_once("\"text\":\"")?;
    rest.split_once('"').map(|(text, _)| text)
}

/// A server process, which is killed in the end.
pub(crate) struct ServerProcess(pub(crate) Child);

impl ServerProcess {
    fn end(mut self) {
        // A bench needs no farewell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_server(home: &Path) -> (ServerProcess, Address) {
    let program = std::env::current_exe().expect("a program has a path");
    let config = format!(
        "default_agent = \"bench\"\n[agents.bench]\ncommand = [{:?}, {:?}]\n[serve]\nroots = [\"/\"]\n",
        program.display().to_string(),
        agent::FLAG
    );
    std::fs::write(home.join("config.toml"), config).expect("the folder can be written to");
    let rethread = |args: &[&str]| {
        let mut command = Command::new(crate::program::path());
        command.env("RETHREAD_HOME", home).args(args).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let made = rethread(&["token", "new", "bench"]).output().expect("a token can be made");
    let token = String::from_utf8(made.stdout).expect("a token is text").trim().to_owned();
    let mut command = rethread(&["serve", "--listen", "127.0.0.1:0", "--max-clients", "2000"]);
    let mut process = command.spawn().expect("the server starts");
    let mut lines = BufReader::new(process.stdout.take().expect("it is a pipe")).lines();
    let host = loop {
        let line = lines.next().expect("it listens by HTTP").expect("it prints text");
        if let Some((_, host)) = line.split_once("http://") {
            break host.trim_end_matches('/').to_owned();
        }
    };
    (ServerProcess(process), Address { host, token: Some(token) })
}

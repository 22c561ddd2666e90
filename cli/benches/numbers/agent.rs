//! A benchmark agent of protocol version 1, which runs as a copy of this program. The text of a prompt is a [`Turn`]. The
//! agent writes each chunk with one write.

use std::fmt;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::meter::monotonic;

/// The argument that selects this agent. The number of sessions that it lists as its own may follow.
pub(crate) const FLAG: &str = "--be-the-agent";

/// How many sessions the agent lists on a page.
const PAGE: usize = 5_000;
/// The length of a stamp, in bytes.
const STAMP: usize = 8;

/// What the agent does for a prompt.
pub(crate) enum Turn {
    /// Sends chunks of one message as fast as possible.
    Flood { chunks: usize },
    /// Does the same, and creates this file before it answers.
    FloodThenFile { chunks: usize, file: PathBuf },
    /// Sends whole messages of one chunk each as fast as possible.
    Messages { count: usize },
    /// Sends chunks of one message with a pause after each; the text of a chunk is a stamp. Turns of several sessions
    /// run at the same time.
    Paced { chunks: usize, pause: Duration },
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flood { chunks } => write!(f, "flood {chunks}"),
            Self::FloodThenFile { chunks, file } => write!(f, "file {chunks} {}", file.display()),
            Self::Messages { count } => write!(f, "messages {count}"),
            Self::Paced { chunks, pause } => write!(f, "paced {chunks} {}", pause.as_micros()),
        }
    }
}

impl Turn {
    /// Reads the text of a prompt.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (kind, count) = (words.next()?, words.next()?.parse().ok()?);
        let mut rest = || words.next();
        match kind {
            "flood" => Some(Self::Flood { chunks: count }),
            "file" => Some(Self::FloodThenFile { chunks: count, file: rest()?.into() }),
            "messages" => Some(Self::Messages { count }),
            "paced" => {
                let pause = Duration::from_micros(rest()?.parse().ok()?);
                Some(Self::Paced { chunks: count, pause })
            }
            _ => None,
        }
    }
}

/// The text of a chunk of a flood; its number makes all of them different.
pub(crate) fn word(number: usize) -> String {
    format!("word {number} ")
}

/// The text of a chunk of a paced turn: the current time.
pub(crate) fn stamp() -> String {
    format!("{:08x}", low_half(monotonic()))
}

/// The time that has passed since each stamp in a text. Stamps count nanoseconds and start again every four seconds.
pub(crate) fn since_stamps(text: &str) -> impl Iterator<Item = Duration> {
    let now = low_half(monotonic());
    text.as_bytes().chunks(STAMP).map(move |stamp| {
        let stamp = std::str::from_utf8(stamp).ok().and_then(|stamp| u32::from_str_radix(stamp, 16).ok());
        Duration::from_nanos(now.wrapping_sub(stamp.expect("a paced turn has only stamps")).into())
    })
}

fn low_half(time: Duration) -> u32 {
    (time.as_nanos() & u128::from(u32::MAX)) as u32
}

/// Serves stdin and stdout. Lists this many sessions as its own.
pub(crate) fn run(listed: usize) {
    let (mut sessions, mut prompts) = (0, 0);
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line.expect("stdin is text")) else { continue };
        match request["method"].as_str() {
            Some("initialize") => answer(&request, &profile(listed)),
            Some("session/new") => {
                sessions += 1;
                answer(&request, &json!({"sessionId": format!("bench-{sessions}")}));
            }
            Some("session/list") => answer(&request, &page(&request, listed)),
            Some("session/prompt") => {
                prompts += 1;
                prompt(request, prompts);
            }
            _ => {}
        }
    }
}

fn profile(listed: usize) -> Value {
    let capabilities = if listed > 0 { json!({"sessionCapabilities": {"list": {}}}) } else { json!({}) };
    json!({"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": {"name": "bench", "version": "1"}})
}

/// A page of the agent's own sessions, oldest first; the cursor is the number of the next one.
fn page(request: &Value, listed: usize) -> Value {
    let from = request["params"]["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let upto = listed.min(from + PAGE);
    let sessions: Vec<_> = (from..upto).map(listed_session).collect();
    let next = (upto < listed).then(|| upto.to_string());
    json!({"sessions": sessions, "nextCursor": next})
}

/// One of the agent's own sessions. They are a second apart.
fn listed_session(number: usize) -> Value {
    let (day, hour) = (1 + number / 86_400, number / 3_600 % 24);
    let (minute, second) = (number / 60 % 60, number % 60);
    json!({
        "sessionId": format!("session-{number:08}"),
        "cwd": folder_of(number),
        "title": format!("session {number}"),
        "updatedAt": format!("2024-01-{day:02}T{hour:02}:{minute:02}:{second:02}Z"),
    })
}

/// The working directory of a listed session. There are few enough of them that one fills a page even of a short list.
pub(crate) fn folder_of(number: usize) -> String {
    format!("/work/{}", number % 16)
}

fn prompt(request: Value, prompts: usize) {
    let text = request["params"]["prompt"][0]["text"].as_str().unwrap_or_default();
    match Turn::parse(text).expect("the bench sends turns") {
        Turn::Flood { chunks } => flood(&request, chunks, |_| format!("m{prompts}")),
        Turn::Messages { count } => flood(&request, count, |number| format!("m{prompts}-{number}")),
        Turn::FloodThenFile { chunks, file } => {
            flood(&request, chunks, |_| format!("m{prompts}"));
            std::fs::write(file, "done").expect("the bench has a folder for it");
        }
        Turn::Paced { chunks, pause } => {
            thread::spawn(move || paced(&request, chunks, pause, prompts));
            return;
        }
    }
    end_turn(&request);
}

fn flood(request: &Value, chunks: usize, message: impl Fn(usize) -> String) {
    let session = session(request);
    let mut out = std::io::stdout().lock();
    for number in 0..chunks {
        write(&mut out, &chunk(session, &message(number), &word(number)));
    }
}

fn paced(request: &Value, chunks: usize, pause: Duration, prompts: usize) {
    let (session, message) = (session(request), format!("m{prompts}"));
    // Turns that begin together send at different times.
    thread::sleep(pause * ((prompts * 61) % 100) as u32 / 100);
    for _ in 0..chunks {
        write(&mut std::io::stdout().lock(), &chunk(session, &message, &stamp()));
        thread::sleep(pause);
    }
    end_turn(request);
}

fn session(request: &Value) -> &str {
    request["params"]["sessionId"].as_str().unwrap_or_default()
}

fn chunk(session: &str, message: &str, text: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{session}\",\"update\":\
         {{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"{message}\",\"content\":{{\"type\":\"text\",\
         \"text\":\"{text}\"}}}}}}}}\n"
    )
}

fn end_turn(request: &Value) {
    answer(request, &json!({"stopReason": "end_turn"}));
}

fn answer(request: &Value, result: &Value) {
    let line = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string() + "\n";
    write(&mut std::io::stdout().lock(), &line);
}

fn write(out: &mut impl Write, line: &str) {
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the client reads");
}

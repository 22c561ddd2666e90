//! Searching among 1,000,000 messages, over the wire and with the command: the first 20 hits, with everything in the caches of
//! the system. The messages are made through the interface of the store.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::facts::facts;
use rethread::store::{NewSession, Store as _};
use rethread_core::{JournalBuilder, Json, Millis, Origin, Update, UpdateKind};
use serde_json::{Value, json};

use crate::client::Client;
use crate::disk;
use crate::figure::Spread;
use crate::table::{Bound, Row};

const MESSAGES: usize = 1_000_000;
const SESSIONS: usize = 1_000;
const FOLDERS: usize = 100;
const HITS: usize = 20;
const ROUNDS: usize = 15;

/// The words that messages are made of; the first ones are the most frequent.
const VOCABULARY: f64 = 30_000.0;
const WORDS: usize = 20;
const FIRST_TIME: Millis = 1_700_000_000_000;

/// The queries with the hits that they have among all messages.
const QUERIES: [(&str, &str, usize); 9] = [
    ("a word of 1 in 10 messages", "tenth", MESSAGES / 10),
    ("a word of 1 in 1,000 messages", "thousandth", MESSAGES / 1000),
    ("a word of 1 message", "single", 1),
    ("a phrase of 1 in 1,000 messages, its words in 1 of 20", "\"green apple\"", MESSAGES / 1000),
    ("a prefix of 4,096 words in 1 of 10 messages", "prefix*", MESSAGES / 10),
    ("a prefix of one letter, in all messages", "w*", MESSAGES),
    ("a prefix of two letters, in 3 of 4 messages", "w2*", MESSAGES / 4 * 3),
    ("a prefix of one letter and a word of 1 in 1,000 messages", "w* thousandth", MESSAGES / 1000),
    ("a prefix of one letter that 1 message has", "s*", 1),
];

/// The times of the queries, with and without a folder.
pub(crate) fn measure() -> Vec<Row> {
    let home = disk::folder();
    let made = make(home.path());
    let mut rows = vec![Row::new(
        format!("making and indexing {MESSAGES} messages"),
        format!("{:.0} s and {:.0} s", made.0, made.1),
        made.1,
        Bound::Information,
    )];
    let mut client = Client::through_rethread(home.path());
    for (what, query, hits) in QUERIES {
        for (place, cwd) in [("all folders", None), ("one folder", Some(folder(7)))] {
            let times = times(&mut client, query, cwd.as_deref(), hits);
            let what = format!("search among {MESSAGES} messages, {what}, {place}");
            rows.push(Row::spread(what, Spread::of(&times), Bound::AtMost(50.0, "ms")));
        }
    }
    client.end();
    rows.push(command(home.path()));
    rows
}

fn folder(number: usize) -> String {
    format!("/folder/{number}")
}

/// The times of a query that finds about this many messages in all folders.
fn times(client: &mut Client, query: &str, cwd: Option<&str>, expected: usize) -> Vec<f64> {
    let mut params = json!({"query": query, "limit": HITS});
    if let Some(cwd) = cwd {
        params["cwd"] = json!(cwd);
    }
    let mut round = || {
        let began = Instant::now();
        client.send("_rethread/search", &params);
        // Not `request`, which takes lines with a text for chunks.
        let answer = client.bytes_up_to_the_answer();
        let time = began.elapsed().as_secs_f64() * 1e3;
        let answer: Value = serde_json::from_slice(&answer).expect("nothing else is sent");
        let hits = answer["result"]["hits"].as_array().unwrap_or_else(|| panic!("it has hits: {answer}"));
        let least = if cwd.is_some() { expected / FOLDERS / 2 } else { expected / 2 };
        assert!(hits.len() >= HITS.min(least), "{params} found {}", hits.len());
        let times: Vec<_> = hits.iter().map(|hit| hit["time"].as_str().unwrap_or_default()).collect();
        assert!(times.is_sorted_by(|a, b| a >= b), "the newest comes first");
        time
    };
    round();
    (0..ROUNDS).map(|_| round()).collect()
}

/// The time of the command from its start to its end.
fn command(home: &Path) -> Row {
    let run = || {
        let began = Instant::now();
        let mut command = Command::new(crate::program::path());
        command.env_clear().env("RETHREAD_HOME", home).args(["search", "thousandth"]);
        let output = command.stdin(Stdio::null()).output().expect("the program starts");
        assert!(output.status.success() && !output.stdout.is_empty());
        began.elapsed().as_secs_f64() * 1e3
    };
    run();
    let times: Vec<f64> = (0..ROUNDS).map(|_| run()).collect();
    let what = format!("`rethread search` among {MESSAGES} messages, from start to end");
    let spread = Spread::of(&times);
    Row::new(what, spread.text("ms"), spread.median, Bound::Information)
}

/// Makes the store. Returns the seconds for the sessions and for the index.
fn make(home: &Path) -> (f64, f64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let paths = EmbeddedPaths { database: home.join("rethread.db"), locks: home.join("state/locks") };
    let store = EmbeddedStore::open(&paths).expect("the store opens");
    let mut random = Random(1);
    let began = Instant::now();
    for number in 0..SESSIONS {
        let lease = runtime.block_on(store.create(session(number, &mut random))).expect("it can be created");
        runtime.block_on(store.release(&lease)).expect("it can be released");
    }
    let made = began.elapsed().as_secs_f64();
    let began = Instant::now();
    runtime.block_on(store.update_index(Box::new(|_| {}))).expect("it can be indexed");
    (made, began.elapsed().as_secs_f64())
}

fn session(number: usize, random: &mut Random) -> NewSession {
    let (cwd, agent) = (folder(number % FOLDERS), format!("agent {}", number % 3));
    let origin =
        Origin { cwd: cwd.clone(), roots: Vec::new(), agent: agent.clone(), title: None, at: FIRST_TIME };
    let mut journal = JournalBuilder::new(origin);
    for message in (number..MESSAGES).step_by(SESSIONS) {
        let at = FIRST_TIME + message as Millis * 1000;
        journal.add(update(number, message, &text(message, random)), Some(at));
    }
    let (_, entries) = journal.finish();
    NewSession {
        id: format!("session-{number}").as_str().into(),
        cwd,
        agent,
        parent: None,
        facts: facts(entries.iter()),
        entries: entries.into_iter().map(Arc::new).collect(),
        snapshot: None,
        at: FIRST_TIME + MESSAGES as Millis * 1000,
    }
}

/// Prompts and answers take turns.
fn update(session: usize, message: usize, text: &str) -> Update {
    let (kind, tag) = match (message / SESSIONS + session) % 2 {
        0 => (UpdateKind::UserMessage, "user_message"),
        _ => (UpdateKind::AgentMessage, "agent_message"),
    };
    let id = format!("m{message}");
    let body: Value =
        json!({"sessionUpdate": tag, "messageId": id, "content": [{"type": "text", "text": text}]});
    Update { kind, id, body: Json::from(body) }
}

fn text(message: usize, random: &mut Random) -> String {
    let mut words: Vec<String> = (0..WORDS).map(|_| random.word()).collect();
    let mut put = |word: &str| words[random.below(WORDS)] = word.to_owned();
    if message % 20 == 4 {
        put("green");
    }
    if message % 20 == 5 {
        put("apple");
    }
    // Independent of the session and its folder.
    let scattered = message.wrapping_mul(0x9e37_79b9_7f4a_7c15_usize) >> 33;
    match scattered % 10 {
        3 => put("tenth"),
        6 => put(&format!("prefix{:03x}", scattered / 10 % 4096)),
        _ => {}
    }
    match scattered / 10 % 1000 {
        42 => put("thousandth"),
        77 => (words[0], words[1]) = ("green".to_owned(), "apple".to_owned()),
        _ => {}
    }
    if message == MESSAGES / 2 + 1 {
        words[2] = "single".to_owned();
    }
    words.join(" ")
}

/// A small generator of random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() * limit as f64) as usize
    }

    /// A word; small numbers are much more frequent, as in a language.
    fn word(&mut self) -> String {
        let rank = self.next().powi(3) * VOCABULARY;
        format!("w{:x}", rank as u32)
    }
}

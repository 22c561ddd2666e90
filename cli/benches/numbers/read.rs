//! The cost of a page of a session of 100,000 entries, compared with one of 100: at the end, and around a message in the middle,
//! whose entry the client knows from a search or not.

use std::time::Instant;

use serde_json::{Value, json};

use crate::agent::Turn;
use crate::client::Client;
use crate::disk;
use crate::figure::{Pair, median};
use crate::table::{Bound, Row};
use crate::turns;

/// The messages of a turn, and the turns of the long session; the short one has one.
const MESSAGES: usize = 100;
const LONG: usize = 1_000;
const PAGE: usize = 50;
const PAGES: usize = 40;
const ROUNDS: usize = 5;

/// The ratios.
pub(crate) fn measure() -> Vec<Row> {
    let home = disk::folder();
    let turn = Turn::Messages { count: MESSAGES };
    let sessions = [LONG, 1].map(|count| turns::make(home.path(), count, &turn));
    let mut client = Client::through_rethread(home.path());
    let middles = sessions.each_ref().map(|session| middle(&mut client, session));
    let places = [
        ("at the end", [json!({}), json!({})], Bound::AtMost(3.0, "")),
        (
            "around a message in the middle",
            middles.each_ref().map(|(id, seq)| json!({"around": id, "seq": seq})),
            Bound::AtMost(3.0, ""),
        ),
        (
            "around a message in the middle that is looked for",
            middles.each_ref().map(|(id, _)| json!({"around": id})),
            Bound::Information,
        ),
    ];
    let rows = places.map(|(what, wheres, bound)| {
        let pair = compare(&mut client, &sessions, &wheres);
        let entries = LONG * MESSAGES;
        let what =
            format!("page of {PAGE} of a session of {entries} entries against one of {MESSAGES}, {what}");
        Row::ratio(what, &pair, "us", bound)
    });
    client.end();
    rows.into()
}

/// A message in the middle of a session, and its entry.
fn middle(client: &mut Client, session: &str) -> (Value, Value) {
    let head = page(client, session, &json!({}))["head"].as_u64().expect("a page has the head");
    let page = page(client, session, &json!({"before": head / 2}));
    let items = page["items"].as_array().expect("a page has items");
    let message = items.iter().rfind(|item| item["update"]["messageId"].is_string());
    let message = message.unwrap_or_else(|| panic!("there is a message: {page}"));
    (message["update"]["messageId"].clone(), message["seq"].clone())
}

fn compare(client: &mut Client, sessions: &[String; 2], wheres: &[Value; 2]) -> Pair {
    let mut pair = Pair::default();
    for _ in 0..ROUNDS {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..PAGES {
            for ((session, place), times) in sessions.iter().zip(wheres).zip(&mut times) {
                let began = Instant::now();
                let page = page(client, session, place);
                times.push(began.elapsed().as_secs_f64() * 1e6);
                let items = page["items"].as_array().map_or(0, Vec::len);
                assert_eq!(items, PAGE, "a full page");
            }
        }
        let [long, short] = times.map(|times| median(&times));
        pair.push(long, Some(short));
    }
    pair
}

fn page(client: &mut Client, session: &str, place: &Value) -> Value {
    let mut params = json!({"sessionId": session, "limit": PAGE});
    for (name, value) in place.as_object().into_iter().flatten() {
        params[name] = value.clone();
    }
    client.send("_rethread/read", &params);
    // Not `request`, which takes lines with a text for chunks.
    let mut answer: Value =
        serde_json::from_slice(&client.bytes_up_to_the_answer()).expect("nothing else is sent");
    assert!(answer["error"].is_null(), "{params} was answered with {answer}");
    answer["result"].take()
}

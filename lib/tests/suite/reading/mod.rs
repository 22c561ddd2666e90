//! Reading without claiming, by clients of both versions over agents of both versions: pages, following, and what both have
//! in common with replays and transcripts.

mod damage;
mod following;
mod laws;
mod pages;
mod summaries;

use rethread::client::SessionEvent;
use rethread::client::view::SessionView;
use rethread_core::{Entry, Json, Stop, TurnNo, Update, UpdateKind};
use rethread_testkit::client::Client;
use serde_json::{Value, json};

/// A turn with everything: messages, tool calls, plans, terminals, sub-agents.
const RICH: &str =
    "say one; think two; tool t1; plan A,B; usage 10/100; chunks 5; term; subagent; title Mine; say last";

async fn read(client: &Client, params: Value) -> Value {
    client.ask("_rethread/read", params).await
}

fn items(page: &Value) -> Vec<Value> {
    page["items"].as_array().expect("a page has items").clone()
}

/// An item in short: its kind, and its text or id.
fn short(item: &Value) -> String {
    let update = &item["update"];
    let kind = update["sessionUpdate"].as_str().or(item["event"]["type"].as_str()).unwrap_or("nothing");
    let content = &update["content"];
    let text = content["text"].as_str().or(content[0]["text"].as_str());
    let id = update["toolCallId"].as_str().map(|_| "call");
    let words = text.or(id).or(item["event"]["stopReason"].as_str()).unwrap_or_default();
    format!("{kind} {words}").trim().to_owned()
}

fn shorts(items: &[Value]) -> Vec<String> {
    items.iter().map(short).collect()
}

/// All items of a session, read in pages of this size from the end to the beginning.
async fn all_backwards(client: &Client, session: &str, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut params = json!({"sessionId": session, "limit": limit});
    loop {
        let page = read(client, params.clone()).await;
        let mut found = items(&page);
        assert!(found.len() <= limit + 1, "{} items for {limit}", found.len());
        if let Some(first) = found.first() {
            params["before"] = first["seq"].clone();
        }
        found.extend(all);
        all = found;
        if page["more"]["before"] == false {
            return all;
        }
    }
}

/// The same from the beginning to the end.
async fn all_forwards(client: &Client, session: &str, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut params = json!({"sessionId": session, "limit": limit, "after": 0});
    loop {
        let page = read(client, params.clone()).await;
        let found = items(&page);
        if let Some(last) = found.last() {
            params["after"] = last["seq"].clone();
        }
        all.extend(found);
        if page["more"]["after"] == false {
            return all;
        }
    }
}

/// The update of an item or entry, as a view takes it.
fn update_of(item: &Value) -> Option<Update> {
    let body = Json::from(item.get("update")?.clone());
    Some(match item["sessionId"].as_str() {
        Some(child) => Update { kind: UpdateKind::Other, id: child.to_owned(), body },
        None => Update::read(body),
    })
}

/// What updates come to. States are events in some places and updates in others.
fn folded<'a>(updates: impl IntoIterator<Item = &'a Update>) -> SessionView {
    let mut view = SessionView::default();
    for update in updates {
        if update.body.fields().text("sessionUpdate").as_deref() != Some("state_update") {
            view.apply(&SessionEvent::Updated(update.clone()));
        }
    }
    view
}

/// The entry that an item stands for, as far as a transcript needs it.
fn entry_of(item: &Value) -> Option<Entry> {
    let turn = TurnNo(item["turn"].as_u64().unwrap_or_default());
    let state = Json::from(json!({}));
    match item["event"]["type"].as_str() {
        None => Some(Entry::Updated { update: update_of(item)?, known: false }),
        Some("turn_started") => Some(Entry::TurnStarted { turn, at: 0, state }),
        Some("turn_ended") => {
            let reason = item["event"]["stopReason"].as_str().unwrap_or_default();
            Some(Entry::TurnEnded { turn, stop: Stop::plain(reason), at: 0, state })
        }
        Some(_) => None,
    }
}

/// The notifications about a session that a client follows, all entries of them.
fn followed_since(client: &Client, mark: usize, session: &str) -> Vec<Value> {
    let about = |message: &Value| {
        message["method"] == "_rethread/followed" && message["params"]["sessionId"] == session
    };
    let messages = client.server_messages_since(mark).into_iter().filter(about);
    messages
        .flat_map(|message| message["params"]["entries"].as_array().cloned().unwrap_or_default())
        .collect()
}

/// Waits until an entry comes, and returns all since the mark.
async fn follow_until(
    client: &Client,
    mark: usize,
    session: &str,
    is: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    let has = |message: &Value| {
        message["method"] == "_rethread/followed"
            && message["params"]["sessionId"] == session
            && message["params"]["entries"].as_array().is_some_and(|entries| entries.iter().any(&is))
    };
    client.wait_since(mark, "an entry of the followed session", has).await;
    followed_since(client, mark, session)
}

fn ends_turn(turn: u64) -> impl Fn(&Value) -> bool {
    move |entry| entry["event"]["type"] == "turn_ended" && entry["turn"] == turn
}

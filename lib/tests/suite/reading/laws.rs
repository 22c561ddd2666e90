//! What is read is what a transcript shows; what is followed is what a replay shows; in every state of a session.

use std::sync::Arc;

use rethread::edge::Version;
use rethread::store::Store;
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::transcript::{TranscriptItem, TurnFold, each_turn};
use rethread_core::{Json, SessionId, Update, UpdateKind};
use rethread_testkit::agent::ScriptedAgent;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::{RICH, all_backwards, all_forwards, entry_of, folded, follow_until, read, update_of};

/// The items of each turn as `show --json` has them, without events.
async fn shown(store: &dyn Store, session: &str) -> Vec<Vec<Value>> {
    let mut turns = Vec::new();
    each_turn(store, &SessionId(session.to_owned()), |turn| {
        turns.push(without_events(&turn.items));
        Ok::<_, rethread::store::StoreError>(())
    })
    .await
    .expect("the store can be read");
    turns.retain(|turn| !turn.is_empty());
    turns
}

fn without_events(items: &[TranscriptItem]) -> Vec<Value> {
    let items = items.iter().filter(|item| !matches!(item, TranscriptItem::Event(_)));
    items.map(|item| serde_json::to_value(item).expect("an item is JSON")).collect()
}

/// The same of items that were read.
fn told(items: &[Value]) -> Vec<Vec<Value>> {
    let mut fold = TurnFold::default();
    let mut turns: Vec<_> = items.iter().filter_map(entry_of).filter_map(|entry| fold.push(&entry)).collect();
    turns.extend(fold.finish());
    let mut turns: Vec<_> = turns.iter().map(|turn| without_events(&turn.items)).collect();
    turns.retain(|turn| !turn.is_empty());
    turns
}

/// The updates of a replay, as a view takes them.
fn replayed(client: &Client, mark: usize, session: &str) -> Vec<Update> {
    let messages = client.server_messages_since(mark);
    let updates = messages.iter().filter(|message| message["method"] == "session/update");
    updates
        .map(|message| {
            let body = Json::from(message["params"]["update"].clone());
            match message["params"]["sessionId"].as_str() {
                Some(child) if child != session => {
                    Update { kind: UpdateKind::Other, id: child.to_owned(), body }
                }
                _ => Update::read(body),
            }
        })
        .collect()
}

/// Checks both laws for a session of a world, with a reader of either version.
async fn holds(world: &World, session: &str) {
    let shown = shown(world.store.as_ref(), session).await;
    assert!(!shown.is_empty(), "there is something to show");
    for version in [Version::V1, Version::V2] {
        let reader = world.ready_as(version).await;
        let mut whole = None;
        for limit in [3, 500] {
            let all = all_backwards(&reader, session, limit).await;
            assert_eq!(all_forwards(&reader, session, limit).await, all);
            assert_eq!(told(&all), shown, "what is read by {limit} is what is shown");
            assert_eq!(whole.get_or_insert(all.clone()), &all, "by {limit}");
        }
        let mark = reader.mark();
        let answer = reader.ask("_rethread/follow", json!({"sessionId": session, "after": 0})).await;
        let head = answer["head"].as_u64().expect("a head");
        let last = whole.and_then(|all| all.last()?["last"].as_u64()).expect("there are items");
        assert!(last <= head);
        let reaches = |entry: &Value| entry["last"].as_u64().or(entry["seq"].as_u64()) == Some(last);
        let entries = follow_until(&reader, mark, session, reaches).await;
        let standing = answer["standing"].as_array().expect("how it stands").clone();
        let standing = standing.iter().map(|update| Update::read(update.clone().into()));
        let followed: Vec<_> = entries.iter().filter_map(update_of).chain(standing).collect();
        reader.ask("_rethread/unfollow", json!({"sessionId": session})).await;
        reader.disconnect().await;
        let replay = world.ready_as(Version::V2).await;
        let mark = replay.mark();
        replay.load(session).await;
        let replayed = replayed(&replay, mark, session);
        let (followed, replayed) = (folded(&followed), folded(&replayed));
        assert_eq!(followed.items(), replayed.items(), "what is followed is what is replayed");
        assert_eq!(followed.children(), replayed.children());
        assert_eq!((followed.options(), followed.commands()), (replayed.options(), replayed.commands()));
        assert_eq!((followed.usage(), followed.title()), (replayed.usage(), replayed.title()));
        replay.close(session).await.expect("it can be closed");
        replay.disconnect().await;
    }
}

async fn conversation(client: &Client) -> String {
    let session = client.new_session().await;
    client.prompt(&session, RICH).await;
    client.prompt(&session, "say second; tool t1; tool t2; fail").await;
    client.prompt(&session, "chunks 30; plan C; slow 3; compact").await;
    session
}

async fn of_a_live_session(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = conversation(&client).await;
    let shown = shown(world.store.as_ref(), &session).await;
    let reader = world.ready().await;
    assert_eq!(told(&all_backwards(&reader, &session, 4).await), shown);
}

async fn of_an_idle_session_before_and_after_a_fold(pairing: Pairing) {
    let world = World::on_disk(pairing);
    let client = world.ready().await;
    let session = conversation(&client).await;
    let reader = world.ready().await;
    let unfolded = all_backwards(&reader, &session, 10).await;
    reader.disconnect().await;
    let again = world.restarted(&client).await;
    again.fold(&session).await;
    holds(&again, &session).await;
    let reader = again.ready().await;
    let folded = all_backwards(&reader, &session, 10).await;
    assert_eq!(folded[..unfolded.len()], unfolded, "a fold changes no item");
}

async fn of_a_fork(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = conversation(&client).await;
    let forked = client.ask(
        "session/fork",
        json!({"sessionId": session, "cwd": rethread_testkit::client::CWD, "mcpServers": []}),
    );
    let fork = forked.await["sessionId"].as_str().expect("it has an id").to_owned();
    client.prompt(&fork, "say only in the fork").await;
    client.prompt(&session, "say only in the parent").await;
    let again = world.restarted(&client).await;
    again.fold(&session).await;
    holds(&again, &fork).await;
    let reader = again.ready().await;
    let texts = all_backwards(&reader, &fork, 9).await;
    let texts = texts.iter().map(super::short).collect::<Vec<_>>().join(" ");
    assert!(
        texts.contains("only in the fork") && texts.contains("forked") && !texts.contains("parent"),
        "{texts}"
    );
}

/// A second process reads what the first one owns, in a store that both have open.
async fn of_a_session_that_another_process_owns(pairing: Pairing) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let open = || {
        let (database, locks) = (folder.path().join("rethread.db"), folder.path().join("locks"));
        Arc::new(EmbeddedStore::open(&EmbeddedPaths { database, locks }).expect("the store opens"))
    };
    let config = rethread::server::Config::default();
    let owner = World::over(pairing.client, ScriptedAgent::of(pairing), open(), config.clone());
    let other = World::over(pairing.client, ScriptedAgent::of(pairing), open(), config);
    let client = owner.ready().await;
    let session = conversation(&client).await;
    let reader = other.ready().await;
    let shown = shown(other.store.as_ref(), &session).await;
    assert_eq!(told(&all_backwards(&reader, &session, 6).await), shown);
    let head = read(&reader, json!({"sessionId": session, "limit": 1})).await["head"].clone();
    let mark = reader.mark();
    let answer = reader.ask("_rethread/follow", json!({"sessionId": session, "after": head})).await;
    assert_eq!(answer["head"], head);
    client.prompt(&session, "say from afar").await;
    let entries = follow_until(&reader, mark, &session, super::ends_turn(4)).await;
    let texts: Vec<_> = entries.iter().map(super::short).collect();
    assert!(texts.contains(&"user_message say from afar".to_owned()), "{texts:?}");
    assert!(
        texts.iter().any(|text| text.ends_with(" from afar") && text.starts_with("agent_message")),
        "{texts:?}"
    );
    assert!(
        client.ask("session/status", json!({"sessionId": session})).await.is_object(),
        "it is not taken over"
    );
}

pairings! {
    wire:
    of_a_live_session,
    of_an_idle_session_before_and_after_a_fold,
    of_a_fork,
    of_a_session_that_another_process_owns,
}

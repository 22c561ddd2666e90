//! A journal that is damaged is read up to there, and the error names the place.

use std::fs;
use std::sync::Arc;

use rethread::edge::Version;
use rethread::server::Config;
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread_testkit::agent::ScriptedAgent;
use rethread_testkit::{Pairing, World};
use serde_json::json;

use super::{ends_turn, follow_until, items, read, short};

#[test]
fn a_damaged_journal_is_read_up_to_the_damage() {
    rethread_testkit::run_scenario(Box::pin(read_up_to_the_damage()));
}

async fn read_up_to_the_damage() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let (database, locks) = (folder.path().join("rethread.db"), folder.path().join("locks"));
    let store = EmbeddedStore::open(&EmbeddedPaths { database, locks }).expect("the store opens");
    let agent = ScriptedAgent::of(Pairing::of(Version::V2, Version::V2));
    let world = World::over(Version::V2, agent, Arc::new(store), Config::default());
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say first").await;
    client.prompt(&session, "say damaged words").await;
    client.prompt(&session, "say third").await;
    // In the middle of the file, with a good end of a turn after it.
    let live = fs::read_dir(folder.path().join("live")).expect("it has journal files");
    for file in live.flatten() {
        let mut bytes = fs::read(file.path()).expect("it can be read");
        if let Some(at) = bytes.windows(13).position(|words| words == b"damaged words") {
            bytes[at] = b'X';
            fs::write(file.path(), bytes).expect("it can be written");
        }
    }
    let reader = world.ready().await;
    let page = read(&reader, json!({"sessionId": session, "after": 0})).await;
    let found = items(&page);
    assert!(found.iter().any(|item| short(item).ends_with(" first")), "{page:#}");
    assert!(found.iter().all(|item| !short(item).contains("third")), "{page:#}");
    let damaged = page["damage"]["seq"].as_u64().expect("it says where");
    assert!(page["damage"]["message"].as_str().is_some_and(|message| message.contains(".log")), "{page:#}");
    let behind = read(&reader, json!({"sessionId": session, "after": damaged})).await;
    assert_eq!((items(&behind).len(), &behind["damage"]["seq"]), (0, &json!(damaged)), "{behind:#}");
    let before = read(&reader, json!({"sessionId": session, "before": damaged})).await;
    assert_eq!(items(&before).last(), found.last());
    let mark = reader.mark();
    let params = json!({"sessionId": session, "after": 0});
    if reader.request("_rethread/follow", params).await.is_ok() {
        follow_until(&reader, mark, &session, |entry| entry["event"]["type"] == "damaged").await;
        let all = super::followed_since(&reader, mark, &session);
        assert!(all.iter().any(ends_turn(1)), "{all:#?}");
    }
}

//! Following: what comes live, how things stand, slow readers, folds behind the cursor, and the end of a session.

use rethread::edge::Version;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::{ends_turn, follow_until, followed_since, read, short};

async fn a_live_session_is_followed_in_live_form(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    for version in [Version::V1, Version::V2] {
        client.prompt(&session, "say before; commands a,b; usage 5/50; plan P,Q").await;
        let reader = world.connect_as(version);
        let hello = reader.initialize().await;
        assert_eq!(hello["_meta"]["rethread"]["follow"], json!({}), "it is advertised");
        let head = read(&reader, json!({"sessionId": session})).await["head"].clone();
        let mark = reader.mark();
        let answer = reader.ask("_rethread/follow", json!({"sessionId": session, "after": head})).await;
        assert_eq!(answer["head"], head);
        let standing = answer["standing"].as_array().expect("how it stands");
        let kinds: Vec<_> = standing.iter().filter_map(|update| update["sessionUpdate"].as_str()).collect();
        for kind in [
            "state_update",
            "available_commands_update",
            "usage_update",
            "plan_update",
            "session_info_update",
        ] {
            assert!(kinds.contains(&kind), "{kind} is among {kinds:?}");
        }
        let turn = client.prompt(&session, "chunks 3; permit").await;
        assert_eq!(turn.stop, "end_turn");
        let ends = |entry: &Value| entry["event"]["type"] == "turn_ended";
        let entries = follow_until(&reader, mark, &session, ends).await;
        let seqs: Vec<_> = entries.iter().filter_map(|entry| entry["seq"].as_u64()).collect();
        assert!(seqs.is_sorted() && seqs.first() > head.as_u64().as_ref(), "{seqs:?}");
        let states: Vec<_> = entries.iter().filter_map(|entry| entry["update"]["state"].as_str()).collect();
        assert_eq!((states.first(), states.last()), (Some(&"running"), Some(&"idle")));
        let chunks = entries.iter().filter(|entry| entry["update"]["sessionUpdate"] == "agent_message_chunk");
        assert!(chunks.count() > 0, "{entries:#?}");
        assert!(reader.updates_since(mark, &session).is_empty(), "it is not attached");
        let asked = reader.server_messages_since(mark);
        assert!(
            asked.iter().all(|message| message.get("id").is_none() || message.get("method").is_none()),
            "it is not asked"
        );
        reader.ask("_rethread/unfollow", json!({"sessionId": session})).await;
        let mark = reader.mark();
        client.prompt(&session, "say after").await;
        read(&reader, json!({"sessionId": session})).await;
        assert!(followed_since(&reader, mark, &session).is_empty(), "it does not follow any more");
        reader.disconnect().await;
    }
}

async fn a_client_that_follows_does_not_count_as_one(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say one").await;
    let reader = world.ready().await;
    let mark = reader.mark();
    reader.ask("_rethread/follow", json!({"sessionId": session, "after": 0})).await;
    follow_until(&reader, mark, &session, ends_turn(1)).await;
    let error = reader
        .refused("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}))
        .await;
    assert_eq!(error["code"], -32002, "{error}");
    client.close(&session).await.expect("the last client closes it");
    let status = reader.ask("session/status", json!({"sessionId": session})).await;
    assert!(!status.to_string().contains("\"running\""), "{status}");
    let next = world.ready().await;
    next.load(&session).await;
    let mark = reader.mark();
    next.prompt(&session, "say two").await;
    let entries = follow_until(&reader, mark, &session, ends_turn(2)).await;
    assert!(
        entries.iter().any(|entry| short(entry).ends_with(" two")),
        "it goes on with the next life: {entries:#?}"
    );
}

async fn a_fold_behind_the_cursor_gives_whole_items(pairing: Pairing) {
    let world = World::on_disk(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say zero").await;
    let before = read(&client, json!({"sessionId": session})).await["head"].as_u64().expect("a head");
    client.prompt(&session, "chunks 6; tool t1; say end").await;
    let head = read(&client, json!({"sessionId": session})).await["head"].as_u64().expect("a head");
    let again = world.restarted(&client).await;
    again.fold(&session).await;
    let reader = again.ready().await;
    let whole = super::items(&read(&reader, json!({"sessionId": session, "after": before})).await);
    for after in before..head {
        let mark = reader.mark();
        reader.ask("_rethread/follow", json!({"sessionId": session, "after": after})).await;
        let entries = follow_until(&reader, mark, &session, ends_turn(2)).await;
        for item in whole.iter().filter(|item| item["last"].as_u64() > Some(after)) {
            let same = |entry: &&Value| entry["seq"] == item["seq"] && entry["update"] == item["update"];
            assert!(entries.iter().any(|entry| same(&entry)), "after {after}: {item:#} is in {entries:#?}");
        }
    }
}

async fn a_client_that_does_not_read_gets_everything_later(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say zero").await;
    let reader = world.ready().await;
    let mark = reader.mark();
    reader.ask("_rethread/follow", json!({"sessionId": session, "after": 0})).await;
    let large = format!("say {}", "y".repeat(300_000));
    for _ in 0..5 {
        client.prompt(&session, &large).await;
    }
    let entries = follow_until(&reader, mark, &session, ends_turn(6)).await;
    let said = entries
        .iter()
        .filter(|entry| short(entry).contains("yyyy") && short(entry).starts_with("agent_message"));
    let bytes: usize = said.map(|entry| short(entry).matches('y').count()).sum();
    assert_eq!(bytes, 5 * 300_000);
}

async fn deleting_ends_following(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say one").await;
    let reader = world.ready().await;
    let mark = reader.mark();
    reader.ask("_rethread/follow", json!({"sessionId": session, "after": 0})).await;
    client.ask("session/delete", json!({"sessionId": session})).await;
    follow_until(&reader, mark, &session, |entry| entry["event"]["type"] == "deleted").await;
}

async fn follows_are_bounded(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.ready().await;
    for at in 0..65 {
        let session = client.new_session().await;
        let params = json!({"sessionId": session, "after": 0});
        match at {
            64 => {
                let error = client.refused("_rethread/follow", params).await;
                assert_eq!(
                    (&error["code"], &error["data"]["field"]),
                    (&json!(-32602), &json!("sessionId")),
                    "{error}"
                );
            }
            _ => drop(client.ask("_rethread/follow", params).await),
        }
    }
}

pairings! {
    wire:
    a_live_session_is_followed_in_live_form,
    a_client_that_follows_does_not_count_as_one,
    a_fold_behind_the_cursor_gives_whole_items,
    a_client_that_does_not_read_gets_everything_later,
    deleting_ends_following,
}

pairings! {
    client V2:
    follows_are_bounded,
}

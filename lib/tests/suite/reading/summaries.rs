//! Outlines, exports and usage.

use rethread::session_file::{ExportRedaction, export_session};
use rethread::store::StoreError;
use rethread::transcript::{SessionOutline, TextFormat, each_turn};
use rethread_core::SessionId;
use rethread_testkit::client::{CWD, Client};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::{items, read, short};

async fn an_outline_has_the_turns(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let hello = client.initialize().await["_meta"]["rethread"].clone();
    assert_eq!((&hello["outline"], &hello["role"]), (&json!({}), &json!("full")), "{hello}");
    let session = client.new_session().await;
    client.prompt(&session, "tool a; tool b; say one").await;
    client.prompt(&session, &format!("say {}", "long ".repeat(100))).await;
    let outline = client.ask("_rethread/outline", json!({"sessionId": session})).await;
    assert_eq!((&outline["sessionId"], &outline["cwd"]), (&json!(session), &json!(CWD)));
    assert_eq!((&outline["state"], &outline["archived"]), (&json!("idle"), &json!(false)));
    assert!(outline.get("forkOf").is_none());
    let turns = outline["turns"].as_array().expect("it has turns");
    let told: Vec<_> = turns.iter().map(|turn| (turn["turn"].as_u64(), turn["tools"].as_u64())).collect();
    assert_eq!(told, [(Some(1), Some(2)), (Some(2), Some(0))]);
    assert_eq!(
        (&turns[0]["prompt"], &turns[0]["stopReason"]),
        (&json!("tool a; tool b; say one"), &json!("end_turn"))
    );
    assert!(turns[1]["prompt"].as_str().is_some_and(|prompt| prompt.chars().count() <= 200));
    let page =
        read(&client, json!({"sessionId": session, "around": turns[1]["messageId"], "limit": 1})).await;
    assert!(short(&items(&page)[0]).starts_with("user_message say long"), "{page}");
    let after = turns[1]["seq"].as_u64().expect("a number") - 1;
    let page = read(&client, json!({"sessionId": session, "after": after, "limit": 1})).await;
    assert_eq!((&items(&page)[0]["turn"], &outline["head"]), (&json!(2), &page["head"]));
    let fork = client.ask("session/fork", json!({"sessionId": session, "cwd": CWD, "mcpServers": []})).await;
    let outline = client.ask("_rethread/outline", json!({"sessionId": fork["sessionId"]})).await;
    assert_eq!((&outline["forkOf"], outline["turns"].as_array().map(Vec::len)), (&json!(session), Some(2)));
}

async fn a_running_turn_is_in_the_outline(pairing: Pairing) {
    let (world, client, session) = World::begun(pairing).await;
    let prompt = client.begin_prompt(&session, "wait gate").await;
    let turn = loop {
        let outline = client.ask("_rethread/outline", json!({"sessionId": session})).await;
        if outline["state"] == "running" && outline["turns"].as_array().is_some_and(|turns| !turns.is_empty())
        {
            break outline["turns"][0].clone();
        }
        tokio::task::yield_now().await;
    };
    assert!(turn.get("stopReason").is_none(), "{turn}");
    world.agent.open_gate("gate");
    client.finish(&session, &prompt).await;
}

/// All pieces of an export.
async fn exported(client: &Client, params: Value) -> (String, usize) {
    let (mut text, mut pieces, mut params) = (String::new(), 0, params);
    loop {
        let piece = client.ask("_rethread/export", params.clone()).await;
        text += piece["text"].as_str().expect("a piece has a text");
        pieces += 1;
        if piece.get("nextCursor").is_none() {
            return (text, pieces);
        }
        params["cursor"] = piece["nextCursor"].clone();
    }
}

async fn an_export_is_what_the_command_writes(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.longest_line = 200_000);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, "say \u{1}\u{7} odd characters; tool t1").await;
    for _ in 0..4 {
        client.prompt(&session, &format!("say {}", "naïve ".repeat(5_000))).await;
    }
    let id = SessionId(session.clone());
    let row = world.store.find(&id).await.expect("it can be read").expect("it is there");
    let mut lines = String::new();
    let write = |line: &str| {
        lines += line;
        Ok::<_, StoreError>(())
    };
    export_session(world.store.as_ref(), &row, ExportRedaction::Off, write).await.expect("it can be read");
    let (text, pieces) = exported(&client, json!({"sessionId": session, "format": "jsonl"})).await;
    assert!(text == lines && pieces > 3, "{} bytes of {} in {pieces} pieces", text.len(), lines.len());
    for (name, format) in [("markdown", TextFormat::Markdown), ("html", TextFormat::Html)] {
        let outline = SessionOutline::read(world.store.as_ref(), &row).await.expect("it can be read");
        let mut whole = format.head(&outline);
        each_turn(world.store.as_ref(), &id, |turn| {
            whole += &format.turn(&turn);
            Ok::<_, StoreError>(())
        })
        .await
        .expect("it can be read");
        whole += &format.foot(None);
        let params = json!({"sessionId": session, "format": name, "redact": false});
        assert!(exported(&client, params).await.0 == whole, "{name}");
    }
}

async fn an_export_can_be_redacted(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    client.prompt(&session, &format!("say {secret}")).await;
    for (format, redact, shown) in [
        ("jsonl", Value::Null, true),
        ("jsonl", json!(true), false),
        ("markdown", json!(true), false),
        ("html", Value::Null, false),
        ("html", json!(false), true),
    ] {
        let params = json!({"sessionId": session, "format": format, "redact": redact});
        assert_eq!(exported(&client, params).await.0.contains(secret), shown, "{format} {redact}");
    }
}

async fn bad_exports_are_refused(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.longest_line = 100_000);
    let client = world.ready().await;
    let session = client.new_session().await;
    client.prompt(&session, &format!("say {}", "word ".repeat(10_000))).await;
    let first = client.ask("_rethread/export", json!({"sessionId": session, "format": "jsonl"})).await;
    let cursor = &first["nextCursor"];
    assert!(cursor.is_string(), "there is more");
    let refused = async |field: &str, params: Value| {
        let error = client.refused("_rethread/export", params.clone()).await;
        assert_eq!(
            (&error["code"], &error["data"]["field"]),
            (&json!(-32602), &json!(field)),
            "{params} {error}"
        );
    };
    refused("format", json!({"sessionId": session})).await;
    refused("format", json!({"sessionId": session, "format": "pdf"})).await;
    refused("redact", json!({"sessionId": session, "format": "html", "redact": "yes"})).await;
    for cursor in ["", "1", "x.y", "99.1", "1.99"] {
        refused("cursor", json!({"sessionId": session, "format": "jsonl", "cursor": cursor})).await;
    }
    let other = client.new_session().await;
    refused("cursor", json!({"sessionId": other, "format": "jsonl", "cursor": cursor})).await;
    for _ in 0..4 {
        client.ask("_rethread/export", json!({"sessionId": session, "format": "jsonl"})).await;
    }
    refused("cursor", json!({"sessionId": session, "format": "jsonl", "cursor": cursor})).await;
    let error = client.refused("_rethread/export", json!({"sessionId": "nobody", "format": "jsonl"})).await;
    assert_eq!(error["code"], -32002, "{error}");
}

async fn usage_is_summed_up(pairing: Pairing) {
    let (_world, client, session) = World::begun(pairing).await;
    client.prompt(&session, "say one").await;
    client.prompt(&session, "say two").await;
    let usage = client.ask("_rethread/usage", json!({})).await;
    let rows = usage["rows"].as_array().expect("it has rows");
    assert_eq!(rows.iter().filter_map(|row| row["turns"].as_u64()).sum::<u64>(), 2, "{usage}");
    assert!(rows[0]["day"].as_str().is_some_and(|day| day.len() == 10) && rows[0]["agent"].is_string());
    for (filter, turns) in [
        (json!({"cwd": CWD}), 2),
        (json!({"cwd": "/elsewhere"}), 0),
        (json!({"agent": "nobody"}), 0),
        (json!({"since": "2020-01-01T00:00:00Z"}), 2),
        (json!({"since": "2100-01-01T00:00:00Z"}), 0),
    ] {
        let usage = client.ask("_rethread/usage", filter.clone()).await;
        let rows = usage["rows"].as_array().expect("it has rows");
        assert_eq!(rows.iter().filter_map(|row| row["turns"].as_u64()).sum::<u64>(), turns, "{filter}");
    }
    for (field, params) in [
        ("since", json!({"since": "yesterday"})),
        ("cwd", json!({"cwd": "relative"})),
        ("agent", json!({"agent": 7})),
    ] {
        let error = client.refused("_rethread/usage", params).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)), "{error}");
    }
}

pairings! {
    wire:
    an_outline_has_the_turns,
    a_running_turn_is_in_the_outline,
    an_export_is_what_the_command_writes,
    an_export_can_be_redacted,
    bad_exports_are_refused,
    usage_is_summed_up,
}

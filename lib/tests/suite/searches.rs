//! `_rethread/search`, by clients of both versions over agents of both versions.

use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

async fn search(client: &rethread_testkit::client::Client, params: Value) -> Value {
    client.ask("_rethread/search", params).await
}

fn passages(answer: &Value) -> Vec<String> {
    let text = |hit: &Value| {
        let parts = hit["passage"].as_array().expect("a passage has parts");
        let show = |part: &Value| match part["match"].as_bool() {
            Some(true) => format!("[{}]", part["text"].as_str().expect("a text")),
            _ => part["text"].as_str().expect("a text").to_owned(),
        };
        parts.iter().map(show).collect::<String>()
    };
    answer["hits"].as_array().expect("an answer has hits").iter().map(text).collect()
}

async fn messages_are_found_without_the_agent(pairing: Pairing) {
    let world = World::of(pairing);
    let client = world.connect();
    let answer = client.initialize().await;
    assert_eq!(answer["_meta"]["rethread"]["search"], json!({}), "it is advertised");
    let session = client.new_session().await;
    client.prompt(&session, "say hello to the zebra").await;
    let told = world.agent.received().len();
    let found = search(&client, json!({"query": "ZEBRA"})).await;
    assert_eq!(passages(&found), ["hello to the [zebra]", "say hello to the [zebra]"]);
    let hit = &found["hits"][1];
    assert_eq!(
        (&hit["sessionId"], &hit["turn"], &hit["speaker"]),
        (&json!(session), &json!(1), &json!("user"))
    );
    assert_eq!(hit["cwd"], rethread_testkit::client::CWD);
    assert_eq!(world.agent.received().len(), told, "the agent is not asked");
    assert_eq!(search(&client, json!({"query": "giraffe"})).await, json!({"hits": []}));
}

async fn searches_are_limited_and_come_in_pages(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let session = client.new_session().await;
    for text in ["one zebra", "two zebra", "three zebra"] {
        client.prompt(&session, &format!("say {text}")).await;
    }
    let params = json!({"query": "say zebra", "limit": 2});
    let first = search(&client, params.clone()).await;
    assert_eq!(passages(&first), ["[say] three [zebra]", "[say] two [zebra]"]);
    let second =
        search(&client, json!({"query": "say zebra", "limit": 2, "cursor": first["nextCursor"]})).await;
    assert_eq!(passages(&second), ["[say] one [zebra]"]);
    assert!(second.get("nextCursor").is_none());
    for (filter, hits) in [
        (json!({"cwd": rethread_testkit::client::CWD}), 3),
        (json!({"cwd": "/elsewhere"}), 0),
        (json!({"agent": "SCRIPTED"}), 3),
        (json!({"agent": "nobody"}), 0),
        (json!({"since": "2020-01-01T00:00:00Z", "cursor": null, "agent": null}), 3),
        (json!({"since": "2100-01-01T00:00:00+02:00"}), 0),
    ] {
        let mut params = filter.clone();
        params["query"] = json!("say zebra");
        assert_eq!(passages(&search(&client, params).await).len(), hits, "{filter}");
    }
}

async fn bad_parameters_are_refused(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    for (field, params) in [
        ("query", json!({})),
        ("query", json!({"query": 7})),
        ("query", json!({"query": "?!"})),
        ("query", json!({"query": "x".repeat(1_000_000)})),
        ("cwd", json!({"query": "x", "cwd": "relative"})),
        ("since", json!({"query": "x", "since": "yesterday"})),
        ("limit", json!({"query": "x", "limit": 0})),
        ("limit", json!({"query": "x", "limit": "many"})),
        ("cursor", json!({"query": "x", "cursor": "nonsense"})),
    ] {
        let error = client.refused("_rethread/search", params.clone()).await;
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)), "{error}");
        assert!(error.to_string().len() < 1000, "{field}");
    }
    let error = client.refused("_rethread/unknown", json!({})).await;
    assert_eq!(error["code"], -32601, "what is ours is not for the agent");
}

async fn an_answer_fits_our_own_line_limit(pairing: Pairing) {
    const LIMIT: usize = 10_000;
    let client = World::of(pairing).set(|config| config.longest_line = LIMIT).ready().await;
    let session = client.new_session().await;
    for _ in 0..15 {
        client.prompt(&session, &format!("say {}", "zebra ".repeat(100))).await;
    }
    let (mut seen, mut cursor) = (0, Value::Null);
    loop {
        let found = search(&client, json!({"query": "say zebra", "cursor": cursor})).await;
        assert!(found.to_string().len() < LIMIT, "{}", found.to_string().len());
        seen += found["hits"].as_array().map_or(0, Vec::len);
        cursor = found["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, 15);
}

pairings! {
    wire:
    messages_are_found_without_the_agent,
    searches_are_limited_and_come_in_pages,
    bad_parameters_are_refused,
    an_answer_fits_our_own_line_limit,
}

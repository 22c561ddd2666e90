//! Beside the rules: lines that are no messages, and lines that are too long.

use rethread::edge::Version;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::stage::{refused_line, works};

async fn bad_lines_are_answered_and_skipped(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let none = Value::Null;
    for line in ["not json", "{\"jsonrpc\":\"2.0\",", "[1,", "}", "{\"id\":01}", "\u{feff}{}"] {
        assert_eq!(refused_line(&client, line.as_bytes(), &none).await["code"], -32700, "{line}");
    }
    assert_eq!(refused_line(&client, b"{\"id\":1,\"method\":\"\xff\xfe\"}", &none).await["code"], -32700);
    for line in ["42", "\"text\"", "null", "true", "{}", r#"{"jsonrpc":"2.0"}"#, r#"{"method":5}"#] {
        assert_eq!(refused_line(&client, line.as_bytes(), &none).await["code"], -32600, "{line}");
    }
    for id in ["{}", "[1]", "true"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/list"}}"#);
        assert_eq!(refused_line(&client, line.as_bytes(), &none).await["code"], -32600, "{line}");
    }
    for params in ["[]", "5", "\"x\""] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":"p","method":"session/list","params":{params}}}"#);
        assert_eq!(refused_line(&client, line.as_bytes(), &json!("p")).await["code"], -32602, "{line}");
    }
    client.send_bytes(b"\n   \n\r\n").await;
    works(&client).await;
}

async fn bad_answers_of_a_client_are_ignored(pairing: Pairing) {
    let client = World::of(pairing).ready().await;
    let mark = client.mark();
    client.reply(&json!(77), Ok(json!({}))).await;
    client.reply(&json!("x"), Err(json!("no object"))).await;
    client.reply(&Value::Null, Ok(Value::Null)).await;
    works(&client).await;
    assert_eq!(client.server_messages_since(mark).len(), 1);
}

async fn a_line_that_is_too_long_is_refused_and_skipped(pairing: Pairing) {
    let world = World::of(pairing).set(|config| config.longest_line = 4096);
    let client = world.ready().await;
    let session = client.new_session().await;
    let text = "x".repeat(5000);
    let prompt = json!([{"type": "text", "text": text}]);
    let line = json!({"jsonrpc": "2.0", "id": 9, "method": "session/prompt",
        "params": {"sessionId": session, "prompt": prompt}});
    let error = refused_line(&client, line.to_string().as_bytes(), &Value::Null).await;
    assert_eq!(error["code"], -32700);
    assert_eq!(error["data"]["longest"], 4096);
    assert!(error["data"]["hint"].is_string());
    assert!(world.agent.received_params("session/prompt").is_empty());
    assert_eq!(client.prompt(&session, "say hello").await.stop, "end_turn");
}

#[tokio::test]
async fn a_line_of_100_megabytes_is_refused_and_skipped() {
    let world = World::of(Pairing::of(Version::V2, Version::V2));
    let client = world.ready().await;
    client
        .send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\",\"params\":{\"x\":\"")
        .await;
    let piece = vec![b'x'; 1_000_000];
    for _ in 0..100 {
        client.send_bytes(&piece).await;
    }
    client.send_bytes(b"\"}}\n").await;
    let error = client.answer(&Value::Null).await.expect_err("it is too long");
    assert_eq!(error["code"], -32700);
    works(&client).await;
}

pairings!(
    bad_lines_are_answered_and_skipped,
    bad_answers_of_a_client_are_ignored,
    a_line_that_is_too_long_is_refused_and_skipped,
);

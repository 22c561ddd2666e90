//! `/metrics`: what it says, who may read it, and that a client which never reads costs bounded memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::SinkExt;
use http::Request;
use http_body_util::Full;
use rethread::edge::Version;
use rethread::server::ClientRole;
use rethread_http::{HttpConfig, HttpLimits};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::fixture::{Listening, whole};
use crate::websocket::{next_json, plain_socket, subprotocol};

/// The numbers by name and labels.
async fn numbers(listening: &Listening) -> (String, BTreeMap<String, f64>) {
    let request = Request::get("/metrics")
        .header("host", listening.address.to_string())
        .header("authorization", format!("Bearer {}", listening.token))
        .body(Full::default())
        .expect("a valid request");
    let response = listening.send(request).await;
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().expect("text").to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = String::from_utf8(whole(response).await.to_vec()).expect("it is text");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').expect("a name and a number"));
    let numbers = pairs.map(|(name, number)| (name.to_owned(), number.parse().expect("a number"))).collect();
    (text, numbers)
}

#[tokio::test]
async fn numbers_of_sessions_clients_turns_and_errors_and_no_names() {
    let listening = Listening::start(Version::V1).await;
    assert_eq!(listening.status("GET", "/metrics", &[]).await, 401);
    assert_eq!(
        listening.status("GET", "/metrics", &[("authorization", "Bearer rethread_secret")]).await,
        401
    );
    let client = listening.websocket(Version::V1).await;
    let session = client.new_session_in(&listening.cwd()).await;
    client.prompt(&session, "say one; permit; say two").await;
    client
        .refused(
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": "fail"}]}),
        )
        .await;
    client.begin_prompt(&session, "say three; hang").await;
    client.wait_update(0, &session, "three", |update| update["content"]["text"] == "three").await;

    let (text, numbers) = numbers(&listening).await;
    let number = |name: &str| *numbers.get(name).unwrap_or_else(|| panic!("no {name} in {text}"));
    assert_eq!(number("rethread_sessions{state=\"running\"}"), 1.0);
    assert_eq!(number("rethread_sessions{state=\"idle\"}"), 0.0);
    assert_eq!((number("rethread_clients"), number("rethread_http_clients")), (1.0, 1.0));
    assert_eq!(number("rethread_agents"), 1.0);
    assert_eq!((number("rethread_turns_total"), number("rethread_turn_errors_total")), (3.0, 1.0));
    assert_eq!(number("rethread_questions_total"), 1.0);
    assert!(
        number("rethread_entries_total") > 10.0 && number("rethread_entry_bytes_total") > 100.0,
        "{text}"
    );
    assert_eq!(number("rethread_turn_seconds_count"), 2.0);
    assert_eq!(number("rethread_turn_seconds_bucket{le=\"+Inf\"}"), 2.0);
    assert!(number("rethread_append_seconds_count") >= number("rethread_turns_total"));
    assert_eq!(number("rethread_http_wrong_tokens_total"), 1.0);
    assert_eq!(number("rethread_http_answers_total{status=\"401\"}"), 2.0);
    assert!(text.ends_with("# EOF\n"), "{text}");
    for secret in [listening.token.as_str(), "rethread_secret", session.as_str(), "three"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

#[tokio::test]
async fn an_observer_may_read_them() {
    let listening = Listening::start(Version::V1).await;
    let token = listening.tokens.add("looks", ClientRole::Observer, None).await.expect("it can be made").text;
    let bearer = format!("Bearer {token}");
    assert_eq!(listening.status("GET", "/metrics", &[("authorization", &bearer)]).await, 200);
}

#[tokio::test]
async fn a_client_that_never_reads_costs_bounded_memory_and_slows_nobody() {
    // It stays although it answers no ping, however slow the machine is.
    let limits = HttpLimits { silence: Duration::from_secs(600), ..HttpLimits::default() };
    let listening = Listening::with(Version::V1, HttpConfig { limits, ..HttpConfig::default() }).await;
    let client = listening.websocket(Version::V1).await;
    client.set_deadline(Duration::from_secs(60));
    let session = client.new_session_in(&listening.cwd()).await;
    let (mut stuck, _) = plain_socket(&listening, &subprotocol(&listening.token)).await;
    let call = |id: u64, method: &str, params| {
        Message::Text(
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().into(),
        )
    };
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    stuck.send(call(0, "initialize", params)).await.expect("it is open");
    next_json(&mut stuck).await;
    let params = json!({"sessionId": session, "cwd": listening.cwd(), "mcpServers": []});
    stuck.send(call(1, "session/load", params)).await.expect("it is open");
    while next_json(&mut stuck).await["id"] != 1 {}
    // From here on it does not read: 48 MB are said.
    let long = format!("say {};", "x".repeat(64_000)).repeat(150);
    for _ in 0..5 {
        assert_eq!(client.prompt(&session, &long).await.stop, "end_turn");
        let waiting = numbers(&listening).await.1["rethread_http_waiting_bytes"];
        assert!(waiting < 9.0 * 1024.0 * 1024.0, "{waiting} bytes wait");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while numbers(&listening).await.1["rethread_http_waiting_bytes"] < 7.0 * 1024.0 * 1024.0 {
        assert!(Instant::now() < deadline, "it is really stuck");
    }
    drop(stuck);
}

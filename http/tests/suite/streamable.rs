//! Streamable HTTP: a conversation by POST and streams of events, coming back by `Last-Event-ID`, and wrong requests.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rethread::edge::Version;
use serde_json::{Value, json};

use crate::fixture::{Listening, json_of};

/// A client of streamable HTTP.
pub(crate) struct HttpClient<'a> {
    listening: &'a Listening,
    pub(crate) connection: String,
    next: u64,
}

/// The events of a stream.
pub(crate) struct Events {
    body: Incoming,
    text: Vec<u8>,
}

impl Events {
    /// The next event: its id and its message.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.text.drain(..end + 2).collect();
                let event = String::from_utf8(event).expect("it is text");
                let part =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                match (part("id: "), part("data: ")) {
                    (Some(id), Some(data)) => return Some((id, serde_json::from_str(&data).expect("JSON"))),
                    _ => continue,
                }
            }
            let frame = tokio::time::timeout(std::time::Duration::from_secs(20), self.body.frame());
            let frame = frame.await.expect("something comes")?.ok()?;
            self.text.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }
}

impl<'a> HttpClient<'a> {
    pub(crate) async fn begin(listening: &'a Listening) -> Self {
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let request = listening.request("POST", &[("content-type", "application/json")], message.to_string());
        let response = listening.send(request).await;
        assert_eq!(response.status(), 200);
        let connection = response.headers()["acp-connection-id"].to_str().expect("text").to_owned();
        let answer = json_of(response).await;
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        Self { listening, connection, next: 0 }
    }

    async fn post(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.post_message(message).await;
        self.next
    }

    async fn post_message(&self, message: Value) {
        let headers = [("content-type", "application/json"), ("acp-connection-id", &self.connection)];
        let request = self.listening.request("POST", &headers, message.to_string());
        assert_eq!(self.listening.send(request).await.status(), 202, "{message}");
    }

    pub(crate) async fn status_of_stream(
        &self,
        session: Option<&str>,
        after: Option<&str>,
    ) -> Result<Events, u16> {
        let mut headers =
            vec![("accept", "text/event-stream"), ("acp-connection-id", self.connection.as_str())];
        headers.extend(session.map(|session| ("acp-session-id", session)));
        headers.extend(after.map(|after| ("last-event-id", after)));
        let response = self.listening.send(self.listening.request("GET", &headers, Bytes::new())).await;
        match response.status().as_u16() {
            200 => Ok(Events { body: response.into_body(), text: Vec::new() }),
            status => Err(status),
        }
    }

    async fn stream(&self, session: Option<&str>, after: Option<&str>) -> Events {
        self.status_of_stream(session, after).await.expect("the stream opens")
    }

    /// A new session, with the stream of the connection.
    pub(crate) async fn new_session(&mut self) -> (String, Events) {
        let mut events = self.stream(None, None).await;
        (self.next_session(&mut events).await, events)
    }

    /// One more session; the events are those of the connection.
    async fn next_session(&mut self, events: &mut Events) -> String {
        let id = self.post("session/new", json!({"cwd": self.listening.cwd(), "mcpServers": []})).await;
        let (_, answer) = events.next().await.expect("it is answered");
        assert_eq!(answer["id"], id);
        answer["result"]["sessionId"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        self.post("session/prompt", params).await
    }
}

#[tokio::test]
async fn a_conversation_by_posts_and_streams() {
    let listening = Listening::start(Version::V1).await;
    let mut client = HttpClient::begin(&listening).await;
    let (session, mut connection) = client.new_session().await;
    let mut events = client.stream(Some(&session), None).await;
    let prompt = client.prompt(&session, "say one; permit; say two").await;
    let (mut said, mut answered) = (Vec::new(), false);
    while !answered {
        let (_, message) = events.next().await.expect("it goes on");
        if message["method"] == "session/request_permission" {
            let outcome = json!({"outcome": {"outcome": "selected", "optionId": message["params"]["options"][0]["optionId"]}});
            client.post_message(json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome})).await;
        }
        let text = message["params"]["update"]["content"]["text"].as_str();
        said.extend(text.map(str::to_owned));
        answered = message["id"] == prompt && message.get("method").is_none();
    }
    assert_eq!(said.first().map(String::as_str), Some("one"));
    assert_eq!(said.last().map(String::as_str), Some("two"));

    // Loading is answered on the stream of the connection, after the replay on that of the session.
    let load = json!({"sessionId": session, "cwd": listening.cwd(), "mcpServers": []});
    let load = client.post("session/load", load).await;
    let (_, answer) = connection.next().await.expect("it is answered");
    assert_eq!((answer["id"].as_u64(), answer["error"].clone()), (Some(load), Value::Null));

    let delete = listening.request("DELETE", &[("acp-connection-id", &client.connection)], Bytes::new());
    assert_eq!(listening.send(delete).await.status(), 202);
    assert!(connection.next().await.is_none(), "the streams end");
}

/// How often a stream is cut, and of how many chunks it is. `RETHREAD_CUTS` says more than is usual.
pub(crate) fn cuts() -> (usize, usize) {
    match std::env::var("RETHREAD_CUTS").ok().and_then(|cuts| cuts.parse().ok()) {
        Some(cuts) => (cuts, 5000),
        None => (20, 400),
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_goes_on_by_last_event_id() {
    let listening = Listening::start(Version::V1).await;
    let mut client = HttpClient::begin(&listening).await;
    let (session, mut connection) = client.new_session().await;
    let mut events = client.stream(Some(&session), None).await;
    let (wanted, chunks) = cuts();
    let prompt = client.prompt(&session, &format!("slow {chunks}")).await;
    let (mut text, mut cuts, mut seen, mut seed) = (String::new(), 0, 0, 12345_u64);
    let last = loop {
        let (id, message) = events.next().await.expect("it goes on");
        if message["id"] == prompt && message.get("method").is_none() {
            break id;
        }
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            text.push_str(update["content"]["text"].as_str().unwrap_or_default());
            seen += 1;
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // So that all cuts are done, at any moment, when the last chunk has arrived.
        if (seed >> 33) as usize % (chunks - seen).max(1) < wanted - cuts {
            cuts += 1;
            drop(events);
            events = client.stream(Some(&session), Some(&id)).await;
        }
    };
    let expected: Vec<String> = (1..=chunks).map(|n| format!("c{n}")).collect();
    assert_eq!(text, expected.join(" "));
    assert_eq!(cuts, wanted);
    assert_eq!(client.status_of_stream(Some(&session), Some("nonsense")).await.err(), Some(400));
    let epoch = last.split_once('.').expect("an id").0.to_owned();
    let future = format!("{epoch}.999999999");
    assert_eq!(client.status_of_stream(Some(&session), Some(&future)).await.err(), Some(400));
    assert_eq!(client.status_of_stream(Some(&session), Some("00000000.1")).await.err(), Some(410));
    let other = client.next_session(&mut connection).await;
    let mut others = client.stream(Some(&other), None).await;
    client.prompt(&other, "say one").await;
    others.next().await.expect("it goes on");
    let first = format!("{epoch}.1");
    assert_eq!(
        client.status_of_stream(Some(&other), Some(&first)).await.err(),
        Some(400),
        "of another session"
    );
}

#[tokio::test]
async fn a_stream_has_one_receiver() {
    let listening = Listening::start(Version::V1).await;
    let client = HttpClient::begin(&listening).await;
    let first = client.stream(None, None).await;
    assert_eq!(client.status_of_stream(None, None).await.err(), Some(409));
    drop(first);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while client.status_of_stream(None, None).await.is_err() {
        assert!(std::time::Instant::now() < deadline, "the end of the first one is noticed");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    client.stream(Some("a session that is not there yet"), None).await;
}

#[tokio::test]
async fn wrong_requests_get_the_status_that_clients_expect() {
    let config = rethread_http::HttpConfig { longest_message: 1000, ..rethread_http::HttpConfig::default() };
    let listening = Listening::with(Version::V1, config).await;
    let client = HttpClient::begin(&listening).await;
    let json = ("content-type", "application/json");
    let own = ("acp-connection-id", client.connection.as_str());
    let cases = [
        ("POST", vec![("content-type", "text/plain"), own], "{}".to_owned(), 415),
        ("POST", vec![json, own, ("content-encoding", "gzip")], "{}".to_owned(), 415),
        ("POST", vec![json], r#"{"method":"session/list"}"#.to_owned(), 400),
        ("POST", vec![json, ("acp-connection-id", "unknown")], r#"{"method":"x"}"#.to_owned(), 404),
        ("POST", vec![json, own], "[]".to_owned(), 400),
        ("POST", vec![json, own], "no".to_owned(), 400),
        ("POST", vec![json, own], format!("{{\"x\":\"{}\"}}", "x".repeat(2000)), 413),
        (
            "POST",
            vec![json, own, ("acp-session-id", "a")],
            r#"{"method":"x","params":{"sessionId":"b"}}"#.to_owned(),
            400,
        ),
        ("GET", vec![own, ("accept", "application/json")], String::new(), 406),
        ("PUT", vec![own], String::new(), 405),
    ];
    for (method, headers, body, status) in cases {
        let response = listening.send(listening.request(method, &headers, body.clone())).await;
        assert_eq!(response.status().as_u16(), status, "{method} {headers:?} {body:.80}");
    }
}

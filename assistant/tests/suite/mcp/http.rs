//! Tests that are specific to the two HTTP transports.

use std::time::Duration;

use rethread_assistant::mcp::{Limits, Servers};
use rethread_testkit::mcp::{Habit, Kind, WebServer};
use serde_json::json;

use super::fixture::{call, connected, echo, failure, limits, place, said, web};

#[tokio::test]
async fn a_session_is_deleted_on_close() {
    let server = WebServer::start(Kind::Streamable, &[], None).await;
    let servers = connected(vec![web("s", Kind::Streamable, &server, &[])]).await;
    servers.close().await;
    let last = server.asked().into_iter().rfind(|asked| asked.method == "DELETE").expect("it is ended");
    assert_eq!(last.header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_refused() {
    let server = WebServer::start(Kind::Sse, &[Habit::PointsElsewhere], None).await;
    let refused = failure(web("s", Kind::Sse, &server, &[("K", "hunter2")]), limits()).await;
    assert_eq!(refused.cause, "it named an endpoint that is not on the same server");
}

#[tokio::test]
async fn a_wrong_transport_is_reported() {
    let (http, sse) =
        (WebServer::start(Kind::Streamable, &[], None).await, WebServer::start(Kind::Sse, &[], None).await);
    let refused = failure(web("s", Kind::Sse, &http, &[]), limits()).await;
    assert_eq!(refused.cause, "HTTP 405 Method Not Allowed");
    assert_eq!(refused.remedy, "check its address and its type, and that it runs");
    // An HTTP+SSE server accepts the message and does not answer here.
    let limits = Limits { connect: Duration::from_secs(1), ..limits() };
    let refused = failure(web("s", Kind::Streamable, &sse, &[]), limits).await;
    assert!(!refused.cause.is_empty(), "{refused:?}");
}

#[tokio::test]
async fn the_end_of_an_event_stream_is_a_loss() {
    let server = WebServer::start(Kind::Sse, &[], None).await;
    let servers = connected(vec![web("s", Kind::Sse, &server, &[])]).await;
    let lost = call(&servers, "s.crash", json!({})).await.unwrap_err().to_string();
    assert!(lost.starts_with("MCP server s disconnected: "), "{lost}");
    server.stop();
    let gone = call(&servers, "s.echo", json!({})).await.unwrap_err().to_string();
    assert!(gone.starts_with("MCP server s is no longer available: it cannot be reached: "), "{gone}");
    assert_eq!(servers.tools(), []);
    servers.close().await;
}

#[tokio::test]
async fn a_streamable_server_that_is_down_says_so() {
    let server = WebServer::start(Kind::Streamable, &[], None).await;
    let servers = connected(vec![web("s", Kind::Streamable, &server, &[])]).await;
    server.stop();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let lost = call(&servers, "s.echo", json!({"text": "x"})).await.unwrap_err().to_string();
    assert!(lost.starts_with("MCP server s did not accept the call: it cannot be reached: "), "{lost}");
    servers.close().await;
}

#[tokio::test]
async fn invalid_members_are_tolerated_over_http() {
    for habits in [&[Habit::Lies][..], &[Habit::Lies, Habit::PrefersEvents]] {
        let server = WebServer::start(Kind::Streamable, habits, None).await;
        let servers = connected(vec![web("s", Kind::Streamable, &server, &[])]).await;
        assert_eq!(servers.tools().len(), 7);
        assert_eq!(echo(&servers, "s").await, "hello");
        servers.close().await;
    }
}

#[tokio::test]
async fn floods_and_long_answers_are_cut_off() {
    for kind in [Kind::Streamable, Kind::Sse] {
        let server = WebServer::start(kind, &[], None).await;
        let limits =
            Limits { message: 1024 * 1024, answer_text: 1000, call: Duration::from_secs(3), ..limits() };
        let (servers, failures) = Servers::connect(vec![web("s", kind, &server, &[])], place(), limits).await;
        assert_eq!(failures, []);
        let cut = said(&servers, "s.long", json!({"bytes": 500_000})).await;
        assert!(cut.ends_with("[the rest was left out: 488 KiB]"));
        let long = call(&servers, "s.long", json!({"bytes": 5_000_000})).await.unwrap_err().to_string();
        assert!(long.contains("of more than 1024 KiB"), "{kind:?}: {long}");
        assert_eq!(echo(&servers, "s").await, "hello", "{kind:?}");
        let flood = call(&servers, "s.flood", json!({})).await.unwrap_err().to_string();
        assert!(flood.starts_with("MCP server s "), "{kind:?}: {flood}");
        servers.close().await;
    }
}

#[tokio::test]
async fn a_stream_that_floods_is_ended_and_not_opened_again_and_again() {
    let server = WebServer::start(Kind::Streamable, &[Habit::FloodsItsStream], None).await;
    let servers = connected(vec![web("s", Kind::Streamable, &server, &[])]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let opened = server.asked().iter().filter(|asked| asked.method == "GET").count();
    assert!((1..10).contains(&opened), "it was opened {opened} times");
    assert_eq!(echo(&servers, "s").await, "hello", "the next call brings it back");
    servers.close().await;
}

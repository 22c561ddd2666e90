//! Tests of servers that crash, hang, send too much or send invalid data: a clear error with the server's name, and no
//! effect on the others.

use std::time::{Duration, Instant};

use rethread_assistant::mcp::{CallError, Limits, ServerConfig, Servers};
use rethread_testkit::mcp::Habit;
use serde_json::json;

use super::fixture::{call, connected, echo, failure, limits, place, said, stdio};

fn program(name: &str, command: &str) -> ServerConfig {
    ServerConfig::Stdio { name: name.into(), command: command.into(), args: Vec::new(), env: Vec::new() }
}

#[tokio::test]
async fn each_failure_is_reported_and_the_others_continue() {
    let limits = Limits { connect: Duration::from_secs(2), ..limits() };
    let configs = vec![
        stdio("silent", &[Habit::IsSilent], &[]),
        stdio("crashing", &[Habit::CrashesAtStart], &[]),
        program("missing", "/no/such/program"),
        program("folder", "/tmp"),
        ServerConfig::Http { name: "down".into(), url: "http://127.0.0.1:9/mcp".into(), headers: Vec::new() },
        ServerConfig::Sse {
            name: "down too".into(),
            url: "http://127.0.0.1:9/sse".into(),
            headers: Vec::new(),
        },
        stdio("good", &[], &[]),
    ];
    let begun = Instant::now();
    let (servers, failures) = Servers::connect(configs, place(), limits).await;
    assert!(begun.elapsed() < Duration::from_secs(8), "side by side: {:?}", begun.elapsed());
    let messages: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), 6, "{messages:#?}");
    assert_eq!(messages[0], "MCP server silent is not available: it did not answer in time");
    assert_eq!(
        messages[1],
        "MCP server crashing is not available: it ended with exit status 3; its last output:\n\
         the test server crashes, as it was told to"
    );
    assert_eq!(messages[2], "MCP server missing is not available: its program was not found");
    assert!(
        messages[3].starts_with("MCP server folder is not available: its program could not be started: ")
    );
    assert!(
        messages[4].starts_with("MCP server down is not available: it cannot be reached: "),
        "{}",
        messages[4]
    );
    assert!(
        messages[5].starts_with("MCP server down too is not available: it cannot be reached: "),
        "{}",
        messages[5]
    );
    assert!(failures.iter().all(|failure| !failure.remedy.is_empty()));
    assert_eq!(echo(&servers, "good").await, "hello");
    servers.close().await;
}

#[tokio::test]
async fn invalid_output_is_tolerated() {
    let servers = connected(vec![stdio("b", &[Habit::Babbles], &[])]).await;
    assert_eq!(echo(&servers, "b").await, "hello");
    servers.close().await;
}

#[tokio::test]
async fn invalid_lists_are_replaced_with_notes() {
    let servers = connected(vec![stdio("l", &[Habit::Lies], &[])]).await;
    let tools = servers.tools();
    let noted: Vec<(&str, bool)> =
        tools.iter().map(|tool| (tool.name.as_str(), tool.note.is_some())).collect();
    assert_eq!(
        noted,
        [
            ("none", true),
            ("text", true),
            ("string", true),
            ("huge", true),
            ("circle", true),
            ("deep", true),
            ("echo", false)
        ]
    );
    assert!(tools.iter().all(|tool| tool.schema["type"] == "object"));
    let notes: Vec<String> = servers.notes().into_iter().map(|note| note.text).collect();
    assert!(notes.contains(&"2 of its tools have no name and were left out".to_owned()), "{notes:#?}");
    assert!(
        notes.contains(&"circle: its schema refers to itself, so its arguments are not checked".to_owned())
    );
    assert_eq!(echo(&servers, "l").await, "hello");
    servers.close().await;
}

#[tokio::test]
async fn an_endless_list_is_cut() {
    let servers = connected(vec![stdio("e", &[Habit::ListsWithoutEnd], &[])]).await;
    assert_eq!(servers.tools().len(), 64);
    assert!(servers.notes()[0].text.starts_with("it has more tools than the limit"), "{:?}", servers.notes());
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_crashes_is_started_again_once() {
    let servers = connected(vec![stdio("c", &[], &[]), stdio("other", &[], &[])]).await;
    for _ in 0..2 {
        let lost = call(&servers, "c.crash", json!({})).await.unwrap_err();
        assert_eq!(
            lost.to_string(),
            "MCP server c disconnected: it ended with exit status 3; its last output:\n\
             the test server crashes, as it was told to"
        );
        assert_eq!(lost.hint(), Some("the next call starts it again"));
        // An answer allows the next restart.
        assert_eq!(echo(&servers, "c").await, "hello");
    }
    call(&servers, "c.crash", json!({})).await.unwrap_err();
    call(&servers, "c.crash", json!({})).await.unwrap_err();
    let gone = "MCP server c is no longer available: it disconnected again right after a restart";
    for _ in 0..2 {
        assert_eq!(call(&servers, "c.echo", json!({})).await.unwrap_err().to_string(), gone);
    }
    assert!(servers.tools().iter().all(|tool| tool.server == "other"));
    assert_eq!(echo(&servers, "other").await, "hello");
    servers.close().await;
}

#[tokio::test]
async fn parallel_calls_restart_a_lost_server_once() {
    let servers = connected(vec![stdio("c", &[], &[])]).await;
    call(&servers, "c.crash", json!({})).await.unwrap_err();
    let calls = (0..8).map(|_| echo(&servers, "c"));
    assert_eq!(futures::future::join_all(calls).await, ["hello"; 8]);
    servers.close().await;
}

#[tokio::test]
async fn a_call_of_a_hanging_server_times_out() {
    let limits = Limits { call: Duration::from_millis(300), ..limits() };
    let (servers, _) = Servers::connect(vec![stdio("h", &[], &[])], place(), limits).await;
    let late = call(&servers, "h.hang", json!({})).await.unwrap_err();
    assert_eq!(late, CallError::TimedOut { server: "h".into(), after: Duration::from_millis(300) });
    assert_eq!(late.to_string(), "MCP server h did not answer within 0.3 s");
    assert_eq!(echo(&servers, "h").await, "hello");
    assert_ne!(said(&servers, "h.cancelled", json!({})).await, "[]", "it got a cancellation");
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_floods_is_cut_off() {
    let servers = connected(vec![stdio("f", &[], &[])]).await;
    for tool in ["f.flood", "f.pester"] {
        let lost = call(&servers, tool, json!({})).await.unwrap_err().to_string();
        assert!(lost.starts_with("MCP server f disconnected: it sends too much: "), "{lost}");
        assert_eq!(echo(&servers, "f").await, "hello", "it was started again");
    }
    servers.close().await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_cut_or_refused() {
    let limits = Limits { message: 1024 * 1024, answer_text: 1000, ..limits() };
    let (servers, _) = Servers::connect(vec![stdio("l", &[], &[])], place(), limits).await;
    let cut = said(&servers, "l.long", json!({"bytes": 500_000})).await;
    assert!(cut.starts_with(&"x".repeat(1000)) && cut.ends_with("[the rest was left out: 488 KiB]"), "{cut}");
    let lost = call(&servers, "l.long", json!({"bytes": 5_000_000})).await.unwrap_err().to_string();
    assert!(lost.starts_with("MCP server l disconnected: it sent a line of more than 1024 KiB"), "{lost}");
    assert_eq!(echo(&servers, "l").await, "hello");
    servers.close().await;
}

#[tokio::test]
async fn two_servers_of_one_name_get_different_names() {
    let servers = connected(vec![stdio("a b", &[], &[]), stdio("a.b", &[], &[])]).await;
    assert_eq!(echo(&servers, "a_b").await, "hello");
    assert_eq!(echo(&servers, "a_b-2").await, "hello");
    servers.close().await;
}

#[tokio::test]
async fn a_failed_handshake_is_reported() {
    let failed = failure(stdio("s", &[Habit::BeginsBadly], &[]), limits()).await;
    assert_eq!(
        failed.cause,
        "its handshake is not that of an MCP server: its answer to initialize is {\"protocolVersion\":\"2025-06-18\"}"
    );
}

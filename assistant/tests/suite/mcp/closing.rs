//! Tests that no process of a server is left after closing, after a failure, and after dropping.

use std::time::Duration;

use rethread_assistant::mcp::{Limits, Servers};
use rethread_testkit::mcp::Habit;
use serde_json::json;

use super::fixture::{Pids, call, connected, echo, failure, limits, place};

#[tokio::test]
async fn a_close_ends_the_server_and_what_it_started() {
    let pids = Pids::new();
    let servers = connected(vec![pids.of("s", &[Habit::HasChild])]).await;
    assert_eq!(echo(&servers, "s").await, "hello");
    servers.close().await;
    pids.assert_gone(2, Duration::from_millis(50)).await;
    servers.close().await;
}

#[tokio::test]
async fn a_stubborn_server_is_killed() {
    let pids = Pids::new();
    let servers = connected(vec![pids.of("s", &[Habit::IsStubborn, Habit::HasChild])]).await;
    servers.close().await;
    pids.assert_gone(2, Duration::from_millis(50)).await;
}

#[tokio::test]
async fn a_server_that_does_not_read_is_closed_all_the_same() {
    let pids = Pids::new();
    let limits = Limits { call: Duration::from_millis(200), ..limits() };
    let (servers, _) = Servers::connect(vec![pids.of("s", &[])], place(), limits).await;
    // More than the pipe holds, to a server that writes forever and does not read.
    let flood = call(&servers, "s.flood", json!({}));
    let stuffed = call(&servers, "s.echo", json!({"text": "x".repeat(1_000_000)}));
    let (flood, _) = tokio::join!(flood, stuffed);
    flood.unwrap_err();
    servers.close().await;
    pids.assert_gone(pids.all().len(), Duration::from_secs(3)).await;
}

#[tokio::test]
async fn a_failure_leaves_nothing() {
    let pids = Pids::new();
    let limits = Limits { connect: Duration::from_millis(500), ..limits() };
    failure(pids.of("s", &[Habit::IsSilent, Habit::IsStubborn, Habit::HasChild]), limits).await;
    pids.assert_gone(2, Duration::from_millis(50)).await;
}

#[tokio::test]
async fn servers_that_are_dropped_end_too() {
    let pids = Pids::new();
    let servers = connected(vec![pids.of("s", &[Habit::IsStubborn, Habit::HasChild])]).await;
    drop(servers);
    pids.assert_gone(2, Duration::from_secs(3)).await;
}

#[tokio::test]
async fn a_server_that_was_lost_leaves_nothing() {
    let pids = Pids::new();
    let servers = connected(vec![pids.of("s", &[Habit::HasChild])]).await;
    call(&servers, "s.crash", json!({})).await.unwrap_err();
    pids.assert_gone(2, Duration::from_secs(3)).await;
    servers.close().await;
}

//! Tests that values of `env` and headers appear in no output.

use rethread_assistant::mcp::{ServerConfig, ServerFailure};
use rethread_core::Json;
use rethread_testkit::mcp::program::TELLS;
use rethread_testkit::mcp::{Habit, Kind, WebServer};
use serde_json::json;

use super::fixture::{call, connected, failure, limits, said, stdio, web};

const KEY: &str = "opensesame-4711";

fn assert_clean(text: &str) {
    assert!(!text.contains(KEY), "{text}");
    assert!(text.contains("[secret]"), "{text}");
}

#[tokio::test]
async fn the_last_output_of_a_server_has_no_secrets() {
    let env = [("API_KEY", KEY), (TELLS, "API_KEY")];
    let failed: ServerFailure = failure(stdio("s", &[Habit::CrashesAtStart], &env), limits()).await;
    assert_clean(&failed.cause);
    let servers = connected(vec![stdio("s", &[], &env)]).await;
    assert_clean(&call(&servers, "s.crash", json!({})).await.unwrap_err().to_string());
    let refused = call(&servers, "s.refuse", json!({"text": format!("bad key {KEY}")})).await.unwrap_err();
    assert_clean(&refused.to_string());
    assert_clean(&format!("{refused:?}"));
    servers.close().await;
}

#[tokio::test]
async fn results_have_no_keys() {
    let address = format!("postgres://me:{KEY}@db/app");
    let env = [("API_KEY", KEY), ("PLAIN", "nothing special"), ("DATABASE", &*address)];
    let servers = connected(vec![stdio("s", &[], &env)]).await;
    assert_eq!(said(&servers, "s.env", json!({"text": "DATABASE"})).await, "[secret]");
    assert_eq!(said(&servers, "s.echo", json!({"text": format!("it is {KEY}")})).await, "it is [secret]");
    assert_eq!(said(&servers, "s.env", json!({"text": "API_KEY"})).await, "[secret]");
    assert_eq!(said(&servers, "s.env", json!({"text": "PLAIN"})).await, "nothing special");
    servers.close().await;
}

#[tokio::test]
async fn headers_are_sent_and_not_shown() {
    for kind in [Kind::Streamable, Kind::Sse] {
        let server = WebServer::start(kind, &[], Some(("x-api-key", KEY))).await;
        let servers = connected(vec![web("s", kind, &server, &[("X-Api-Key", KEY)])]).await;
        let refused =
            call(&servers, "s.refuse", json!({"text": format!("bad key {KEY}")})).await.unwrap_err();
        assert_clean(&refused.to_string());
        servers.close().await;
        assert!(server.asked().iter().all(|asked| asked.header("x-api-key") == Some(KEY)));

        let refused = failure(web("s", kind, &server, &[("X-Api-Key", "wrong-key-42")]), limits()).await;
        assert_eq!(refused.cause, r#"HTTP 401 Unauthorized: {"error":"who are you?"}"#);
        assert_eq!(refused.remedy, "check its headers: it requires authentication");
    }
}

#[tokio::test]
async fn a_key_in_the_url_is_not_shown() {
    let url = format!("http://127.0.0.1:9/mcp?key={KEY}");
    for config in [
        ServerConfig::Http { name: "s".into(), url: url.clone(), headers: Vec::new() },
        ServerConfig::Sse { name: "s".into(), url: url.clone(), headers: Vec::new() },
    ] {
        let failed = failure(config, limits()).await;
        assert!(!format!("{failed} {failed:?}").contains(KEY), "{failed:?}");
    }
}

#[test]
fn a_configuration_from_a_client_prints_none() {
    let list = json!([
        {"name": "a", "command": "x", "env": [{"name": "K", "value": KEY}]},
        {"type": "http", "name": "b", "url": "https://h/", "headers": [{"name": "K", "value": KEY}]},
    ]);
    let (servers, wrong) = rethread_assistant::mcp::from_acp(&Json::from(list));
    assert!(wrong.is_empty() && servers.len() == 2);
    assert_clean(&format!("{servers:?}"));
}

//! Real MCP servers: server-everything over stdio, streamable HTTP and events, and server-filesystem. Runs if
//! `RETHREAD_MCP_SERVERS` names the `node_modules` that they are in; `.ci/mcp-servers` installs them there, and
//! `.ci/mcp-servers test` runs this.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::{Duration, Instant};

use rethread::command::Environment;
use rethread_assistant::mcp::{
    CallError, Content, Limits, McpToolResult, Secret, ServerConfig, Servers, SessionEnvironment,
};
use rethread_testkit::mcp::real::{modules, script, serve};
use rethread_testkit::processes::{assert_gone_by, descendants_of};
use serde_json::{Value, json};

/// A secret that the servers get and that must not appear in output.
const KEY: &str = "opensesame-4711";

fn node(name: &str, args: &[String]) -> ServerConfig {
    let env = vec![("API_KEY".to_owned(), Secret::new(KEY))];
    ServerConfig::Stdio { name: name.into(), command: "node".into(), args: args.to_vec(), env }
}

async fn connect(configs: Vec<ServerConfig>, root: &Path) -> Servers {
    let place = SessionEnvironment {
        cwd: root.to_owned(),
        roots: vec![root.to_owned()],
        variables: Environment::Inherited,
        hidden: Vec::new(),
        guardian: None,
    };
    let broken = ServerConfig::Stdio {
        name: "broken".into(),
        command: "node".into(),
        args: vec!["--no-such-option".into()],
        env: Vec::new(),
    };
    let configs = configs.into_iter().chain([broken]).collect();
    let (servers, failures) = Servers::connect(configs, place, Limits::default()).await;
    let messages: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), 1, "the one that must fail: {messages:#?}");
    assert!(
        messages[0].starts_with("MCP server broken is not available: it ended with exit status "),
        "{messages:?}"
    );
    assert!(messages[0].contains("no-such-option"), "{messages:?}");
    servers
}

async fn call(servers: &Servers, name: &str, arguments: Value) -> Result<McpToolResult, CallError> {
    servers.call(name, arguments, std::future::pending()).await
}

async fn said(servers: &Servers, name: &str, arguments: Value) -> String {
    let answer = call(servers, name, arguments).await.expect("it works");
    assert!(!answer.is_error, "{answer:?}");
    let text = |content: &Content| {
        let Content::Text(text) = content else { return None };
        Some(text.clone())
    };
    answer.content.iter().filter_map(text).collect()
}

/// The checks of server-everything for every transport. `ours` finds its process, if this test started it.
async fn everything(config: ServerConfig, ours: Option<[&str; 2]>) {
    let root = tempfile::tempdir().expect("a folder can be made");
    let servers = connect(vec![config], root.path()).await;
    let tools = servers.tools();
    assert!(tools.iter().any(|tool| tool.shown_name == "e.echo"), "{tools:#?}");
    assert!(tools.iter().all(|tool| tool.note.is_none() && tool.provider_name.len() <= 64));
    assert!(said(&servers, "e.echo", json!({"message": "hello"})).await.contains("hello"));
    assert!(said(&servers, "e__get-sum", json!({"a": 2, "b": 40})).await.contains("42"));
    let image = call(&servers, "e.get-tiny-image", json!({})).await.expect("it works");
    assert!(image.content.iter().any(|content| matches!(content, Content::Image { .. })), "{image:?}");
    let data =
        call(&servers, "e.get-structured-content", json!({"location": "Chicago"})).await.expect("it works");
    assert!(data.structured.is_some(), "{data:?}");
    let refused = call(&servers, "e.get-sum", json!({"a": "no number"})).await;
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.is_error));
    let env = said(&servers, "e.get-env", json!({})).await;
    assert!(!env.contains(KEY), "a key was given away");
    let soon = tokio::time::sleep(Duration::from_millis(200));
    let long = json!({"duration": 60, "steps": 60});
    let cancelled =
        servers.call("e.trigger-long-running-operation", long, soon).await.expect_err("it must fail");
    assert!(matches!(cancelled, CallError::Cancelled { .. }), "{cancelled}");
    prompts_and_resources(&servers).await;
    eprintln!(
        "{} tools, {} prompts, {} resources",
        tools.len(),
        servers.prompts().len(),
        servers.resources().len()
    );
    let started = ours.map(running).unwrap_or_default();
    assert!(ours.is_none() || !started.is_empty(), "it runs");
    servers.close().await;
    assert_gone_by(Instant::now() + Duration::from_millis(100), &started, "server-everything").await;
    assert!(matches!(call(&servers, "e.echo", json!({})).await, Err(CallError::Gone { .. })));
}

async fn prompts_and_resources(servers: &Servers) {
    let simple = servers.prompts().into_iter().find(|prompt| prompt.arguments.is_empty());
    let simple = simple.expect("it has a prompt without arguments");
    let messages = servers.get_prompt("e", &simple.name, Default::default(), std::future::pending()).await;
    assert!(!messages.expect("it works").is_empty());
    let resource = servers.resources().into_iter().next().expect("it has a resource");
    let contents = servers.read_resource("e", &resource.uri, std::future::pending()).await.expect("it works");
    assert!(!contents.is_empty());
}

#[tokio::test]
async fn everything_over_stdio() {
    let Some(modules) = modules() else { return };
    everything(
        node("e", &[script(&modules, "server-everything"), "stdio".into()]),
        Some(["server-everything", "stdio"]),
    )
    .await;
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let Some(modules) = modules() else { return };
    let (_server, port) = serve(&modules, "streamableHttp").await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    everything(ServerConfig::Http { name: "e".into(), url, headers: Vec::new() }, None).await;
}

#[tokio::test]
async fn everything_over_events() {
    let Some(modules) = modules() else { return };
    let (_server, port) = serve(&modules, "sse").await;
    let url = format!("http://127.0.0.1:{port}/sse");
    everything(ServerConfig::Sse { name: "e".into(), url, headers: Vec::new() }, None).await;
}

#[tokio::test]
async fn files_over_stdio_and_no_process_left() {
    let Some(modules) = modules() else { return };
    let root = tempfile::tempdir().expect("a folder can be made");
    std::fs::write(root.path().join("note.txt"), "in the file").expect("it works");
    let path = root.path().canonicalize().expect("it works").to_string_lossy().into_owned();
    let servers =
        connect(vec![node("f", &[script(&modules, "server-filesystem"), path.clone()])], root.path()).await;
    let read = said(&servers, "f.read_text_file", json!({"path": format!("{path}/note.txt")})).await;
    assert_eq!(read, "in the file");
    let outside =
        call(&servers, "f.read_text_file", json!({"path": "/etc/hostname"})).await.expect("it works");
    assert!(outside.is_error, "{outside:?}");
    let started = running(["server-filesystem", &path]);
    assert!(!started.is_empty(), "it runs");
    servers.close().await;
    assert_gone_by(Instant::now() + Duration::from_millis(100), &started, "server-filesystem").await;
}

/// Child processes with these words in their command lines; other tests of this file run in parallel.
fn running(words: [&str; 2]) -> Vec<i32> {
    let line = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let fits = |pid: &i32| words.iter().all(|word| String::from_utf8_lossy(&line(pid)).contains(word));
    descendants_of(std::process::id().cast_signed()).into_iter().filter(fits).collect()
}

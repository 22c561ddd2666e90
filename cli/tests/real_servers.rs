//! The assistant with real MCP servers: server-everything on stdio, over streamable HTTP and over events, and one that fails. Runs
//! if `RETHREAD_MCP_SERVERS` names the `node_modules` that it is in; `.ci/mcp-servers test` does.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::mcp::real::{modules, script, serve};
use rethread_testkit::processes::{assert_gone_by, descendants_of};
use rethread_testkit::program::{Home, Program};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(2);

/// The servers as a client of this version names them.
fn servers(version: Version, script: &str, port: u16) -> Value {
    let mut local = json!({"name": "local", "command": "node", "args": [script, "stdio"], "env": []});
    let mut broken = json!({"name": "broken", "command": "node", "args": ["--no-such-option"], "env": []});
    if version == Version::V2 {
        local["type"] = json!("stdio");
        broken["type"] = json!("stdio");
    }
    let url = format!("http://127.0.0.1:{port}/mcp");
    json!([local, broken, {"type": "http", "name": "web", "url": url, "headers": []}])
}

async fn open(home: &Home, version: Version, script: &str, port: u16) -> (Program, String) {
    let program = Program::start(home.command(&["acp"]), version);
    let client = &program.client;
    client.set_deadline(Duration::from_secs(60));
    client.initialize().await;
    client.on("session/request_permission", |_| {
        Some(Ok(json!({"outcome": {"outcome": "selected", "optionId": "allow"}})))
    });
    let cwd = home.beside().display().to_string();
    let made =
        client.ask("session/new", json!({"cwd": cwd, "mcpServers": servers(version, script, port)})).await;
    (program, made["sessionId"].as_str().expect("a session has an id").to_owned())
}

async fn use_them(client: &Client, session: &str) {
    client.prompt(session, "/tools").await;
    let tools = client.view(session).agent().concat();
    for name in ["`local.echo`", "`local.get-sum`", "`web.echo`", "`web.get-sum`"] {
        assert!(tools.contains(name), "{name} in {tools}");
    }
    client.prompt(session, "/call local.echo {\"message\": \"from stdio\"}").await;
    client.prompt(session, "/call web.get-sum {\"a\": 2, \"b\": 40}").await;
    client.prompt(session, "/call web.get-sum {\"a\": \"two\"}").await;
    let updates = Value::from(client.updates(session)).to_string();
    assert!(updates.contains("Echo: from stdio") && updates.contains("42"), "{updates}");
    assert!(updates.contains("\"failed\""), "a call that fails is told: {updates}");
    let heard = Value::from(client.server_messages()).to_string();
    assert!(heard.contains("MCP server broken is not available"), "{heard}");
}

/// The processes of servers below a program.
fn started(program: &Program) -> Vec<i32> {
    let line = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_node = |pid: &i32| String::from_utf8_lossy(&line(pid)).contains("server-everything");
    let pids: Vec<i32> = descendants_of(program.pid()).into_iter().filter(is_node).collect();
    assert!(!pids.is_empty(), "the server runs");
    pids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_used_and_end_with_their_session() {
    let Some(modules) = modules() else { return };
    let script = script(&modules, "server-everything");
    let (_web, port) = serve(&modules, "streamableHttp").await;
    for version in [Version::V1, Version::V2] {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let (mut program, session) = open(&home, version, &script, port).await;
        use_them(&program.client, &session).await;
        let pids = started(&program);
        let closed = Instant::now();
        program.client.close(&session).await.expect("it can be closed");
        assert_gone_by(closed + LIMIT, &pids, "session/close").await;
        eprintln!("v{}: closed, nothing left after {:?}", version.number(), closed.elapsed());
        program.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_end_with_the_program_however_it_ends() {
    let Some(modules) = modules() else { return };
    let script = script(&modules, "server-everything");
    let (_web, port) = serve(&modules, "streamableHttp").await;
    for way in ["kill -9", "end of input"] {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let (mut program, _) = open(&home, Version::V2, &script, port).await;
        let pids = started(&program);
        let ended = Instant::now();
        match way {
            "kill -9" => program.kill().await,
            _ => program.client.disconnect().await,
        }
        assert_gone_by(ended + LIMIT, &pids, way).await;
        eprintln!("{way}: nothing left after {:?}", ended.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_server_is_used_by_clients_of_version_one() {
    let Some(modules) = modules() else { return };
    let (_web, port) = serve(&modules, "sse").await;
    let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
    let program = Program::start(home.command(&["acp"]), Version::V1);
    let client = &program.client;
    client.initialize().await;
    client.on("session/request_permission", |_| {
        Some(Ok(json!({"outcome": {"outcome": "selected", "optionId": "allow"}})))
    });
    let url = format!("http://127.0.0.1:{port}/sse");
    let old = json!({"type": "sse", "name": "old", "url": url, "headers": []});
    let made = client.ask("session/new", json!({"cwd": home.beside(), "mcpServers": [old]})).await;
    let session = made["sessionId"].as_str().expect("a session has an id");
    client.prompt(session, "/call old.echo {\"message\": \"by events\"}").await;
    let updates = Value::from(client.updates(session)).to_string();
    assert!(updates.contains("Echo: by events"), "{updates}");
    client.close(session).await.expect("it can be closed");
}

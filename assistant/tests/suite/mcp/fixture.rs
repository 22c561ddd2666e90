//! Test fixtures: MCP servers on each transport, and short time limits.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rethread::command::Environment;
use rethread_assistant::mcp::{
    CallError, Content, Limits, McpToolResult, Secret, ServerConfig, ServerFailure, Servers,
    SessionEnvironment,
};
use rethread_testkit::mcp::program::{self, PIDS};
use rethread_testkit::mcp::{Habit, Kind, WebServer};
use rethread_testkit::processes::assert_gone_by;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Short limits, but long enough for a busy machine.
pub(crate) fn limits() -> Limits {
    Limits { connect: Duration::from_secs(10), call: Duration::from_secs(10), ..Limits::default() }
}

pub(crate) fn place() -> SessionEnvironment {
    let cwd = std::env::temp_dir();
    SessionEnvironment {
        roots: vec![cwd.clone(), PathBuf::from("/with space")],
        cwd,
        variables: Environment::Inherited,
        hidden: Vec::new(),
        guardian: None,
    }
}

/// The test server on stdio.
pub(crate) fn stdio(name: &str, habits: &[Habit], env: &[(&str, &str)]) -> ServerConfig {
    ServerConfig::Stdio {
        name: name.to_owned(),
        command: program::path().to_string_lossy().into_owned(),
        args: habits.iter().map(|habit| habit.word().to_owned()).collect(),
        env: secrets(env),
    }
}

/// A test server on loopback with this transport.
pub(crate) fn web(name: &str, kind: Kind, server: &WebServer, headers: &[(&str, &str)]) -> ServerConfig {
    let (name, url, headers) = (name.to_owned(), server.url(), secrets(headers));
    match kind {
        Kind::Streamable => ServerConfig::Http { name, url, headers },
        Kind::Sse => ServerConfig::Sse { name, url, headers },
    }
}

fn secrets(pairs: &[(&str, &str)]) -> Vec<(String, Secret)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

/// Connects servers and asserts that none fails.
pub(crate) async fn connected(configs: Vec<ServerConfig>) -> Servers {
    let (servers, failures) = Servers::connect(configs, place(), limits()).await;
    assert_eq!(failures, []);
    servers
}

/// Connects one server and asserts that it fails.
pub(crate) async fn failure(config: ServerConfig, limits: Limits) -> ServerFailure {
    let (servers, mut failures) = Servers::connect(vec![config], place(), limits).await;
    assert!(servers.is_empty() && failures.len() == 1, "{failures:?}");
    failures.remove(0)
}

pub(crate) async fn call(
    servers: &Servers,
    name: &str,
    arguments: Value,
) -> Result<McpToolResult, CallError> {
    servers.call(name, arguments, std::future::pending()).await
}

/// The text of a result with one content block.
pub(crate) async fn said(servers: &Servers, name: &str, arguments: Value) -> String {
    let answer = call(servers, name, arguments).await.expect("it works");
    match answer.content.as_slice() {
        [Content::Text(text)] => text.clone(),
        other => panic!("{name} said {other:?}"),
    }
}

pub(crate) async fn echo(servers: &Servers, server: &str) -> String {
    said(servers, &format!("{server}.echo"), json!({"text": "hello"})).await
}

/// Collects the process ids of servers.
pub(crate) struct Pids {
    folder: TempDir,
}

impl Pids {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder can be made") }
    }

    pub(crate) fn path(&self) -> String {
        self.folder.path().join("pids").to_string_lossy().into_owned()
    }

    pub(crate) fn of(&self, name: &str, habits: &[Habit]) -> ServerConfig {
        stdio(name, habits, &[(PIDS, &self.path())])
    }

    pub(crate) fn all(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        text.lines().map(|line| line.parse().expect("a number on each line")).collect()
    }

    /// Waits until all of them have exited, with a time limit.
    pub(crate) async fn assert_gone(&self, count: usize, within: Duration) {
        let all = self.all();
        assert_eq!(all.len(), count, "processes that were started");
        let deadline = Instant::now() + within;
        assert_gone_by(deadline, &all, "the servers").await;
        // The first one is a child of this process and must have been reaped.
        #[cfg(target_os = "linux")]
        while PathBuf::from(format!("/proc/{}", all[0])).exists() {
            assert!(Instant::now() < deadline, "{} was not collected", all[0]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

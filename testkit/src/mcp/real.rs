//! Starts real MCP servers where they are installed; `.ci/mcp-servers` installs them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::DEADLINE;

const FOLDER: &str = "RETHREAD_MCP_SERVERS";

/// The `node_modules` folder with the servers; `None` if tests with them are not to run.
#[must_use]
pub fn modules() -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: {FOLDER} names no folder");
    }
    folder
}

/// The program of a server.
#[must_use]
pub fn script(modules: &Path, name: &str) -> String {
    modules.join("@modelcontextprotocol").join(name).join("dist/index.js").to_string_lossy().into_owned()
}

/// Starts server-everything for a transport over HTTP, on a free port; it ends with the handle.
///
/// # Panics
///
/// If it does not start in time.
pub async fn serve(modules: &Path, transport: &str) -> (Child, u16) {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free.expect("loopback has a free port").port();
    let mut command = Command::new("node");
    command.args([script(modules, "server-everything"), transport.to_owned()]);
    command.env("PORT", port.to_string()).env("API_KEY", "a key that is no secret of ours");
    command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut server = command.spawn().expect("node starts");
    let mut lines = BufReader::new(server.stderr.take().expect("it was piped")).lines();
    let ready = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains(&port.to_string()) {
                return;
            }
        }
        panic!("server-everything did not start");
    };
    tokio::time::timeout(DEADLINE, ready).await.expect("server-everything starts in time");
    // Its output must be read, or it would block.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (server, port)
}

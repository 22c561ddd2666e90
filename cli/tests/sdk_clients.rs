//! The clients of the official TypeScript SDK, by streamable HTTP and by WebSocket, in both versions, with `rethread serve` and a
//! scripted agent. Runs if `RETHREAD_SDK_CLIENTS` names the folder in which the SDK is installed; `.ci/sdk-clients test` does.
#![cfg(target_os = "linux")]

use std::fs;
use std::time::Duration;

use rethread::edge::Version;
use rethread_testkit::program::Home;

/// Long, for a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

#[tokio::test]
async fn the_typescript_clients_hold_a_whole_conversation() {
    let Ok(modules) = std::env::var("RETHREAD_SDK_CLIENTS") else {
        eprintln!("SKIPPED: RETHREAD_SDK_CLIENTS does not name a folder with the TypeScript SDK");
        return;
    };
    for agent in [Version::V1, Version::V2] {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let words: Vec<String> =
            home.scripted(agent).iter().map(|word| format!("{:?}", word.to_string_lossy())).collect();
        let cwd = home.beside().canonicalize().expect("it exists").display().to_string();
        let text = format!(
            "default_agent = \"scripted\"\n[agents.scripted]\ncommand = [{}]\n[serve]\nroots = [{cwd:?}]\n",
            words.join(", ")
        );
        fs::create_dir_all(home.path()).expect("a folder can be made");
        fs::write(home.path().join("config.toml"), text).expect("it can be written");
        let server = home.serve_http(&[]).await;
        let url =
            server.addresses.iter().find(|address| address.starts_with("http://")).expect("it has HTTP");
        let token = home.command(&["token", "new", "sdk"]).output().await.expect("it runs").stdout;
        let token = String::from_utf8(token).expect("it is text");
        for version in ["1", "2"] {
            for transport in ["http", "ws"] {
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/client.mjs");
                let mut node = tokio::process::Command::new("node");
                node.args([script, &modules, version, transport, url, token.trim_end(), &cwd]);
                let run = tokio::time::timeout(LIMIT, node.kill_on_drop(true).output()).await;
                let run = run.expect("it ends").expect("node is here");
                let said = String::from_utf8_lossy(&run.stderr);
                assert!(run.status.success(), "version {version} by {transport}, {agent:?}: {said}");
                eprint!("{}", String::from_utf8_lossy(&run.stdout));
            }
        }
    }
}

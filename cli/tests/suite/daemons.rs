//! Processes that a command or an MCP server has put into a session of their own, as daemons and browsers are: they
//! end with it, and with the program, however that ends.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::processes::{assert_gone_by, left_of, signal};
use rethread_testkit::program::{Home, Program};
use serde_json::{Value, json};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];
/// What the promise says.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// For what must happen but is not measured.
const SOON: Duration = Duration::from_secs(10);
/// Starts a daemon without a word of our environment, and one that does not end when it is asked to.
const DAEMONS: &str = "env -i setsid sleep 60 > /dev/null 2>&1 < /dev/null & echo $! >> pids
    setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' > /dev/null 2>&1 < /dev/null & echo $! >> pids";
/// An MCP server that has such daemons, and a tool that does nothing.
const SERVER: &str = r#"
    while read -r line; do
        id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
        case $line in
        *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
        *'"tools/list"'*) result='{"tools":[{"name":"nothing","inputSchema":{"type":"object"}}]}' ;;
        *) continue ;;
        esac
        printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
    done"#;

/// The program with a session in a folder, where daemons note who they are.
struct Scene {
    home: Home,
    program: Program,
    session: String,
}

impl Scene {
    async fn new(version: Version, servers: Value) -> Self {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let program = Program::start(home.command(&["acp"]), version);
        program.client.initialize().await;
        program.client.on("session/request_permission", |_| {
            Some(Ok(json!({"outcome": {"outcome": "selected", "optionId": "allow"}})))
        });
        let params = json!({"cwd": home.beside(), "mcpServers": servers});
        let made = program.client.ask("session/new", params).await;
        let session = made["sessionId"].as_str().expect("a session has an id").to_owned();
        Self { home, program, session }
    }

    async fn with_server(version: Version) -> Self {
        let script = format!("{DAEMONS}\n{SERVER}");
        let mut server = json!({"name": "s", "command": "sh", "args": ["-c", script], "env": []});
        if version == Version::V2 {
            server["type"] = json!("stdio");
        }
        Self::new(version, json!([server])).await
    }

    /// The daemons that were started, once there are so many.
    async fn daemons(&self, count: usize) -> Vec<i32> {
        let file: PathBuf = self.home.beside().join("pids");
        let deadline = Instant::now() + SOON;
        loop {
            let noted = std::fs::read_to_string(&file).unwrap_or_default();
            let pids: Vec<i32> = noted.lines().filter_map(|line| line.parse().ok()).collect();
            if pids.len() == count {
                return pids;
            }
            assert!(Instant::now() < deadline, "{count} daemons are noted: {noted}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A command that has such daemons and does not end.
    async fn command_that_stays(&self) -> Vec<i32> {
        let arguments = json!({"command": format!("{DAEMONS}\nsleep 60")});
        self.program.client.begin_prompt(&self.session, &format!("/call run {arguments}")).await;
        let pids = self.daemons(2).await;
        assert_eq!(left_of(&pids), pids);
        pids
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_end_with_the_command() {
    for version in VERSIONS {
        let scene = Scene::new(version, json!([])).await;
        for (command, timeout) in [("true", 60), ("sleep 60", 1)] {
            let _ = std::fs::remove_file(scene.home.beside().join("pids"));
            let arguments = json!({"command": format!("{DAEMONS}\n{command}"), "timeout": timeout});
            scene.program.client.prompt(&scene.session, &format!("/call run {arguments}")).await;
            let pids = scene.daemons(2).await;
            assert!(left_of(&pids).is_empty(), "{command}");
        }
        let said = Value::from(scene.program.client.updates(&scene.session)).to_string();
        assert!(said.contains("background processes that it left were ended"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_end_with_a_command_that_is_cancelled() {
    for version in VERSIONS {
        let scene = Scene::new(version, json!([])).await;
        let pids = scene.command_that_stays().await;
        let cancelled = Instant::now();
        scene.program.client.cancel(&scene.session).await;
        assert_gone_by(cancelled + GONE_AFTER, &pids, "the daemons").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_end_with_the_session_of_a_server() {
    for version in VERSIONS {
        let scene = Scene::with_server(version).await;
        let pids = scene.daemons(2).await;
        let closed = Instant::now();
        scene.program.client.close(&scene.session).await.expect("it can be closed");
        assert_gone_by(closed + GONE_AFTER, &pids, "the daemons").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_end_with_the_program_however_it_ends() {
    for way in ["kill -9", "SIGTERM", "end of input"] {
        let scene = Scene::with_server(Version::V2).await;
        let of_server = scene.daemons(2).await;
        std::fs::remove_file(scene.home.beside().join("pids")).expect("it is there");
        let of_command = scene.command_that_stays().await;
        let ended = Instant::now();
        match way {
            "kill -9" => signal(scene.program.pid(), libc::SIGKILL),
            "SIGTERM" => signal(scene.program.pid(), libc::SIGTERM),
            _ => scene.program.client.disconnect().await,
        }
        assert_gone_by(ended + GONE_AFTER, &[of_server, of_command].concat(), way).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_guardian_is_killed_ends_and_the_session_goes_on() {
    let scene = Scene::new(Version::V2, json!([])).await;
    let command = "sleep 60 & echo $! >> pids; echo $$ >> pids; echo $PPID > guardian.new; mv guardian.new guardian; wait";
    let arguments = json!({"command": command});
    scene.program.client.begin_prompt(&scene.session, &format!("/call run {arguments}")).await;
    let pids = scene.daemons(2).await;
    let file = scene.home.beside().join("guardian");
    let deadline = Instant::now() + SOON;
    let guardian = loop {
        if let Some(pid) = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()) {
            break pid;
        }
        assert!(Instant::now() < deadline, "the command names its guardian");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    signal(guardian, libc::SIGKILL);
    assert_gone_by(Instant::now() + GONE_AFTER, &pids, "the command").await;
    let ended = |update: &Value| update["rawOutput"].to_string().contains("ended by SIGKILL");
    scene.program.client.wait_update(0, &scene.session, "the end of the command", ended).await;
    scene.program.client.prompt(&scene.session, "/run echo still here").await;
    let said = Value::from(scene.program.client.updates(&scene.session)).to_string();
    assert!(said.contains("still here\\n(exit code 0"), "{said}");
}

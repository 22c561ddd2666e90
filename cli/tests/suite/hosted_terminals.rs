//! Terminals that the program runs for an agent: however the program goes, nothing of them is left two seconds
//! later. The agent is a small `sh` script that answers in fixed words and then asks for a terminal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

/// What the promise says.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// For what must happen but is not measured; generous, for a loaded machine.
const SOON: Duration = Duration::from_secs(20);
/// A command that ignores requests to end, as does its child, and writes down both their ids.
const STUBBORN: &str = "trap '' TERM HUP INT
    (trap '' TERM; sh -c 'echo $PPID' > child.new; mv child.new child; while :; do sleep 1; done) &
    echo $$ > leader.new; mv leader.new leader; while :; do sleep 1; done";

/// The value of variables that are for the program alone.
const SECRET: &str = "a secret of the program";

/// The program with a terminal running in it.
struct Scene {
    folder: TempDir,
    program: Child,
    /// Open, and short enough not to be read.
    _output: BufReader<ChildStdout>,
}

impl Scene {
    fn new() -> Self {
        Self::running(STUBBORN)
    }

    /// The program with a terminal that runs this command.
    fn running(command: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let create = json!({"jsonrpc": "2.0", "id": "t", "method": "terminal/create",
            "params": {"sessionId": "s", "command": "sh", "args": ["-c", command]}});
        let answer = |id: u64, result| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let lines = [
            answer(1, json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})),
            answer(2, json!({"sessionId": "s"})),
            create,
        ];
        for (at, line) in lines.iter().enumerate() {
            fs::write(folder.path().join(format!("line{at}")), format!("{line}\n")).unwrap();
        }
        let script = r#"read -r l; cat "$1/line0"; read -r l; cat "$1/line1" "$1/line2"; cat > /dev/null"#;
        let mut program = Command::new(env!("CARGO_BIN_EXE_rethread"))
            .args(["acp", "--", "sh", "-c", script, "agent"])
            .arg(folder.path())
            .env("RETHREAD_HOME", folder.path().join("home"))
            .env("RETHREAD_TOKEN", SECRET)
            .env("PGPASSWORD", SECRET)
            .env("DATABASE_URL", SECRET)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
            {"protocolVersion": 2, "info": {"name": "test", "version": "1"}, "capabilities": {}}});
        let (input, output) = (program.stdin.as_mut().unwrap(), program.stdout.take().unwrap());
        let mut output = BufReader::new(output);
        writeln!(input, "{initialize}").unwrap();
        // It must be answered before anything else is asked.
        output.read_line(&mut String::new()).unwrap();
        let new = json!({"jsonrpc": "2.0", "id": 2, "method": "session/new",
            "params": {"cwd": folder.path(), "mcpServers": []}});
        writeln!(input, "{new}").unwrap();
        Self { folder, program, _output: output }
    }

    fn pids(&self) -> [i32; 2] {
        ["leader", "child"].map(|name| written(self.folder.path().join(name)))
    }
}

fn written(file: PathBuf) -> i32 {
    content(file).trim().parse().unwrap()
}

fn content(file: PathBuf) -> String {
    let given_up = Instant::now() + SOON;
    loop {
        if let Ok(text) = fs::read_to_string(&file) {
            return text;
        }
        assert!(Instant::now() < given_up, "{} was not written", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn assert_gone(pids: [i32; 2], since: Instant) {
    while pids.iter().any(|pid| runs(*pid)) {
        assert!(since.elapsed() < GONE_AFTER, "something of {pids:?} is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ended processes that nobody collects, as in a container without an init, do not count.
fn runs(pid: i32) -> bool {
    // SAFETY: it only asks.
    let there = unsafe { libc::kill(pid, 0) == 0 };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    there && stat.rsplit_once(") ").is_none_or(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn no_terminal_outlives_a_killed_program() {
    let mut scene = Scene::new();
    let pids = scene.pids();
    assert!(pids.iter().all(|pid| runs(*pid)));
    let start = Instant::now();
    // The whole group, as editors do it.
    // SAFETY: a group that this test has started.
    unsafe { libc::kill(-(scene.program.id() as i32), libc::SIGKILL) };
    scene.program.wait().unwrap();
    assert_gone(pids, start);
}

#[test]
fn no_terminal_outlives_the_end_of_input() {
    let mut scene = Scene::new();
    let pids = scene.pids();
    let start = Instant::now();
    drop(scene.program.stdin.take());
    assert_gone(pids, start);
    scene.program.wait().unwrap();
}

#[test]
fn a_terminal_gets_no_variables_of_rethread_or_of_a_database() {
    let scene = Scene::running("env > seen.new; mv seen.new seen");
    let environment = content(scene.folder.path().join("seen"));
    assert!(environment.contains("PATH="), "{environment}");
    assert!(!environment.contains(SECRET) && !environment.contains("RETHREAD_"), "{environment}");
}

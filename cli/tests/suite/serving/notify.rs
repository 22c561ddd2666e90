//! The notification command of a server: what it is told, with which environment, and that a slow one holds up nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread_testkit::program::{Home, Program, ServerProgram};
use serde_json::{Value, json};

use super::home;

const LONG: Duration = Duration::from_secs(30);

/// Configures a script as the notification command.
fn configure(home: &Home, script: &str, more: &str) -> PathBuf {
    let told = home.beside().join("told");
    let program = home.beside().join("tell.sh");
    fs::write(&program, script.replace("TOLD", &told.display().to_string())).expect("it can be written");
    let text = format!("[notify]\ncommand = [\"sh\", {:?}]\n{more}", program.display().to_string());
    fs::create_dir_all(home.path()).expect("a folder can be made");
    fs::write(home.path().join("config.toml"), text).expect("it can be written");
    told
}

async fn serve(home: &Home) -> (ServerProgram, Program, String) {
    let mut command = home.command(&["serve", "--listen", "off"]);
    command
        .env("PGPASSWORD", "for the store")
        .env("DATABASE_URL", "postgres://")
        .env("RETHREAD_TOKEN", "secret");
    let server = ServerProgram::start(command).await;
    let editor = home.ready(Version::V1, Version::V1).await;
    let cwd = home.beside().display().to_string();
    let session = editor.client.new_session_in(&cwd).await;
    (server, editor, session)
}

/// The notifications, when there are so many.
async fn notifications(told: &Path, count: usize) -> Vec<Value> {
    let deadline = Instant::now() + LONG;
    loop {
        let text = fs::read_to_string(told).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('{')).collect();
        if lines.len() >= count {
            return lines.iter().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        }
        assert!(Instant::now() < deadline, "{count} are awaited: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_command_is_told_of_questions_ends_and_failures() {
    let home = home();
    // One at a time, since the lines of two could mix.
    let script = "exec 9> TOLD.lock; flock 9; cat >> TOLD; env >> TOLD.env";
    let told = configure(&home, script, "");
    let (_server, editor, session) = serve(&home).await;
    editor.client.prompt(&session, "permit; say done").await;
    notifications(&told, 2).await;
    let failing = json!({"sessionId": session, "prompt": [{"type": "text", "text": "fail"}]});
    editor.client.refused("session/prompt", failing).await;
    let mut all = notifications(&told, 3).await;
    let one = |event: &str| all.iter().find(|one| one["event"] == event).expect("it was told").clone();
    let waiting = one("waiting");
    assert_eq!(waiting["question"]["kind"], "permission", "{waiting}");
    assert!(waiting["question"]["params"]["options"].is_array(), "{waiting}");
    assert_eq!((&waiting["sessionId"], &waiting["turn"]), (&json!(session), &json!(1)));
    assert_eq!(waiting["cwd"], home.beside().display().to_string());
    assert_eq!(one("ended")["stopReason"], "end_turn");
    assert!(one("failed")["error"]["message"].is_string(), "{}", one("failed"));
    all.retain(|one| !one["time"].is_string() || !one["agent"].is_string());
    assert!(all.is_empty(), "{all:?}");
    let environment = fs::read_to_string(told.with_extension("env")).expect("it was run");
    for name in ["RETHREAD_", "PGPASSWORD", "DATABASE_URL"] {
        assert!(!environment.contains(name), "{name}");
    }
}

#[tokio::test]
async fn only_what_is_wanted_is_told() {
    let home = home();
    let told = configure(&home, "cat >> TOLD", "events = [\"failed\"]\n");
    let (_server, editor, session) = serve(&home).await;
    editor.client.prompt(&session, "permit; say done").await;
    let failing = json!({"sessionId": session, "prompt": [{"type": "text", "text": "fail"}]});
    editor.client.refused("session/prompt", failing).await;
    let all = notifications(&told, 1).await;
    assert_eq!((all.len(), &all[0]["event"]), (1, &json!("failed")));
}

#[tokio::test]
async fn a_command_that_hangs_holds_up_no_session_and_is_ended() {
    let home = home();
    let script = "echo $$ >> TOLD; sleep 600 & sleep 600";
    let told = configure(&home, script, "seconds = 2\n");
    let (_server, editor, session) = serve(&home).await;
    let begun = Instant::now();
    for _ in 0..80 {
        assert_eq!(editor.client.prompt(&session, "say one").await.stop, "end_turn");
    }
    let pids = || -> Vec<String> {
        fs::read_to_string(&told).unwrap_or_default().lines().map(str::to_owned).collect()
    };
    let deadline = Instant::now() + LONG;
    while pids().len() < 5 {
        assert!(Instant::now() < deadline, "those that wait are run when others were ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let most = 4 * (begun.elapsed().as_secs() as usize / 2 + 2);
    assert!(pids().len() <= most, "{} were run in {:?}", pids().len(), begun.elapsed());
    let first = pids()[0].clone();
    while Path::new("/proc").join(&first).exists() {
        assert!(Instant::now() < deadline, "it is ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let logs = fs::read_dir(home.path().join("state/logs")).expect("there are logs").flatten();
    let logs: String = logs.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
    assert!(logs.contains("notifications were dropped"), "64 wait, the rest is dropped: {logs}");
}

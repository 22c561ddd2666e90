//! One owner per session: several processes of the shipped program on one home.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rethread::edge::Version;
use rethread::transport::Wire;
use rethread_testkit::DEADLINE;
use rethread_testkit::barrage::{self, Plan, Until};
use rethread_testkit::client::Client;
use rethread_testkit::program::Home;
use serde_json::{Value, json};

const BOTH: [Version; 2] = [Version::V1, Version::V2];

#[tokio::test]
async fn a_second_process_is_told_who_has_the_session_and_takes_over_when_it_is_killed() {
    for version in BOTH {
        let home = home();
        let mut first = home.ready(version, Version::V1).await;
        let session = first.client.new_session().await;
        first.client.prompt(&session, "say one").await;

        let second = home.ready(version, Version::V1).await;
        let error = second.client.load_refused(&session).await;
        assert_eq!(error["code"], -32010, "{error}");
        let owner = &error["data"]["owner"];
        assert_eq!(owner["pid"], first.pid(), "{error}");
        assert!(owner["host"].as_str().is_some_and(|host| !host.is_empty()), "{error}");
        assert!(owner["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{error}");
        assert!(error["data"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
        assert_eq!(error["data"]["sessionId"], session.as_str(), "{error}");
        // The first does not notice.
        assert_eq!(first.client.prompt(&session, "say two").await.stop, "end_turn");

        first.client.begin_prompt(&session, "say three; hang").await;
        let said = |update: &Value| update["content"]["text"] == "three";
        first.client.wait_update(0, &session, "three", said).await;
        first.kill().await;
        let start = Instant::now();
        second.client.load(&session).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(second.client.view(&session).agent(), ["one", "two", "three"]);
        assert_eq!(second.client.prompt(&session, "say four").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn an_empty_session_survives_a_kill_and_is_not_listed() {
    for version in BOTH {
        for agent in BOTH {
            let home = home();
            let mut first = home.ready(version, agent).await;
            let session = first.client.new_session().await;
            first.kill().await;

            let second = home.ready(version, agent).await;
            assert_eq!(second.client.listed().await, Vec::<String>::new());
            second.client.load(&session).await;
            assert_eq!(second.client.view(&session).items, []);
            assert_eq!(second.client.prompt(&session, "say hello").await.stop, "end_turn");
            assert_eq!(second.client.listed().await, [session]);
        }
    }
}

#[tokio::test]
async fn a_session_that_ends_leaves_no_journal_file() {
    for version in BOTH {
        let home = home();
        let mut program = home.ready(version, Version::V1).await;
        let session = program.client.new_session().await;
        for text in ["say one", "say two"] {
            assert_eq!(program.client.prompt(&session, text).await.stop, "end_turn");
        }
        program.client.disconnect().await;
        program.exited().await;
        let files: Vec<_> = std::fs::read_dir(home.path().join("live")).expect("a folder").collect();
        assert!(files.is_empty(), "{files:?}");
        let next = home.ready(version, Version::V1).await;
        next.client.load(&session).await;
        assert_eq!(next.client.view(&session).agent(), ["one", "two"]);
    }
}

#[tokio::test]
async fn listing_works_while_another_process_has_the_session() {
    for version in BOTH {
        let home = home();
        let first = home.ready(version, Version::V2).await;
        let session = first.client.new_session().await;
        first.client.prompt(&session, "say one").await;
        first.client.begin_prompt(&session, "hang").await;

        let second = home.ready(version, Version::V2).await;
        assert_eq!(second.client.listed().await, std::slice::from_ref(&session));
        let status = second.client.ask("session/status", json!({"sessionId": session})).await;
        assert_eq!(status["status"], "open", "{status}");
        let own = second.client.new_session().await;
        assert_eq!(second.client.prompt(&own, "say mine").await.stop, "end_turn");
        assert_eq!(first.client.listed().await, [own, session]);
    }
}

/// Waits until the owner of a session has noticed that it is archived or deleted. It looks once a second.
async fn let_go(client: &Client, session: &str) {
    let deadline = Instant::now() + DEADLINE;
    let params = json!({"sessionId": session});
    while client
        .request("session/status", params.clone())
        .await
        .is_ok_and(|status| status["status"] == "open")
    {
        assert!(Instant::now() < deadline, "the owner does not notice");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
}

#[tokio::test]
async fn a_session_that_another_process_deletes_takes_no_more_prompts() {
    for version in BOTH {
        let home = home();
        let first = home.ready(version, Version::V1).await;
        let session = first.client.new_session().await;
        first.client.prompt(&session, "say one").await;
        let second = home.ready(version, Version::V1).await;
        second.client.ask("session/delete", json!({"sessionId": session})).await;
        let_go(&second.client, &session).await;

        let error = refused_prompt(&first.client, &session).await;
        assert_eq!(error["code"], -32002, "{error}");
        assert!(error["data"]["hint"].as_str().is_some(), "{error}");
        assert_eq!(first.client.view(&session).agent(), ["one"], "nothing is shown that is not written");
        assert_eq!(first.client.load_refused(&session).await["code"], -32002);
        assert_eq!(second.client.listed().await, Vec::<String>::new());
        // The process is as good as before.
        let next = first.client.new_session().await;
        assert_eq!(first.client.prompt(&next, "say next").await.stop, "end_turn");
    }
}

#[tokio::test]
async fn a_session_that_another_process_archives_takes_no_more_prompts_until_it_is_loaded() {
    for version in BOTH {
        let home = home();
        let first = home.ready(version, Version::V1).await;
        let session = first.client.new_session().await;
        first.client.prompt(&session, "say one").await;
        let second = home.ready(version, Version::V1).await;
        second.client.ask("session/archive", json!({"sessionId": session})).await;
        let_go(&second.client, &session).await;

        let error = refused_prompt(&first.client, &session).await;
        assert!(error["message"].as_str().is_some_and(|text| text.contains(&session)), "{error}");
        let hint = error["data"]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("load"), "{error}");
        assert_eq!(first.client.view(&session).agent(), ["one"]);

        let third = home.ready(version, Version::V1).await;
        third.client.load(&session).await;
        assert_eq!(third.client.view(&session).agent(), ["one"], "nothing was written");
        assert_eq!(third.client.view(&session).user(), ["say one"], "nothing was written");
    }
}

#[tokio::test]
async fn a_turn_that_runs_when_its_session_is_deleted_ends_with_an_error() {
    let home = home();
    let first = home.ready(Version::V1, Version::V1).await;
    let session = first.client.new_session().await;
    let request = first.client.begin_prompt(&session, "say one; slow 400").await;
    let said = |update: &Value| update["content"]["text"] == "one";
    first.client.wait_update(0, &session, "one", said).await;
    let second = home.ready(Version::V1, Version::V1).await;
    second.client.ask("session/delete", json!({"sessionId": session})).await;
    let error = first.client.answer(&request).await.expect_err("the session is gone");
    assert_eq!(error["code"], -32002, "{error}");
}

/// Set to have random requests sent for a minute, and to have memory bounded.
const MINUTE: &str = "RETHREAD_MINUTE";

/// When memory is looked at first.
const SETTLED: Duration = Duration::from_secs(10);

/// How much more memory there may be at the end than then, in percent.
const GROWTH: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_of_three_processes_are_each_answered_once() {
    let minute = std::env::var_os(MINUTE).is_some();
    let (lasts, seed) =
        if minute { (Duration::from_secs(60), 20_261_116) } else { (Duration::from_secs(3), 9) };
    println!("three processes for {lasts:?}, seed {seed}");
    let home = home();
    let begun = tokio::time::Instant::now();
    let pairings = [(Version::V1, Version::V1), (Version::V2, Version::V2), (Version::V2, Version::V1)];
    let (mut processes, mut scripts) = (Vec::new(), Vec::new());
    for (seed, (client, agent)) in (seed..).zip(pairings) {
        let mut command = home.acp(&home.scripted(agent));
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let wire = Wire::new(stdout.expect("it was piped"), stdin.expect("it was piped"));
        let until = Until::Time(begun + lasts);
        let plan = Plan { version: client, seed, cwd: "/work".to_owned(), until };
        processes.push(process);
        scripts.push(tokio::spawn(async move { (barrage::run(wire, plan.clone()).await, plan) }));
    }
    let pids: Vec<_> = processes.iter().filter_map(tokio::process::Child::id).collect();
    let mut early = 0;
    if minute {
        tokio::time::sleep_until(begun + SETTLED).await;
        early = memory_of(&pids).await;
        tokio::time::sleep_until(begun + lasts - Duration::from_secs(1)).await;
    }
    let late = if minute { memory_of(&pids).await } else { 0 };
    for script in scripts {
        let (tally, plan) = script.await.expect("the script does not panic");
        println!("seed {}: {} requests, answered {:?}", plan.seed, tally.sent, tally.answered);
        tally.assert_exact(plan);
    }
    println!("resident: {early} KiB after {SETTLED:?}, {late} KiB at the end");
    assert!(late * 100 <= early * (100 + GROWTH), "{late} KiB at the end, {early} KiB after {SETTLED:?}");
}

/// How many sessions are closed, and how much may be left of them all, in KiB: each has about 3,300.
const CLOSED: usize = 24;
const LEFT: u64 = 40 * 1024;

#[tokio::test]
async fn closed_sessions_leave_memory() {
    let home = home();
    let program = home.ready(Version::V1, Version::V1).await;
    let pid = [program.pid().unsigned_abs()];
    let mut before = 0;
    for at in 0..CLOSED {
        let session = program.client.new_session().await;
        assert_eq!(
            program.client.prompt(&session, "long; long; long; long; long; long").await.stop,
            "end_turn"
        );
        program.client.close(&session).await.expect("it closes");
        if at == 2 {
            before = memory_of(&pid).await;
        }
    }
    let after = memory_of(&pid).await;
    println!("resident: {before} KiB with 3 closed sessions, {after} KiB with {CLOSED}");
    assert!(after < before + LEFT, "{before} KiB with 3 closed sessions, {after} KiB with {CLOSED}");
}

/// The resident memory of these processes together, in KiB: the mean of some looks within a second.
async fn memory_of(pids: &[u32]) -> u64 {
    const LOOKS: u64 = 5;
    let mut sum = 0;
    for _ in 0..LOOKS {
        for pid in pids {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
            let resident =
                status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
            sum += resident.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    sum / LOOKS
}

async fn refused_prompt(client: &Client, session: &str) -> Value {
    let prompt = json!([{"type": "text", "text": "say more"}]);
    client.refused("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
}

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_rethread"))
}

/// 2,000 sessions with a limit of 1,024 files, if `RETHREAD_LIVE_SESSIONS` is 2000; otherwise fewer of both.
#[cfg(target_os = "linux")]
#[test]
fn twice_as_many_sessions_are_live_as_files_may_be_open() {
    let wanted = std::env::var("RETHREAD_LIVE_SESSIONS").ok();
    let count: usize =
        wanted.map_or(400, |wanted| wanted.parse().expect("RETHREAD_LIVE_SESSIONS is a number"));
    let files = libc::rlim_t::try_from(count * 1024 / 2000).expect("it is small");
    let home = home();
    let mut command = home.acp(&home.scripted(Version::V1));
    // SAFETY: only an async-signal-safe call is made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: files, rlim_max: files };
            match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut lines = LineClient::start(command);
    lines.ask_all("initialize", [json!({"protocolVersion": 1, "clientCapabilities": {}})]);
    let made = lines.ask_all("session/new", (0..count).map(|_| json!({"cwd": "/tmp", "mcpServers": []})));
    let sessions: Vec<&str> = made.iter().filter_map(|made| made["sessionId"].as_str()).collect();
    assert_eq!(sessions.len(), count);
    // All are live, and each is written twice.
    for text in ["one", "two"] {
        let prompt = [json!({"type": "text", "text": format!("say {text}")})];
        let prompts = sessions.iter().map(|session| json!({"sessionId": session, "prompt": prompt}));
        let ended = lines.ask_all("session/prompt", prompts);
        assert!(ended.iter().all(|ended| ended["stopReason"] == "end_turn"));
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", lines.child.id())).expect("it runs").count();
    assert!((open as u64) < files, "{open} files are open");
    drop(lines);
    let shown = |session| home.command(&["show", session]).into_std().output().expect("it runs").stdout;
    for session in sessions.iter().step_by(count / 4) {
        let shown = String::from_utf8(shown(session)).expect("UTF-8");
        assert!(shown.contains("say one") && shown.contains("say two"), "{shown}");
    }
}

/// A client that looks at nothing but answers, for very many requests. Its program is killed on drop.
#[cfg(target_os = "linux")]
struct LineClient {
    child: std::process::Child,
    stdout: std::io::BufReader<std::process::ChildStdout>,
    asked: usize,
}

#[cfg(target_os = "linux")]
impl LineClient {
    fn start(command: tokio::process::Command) -> Self {
        let mut command = command.into_std();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let stdout = std::io::BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, stdout, asked: 0 }
    }

    /// Sends requests, some at a time, and returns their results in the same order.
    fn ask_all(&mut self, method: &str, all: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let all: Vec<Value> = all.into_iter().collect();
        all.chunks(20).flat_map(|some| self.ask_some(method, some)).collect()
    }

    fn ask_some(&mut self, method: &str, some: &[Value]) -> Vec<Value> {
        use std::io::{BufRead as _, Write as _};
        let stdin = self.child.stdin.as_mut().expect("it was piped");
        for (at, params) in some.iter().enumerate() {
            let id = self.asked + at;
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            writeln!(stdin, "{request}").expect("it reads");
        }
        let mut results = vec![Value::Null; some.len()];
        let mut open = some.len();
        while open > 0 {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).expect("it writes") > 0, "it has ended");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if let (Some(id), None) = (message["id"].as_u64(), message.get("method")) {
                let at = usize::try_from(id).expect("it is small") - self.asked;
                results[at] = message.get("result").unwrap_or_else(|| panic!("{message}")).clone();
                open -= 1;
            }
        }
        self.asked += some.len();
        results
    }
}

#[cfg(target_os = "linux")]
impl Drop for LineClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
